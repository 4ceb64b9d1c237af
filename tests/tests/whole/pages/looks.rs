//! Every page on every screen: nothing overflows, all can be read, and the console is told nothing.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::browser::{Look, calm};
use super::site::{BITS, Site, cell, list};
use crate::common::files;
use crate::common::http::get;

/// Light and dark.
pub(crate) const DESKTOP: [Look; 2] = [
    look("desktop-light", 1280, 800, false),
    look("desktop-dark", 1280, 800, true),
];
const PHONE: [Look; 2] = [
    look("phone-light", 360, 740, false),
    look("phone-dark", 360, 740, true),
];

const fn look(name: &'static str, width: u32, height: u32, dark: bool) -> Look {
    let touch = width < 500;
    Look {
        name,
        width,
        height,
        dark,
        touch,
    }
}

/// The pages, and when they are complete.
const PAGES: [(&str, &str, &str); 15] = [
    ("games", "/games", "document.querySelector('.shelf')"),
    (
        "ichomp",
        "/games/ichomp#start=4x5%2F3x4%2F4,3,1%2F2x5&first=you",
        PARTS,
    ),
    (
        "ichomp-late",
        LATE,
        "document.querySelector('.parts') && document.body.dataset.turn === 'you'",
    ),
    (
        "poisons",
        "/games/poisons#start=3x8%401,1%402,2&first=you",
        "document.querySelector('#drawing rect') && document.querySelector('.valued')",
    ),
    ("nim", "/games/nim#start=3,4,5,7&first=you", PARTS),
    (
        "towers",
        "/games/towers#start=1-8,2-6,1-4,3-8,1-7,2-5,1-6,4-7&first=you",
        PARTS,
    ),
    (
        "horse",
        "/games/horse#start=8,9&first=you",
        "document.querySelector('.valued')",
    ),
    (
        "space",
        "/games/space#start=3x3x4&first=you",
        "document.querySelector('.valued')",
    ),
    (
        "divisors",
        "/games/divisors#start=360&first=you",
        "document.querySelector('.named')",
    ),
    (
        "crossed",
        "/games/crossed#start=4x5%402,3%404,5&first=you",
        "document.querySelector('.valued')",
    ),
    (
        "transfinite",
        "/games/transfinite#start=w,w,4,2,1...&first=you",
        "document.querySelector('.valued')",
    ),
    (
        "play",
        "/play#start=7,7,6,4,4,2&first=you",
        "document.body.dataset.turn === 'you'",
    ),
    (
        "play-over",
        "/play#start=3,2&first=you&moves=1-1",
        "!document.getElementById('verdict').hidden",
    ),
    (
        "explore",
        "/explore#position=8x10",
        "document.querySelector('#by-area svg') && document.querySelector('#map button')",
    ),
    ("job", "/job", "document.querySelector('#facts dd')"),
];
const PARTS: &str = "document.querySelector('.parts')";
const LATE: &str = "/games/ichomp#start=5x4%2F3x10%2F4,3,1%2F2x5&first=you&moves=2-3-10_2-3-9_2-3-8_2-3-7_2-3-6_2-3-5_2-2-10_2-2-9_2-2-8_2-2-7_2-2-6_2-2-5_1-5-4_1-5-3_1-5-2_1-5-1_2-3-4_2-3-3_2-3-2_2-1-10_4-2-5_2-1-9";

#[test]
fn every_file_of_the_pages_is_served() {
    let site = Site::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/serve/pages");
    let mut seen = 0;
    for file in files(&folder) {
        let name = file.file_name().unwrap().to_str().unwrap();
        let bytes = fs::read(&file).unwrap();
        let Some(page) = name.strip_suffix(".html") else {
            let answer = get(site.port(), &format!("/assets/{name}"), &[]);
            assert!((answer.status, &answer.body) == (200, &bytes), "{name}");
            seen += 1;
            continue;
        };
        // Pages stand in a frame, and texts in them.
        if page == "frame" {
            continue;
        }
        let answer = get(site.port(), &format!("/{page}"), &[]);
        assert_eq!(answer.status, 200, "{page}");
        let (shown, whole) = (String::from_utf8(answer.body), String::from_utf8(bytes));
        let (shown, whole) = (shown.unwrap(), whole.unwrap());
        let pieces = whole.split(['{', '}']).step_by(2);
        assert!(pieces.clone().all(|piece| shown.contains(piece)), "{page}");
        assert!(!shown.contains(['{', '}']), "{page}");
        seen += 1;
    }
    assert!(seen > 10, "{seen} files");
}

/// All texts whose contrast is below 4.5 (3 if they are large), as WCAG counts it.
const FAINT: &str = r"
    const channels = (colour) => {
        const found = colour.match(/[\d.]+/g).map(Number);
        return [found[0], found[1], found[2], found[3] ?? 1];
    };
    const luminance = ([r, g, b]) => {
        const linear = [r, g, b].map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
    };
    const behind = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const colour = channels(getComputedStyle(at).backgroundColor);
            if (colour[3] === 1) return colour;
        }
        return [255, 255, 255, 1];
    };
    const faint = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const element = walker.currentNode.parentElement;
        if (walker.currentNode.textContent.trim() === '' || !element.checkVisibility()) continue;
        if (element.closest(':disabled, noscript, svg')) continue;
        const style = getComputedStyle(element);
        const pair = [luminance(channels(style.color)), luminance(behind(element))].sort((a, b) => b - a);
        const contrast = (pair[0] + 0.05) / (pair[1] + 0.05);
        const isLarge = parseFloat(style.fontSize) >= 24;
        if (contrast < (isLarge ? 3 : 4.5)) faint.push(`${walker.currentNode.textContent.trim()}: ${contrast.toFixed(2)}`);
    }
    return faint;";

