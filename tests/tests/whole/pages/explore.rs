//! The Explore page beside W by its definition: the map, the outcomes of moves, the counts.

use std::collections::HashMap;
use std::fs;

use chomp_table::{Partition, Word};
use serde_json::json;

use super::browser::{Browser, Key, calm};
use super::site::{BITS, Site, Twin, cell, cells, digits, list, number, text, word};
use crate::common::cluster::wait_for;
use crate::common::random::Random;
use crate::common::{chomp, end};
use crate::grundy::value;
use chomp_testing::trials;

fn opened(site: &Site) -> Option<Browser> {
    let browser = calm()?;
    browser.open(&site.url("/explore"));
    browser.wait("document.querySelector('#map button') !== null");
    Some(browser)
}

fn ask(browser: &Browser, position: &str) {
    browser.write("#text", position);
    browser.click("#ask button");
}

#[test]
fn the_map_is_right_for_every_board_and_leads_to_it() {
    let (site, twin) = (Site::new(), Twin::new());
    let Some(browser) = opened(&site) else {
        return;
    };
    let found = browser.run(
        "return [...document.querySelectorAll('#map button')].map((button) => [
            Number(button.dataset.rows), Number(button.dataset.columns), Number(button.dataset.moves),
            button.getAttribute('aria-label')]);",
    );
    let boards = list(&found);
    let all = (BITS as usize - 1) * BITS as usize / 2;
    assert_eq!(boards.len(), all, "all with rows + columns <= bits");
    for board in boards {
        let (rows, columns) = (number(&board[0]), number(&board[1]));
        let winning = twin.winning_moves(&vec![columns; rows as usize]);
        assert_eq!(board[2], json!(winning.len()), "{board}");
        for (row, column) in &winning {
            let label = board[3].as_str().unwrap();
            assert!(label.contains(&format!("({row}, {column})")), "{board}");
        }
    }
    // 8 x 10 is the smallest board with two, and this table just covers it.
    assert_eq!(browser.text("#several tbody"), "810(4, 9), (5, 6)");

    browser.click("#map button[data-rows='10'][data-columns='8']");
    browser.wait("location.hash === '#position=10x8'");
    browser.wait_to_say(
        "#outcome",
        "Winning, with 2 winning moves: (6, 5) and (9, 4).",
    );
    browser.press(&[Key::Home, Key::Up, Key::Enter]);
    browser.wait("location.hash === '#position=9x1'");
    browser.wait_to_say("#outcome", "Winning, with 1 winning move: (2, 1).");
    browser.back();
    browser.wait_to_say("#outcome", "(6, 5) and (9, 4)");
    // The list of boards leads there too, and one of them leads to a game.
    browser.click("#several button");
    browser.wait("location.hash === '#position=8x10'");
    browser.click("#play-it");
    browser.wait("document.body.dataset.turn === 'you'");
    assert_eq!(browser.shown().rows, [10; 8]);
    browser.is_content();
}

#[test]
fn the_outcome_of_each_move_is_right() {
    let (site, twin) = (Site::new(), Twin::new());
    let Some(browser) = opened(&site) else {
        return;
    };
    let positions = trials("positions that are explored").seconds(2.0);
    positions.at_least(12).run(|seed| {
        let rows = twin.position(&mut Random::of(seed), seed % 4 == 0);
        ask(&browser, &text(&rows));
        let winning = twin.winning_moves(&rows);
        let told = if twin.is_losing(&rows) {
            "Losing".to_owned()
        } else {
            format!("Winning, with {} winning move", winning.len())
        };
        let shown = text(&rows);
        browser.wait(&format!(
            "document.querySelector('#facts dd').textContent === '{shown}'"
        ));
        browser.wait_to_say("#outcome", &told);
        let of = |class: &str| {
            let found = browser.value(&format!(
                "[...document.querySelectorAll('#board .{class}')].map((cell) => [Number(cell.dataset.row), Number(cell.dataset.column)])"
            ));
            cells(&found)
        };
        let mut wins = of("wins");
        wins.sort_unstable();
        assert_eq!(wins, winning, "{rows:?}");
        let area = word(&rows).area() as usize;
        assert_eq!(wins.len() + of("loses").len(), area, "{rows:?}");
    });

    // A move leads to what it leaves, and a double click is one, though another cell comes under it.
    ask(&browser, "8x8");
    browser.wait_to_say("#outcome", "Winning, with 1 winning move: (2, 2).");
    browser.double_click(&cell((1, 5)));
    browser.wait("location.hash === '#position=4,4,4,4,4,4,4,4'");
    for (typed, reason) in [
        ("4,5", "Row 2 is longer"),
        ("10x10", "The table here has 18"),
        ("x", "no position"),
    ] {
        ask(&browser, typed);
        browser.wait_to_say("#wrong", reason);
        assert_eq!(browser.value("location.hash"), "#position=4,4,4,4,4,4,4,4");
    }
    // And so does a link.
    browser.open(&site.url("/play"));
    browser.open(&site.url("/explore#position=2,1"));
    browser.wait_to_say("#outcome", "Losing");
    browser.is_content();
}

