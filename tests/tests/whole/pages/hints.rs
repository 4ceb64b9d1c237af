//! Hints show every winning move, and no other.

use super::browser::{Browser, calm};
use super::site::{Cell, Site, Twin, any_cell, cell, cells, take, text, word};
use crate::common::random::Random;
use chomp_testing::trials;

const MARKED: &str = "
    return [...document.querySelectorAll('#board .cell.hint')]
        .map((cell) => [Number(cell.dataset.row), Number(cell.dataset.column)]);";

fn marked(browser: &Browser) -> Vec<Cell> {
    let mut cells = cells(&browser.run(MARKED));
    cells.sort_unstable();
    cells
}

#[test]
fn hints_are_the_winning_moves() {
    let Some(browser) = calm() else { return };
    let (site, twin) = (Site::new(), Twin::new());
    browser.play(&site, &[3, 2], "you");
    browser.click("#hints");
    let positions = trials("positions with hints").seconds(2.0);
    positions.at_least(12).run(|seed| {
        let rows = twin.position(&mut Random::of(seed), seed % 3 == 0);
        browser.play(&site, &rows, "you");
        let winning = twin.winning_moves(&rows);
        browser.wait("!document.querySelector('#hint').hasAttribute('aria-busy')");
        if winning.is_empty() {
            browser.wait_to_say("#hint", "No winning move");
        } else {
            let number = format!("{} winning move", winning.len());
            browser.wait_to_say("#hint", &number);
            let (row, column) = winning[0];
            browser.wait_to_say("#hint", &format!("({row}, {column})"));
            let of = cell(winning[0]);
            let label = format!("document.querySelector({of:?}).getAttribute('aria-label')");
            let label = browser.value(&label);
            assert!(
                label.as_str().unwrap().contains("a winning move"),
                "{label}"
            );
        }
        assert_eq!(marked(&browser), winning, "{rows:?}");
    });
    // Without them nothing is marked.
    browser.click("#hints");
    assert_eq!(marked(&browser), []);
    assert_eq!(
        browser.text("#hint"),
        "Hints show every winning move that is known."
    );
    browser.is_content();
}

#[test]
fn what_a_move_takes_is_shown_before_it_is_made() {
    let Some(browser) = calm() else { return };
    let (site, twin) = (Site::new(), Twin::new());
    let mut random = Random::new();
    for _ in 0..10 {
        let rows = twin.position(&mut random, false);
        browser.play(&site, &rows, "you");
        for _ in 0..5 {
            let aimed = any_cell(&mut random, &rows);
            browser.point_at(&cell(aimed));
            let left = take(&rows, aimed);
            let taken = word(&rows).area() - word(&left).area();
            let told = format!("({}, {}) takes {taken} cell", aimed.0, aimed.1);
            browser.wait_to_say("#aim", &told);
            let counted = browser.number_of("#board .aimed");
            assert_eq!(counted, u64::from(taken), "{rows:?} {aimed:?}");
        }
        // Nothing was taken by that.
        assert_eq!(text(&browser.shown().rows), text(&rows));
    }
    browser.is_content();
}
