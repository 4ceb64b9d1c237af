//! The table of limits in docs/SERVING.md is made of the constants. After a change of one of them:
//! `CHOMP_WRITE=1 cargo test -p chomp-coordinator limits`.

use std::fs;

use chomp_serve::QuestionLimits;
use chomp_serve::net::Limits;
use chomp_serve::net::limits::{
    ANSWER_UNIT_BYTES, FOREIGN_QUESTIONS, GAME_QUESTIONS, QUESTIONS, SUBSCRIBERS_MAX,
};

use crate::error::{CALLS_MAX, WORKERS_MAX};
use crate::message_budget::{MESSAGE_TIME, MESSAGES_BYTES};
use crate::relay::{BODIES_BYTES, BODY_TIME, TRANSFERS_MAX, TURN_TIME, WAITING_MAX};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/SERVING.md");
const HEAD: &str = "\
| of | at most | beyond that |
|---|---:|---|
";

fn table() -> String {
    let limits = Limits::default();
    let (full, later) = ("503 with `Retry-After`", "told to come back");
    let closed = "the connection is closed";
    let turn = format!("wait for {} s, then told to come back", TURN_TIME.as_secs());
    let mib = |bytes: usize| format!("{} MiB", bytes >> 20);
    let lines = [
        (
            "connections",
            limits.connections.to_string(),
            "closed at once",
        ),
        (
            "calls over a connection",
            limits.calls_per_connection.to_string(),
            "refused, as HTTP/2 does",
        ),
        (
            "a TLS handshake",
            format!("{} s", limits.tls_time.as_secs()),
            closed,
        ),
        (
            "the head of a request",
            format!(
                "{} s, {} KiB",
                limits.header_time.as_secs(),
                limits.header_bytes >> 10
            ),
            closed,
        ),
        (
            "no call, or no byte of one while its peer has to send or take some",
            format!("{} s", limits.still_time.as_secs()),
            "the connection is closed, or the call ended",
        ),
        (
            "answers that are not taken yet",
            mib(limits.answer_units * ANSWER_UNIT_BYTES as usize),
            full,
        ),
        ("listeners", SUBSCRIBERS_MAX.to_string(), full),
        (
            "the CPU time of a question",
            format!("{} ms", QuestionLimits::ALONE.time.as_millis()),
            "400",
        ),
        (
            "that of one beside a job, to which it yields",
            format!("{} ms", QuestionLimits::BESIDE_JOB.time.as_millis()),
            "400",
        ),
        (
            "questions under way of pages of other sites",
            FOREIGN_QUESTIONS.to_string(),
            full,
        ),
        ("waiting questions", QUESTIONS.to_string(), full),
        (
            "waiting questions about small games and positions beyond the table",
            GAME_QUESTIONS.to_string(),
            full,
        ),
        ("workers of a job", WORKERS_MAX.to_string(), later),
        ("calls of workers under way", CALLS_MAX.to_string(), later),
        ("messages on their way", mib(MESSAGES_BYTES), later),
        ("a message", format!("{} s", MESSAGE_TIME.as_secs()), later),
        (
            "objects read or written at a time",
            TRANSFERS_MAX.to_string(),
            &*turn,
        ),
        (
            "requests for objects that wait",
            WAITING_MAX.to_string(),
            later,
        ),
        (
            "objects on their way to the store",
            mib(BODIES_BYTES as usize),
            &*turn,
        ),
        ("one of them", format!("{} s", BODY_TIME.as_secs()), later),
    ];
    let lines = lines.map(|(of, most, beyond)| format!("| {of} | {most} | {beyond} |\n"));
    HEAD.to_owned() + &lines.concat()
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
