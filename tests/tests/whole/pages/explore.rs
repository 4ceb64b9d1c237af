//! The Explore page beside W by its definition: the map, the outcomes of moves, the counts.

use std::fs;

use serde_json::{Value, json};

use super::browser::{Browser, Key, calm};
use super::site::{BITS, Cell, Site, Twin, cell, cells, digits, list, number, text, word};
use crate::common::cluster::wait_for;
use crate::common::random::Random;
use chomp_testing::trials;

fn opened(site: &Site) -> Option<Browser> {
    let browser = calm()?;
    browser.open(&site.url("/explore"));
    browser.wait("document.querySelector('#map button') !== null");
    Some(browser)
}

/// The texts of the cells of a table, row by row.
fn texts(browser: &Browser, table: &str) -> Vec<Vec<String>> {
    let rows = browser.value(&format!(
        "[...document.querySelectorAll('{table} tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))"
    ));
    serde_json::from_value(rows).unwrap()
}

fn named(cells: &[Cell]) -> String {
    let names = cells
        .iter()
        .map(|(row, column)| format!("({row}, {column})"));
    names.collect::<Vec<_>>().join(", ")
}

#[test]
fn the_map_is_right_for_every_board() {
    let (site, twin) = (Site::new(), Twin::new());
    let Some(browser) = opened(&site) else {
        return;
    };
    let found = browser.run(
        "return [...document.querySelectorAll('#map button')].map((button) => [
            Number(button.dataset.rows), Number(button.dataset.columns), Number(button.dataset.moves),
            button.className, button.textContent, button.getAttribute('aria-label')]);",
    );
    let boards = list(&found);
    let all = (BITS as usize - 1) * BITS as usize / 2;
    assert_eq!(boards.len(), all, "all with rows + columns <= bits");
    for board in boards {
        let (rows, columns) = (number(&board[0]), number(&board[1]));
        let winning = twin.winning_moves(&vec![columns; rows as usize]);
        assert_eq!(board[2], json!(winning.len()), "{board}");
        let (class, shown) = match winning.len() {
            0 => ("none", String::new()),
            1 => ("one", String::new()),
            several => ("several", several.to_string()),
        };
        assert_eq!(board[3], class, "{board}");
        assert_eq!(board[4], shown, "{board}");
        let label = board[5].as_str().unwrap();
        let begin = format!("{rows} × {columns}: ");
        assert!(label.starts_with(&begin), "{board}");
        for (row, column) in &winning {
            assert!(label.contains(&format!("({row}, {column})")), "{board}");
        }
    }

    let all = texts(&browser, "#boards");
    let several = texts(&browser, "#several");
    let mut expected = Vec::new();
    for rows in 1..BITS {
        for columns in rows..=BITS - rows {
            let mut row = vec![rows.to_string(), columns.to_string()];
            let winning = twin.winning_moves(&vec![columns; rows as usize]);
            row.push(match &winning[..] {
                [] => "none".to_owned(),
                winning => named(winning),
            });
            expected.push((winning.len(), row));
        }
    }
    let rows = |least: usize| {
        let of_least = expected.iter().filter(|(moves, _)| *moves >= least);
        of_least.map(|(_, row)| row.clone()).collect::<Vec<_>>()
    };
    assert_eq!(all, rows(0));
    // 8 x 10 is the smallest board with two, and this table just covers it.
    assert_eq!(several, rows(2));
    assert_eq!(several, [["8", "10", "(4, 9), (5, 6)"]]);
    browser.is_content();
}

#[test]
fn the_map_leads_to_boards_by_click_and_key() {
    let site = Site::new();
    let Some(browser) = opened(&site) else {
        return;
    };
    browser.click("#map button[data-rows='10'][data-columns='8']");
    browser.wait("location.hash === '#position=10x8'");
    let outcome = "Winning, with 2 winning moves: (6, 5) and (9, 4).";
    browser.wait_to_say("#outcome", outcome);
    browser.press(&[Key::Up, Key::Right, Key::Right]);
    browser.wait_to_say("#map-told", "9 × 9: 1 winning first move, (2, 2).");
    browser.press(&[Key::Home, Key::Up]);
    browser.wait_to_say("#map-told", "8 × 1: 1 winning first move, (2, 1).");
    browser.press(&[Key::Enter]);
    browser.wait("location.hash === '#position=8x1'");
    browser.wait_to_say("#outcome", "Winning, with 1 winning move: (2, 1).");
    browser.wait_to_say("#facts", "2, if the winner hurries");
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
        let typed = match seed % 3 {
            0 => format!("0b{:b}", word(&rows).get()),
            _ => text(&rows),
        };
        browser.write("#text", &typed);
        browser.click("#ask button");
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
        let facts = browser.text("#facts").replace(',', "");
        let number = format!("= {}", word(&rows).get());
        assert!(facts.contains(&number), "{facts}");
    });

    // A move leads to what it leaves.
    browser.write("#text", "3,2");
    browser.click("#ask button");
    browser.wait_to_say("#outcome", "Losing");
    browser.click(&cell((2, 1)));
    browser.wait("location.hash === '#position=3'");
    // A double click is one, though another cell comes under it.
    browser.write("#text", "8x8");
    browser.click("#ask button");
    browser.wait_to_say("#outcome", "Winning, with 1 winning move: (2, 2).");
    browser.double_click(&cell((1, 5)));
    browser.wait_to_say("#outcome", "Winning");
    assert_eq!(browser.value("location.hash"), "#position=4,4,4,4,4,4,4,4");
    browser.write("#text", "3");
    browser.click("#ask button");
    browser.wait("location.hash === '#position=3'");
    for (typed, reason) in [
        ("4,5", "Row 2 is longer"),
        ("10x10", "The table here has 18"),
        ("x", "no position"),
    ] {
        browser.write("#text", typed);
        browser.click("#ask button");
        browser.wait_to_say("#wrong", reason);
        assert_eq!(browser.value("location.hash"), "#position=3");
    }
    // And so does a link.
    browser.open(&site.url("/play"));
    browser.open(&site.url("/explore#position=2,1"));
    browser.wait_to_say("#outcome", "Losing");
    browser.open(&site.url("/explore#position=0"));
    browser.wait_to_say("#outcome", "Nothing is left");
    browser.is_content();
}

