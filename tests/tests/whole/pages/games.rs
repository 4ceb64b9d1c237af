//! Whole games: the computer wins whatever can be won, hints are right, and no click does more than one move.

use chomp_testing::trials;

use super::browser::{Browser, Key, calm, lively};
use super::site::{Shown, Site, Twin, any_cell, cell, cells, take};
use crate::common::random::Random;

#[test]
fn the_computer_wins_whatever_can_be_won() {
    let Some(browser) = calm() else { return };
    let (site, twin) = (Site::new(), Twin::new());
    let games = trials("games against the computer").seconds(2.0);
    games.at_least(6).run(|seed| {
        let mut random = Random::of(seed);
        let start = twin.position(&mut random, false);
        let mut shown = browser.play(&site, &start, "computer");
        let mut rows = start.clone();
        loop {
            // The page shows the position that follows from the moves.
            let computers = *shown.moves.last().unwrap();
            rows = take(&rows, computers);
            assert_eq!(shown.rows, rows, "{start:?} {shown:?}");
            assert!(twin.is_losing(&rows), "{start:?} {shown:?}");
            let yours = any_cell(&mut random, &rows);
            rows = take(&rows, yours);
            browser.click(&cell(yours));
            shown = browser.wait_for_turn(shown.moves.len() + 2);
            if rows.is_empty() {
                break;
            }
        }
        assert_eq!(browser.text("#turn"), "The computer won", "{start:?}");
        browser.wait_to_say("#verdict", "The start was lost for you already");
    });
    browser.is_content();
}

/// A player who takes each hinted cell wins.
#[test]
fn a_game_can_be_won_with_keys_alone() {
    let Some(browser) = calm() else { return };
    let (site, twin) = (Site::new(), Twin::new());
    let mut shown = browser.play(&site, &[7, 6, 6, 4, 2], "you");
    // Tab leads to the board, and to one cell of it.
    let on_board = "document.activeElement.closest('#board') !== null";
    let mut tabs = 0;
    while browser.value(on_board) == false {
        browser.press(&[Key::Tab]);
        tabs += 1;
        let focus = browser.value("document.activeElement.outerHTML");
        assert!(tabs < 12, "{focus}");
    }
    assert_eq!(browser.number_of("#board [tabindex='0']"), 1);
    while shown.turn == "you" {
        let wanted = twin.winning_moves(&shown.rows)[0];
        go_to(&browser, wanted);
        let aim = browser.text("#aim");
        let expected = format!("({}, {}) takes ", wanted.0, wanted.1);
        assert!(aim.starts_with(&expected), "{aim}");
        let last = browser.shown();
        browser.press(&[[Key::Enter, Key::Space][usize::from(last.at % 4 > 0)]]);
        shown = browser.wait_for_turn(last.moves.len() + 2);
    }
    assert_eq!(browser.text("#turn"), "You won");
    assert_eq!(browser.text("#said"), "The computer took the poison.");
    browser.wait_to_say("#verdict", "Perfect!");
    // The board is gone, and the focus is where another game begins.
    assert_eq!(browser.value("document.activeElement.id"), "again");
    browser.press(&[Key::Enter]);
    browser.wait("document.getElementById('turn').textContent === 'Your turn'");
    let again = browser.shown();
    assert_eq!((&*again.start, again.moves.len()), ("7,6,6,4,2", 0));
    browser.is_content();
}

#[test]
fn the_label_of_a_pressed_button_is_seen_under_the_pointer() {
    let Some(browser) = calm() else { return };
    let site = Site::new();
    browser.open(&site.url("/games/nim"));
    browser.wait("document.querySelector('#board .playable') !== null");
    for tool in ["#hints", "#values"] {
        browser.click(tool);
        let pressed = format!("{tool}:hover[aria-pressed=true]");
        assert_eq!(browser.number_of(&pressed), 1);
        let colours = format!("getComputedStyle(document.querySelector('{tool}'))");
        let [ink, ground] = ["color", "backgroundColor"]
            .map(|colour| browser.value(&format!("{colours}.{colour}")));
        assert_ne!(ink, ground);
    }
}

