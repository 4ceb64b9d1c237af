//! The One bite page: the bar of a day, bites that are refuted, the one that wins, and the map that keeps it to itself.

use std::collections::HashSet;

use chomp_testing::trials;
use serde_json::{Value, json};

use super::browser::{Browser, Key, calm};
use super::site::{Cell, Site, Twin, any_cell, cell, cells, list, number, take};
use crate::common::random::Random;

/// The bar as the page shows it.
const SHOWN: &str = "
    const lines = [...document.querySelectorAll('#board .line:not(.numbers)')];
    const [rows, columns] = document.getElementById('bar-title').textContent.split(': ')[1].split(' × ').map(Number);
    return {
        rows, columns,
        left: lines.map((line) => line.querySelectorAll('.cell:not(.gone)').length).filter((n) => n > 0),
        cracked: [...document.querySelectorAll('#board .cracked')].map(({dataset}) => [dataset.row, dataset.column].map(Number)),
        tried: document.querySelectorAll('#bites li').length,
    };";

#[derive(Debug, PartialEq, Eq)]
struct Shown {
    /// The rows of the whole bar.
    bar: Vec<u32>,
    left: Vec<u32>,
    cracked: Vec<Cell>,
    tried: u32,
}

fn shown(browser: &Browser) -> Shown {
    let found = browser.run(SHOWN);
    let (rows, columns) = (number(&found["rows"]), number(&found["columns"]));
    Shown {
        bar: vec![columns; rows as usize],
        left: list(&found["left"]).iter().map(number).collect(),
        cracked: cells(&found["cracked"]),
        tried: number(&found["tried"]),
    }
}

/// Opens the page at a fragment.
fn opened(browser: &Browser, site: &Site, fragment: &str) -> Shown {
    browser.open("about:blank");
    browser.open(&site.url(&format!("/bite#{fragment}")));
    browser.wait("document.querySelector('#map button') !== null");
    browser.hurry();
    shown(browser)
}

/// Waits until so many bites are answered, and the bar is back or the game is over.
fn wait_for_bites(browser: &Browser, bites: u32) -> Shown {
    browser.wait(&format!(
        "document.querySelectorAll('#bites li').length === {bites}
         && ['bar', 'win'].includes(document.getElementById('main').dataset.shown)"
    ));
    shown(browser)
}

/// A bite that does not win, nor takes the poison.
fn wrong_bite(random: &mut Random, twin: &Twin, rows: &[u32]) -> Cell {
    loop {
        let bite = any_cell(random, rows);
        if bite != (1, 1) && !twin.is_losing(&take(rows, bite)) {
            return bite;
        }
    }
}

fn is_hit(browser: &Browser) -> bool {
    browser.value("document.getElementById('main').dataset.shown === 'win'") == true
}

/// If these change, people who play on the same day have different bars.
#[test]
fn a_day_has_one_bar_for_everybody() {
    let Some(browser) = calm() else { return };
    let site = Site::new();
    for (day, bar) in [(20_000, "3 × 7"), (20_786, "8 × 9"), (30_000, "8 × 3")] {
        opened(&browser, &site, &format!("day={day}"));
        let title = browser.text("#bar-title");
        assert!(title.ends_with(&format!(": {bar}")), "{day}: {title}");
    }
    let found = browser.run(
        "const bars = [];
         for (let day = 20_000; day < 20_070; day += 1) {
             history.replaceState(null, '', `#day=${day}`);
             dispatchEvent(new PopStateEvent('popstate'));
             bars.push(document.getElementById('bar-title').textContent.split(': ')[1].split(' × ').map(Number));
         }
         return bars;",
    );
    let bars = cells(&found);
    for &(rows, columns) in &bars {
        let hard = rows != columns && rows.min(columns) > 2 && rows + columns <= 20;
        assert!(hard, "{rows} x {columns}");
    }
    // Each comes once before any comes again, as itself or as its mirror image.
    let different: HashSet<Cell> = bars.iter().map(|&(a, b)| (a.min(b), a.max(b))).collect();
    assert_eq!(different.len(), 32);
    // Without a day in the address it is that of today, which may change meanwhile.
    let today = || {
        let day = browser.value("Math.floor(Date.now() / 86_400_000)");
        day.as_u64().unwrap()
    };
    loop {
        let day = today();
        let by_day = opened(&browser, &site, &format!("day={day}")).bar;
        let by_clock = opened(&browser, &site, "").bar;
        if today() == day {
            assert_eq!(by_clock, by_day);
            break;
        }
    }
    browser.is_content();
}