/// The number of moves to the end by its definition: a winner leaves the least odd number, a loser the greatest.
fn depth(word: Word, known: &mut HashMap<Word, u32>) -> u32 {
    if word == Word::EMPTY {
        return 0;
    }
    if let Some(&depth) = known.get(&word) {
        return depth;
    }
    let left: Vec<u32> = word.moves().map(|(_, left)| depth(left, known)).collect();
    let least_odd = left.iter().copied().filter(|depth| depth % 2 == 1).min();
    let depth = 1 + least_odd.or_else(|| left.into_iter().max()).unwrap();
    known.insert(word, depth);
    depth
}

/// The numbers on the cells.
fn numbers(browser: &Browser) -> HashMap<String, String> {
    let found = browser.value(
        "Object.fromEntries([...document.querySelectorAll('#board .valued')].map((cell) => [cell.dataset.move, cell.textContent]))",
    );
    serde_json::from_value(found).unwrap()
}

#[test]
fn moves_are_ranked_by_the_moves_to_the_end_and_by_values() {
    let site = Site::with(|table| {
        end(chomp("grundy --tiles 16 --table").arg(table)).done();
    });
    let Some(browser) = opened(&site) else {
        return;
    };
    let mut depths = HashMap::new();
    let mut values = HashMap::new();
    for (typed, rows) in [("5 4 2 1", vec![5, 4, 2, 1]), ("4 x 4", vec![4; 4])] {
        ask(&browser, typed);
        // The link has rows with commas.
        let position = text(&rows);
        browser.wait(&format!("location.hash === '#position={position}'"));
        let all = depth(word(&rows), &mut depths);
        browser.wait_to_say("#facts", &format!("Moves to the end{all}, if"));
        browser.click("label:has([value=depth])");
        browser.press(&[Key::Enter]);
        browser.wait("document.querySelector('#board .valued') !== null");
        let shown = numbers(&browser);
        for (cell, left) in word(&rows).moves() {
            let number = 1 + depth(left, &mut depths);
            let name = format!("{}-{}", cell.row, cell.column);
            assert_eq!(shown[&name], number.to_string(), "{rows:?} {name}");
        }
        // The best moves are those that perfect play begins with.
        assert_eq!(browser.text("#ranked td"), all.to_string());

        browser.click("label:has([value=value])");
        let mut value_of = |word: Word| {
            let rows = super::site::rows(word);
            value(&Partition::new(rows).unwrap(), &mut values)
        };
        let own = value_of(word(&rows));
        browser.wait_to_say("#ranked-told", &format!("The Grundy value is {own}."));
        let smaller = word(&rows).moves().filter(|&(_, left)| left != Word::EMPTY);
        let smaller =
            smaller.map(|(cell, left)| (format!("{}-{}", cell.row, cell.column), value_of(left)));
        let smaller = smaller.filter(|&(_, left)| left < own);
        let smaller: HashMap<String, String> = smaller
            .map(|(name, left)| (name, left.to_string()))
            .collect();
        assert_eq!(numbers(&browser), smaller, "{rows:?}");
        browser.click("label:has([value=outcome])");
    }
    let sent = browser.value("location.search");
    assert_eq!(sent, "", "the enter key loads no page");
    // A number on a winning cell that is pointed at has its place to itself.
    let apart = browser.run(
        "const cell = document.querySelector('#board .wins');
         cell.dispatchEvent(new PointerEvent('pointerover', {bubbles: true}));
         const dot = getComputedStyle(cell, '::before');
         return [cell.classList.contains('aim'), parseFloat(dot.left) > cell.clientWidth / 2];",
    );
    assert_eq!(apart, json!([true, true]));
    ask(&browser, "1x17");
    browser.click("label:has([value=value])");
    browser.wait_to_say("#ranked-told", "has 17 tiles");
    // The browser writes down each answer that is a refusal.
    browser.complaints();
}