#[test]
fn the_computer_draws_among_moves_that_are_as_good() {
    let Some(browser) = calm() else { return };
    let site = Site::new();
    browser.play(&site, &[3, 2], "you");
    for choice in ["[value=typed]", "[name=first][value=computer]"] {
        browser.click(&format!("label:has({choice})"));
    }
    // Two moves win on 8 x 10. In the other position every move loses, and two single cells are left.
    for (start, first, last) in [("8x10", (4, 9), (5, 6)), ("4,1,1,1", (1, 4), (4, 1))] {
        for (drawn, expected) in [("0", first), ("0.999", last)] {
            browser.run(&format!("Math.random = () => {drawn};"));
            browser.run("history.replaceState(null, '', '#waiting');");
            browser.write("#typed", start);
            browser.click("#new-game");
            browser.wait("location.hash.startsWith('#start=')");
            assert_eq!(browser.wait_for_turn(1).moves, [expected], "{start}");
        }
    }
    // A pause is no motion.
    browser.play(&site, &[6, 6, 6], "you");
    browser.hold(500);
    browser.click(&cell((2, 5)));
    browser.wait_for_held();
    assert_eq!(browser.shown().moves, [(2, 5)]);
    browser.let_go();
    browser.wait_for_turn(2);
    browser.is_content();
}

/// Goes to a cell with the arrow keys. On the way every step is one cell.
fn go_to(browser: &Browser, wanted: (u32, u32)) {
    let at = || {
        let found = browser.value(
            "[[Number(document.activeElement.dataset.row), Number(document.activeElement.dataset.column)]]",
        );
        cells(&found)[0]
    };
    loop {
        let (row, column) = at();
        // Up and to the left first: there all cells are.
        let (key, next) = if column > wanted.1 {
            (Key::Left, (row, column - 1))
        } else if row > wanted.0 {
            (Key::Up, (row - 1, column))
        } else if row < wanted.0 {
            (Key::Down, (row + 1, column))
        } else if column < wanted.1 {
            (Key::Right, (row, column + 1))
        } else {
            return;
        };
        browser.press(&[key]);
        assert_eq!(at(), next);
    }
}

#[test]
fn hints_are_the_winning_moves() {
    let Some(browser) = calm() else { return };
    let (site, twin) = (Site::new(), Twin::new());
    let marked = || {
        let mut cells = cells(&browser.value(
            "[...document.querySelectorAll('#board .cell.hint')].map((cell) => [Number(cell.dataset.row), Number(cell.dataset.column)])",
        ));
        cells.sort_unstable();
        cells
    };
    browser.play(&site, &[3, 2], "you");
    browser.click("#hints");
    let positions = trials("positions with hints").seconds(2.0);
    positions.at_least(12).run(|seed| {
        let rows = twin.position(&mut Random::of(seed), seed % 3 == 0);
        browser.play(&site, &rows, "you");
        let winning = twin.winning_moves(&rows);
        browser.wait("!document.querySelector('#hint').hasAttribute('aria-busy')");
        let told = match winning.len() {
            0 => "No winning move".to_owned(),
            some => format!("{some} winning move"),
        };
        browser.wait_to_say("#hint", &told);
        assert_eq!(marked(), winning, "{rows:?}");
    });
    browser.click("#hints");
    assert_eq!(marked(), []);
    browser.is_content();
}

#[test]
fn hasty_clicks_do_no_harm() {
    // With motion the computer takes its time: half a second, or here as long as it takes to look.
    let Some(browser) = lively() else { return };
    let site = Site::new();
    browser.play(&site, &[8, 8, 8, 8, 8, 8], "you");
    browser.hold(500);
    browser.double_click(&cell((5, 5)));
    browser.wait_for_held();
    assert_eq!(browser.shown().moves, [(5, 5)]);
    // All cells at once, while the computer thinks.
    browser.run("for (const button of document.querySelectorAll('#board button')) button.click();");
    assert_eq!(browser.shown().moves, [(5, 5)]);
    browser.let_go();
    let shown = browser.wait_for_turn(2);
    assert_eq!(shown.moves.len(), 2, "{shown:?}");
    // And all at once when it is your turn: the first counts.
    browser.run(
        "for (const button of [...document.querySelectorAll('#board button')].reverse()) button.click();",
    );
    browser.let_go();
    let Shown { moves, .. } = browser.wait_for_turn(4);
    assert_eq!(moves.len(), 4, "{moves:?}");
    // A cell that is gone cannot be taken, and a game that was left does not go on.
    browser.run("document.querySelector('#board .gone').click();");
    browser.click(&cell((1, 2)));
    browser.wait_for_held();
    browser.click("#new-game");
    let shown = browser.shown();
    assert_eq!((shown.start.as_str(), shown.moves.len()), ("6,6,6,6", 0));
    browser.let_go();
    assert_eq!(browser.shown(), shown);
    browser.is_content();
}