#[test]
fn wrong_bites_are_refuted_and_the_right_one_is_shared() {
    let Some(browser) = calm() else { return };
    let (site, twin) = (Site::new(), Twin::new());
    let bars = trials("bars whose bite is looked for").seconds(2.0);
    bars.at_least(3).run(|seed| {
        let mut random = Random::of(seed);
        let (rows, columns) = (2 + random.below(7), 2 + random.below(8));
        let before = opened(&browser, &site, &format!("board={rows}x{columns}"));
        let bar = before.bar.clone();
        assert_eq!((bar.len(), &before.left), (rows, &bar));
        let mut cracked = Vec::new();
        for _ in 0..2 {
            let bite = wrong_bite(&mut random, &twin, &bar);
            if cracked.contains(&bite) {
                continue;
            }
            cracked.push(bite);
            cracked.sort_unstable();
            // And all squares at once, before there is an answer.
            browser.run(&format!(
                "document.querySelector({:?}).click();
                 for (const button of document.querySelectorAll('#board button')) button.click();",
                cell(bite)
            ));
            let now = wait_for_bites(&browser, u32::try_from(cracked.len()).unwrap());
            assert_eq!((&now.left, &now.cracked), (&bar, &cracked), "{bite:?}");
            // It cannot be bitten again.
            browser.click(&cell(bite));
            assert_eq!(shown(&browser), now, "{bite:?}");
            let told = browser.text("#said");
            let reply = cell_in(&told, "the reply ");
            let left = take(&take(&bar, bite), reply);
            assert!(twin.is_losing(&left), "{bar:?} {bite:?} {told}");
        }
        let bites = cracked.len() + 1;
        let right = *twin.winning_moves(&bar).last().unwrap();
        browser.click(&cell(right));
        let now = wait_for_bites(&browser, u32::try_from(bites).unwrap());
        assert!(is_hit(&browser), "{right:?}");
        assert_eq!(now.left, take(&bar, right));
        let link = site.url(&format!("/bite#board={rows}x{columns}"));
        let signs = "🟫".repeat(bites - 1);
        let expected = format!("One bite {rows} × {columns}, {bites} bites\n{signs}🍫\n{link}");
        assert_eq!(browser.text("#share-text"), expected);
        // The link leads to the same bar, whole.
        browser.open("about:blank");
        browser.open(&link);
        browser.wait("document.querySelector('#board button') !== null");
        assert_eq!(shown(&browser), before);
    });
    // The poison is no winning bite, and needs no reply.
    opened(&browser, &site, "board=3x4");
    browser.click(&cell((1, 1)));
    assert_eq!(wait_for_bites(&browser, 1).cracked, [(1, 1)]);
    assert_eq!(browser.text("#turn"), "That is the poison");
    for no_bar in ["1x1", "0x5", "15x6", "4", "%3Cb%3E"] {
        opened(&browser, &site, &format!("board={no_bar}"));
        browser.wait_to_say("#notice", "This link holds no bar");
    }
    browser.is_content();
}

