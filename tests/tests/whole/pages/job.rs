//! The Job page during real jobs: it shows how they go on and end, asks for a token where one is
//! needed, and comes back when the coordinator does.

use std::fs;

use nix::sys::signal::Signal;

use super::browser::{Browser, calm};
use super::site::digits;
use crate::common::FINGERPRINT_24;
use crate::common::cluster::{Cluster, free_port, wait_to_answer};

/// The share that is done, in whole billionths: what is read back is what was compared.
const DONE: &str = "Math.round(document.getElementById('done').value * 1e9)";

/// The ranges that the page counts: those that are done, and all.
fn ranges(browser: &Browser) -> (u64, u64) {
    let text = browser.text("#figures div:nth-child(2) dd span");
    let (done, all) = text.split_once(" of ").unwrap();
    (digits(done), digits(all))
}

/// Chooses the access file when the page asks for a token. The refusal before that is a complaint of the console.
pub(crate) fn enter_token(browser: &Browser, cluster: &Cluster) {
    browser.wait("!document.getElementById('token-form').hidden");
    browser.choose_file("#file", &cluster.access());
    browser.wait("document.getElementById('token-form').hidden");
    let refused = |complaint: &String| complaint.contains("401");
    assert!(browser.complaints().iter().all(refused));
}

#[test]
fn a_run_is_watched_while_it_goes_on() {
    let Some(browser) = calm() else { return };
    let cluster = Cluster::in_the_clear();
    let port = free_port();
    let start = |bits: u32, table: &str| {
        let http = format!("--http 127.0.0.1:{port}");
        let line = format!("run --json --threads 1 --range-bits 15 --bits {bits} {http} --table");
        let mut command = cluster.chomp(&line);
        cluster.start(command.arg(cluster.home().join(table)))
    };
    // Nobody waits for the end of this one.
    let run = start(34, "long");
    wait_to_answer(port);
    browser.open(&format!("http://127.0.0.1:{port}/job"));
    browser.wait("!document.getElementById('live').hidden");
    assert_eq!(browser.text("#headline"), "The job of 34 bits");
    let phase = browser.text("#phase");
    assert!(phase.starts_with("Ranges are being evaluated."), "{phase}");
    assert_eq!(browser.text("#fresh"), "Live.");
    // It goes on by itself, and never back.
    let mut shares = vec![0];
    while shares.len() < 4 {
        let last = shares.last().copied().unwrap();
        browser.wait(&format!("{DONE} > {last}"));
        let share = browser.value(DONE).as_u64().unwrap();
        let is_more = share > last && share <= 1_000_000_000;
        assert!(is_more, "{share} after {last}");
        shares.push(share);
    }
    let (done, all) = ranges(&browser);
    assert!(done <= all && all == 1 << (34 - 1 - 14), "{done} of {all}");
    browser.is_content();

    // It ends with the run, and no run waits for those who watch.
    run.stop();
    browser.wait_to_say("#fresh", "Connecting again.");
    browser.hurry();
    assert_eq!(start(24, "short").wait().code, Some(0));
    browser.wait_to_say("#fresh", "Connecting again.");
}

