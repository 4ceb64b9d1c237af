//! The table of limits in docs/SERVING.md is made of the constants. After a change of one of them:
//! `CHOMP_WRITE=1 cargo test -p chomp-coordinator limits`.

use std::fs;

use chomp_serve::net::limits::{
    ANSWER_UNIT, ANSWERS, GAME_QUESTIONS, LISTENERS, QUESTIONS, REQUESTS_A_SECOND,
};
use chomp_serve::net::{Limit, Limits};

use crate::error::WAITING_MAX;
use crate::error::WORKERS_MAX;
use crate::proxy::{BODIES_KIB, TRANSFERS, WAITING};
use crate::quota::{CALLS_EACH_CPU, CALLS_MIN, MESSAGES_BYTES};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/SERVING.md");
const HEAD: &str = "\
| of | a stranger's address | all strangers | a participant | all participants | what is more |
|---|---:|---:|---:|---:|---|
";

/// A line: the limit of each, and of all together if there is one.
fn line(what: &str, strangers: [&str; 2], participants: [&str; 2], beyond: &str) -> String {
    let numbers = [strangers, participants].concat().join(" | ");
    format!("| {what} | {numbers} | {beyond} |\n")
}

fn table() -> String {
    const NONE: [&str; 2] = ["", ""];
    let limits = Limits::default();
    let both = |Limit { all, each }, unit: u32| [each / unit, all / unit].map(|it| it.to_string());
    let (mut table, full) = (HEAD.to_owned(), "503 with `Retry-After`");
    let [strangers, participants] = [limits.strangers, limits.participants].map(|it| both(it, 1));
    let [strangers, participants] =
        [&strangers, &participants].map(|it| it.each_ref().map(String::as_str));
    table += &line("connections", strangers, participants, "closed at once");
    let calls = limits.calls_per_connection.to_string();
    let calls = [&*calls, ""];
    table += &line(
        "calls over a connection",
        calls,
        calls,
        "refused, as HTTP/2 does",
    );
    for (what, each, beyond) in [
        (
            "TLS handshakes a second",
            limits.handshake_rate.get(),
            "wait for 10 s, then closed",
        ),
        (
            "calls refused for want of a token a second",
            limits.refusal_rate.get(),
            "the connection is closed",
        ),
        (
            "requests a second (`--rate`)",
            REQUESTS_A_SECOND,
            "429 with `Retry-After`",
        ),
    ] {
        table += &line(what, [&each.to_string(), ""], NONE, beyond);
    }
    for (what, limit, unit) in [
        ("listeners", LISTENERS, 1),
        ("waiting questions", QUESTIONS, 1),
        ("waiting questions about small games", GAME_QUESTIONS, 1),
        (
            "MiB of answers that are not taken yet",
            ANSWERS,
            (1 << 20) / ANSWER_UNIT,
        ),
    ] {
        let limit = both(limit, unit);
        table += &line(what, limit.each_ref().map(String::as_str), NONE, full);
    }
    let rate = format!("{CALLS_EACH_CPU} for each CPU, at least {CALLS_MIN}");
    for (what, each, beyond) in [
        ("workers", &*WORKERS_MAX.to_string(), "told to come back"),
        (
            "calls a second",
            &rate,
            "wait for 1 s, then told to come back",
        ),
        (
            "calls that wait for the job",
            &WAITING_MAX.to_string(),
            "told to come back",
        ),
    ] {
        table += &line(what, NONE, [each, ""], beyond);
    }
    for (what, limit, unit, beyond) in [
        (
            "MiB of messages on their way",
            MESSAGES_BYTES,
            1 << 20,
            "told to come back",
        ),
        (
            "objects read or written at a time",
            TRANSFERS,
            1,
            "wait for 30 s, then told to come back",
        ),
        (
            "requests for objects that wait",
            WAITING,
            1,
            "told to come back",
        ),
        (
            "MiB of objects on their way to the store",
            BODIES_KIB,
            1 << 10,
            "wait for 30 s; of larger ones, one at a time",
        ),
    ] {
        let limit = both(limit, unit);
        table += &line(what, NONE, limit.each_ref().map(String::as_str), beyond);
    }
    table
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a page of the documentation")]
fn the_page_has_the_limits_of_the_program() {
    let page = fs::read_to_string(PAGE).unwrap();
    let start = page.find(HEAD).expect("the table is there");
    let end = start + page[start..].find("\n\n").expect("it ends") + 1;
    let table = table();
    if std::env::var_os("CHOMP_WRITE").is_some() {
        fs::write(PAGE, [&page[..start], &table, &page[end..]].concat()).unwrap();
    } else {
        assert_eq!(page[start..end], table, "CHOMP_WRITE=1 writes it anew");
    }
}