/// The cell after these words.
fn cell_in(told: &str, words: &str) -> Cell {
    let (_, rest) = told.split_once(words).unwrap_or_else(|| panic!("{told}"));
    let (cell, _) = rest[1..].split_once(')').unwrap();
    let (row, column) = cell.split_once(", ").unwrap();
    (row.parse().unwrap(), column.parse().unwrap())
}

#[test]
fn the_bites_of_a_day_are_kept_where_the_browser_keeps_anything() {
    let Some(browser) = calm() else { return };
    let (site, twin) = (Site::new(), Twin::new());
    let (day, bar) = day_with_few_bits(&browser, &site);
    let bite = wrong_bite(&mut Random::of(1), &twin, &bar);
    browser.click(&cell(bite));
    let after = wait_for_bites(&browser, 1);
    assert_eq!(opened(&browser, &site, &format!("day={day}")), after);
    assert_eq!(
        opened(&browser, &site, &format!("day={}", day + 1)).tried,
        0
    );
    // Anything may be there instead.
    for nonsense in [
        "{",
        "7",
        "null",
        "[{}]",
        r#"[{"bite":[90,1],"reply":null,"wins":true}]"#,
    ] {
        browser.run(&format!(
            "for (const key of Object.keys(localStorage)) localStorage.setItem(key, {nonsense:?});"
        ));
        assert_eq!(
            opened(&browser, &site, &format!("day={day}")).tried,
            0,
            "{nonsense}"
        );
    }
    browser.run(
        "Storage.prototype.getItem = Storage.prototype.setItem = () => { throw new DOMException('no'); };
         dispatchEvent(new PopStateEvent('popstate'));",
    );
    browser.click(&cell(bite));
    assert_eq!(wait_for_bites(&browser, 1), after);
    browser.is_content();
}

/// A day whose bar the definition knows, opened.
fn day_with_few_bits(browser: &Browser, site: &Site) -> (u32, Vec<u32>) {
    for day in 20_000.. {
        let bar = opened(browser, site, &format!("day={day}")).bar;
        if bar.len() + bar[0] as usize <= super::site::BITS as usize {
            return (day, bar);
        }
    }
    unreachable!("most bars are small");
}

#[test]
fn keys_alone_find_the_bite() {
    let Some(browser) = calm() else { return };
    let site = Site::new();
    opened(&browser, &site, "board=3x4");
    // The link to the page's middle, which is the first stop, leaves the bar as it is.
    browser.press(&[Key::Tab, Key::Enter]);
    browser.wait("location.hash === '#main'");
    assert_eq!(shown(&browser).bar, [4; 3]);
    browser.press(&[Key::Tab]);
    let focused = "document.activeElement.dataset.move";
    assert_eq!(browser.value(focused), "1-1");
    browser.press(&[Key::Down, Key::Down, Key::Enter]);
    let now = wait_for_bites(&browser, 1);
    assert_eq!(
        (now.cracked, browser.value(focused)),
        (vec![(3, 1)], "3-1".into())
    );
    let label = browser.value("document.activeElement.getAttribute('aria-label')");
    assert!(label.as_str().unwrap().contains("cracked"), "{label}");
    browser.press(&[Key::Enter, Key::Up, Key::Right, Key::Right, Key::Space]);
    wait_for_bites(&browser, 2);
    assert!(is_hit(&browser));
    assert_eq!(browser.text("#turn"), "That is the bite!");
    // The bar is done, and the focus is where its text can be taken along.
    assert_eq!(browser.value("document.activeElement.id"), "copy");
    browser.is_content();
}

#[test]
fn a_bite_without_an_answer_is_none() {
    let Some(browser) = calm() else { return };
    let mut site = Site::new();
    let before = opened(&browser, &site, "board=3x4");
    browser.hold(4_000);
    site.stop();
    browser.click(&cell((3, 1)));
    browser.wait_to_say("#notice", "The server cannot be reached.");
    assert_eq!(shown(&browser), before);
    // The page tries again by itself.
    site.start();
    browser.let_go();
    assert_eq!(wait_for_bites(&browser, 1).cracked, [(3, 1)]);
    assert!(browser.is_hidden("#notice"));
}

