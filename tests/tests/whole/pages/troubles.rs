//! Servers that are gone, empty or busy: the pages say so, try again, and go on where they were.

use super::browser::{Browser, calm};
use super::job::enter_token;
use super::site::{Site, cell};
use crate::common::cluster::Cluster;

/// Makes all questions of the page fail in a way, until they are mended.
fn broken(browser: &Browser, how: &str) {
    browser.run(&format!(
        "window.mended ??= window.fetch;
         window.asked = 0;
         window.fetch = async () => {{ window.asked += 1; {how} }};"
    ));
}

fn mend(browser: &Browser) {
    browser.run("window.fetch = window.mended;");
}

const GONE: &str = "throw new window.TypeError('Failed to fetch');";
const BUSY: &str =
    "return new Response('{\"error\": \"x\"}', {status: 429, headers: {'Retry-After': '1'}});";
const EMPTY: &str =
    "return new Response('{\"error\": \"there is no finished table yet\"}', {status: 503});";
const LOADED: &str = "return new Response('', {status: 503, headers: {'Retry-After': '1'}});";
const FAILED: &str =
    "return new Response('{\"error\": \"the table is damaged here\"}', {status: 500});";
const NONSENSE: &str = "return new Response('<html>', {status: 502});";

#[test]
fn a_game_goes_on_when_the_server_does() {
    let Some(browser) = calm() else { return };
    let site = Site::new();
    for (how, told) in [
        (GONE, "The server cannot be reached."),
        (BUSY, "asked too much at once"),
        (EMPTY, "no finished table"),
        (LOADED, "The server is busy."),
        (FAILED, "the table is damaged here"),
        (NONSENSE, "The server failed: 502."),
    ] {
        browser.open("about:blank");
        browser.play(&site, &[8, 8, 7, 7, 7], "you");
        browser.wait_to_say("#table", "Table of");
        broken(&browser, how);
        let board = "document.querySelector('#board .cells').offsetTop";
        let before = browser.value(board);
        browser.click(&cell((4, 6)));
        browser.wait_to_say("#notice", told);
        assert_eq!(browser.value(board), before, "no notice moves the board");
        let shown = browser.shown();
        assert_eq!(
            (&shown.moves[..], &*shown.turn),
            (&[(4, 6)][..], "computer")
        );
        // Nothing can be taken meanwhile, and trying in vain says the same again. The page tries by itself
        // too, and shows a new notice each time.
        browser.click_at_once(&cell((1, 2)));
        assert_eq!(browser.shown(), shown);
        let asked = browser.value("window.asked").as_u64().unwrap();
        browser.click_at_once("#notice button");
        browser.wait(&format!("window.asked > {asked}"));
        browser.wait("!document.getElementById('notice').hidden");
        mend(&browser);
        // A server that said when to come back is asked by itself.
        if how != BUSY && how != LOADED {
            browser.click_at_once("#notice button");
        }
        let shown = browser.wait_for_turn(2);
        assert_eq!(shown.moves.len(), 2, "{shown:?}");
        assert!(browser.is_hidden("#notice"));
    }
    browser.is_content();
}

#[test]
fn a_server_that_is_gone_is_found_again() {
    let Some(browser) = calm() else { return };
    let mut site = Site::new();
    browser.play(&site, &[8, 8, 7, 7, 7], "you");
    browser.wait_to_say("#table", "Table of");
    browser.hurry();
    site.stop();
    browser.click(&cell((4, 6)));
    browser.wait_to_say("#notice", "The server cannot be reached.");
    site.start();
    // Without a click.
    let shown = browser.wait_for_turn(2);
    assert_eq!(shown.moves.len(), 2, "{shown:?}");
}

#[test]
fn without_a_table_the_job_is_shown() {
    let Some(browser) = calm() else { return };
    let cluster = Cluster::in_the_clear();
    let coordinator = cluster.start_coordinator(&mut cluster.coordinator(20, 12));
    let open = |page: &str| {
        browser.open(&format!("{}/{page}", cluster.url()));
        browser.wait_to_say("#table-notice", "There is no finished table here yet.");
    };
    open("play");
    open("explore");
    let link = browser.value("document.querySelector('#table-notice a').href");
    // The browser writes down each answer that there is no table.
    browser.complaints();
    browser.open(link.as_str().unwrap());
    enter_token(&browser, &cluster);
    browser.wait_to_say("#phase", "Ranges are being evaluated.");

    // When it is finished the pages find out.
    open("play#start=4,4,4&first=computer");
    browser.hurry();
    browser.click_at_once("#table-notice button");
    browser.wait("!document.getElementById('table-notice').hidden");
    let worker = cluster.join("late");
    browser.wait_to_say("#table", "Table of 20 bits");
    let shown = browser.wait_for_turn(1);
    assert_eq!(shown.moves.len(), 1);
    drop((worker, coordinator));
}