/// With made-up output of `chomp box --json` for boards of one row, the longest of which is beyond the table.
#[test]
fn boards_of_a_box_are_on_the_map_too() {
    let site = Site::new();
    let longest = BITS + 1;
    let boards = (1..=longest).map(|columns| {
        let moves = match columns {
            1 => json!([]),
            _ if columns == longest => json!([[1, 2], [1, 3], [1, 4]]),
            _ => json!([[1, 2]]),
        };
        json!({"rows": 1, "columns": columns, "moves": moves})
    });
    let solved = json!({
        "rows": 1, "columns": longest, "digest": "0".repeat(64), "openings": boards.collect::<Vec<_>>(),
    });
    let file = site.home().join("table/box-1.json");
    fs::write(file, solved.to_string()).unwrap();
    let Some(browser) = opened(&site) else {
        return;
    };
    browser.wait_to_say("#facts", "if the winner hurries");
    let position = browser.text("#facts");
    for (rows, columns, cells) in [
        (1, longest, "(1, 2), (1, 3) and (1, 4)"),
        (longest, 1, "(2, 1), (3, 1) and (4, 1)"),
    ] {
        let board = format!("#map button.three[data-rows='{rows}'][data-columns='{columns}']");
        browser.click(&board);
        assert_eq!(browser.text(&board), "3");
        let told = format!("{rows} × {columns}: 3 winning first moves, {cells}.");
        browser.wait(&format!(
            "document.querySelector('#map-told').textContent === '{told}'"
        ));
    }
    // The table does not know the board itself.
    assert_eq!(browser.text("#facts"), position);
    let listed = ["1", &longest.to_string(), "(1, 2), (1, 3), (1, 4)"].map(str::to_owned);
    assert!(texts(&browser, "#several").contains(&listed.to_vec()));
}

#[test]
fn the_charts_have_the_counts() {
    let (site, twin) = (Site::new(), Twin::new());
    let Some(browser) = opened(&site) else {
        return;
    };
    browser.wait("document.querySelector('#by-area svg') !== null");
    let numbers = |table: &str| -> Vec<Vec<u64>> {
        let rows = texts(&browser, table).into_iter();
        let numbers = rows.map(|row| row.iter().map(|text| digits(text)).collect());
        numbers.collect()
    };
    let by_bits: Vec<Vec<u64>> = (2..=BITS)
        .map(|bits| {
            let most = twin.count(|word| word.bits() <= bits);
            vec![bits.into(), most, twin.count(|word| word.bits() == bits)]
        })
        .collect();
    let by_area: Vec<Vec<u64>> = (1..BITS)
        .map(|area| vec![area.into(), twin.count(|word| word.area() == area)])
        .collect();
    assert_eq!(numbers("#by-bits"), by_bits);
    assert_eq!(numbers("#by-area"), by_area);

    // Each point can be read with the keys, and the drawing has them all.
    for (chart, rows) in [("#by-bits", &by_bits), ("#by-area", &by_area)] {
        let figure = format!("document.querySelector('{chart} .figure')");
        let dots = browser.number_of(&format!("{chart} circle"));
        assert_eq!(dots, rows.len() as u64);
        browser.run(&format!("{figure}.focus();"));
        browser.press(&[Key::Home]);
        for row in rows {
            let value = |name: &str| browser.value(&format!("{figure}.getAttribute('{name}')"));
            let told = value("aria-valuetext");
            let told = told.as_str().unwrap().replace(',', "");
            let noun = if row[1] == 1 { "position" } else { "positions" };
            let begin = format!("{} losing {noun} of ", row[1]);
            assert!(told.starts_with(&begin), "{told}");
            assert_eq!(value("aria-valuenow"), row[0].to_string());
            let reading = browser.text(&format!("{chart} .reading"));
            assert_eq!(reading.replace(',', ""), told);
            browser.press(&[Key::Right]);
        }
        heights_follow(&browser, chart, rows);
    }

    let folder = browser.downloads();
    let heads = ["bits,losing_at_most,losing_exactly", "cells,losing"];
    for (chart, name, head, rows) in [
        ("#by-bits", "bits", heads[0], &by_bits),
        ("#by-area", "area", heads[1], &by_area),
    ] {
        browser.click(&format!("{chart} a[download]"));
        let file = folder.join(format!("chomp-losing-by-{name}-{BITS}.csv"));
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

/// Asserts that larger numbers are drawn higher, and equal ones as high.
fn heights_follow(browser: &Browser, chart: &str, rows: &[Vec<u64>]) {
    let drawn: Value = browser.value(&format!(
        "[...document.querySelectorAll('{chart} circle')].map((dot) => Number(dot.getAttribute('cy')))"
    ));
    let heights: Vec<f64> = serde_json::from_value(drawn).unwrap();
    for (height, row) in heights.iter().zip(rows) {
        for (other, other_row) in heights.iter().zip(rows) {
            // The larger, the nearer to the top, where y is 0.
            let (drawn, is) = (other.total_cmp(height), row[1].cmp(&other_row[1]));
            assert_eq!(drawn, is, "{chart}: {row:?} {other_row:?}");
        }
    }
}