#[test]
fn the_steps_are_shown_one_by_one() {
    let Some(browser) = calm() else { return };
    let site = Site::new();
    opened(&browser, &site, "");
    let gone = "document.querySelectorAll('#why-picture :is(.bite, .reply)').length";
    for (step, (taken, words)) in [
        (1, "far corner"),
        (4, "the reply (2, 3)"),
        (4, "first bite (2, 3)"),
    ]
    .into_iter()
    .enumerate()
    {
        browser.click(&format!("#why-steps li:nth-child({}) button", step + 1));
        assert_eq!(browser.value(gone), taken, "{step}");
        let label =
            browser.value("document.querySelector('#why-picture svg').getAttribute('aria-label')");
        assert!(label.as_str().unwrap().contains(words), "{label}");
    }
    // All of them, from the first to the last.
    let first = browser.run(
        "document.getElementById('why-run').click();
         return document.querySelector('#why-steps li:first-child [aria-current]') !== null;",
    );
    assert_eq!(first, true);
    browser.wait("document.querySelector('#why-steps li:last-child [aria-current]') !== null");
    browser.is_content();
}

#[test]
fn the_map_shows_every_bite_but_the_one_looked_for() {
    let Some(browser) = calm() else { return };
    let (site, twin) = (Site::new(), Twin::new());
    let (day, bar) = day_with_few_bits(&browser, &site);
    let [rows, columns] = [bar.len(), bar[0] as usize];
    let at = |rows: usize, columns: usize| {
        browser.run(&format!(
            "const button = document.querySelector('#map [data-rows=\"{rows}\"][data-columns=\"{columns}\"]');
             button.dispatchEvent(new PointerEvent('pointerover', {{bubbles: true}}));
             const squares = [...document.querySelectorAll('#map-picture rect')];
             const wins = squares.flatMap((square, index) => square.classList.contains('wins')
                 ? [[Math.floor(index / {columns}) + 1, index % {columns} + 1]] : []);
             return [wins, button.outerHTML + document.getElementById('map-told').textContent];"
        ))
    };
    let told = |found: &Value| found[1].as_str().unwrap().to_owned();
    let named = |move_: Cell| format!("({}, {})", move_.0, move_.1);
    for (rows, columns) in [(rows, columns), (columns, rows)] {
        let found = at(rows, columns);
        assert_eq!(cells(&found[0]), [], "{found}");
        assert!(!told(&found).contains('('), "{found}");
        assert!(!told(&found).contains("data-moves"), "{found}");
    }
    assert_eq!(browser.number_of("#map [aria-current]"), 1);
    for other in
        [[4_u32, 4], [8, 10], [2, 7], [5, 6]].map(|[rows, columns]| vec![columns; rows as usize])
    {
        if other.len() * other[0] as usize == rows * columns {
            continue;
        }
        let found = at(other.len(), other[0] as usize);
        let wins = twin.winning_moves(&other);
        assert_eq!(cells(&found[0]), wins, "{found}");
        assert!(told(&found).contains(&named(wins[0])), "{found}");
    }
    // On another bar, this one is not told either, until it is bitten.
    let wins = twin.winning_moves(&bar);
    browser.click(&cell(wins[0]));
    wait_for_bites(&browser, 1);
    assert!(is_hit(&browser), "{day}");
    assert_eq!(cells(&at(rows, columns)[0]), wins);
    // The values of 3 x 1, 3 x 2, …: A069001.
    browser.click_at_once("#values");
    let values = browser.value(
        "[...document.querySelectorAll('#map [data-rows=\"3\"]')].slice(0, 8).map((one) => Number(one.textContent))",
    );
    assert_eq!(values, json!([2, 4, 5, 9, 11, 12, 13, 16]));
    browser.is_content();
}
