//! The pages in a real browser: games that are played by clicks and keys, what the pages say of a
//! table beside W by its definition, a job that is watched, and servers that are slow, gone or empty.
//!
//! The browser ([`browser`]) is Chromium, driven by chromedriver, or with `CHOMP_BROWSER=firefox` Firefox, driven by
//! geckodriver; the server is `chomp serve` ([`site`]). Without a browser there is nothing to test: the tests say so
//! and pass, unless `CHOMP_REQUIRE_BROWSER=1`, or `CHOMP_REQUIRE_FIREFOX=1`.

mod bite;
mod browser;
mod driver;
mod explore;
mod files;
mod games;
mod input;
mod job;
mod record;
mod site;
mod small;
mod troubles;

use self::browser::calm;
use self::site::Site;

/// The pages, and when they are complete.
const PAGES: [(&str, &str); 6] = [
    ("bite", "document.querySelector('#map button')"),
    ("games", "document.querySelector('.shelf')"),
    ("games/nim", "document.querySelector('#board .playable')"),
    ("play", "document.body.dataset.turn === 'you'"),
    ("explore", "document.querySelector('#by-area svg')"),
    ("job", "document.querySelector('#facts dd')"),
];

/// The console would tell of scripts that fail, of files that are not there, and of what the content security policy
/// forbids.
#[test]
fn every_page_fits_a_phone_and_the_console_is_told_nothing() {
    let Some(browser) = calm() else { return };
    let site = Site::new();
    for (width, touch) in [(1280, false), (360, true)] {
        browser.resize(width, 740, touch);
        for (page, ready) in PAGES {
            browser.open("about:blank");
            browser.open(&site.url(&format!("/{page}")));
            browser.wait(&format!("Boolean({ready})"));
            let overflow = "document.documentElement.scrollWidth - innerWidth";
            assert_eq!(browser.value(overflow), 0, "{page}");
            let named = "document.title.split('Chomp').length - 1";
            assert_eq!(browser.value(named), 1, "{page}");
            browser.is_content();
        }
    }
}

#[test]
fn without_scripts_no_control_is_shown_that_would_do_nothing() {
    let Some(browser) = calm() else { return };
    let site = Site::new();
    if !browser.run_scripts(false) {
        return;
    }
    let shown = ["play", "games/nim", "explore", "job"].map(|page| {
        browser.open(&site.url(&format!("/{page}")));
        let of = |css: &str| {
            let seen = format!("[...document.querySelectorAll('{css}')].filter((found) => found.checkVisibility()).length");
            browser.value(&seen)
        };
        (of("main :is(button, input, select)"), of("noscript p"))
    });
    browser.run_scripts(true);
    assert!(
        shown.iter().all(|shown| *shown == (0.into(), 1.into())),
        "{shown:?}"
    );
}