#[test]
fn a_job_that_needs_a_token_is_shown_to_those_who_have_it() {
    let Some(browser) = calm() else { return };
    let cluster = Cluster::in_the_clear();
    let mut coordinator = cluster.start_coordinator(&mut cluster.coordinator(20, 12));
    let address = format!("{}/job", cluster.url());
    coordinator.wait_to_say(&format!("open {address} to watch it"));
    browser.open(&address);
    browser.wait("!document.getElementById('token-form').hidden");
    assert!(browser.is_hidden("#live"));
    assert_eq!(browser.value("document.activeElement.id"), "token");

    // Not without one, nor with what is none, nor with that of another.
    for (token, reason) in [
        ("", "This is no token"),
        ("two words", "This is no token"),
        ("chomp1-never-0000", "does not open"),
    ] {
        browser.write("#token", token);
        browser.click("#token-form button");
        browser.wait_to_say("#token-wrong", reason);
        assert!(browser.is_hidden("#live"));
    }
    let file = cluster.home().join("not-access.json");
    for (content, reason) in [
        ("{", "It is not JSON."),
        ("{\"token\": 5}", "It has no token."),
    ] {
        fs::write(&file, content).unwrap();
        browser.choose_file("#file", &file);
        browser.wait_to_say("#token-wrong", reason);
    }
    // Refusals are what the network has to say here.
    let refused = |complaint: &String| complaint.contains("401");
    assert!(browser.complaints().iter().all(refused));

    browser.choose_file("#file", &cluster.access());
    browser.wait("!document.getElementById('live').hidden");
    browser.wait_to_say("#phase", "Ranges are being evaluated.");
    browser.wait_to_say("#workers", "No worker is there.");
    // It is kept for this tab alone, and not shown.
    let kept = browser.value("sessionStorage.getItem('chomp-token')");
    assert_eq!(kept, cluster.token());
    let kept_for_longer = "localStorage.length + document.cookie.length";
    assert_eq!(browser.value(kept_for_longer), 0);
    let is_shown = "document.documentElement.outerHTML.includes('chomp1-')";
    assert_eq!(browser.value(is_shown), false);
    browser.reload();
    browser.wait_to_say("#phase", "Ranges are being evaluated.");
    browser.is_content();
    drop(coordinator);
}

#[test]
fn a_job_is_watched_to_its_end_across_an_outage() {
    let Some(browser) = calm() else { return };
    let cluster = Cluster::in_the_clear();
    let coordinator = cluster.start_coordinator(&mut cluster.coordinator(24, 12));
    browser.open(&format!("{}/job", cluster.url()));
    enter_token(&browser, &cluster);
    browser.wait_to_say("#workers", "No worker is there.");
    browser.is_content();

    // A worker that stands still, perhaps at the end of the job: so does what is shown.
    let worker = cluster.join("slow");
    cluster.wait_for_ranges(0);
    worker.send(Signal::SIGSTOP);
    browser.wait_to_say("#workers", "slow");
    browser.wait(&format!("{DONE} > 0"));
    browser.wait_to_say("#fresh", "Live.");

    // The coordinator goes, and another one comes.
    browser.hurry();
    drop(coordinator);
    browser.wait_to_say("#fresh", "What is shown is");
    let mut coordinator = cluster.start_coordinator(&mut cluster.coordinator(24, 12));
    browser.wait_to_say("#fresh", "Live.");
    // The table is finished a moment before the server has opened it.
    browser.run(
        "const real = fetch;
         window.refused = 0;
         window.fetch = (url, ...more) => {
             if (window.opened || !String(url).endsWith('/api/table')) return real(url, ...more);
             window.refused += 1;
             return Promise.resolve(new Response('{\"error\": \"there is no finished table yet\"}', {status: 503}));
         };",
    );
    worker.send(Signal::SIGCONT);

    browser.wait_to_say("#phase", "The table is finished.");
    browser.wait("window.refused > 1");
    assert!(browser.is_hidden("#notice"));
    assert_eq!(browser.text("#fresh"), "", "nothing is live any more");
    browser.run("window.opened = true;");
    browser.wait_to_say("#facts", FINGERPRINT_24);
    assert_eq!(browser.text("#headline"), "The table of 24 bits");
    let (done, all) = ranges(&browser);
    assert_eq!(done, all);
    browser.wait("document.querySelector('#table').textContent.includes('24 bits')");
    // Its files are there to be fetched.
    browser.click("#shards-told");
    browser.wait_to_say("#shards", "shard-0000.zst");
    for link in ["#manifest", "#sums", "#shards a"] {
        let answered = browser.run(&format!(
            "const done = new XMLHttpRequest();
             done.open('HEAD', document.querySelector('{link}').href, false);
             done.send();
             return done.status;"
        ));
        assert_eq!(answered, 200, "{link}");
    }
    assert!(coordinator.ended().is_none());
}
