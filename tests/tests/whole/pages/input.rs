//! Games that are typed, chosen and linked to: wrong ones are refused with the reason, and right ones are played.

use super::browser::calm;
use super::site::{BITS, Site, text};

const NO_GAMES: [(&str, &str); 14] = [
    ("", "Write a position"),
    ("0", "one cell at least"),
    ("4,5", "Row 2 is longer than row 1"),
    ("4,0,1", "Row 2 has no cells"),
    ("-3,2", "is no position"),
    ("1e3", "is no position"),
    ("4;3", "is no position"),
    ("0X7", "at least one row"),
    ("0x15", "ends with 0"),
    ("30x30", "has 60 bits"),
    ("99x99", "at most 64 are possible"),
    ("99999999999999999999", "is no position"),
    ("0b101", "ends with 0"),
    ("<img src=x onerror=alert(1)>", "is no position"),
];

const GAMES: [(&str, &str); 8] = [
    ("5,4,2,1", "5,4,2,1"),
    (" 5, 4 , 2,1 ", "5,4,2,1"),
    ("[5, 4, 2, 1, 0]", "5,4,2,1"),
    ("0x15a", "5,4,2,1"),
    ("4 X 6", "6,6,6,6"),
    ("4×6", "6,6,6,6"),
    ("0b101011010", "5,4,2,1"),
    ("1x17", "17"),
];

#[test]
fn what_is_no_position_is_refused() {
    let Some(browser) = calm() else { return };
    let site = Site::new();
    let before = browser.play(&site, &[3, 2], "you");
    browser.wait_to_say("#limits", &format!("up to {BITS}"));
    browser.click("label:has([value=typed])");
    for (typed, reason) in NO_GAMES {
        browser.write("#typed", typed);
        browser.click("#new-game");
        browser.wait_to_say("#wrong", reason);
        assert_eq!(browser.shown(), before, "{typed}");
    }
    for (typed, rows) in GAMES {
        browser.write("#typed", typed);
        browser.click("#new-game");
        browser.wait(&format!("location.hash.startsWith('#start={rows}&')"));
        assert_eq!(text(&browser.shown().rows), rows, "{typed}");
        assert_eq!(browser.text("#wrong"), "");
    }
    browser.is_content();
}

#[test]
fn links_that_hold_no_game_say_so() {
    let Some(browser) = calm() else { return };
    let site = Site::new();
    for (link, reason) in [
        ("start=3,4", "Row 2 is longer"),
        ("start=3,2&moves=1-4", "Move 1 takes a cell that is not"),
        ("start=3,2&moves=1-2_1-2", "Move 2 takes a cell that is not"),
        ("start=3,2&moves=1", "is no move"),
        ("start=3,2&first=me", "who began"),
        ("start=3,2&at=-1", "which step"),
        ("start=12x12", "The table here has 18"),
        ("moves=1-1", "Write a position"),
        ("%3Cscript%3E", "Write a position"),
    ] {
        browser.open(&site.url("/explore"));
        browser.open(&site.url(&format!("/play#{link}")));
        browser.wait_to_say("#notice", reason);
        let shown = browser.shown();
        assert_eq!((&*shown.turn, shown.moves.len()), ("you", 0), "{link}");
    }
    browser.is_content();
}