/// Faults of a page for those who cannot see it: elements without a name, ids that occur twice and the like.
const NAMELESS: &str = "
    const wrong = [];
    const name = (element) => element.getAttribute('aria-label') || element.textContent.trim()
        || [...(element.labels ?? [])].map((label) => label.textContent.trim()).join('')
        || document.getElementById(element.getAttribute('aria-labelledby'))?.textContent;
    for (const element of document.querySelectorAll('button, a, input, progress, table[role], [role=grid], [role=slider], [role=region], section')) {
        if (element.checkVisibility() && !element.disabled && !name(element)) wrong.push(element.outerHTML.slice(0, 200));
    }
    const ids = [...document.querySelectorAll('[id]')].map((element) => element.id);
    if (new Set(ids).size !== ids.length) wrong.push('an id occurs twice');
    if (document.querySelectorAll('h1').length !== 1) wrong.push('there is one title');
    if (document.documentElement.lang !== 'en') wrong.push('the language');
    for (const image of document.querySelectorAll('img')) if (!image.hasAttribute('alt')) wrong.push('an image without words');
    for (const grid of document.querySelectorAll('[role=grid]')) {
        if (grid.querySelectorAll('[tabindex=\"0\"]').length > 1) wrong.push('a grid is one stop of the tab key');
    }
    return wrong;";

/// Elements that are cut off on the right or scroll sideways, but for boards, which scroll if they are large.
const CUT: &str = "
    const wide = (element) => element.clientWidth > 0 && element.scrollWidth > element.clientWidth + 1;
    return [...document.querySelectorAll('main *:not(.unseen)')]
        .filter((element) => element.checkVisibility() && !element.closest('#board, input, svg') && wide(element))
        .map((element) => element.outerHTML.slice(0, 200));";

fn texts(found: &Value) -> Vec<&str> {
    let texts = list(found).iter().map(|text| text.as_str().unwrap());
    texts.collect()
}

#[test]
fn every_page_is_in_order_on_a_desktop() {
    every_page_is_in_order(DESKTOP);
}

#[test]
fn every_page_is_in_order_on_a_phone() {
    every_page_is_in_order(PHONE);
}

/// Loads each page, and looks at it in the light and in the dark, which is a matter of the style sheet alone.
fn every_page_is_in_order(looks: [Look; 2]) {
    let Some(browser) = calm() else { return };
    let site = Site::new();
    for (name, path, ready) in PAGES {
        // From elsewhere, so that it is loaded anew.
        browser.open("about:blank");
        browser.look(looks[0]);
        browser.open(&site.url(path));
        browser.wait(&format!("Boolean({ready})"));
        if !path.starts_with("/games") {
            browser.wait_to_say("#table", &format!("Table of {BITS} bits"));
        }
        for look in looks {
            browser.look(look);
            let name = format!("{name}-{}", look.name);
            if path.starts_with("/games") {
                assert_eq!(texts(&browser.run(CUT)), [""; 0], "{name}");
            }
            browser.picture(&name);
            let overflow = "document.documentElement.scrollWidth - innerWidth";
            assert_eq!(browser.value(overflow), 0, "{name}");
            let nav = "document.querySelector('nav').getBoundingClientRect().right <= document.documentElement.clientWidth";
            assert_eq!(browser.value(nav), true, "{name}");
            assert_eq!(texts(&browser.run(FAINT)), [""; 0], "{name}");
            assert_eq!(texts(&browser.run(NAMELESS)), [""; 0], "{name}");
            assert_eq!(browser.complaints(), [""; 0], "{name}");
        }
    }
}

#[test]
fn nothing_jumps_while_a_game_is_played() {
    let Some(browser) = calm() else { return };
    let site = Site::new();
    for look in [DESKTOP, PHONE].concat() {
        browser.look(look);
        browser.play(&site, &[6, 6, 6, 6, 6], "you");
        browser.wait_to_say("#table", "Table of");
        let place = || {
            browser.value("[...document.querySelectorAll('#board button, #undo, #new-game')].map((button) => button.parentElement.getBoundingClientRect().top + scrollY).join()")
        };
        let before = place();
        for place_of in [(4, 5), (1, 3)] {
            let selector = cell(place_of) + ":not(.gone)";
            if browser.number_of(&selector) > 0 {
                browser.click(&selector);
                browser.wait("document.body.dataset.turn !== 'computer'");
                assert_eq!(place(), before, "{}", look.name);
            }
        }
    }
    browser.is_content();
}

#[test]
fn large_boards_fit_or_scroll_by_themselves() {
    let Some(browser) = calm() else { return };
    let site = Site::new();
    for look in [DESKTOP, PHONE].concat() {
        browser.look(look);
        for rows in [vec![17], vec![1; 17], vec![9; 9]] {
            browser.play(&site, &rows, "you");
            let overflow = "document.documentElement.scrollWidth - innerWidth";
            assert_eq!(browser.value(overflow), 0, "{} {rows:?}", look.name);
            let narrowest = "Math.min(...[...document.querySelectorAll('#board [role=gridcell]')].map((cell) => cell.getBoundingClientRect().width))";
            let pixels = browser.value(narrowest).as_f64().unwrap();
            assert!(pixels >= 24.0, "{pixels} pixels are enough for a finger");
        }
    }
}