#[test]
fn long_boards_of_a_box_have_a_strip_and_answers_are_in_sight() {
    let site = Site::with(|table| {
        let found = end(&mut chomp("box 3x60 --json")).stdout;
        fs::write(table.join("box-3x60.json"), found).unwrap();
    });
    let Some(browser) = opened(&site) else {
        return;
    };
    for (css, scrolls) in [("#map", false), ("#long", true)] {
        let wide = format!(
            "document.querySelector('{css}').scrollWidth > document.querySelector('{css}').clientWidth"
        );
        assert_eq!(browser.value(&wide), scrolls, "{css}");
    }
    let page = "document.documentElement.scrollHeight";
    assert!(
        number(&browser.value(page)) < 2_600,
        "the page is not longer for it"
    );
    let boards = browser.number_of("#map button") + browser.number_of("#long button");
    assert_eq!(browser.number_of("#long button"), 3 * (60 - 17));
    assert!(boards > 3 * 60);
    for (css, place, told) in [
        (
            "#long [data-rows='3'][data-columns='40']",
            "#long-told",
            "3 × 40: 1 winning first move",
        ),
        (
            "#map [data-rows='2'][data-columns='17']",
            "#map-told",
            "2 × 17: 1 winning first move",
        ),
        (
            "#map [data-rows='10'][data-columns='8']",
            "#outcome",
            "(6, 5) and (9, 4)",
        ),
    ] {
        browser.click(css);
        browser.wait_to_say(place, told);
        let seen = format!(
            "(({{top, bottom}}) => top >= 0 && bottom <= innerHeight)(document.querySelector('{place}').getBoundingClientRect())"
        );
        browser.wait(&seen);
    }
    browser.is_content();
}

#[test]
fn the_charts_have_the_counts() {
    let (site, twin) = (Site::new(), Twin::new());
    let Some(browser) = opened(&site) else {
        return;
    };
    browser.wait("document.querySelector('#by-area svg') !== null");
    let by_bits = (2..=BITS).map(|bits| {
        let most = twin.count(|word| word.bits() <= bits);
        vec![bits.into(), most, twin.count(|word| word.bits() == bits)]
    });
    let by_area = (1..BITS).map(|area| vec![area.into(), twin.count(|word| word.area() == area)]);
    let heads = ["bits,losing_at_most,losing_exactly", "cells,losing"];
    for (name, head, rows) in [
        ("bits", heads[0], by_bits.collect::<Vec<Vec<u64>>>()),
        ("area", heads[1], by_area.collect()),
    ] {
        let shown = browser.value(&format!(
            "[...document.querySelectorAll('#by-{name} tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))"
        ));
        let shown: Vec<Vec<String>> = serde_json::from_value(shown).unwrap();
        let shown = shown
            .iter()
            .map(|row| row.iter().map(|text| digits(text)).collect());
        assert_eq!(shown.collect::<Vec<Vec<u64>>>(), rows);
        let dots = browser.number_of(&format!("#by-{name} circle"));
        assert_eq!(dots, rows.len() as u64);

        browser.click(&format!("#by-{name} a[download]"));
        let file = format!("chomp-losing-by-{name}-{BITS}.csv");
        let file = browser.downloads().join(file);
        let mut expected = format!("{head}\n");
        for row in rows {
            let row: Vec<String> = row.iter().map(u64::to_string).collect();
            expected += &(row.join(",") + "\n");
        }
        wait_for("a download", || {
            fs::read_to_string(&file).is_ok_and(|text| text == expected)
        });
    }
    browser.is_content();
}
