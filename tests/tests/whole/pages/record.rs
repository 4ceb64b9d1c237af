//! The record of a game: taken back, done again, looked at, linked to, and judged.

use chomp_testing::trials;

use super::browser::{Browser, calm};
use super::site::{Shown, Site, Twin, any_cell, cell, cells, take, text};
use crate::common::random::Random;

/// The positions of a game, from its start.
fn positions(start: &[u32], shown: &Shown) -> Vec<Vec<u32>> {
    let mut positions = vec![start.to_vec()];
    for &taken in &shown.moves {
        positions.push(take(positions.last().unwrap(), taken));
    }
    positions
}

/// Two moves of each, from which there is something left.
fn begun(browser: &Browser, site: &Site) -> Shown {
    browser.play(site, &[9, 9, 9, 9, 9, 9, 9], "you");
    browser.click(&cell((6, 8)));
    let shown = browser.wait_for_turn(2);
    let far = (1, *shown.rows.first().unwrap());
    browser.click(&cell(far));
    let shown = browser.wait_for_turn(4);
    assert_eq!((shown.moves.len(), shown.turn.as_str()), (4, "you"));
    shown
}

#[test]
fn moves_are_taken_back_and_done_again() {
    let Some(browser) = calm() else { return };
    let site = Site::new();
    let all = begun(&browser, &site);
    let positions = positions(&[9; 7], &all);
    for (button, at) in [("#undo", 2), ("#undo", 0), ("#redo", 2), ("#redo", 4)] {
        browser.click(button);
        let shown = browser.shown();
        assert_eq!((shown.at, &shown.rows), (at, &positions[at]));
        assert_eq!((&shown.moves, &*shown.turn), (&all.moves, "you"));
    }
    assert_eq!(browser.number_of("#redo:disabled"), 1);

    // Another move than before: what came after is forgotten.
    browser.click("#undo");
    browser.click(&cell((2, 2)));
    let shown = browser.wait_for_turn(4);
    assert_eq!(shown.moves[..3], [all.moves[0], all.moves[1], (2, 2)]);
    assert_eq!(browser.number_of("#redo:disabled"), 1);
    browser.is_content();
}

#[test]
fn each_step_can_be_looked_at_and_linked_to() {
    let Some(browser) = calm() else { return };
    let site = Site::new();
    let all = begun(&browser, &site);
    for (at, rows) in positions(&[9; 7], &all).iter().enumerate() {
        browser.click(&format!("#moves li:nth-child({}) button", at + 1));
        assert_eq!((browser.shown().at, &browser.shown().rows), (at, rows));
        browser.reload();
        browser.wait("document.body.dataset.turn !== undefined");
        let shown = browser.shown();
        assert_eq!(
            (shown.at, &shown.rows, &shown.moves),
            (at, rows, &all.moves)
        );
    }
    // The button copies this address.
    browser.run("navigator.clipboard.writeText = async (text) => { window.copied = text; };");
    browser.click("#link");
    browser.wait("window.copied === location.href");

    // The position that is looked at can be explored.
    browser.click("#moves li:nth-child(2) button");
    let looked = text(&browser.shown().rows);
    browser.click("#explore-it");
    browser.wait(&format!("location.hash === '#position={looked}' && document.querySelector('#facts dd')?.textContent === '{looked}'"));
    browser.back();
    browser.wait("document.body.dataset.turn !== undefined");
    browser.hurry();

    // At the computer's turn nothing goes on by itself, and it can be told to.
    browser.click("#moves li:nth-child(2) button");
    assert_eq!(browser.shown().turn, "computer");
    browser.click(&cell((1, 2)));
    assert_eq!(browser.shown().moves, all.moves, "it is not your turn");
    browser.click("#go-on");
    let before = browser.wait_for_turn(2);
    assert_eq!((before.moves.len(), before.at), (2, 2));

    // Moves are no places of their own: one step back is the game before, as it was.
    browser.click("#new-game");
    browser.wait("!location.hash.includes('moves')");
    let new = browser.shown();
    assert_ne!(new.start, before.start);
    browser.back();
    browser.wait("location.hash.includes('moves')");
    assert_eq!(browser.shown(), before);
    browser.forward();
    browser.wait("!location.hash.includes('moves')");
    assert_eq!(browser.shown(), new);
    browser.is_content();
}

#[test]
fn the_verdict_names_the_move_that_lost() {
    let Some(browser) = calm() else { return };
    let (site, twin) = (Site::new(), Twin::new());
    let games = trials("games that were given away").seconds(2.0);
    games.at_least(3).run(|seed| {
        let mut random = Random::of(seed);
        let (start, shown) = loop {
            let start = twin.position(&mut random, false);
            let mut shown = browser.play(&site, &start, "you");
            while shown.turn == "you" {
                browser.click(&cell(any_cell(&mut random, &shown.rows)));
                shown = browser.wait_for_turn(shown.moves.len() + 2);
            }
            if browser.text("#turn") == "The computer won" {
                break (start, shown);
            }
        };
        let positions = positions(&start, &shown);
        let mut yours = (0..shown.moves.len()).step_by(2);
        let gave_away = |&index: &usize| {
            !twin.is_losing(&positions[index]) && !twin.is_losing(&positions[index + 1])
        };
        let index = yours.rfind(gave_away).unwrap();
        let (row, column) = shown.moves[index];
        let number = index / 2 + 1;
        let expected = format!("Your move {number}, ({row}, {column}), let the computer win");
        browser.wait_to_say("#verdict", &expected);
        for (row, column) in twin.winning_moves(&positions[index]) {
            browser.wait_to_say("#verdict", &format!("({row}, {column})"));
        }
        let undo = "document.getElementById('undo').offsetTop";
        let at_the_end = browser.value(undo);
        browser.click("#verdict button");
        let looked = browser.shown();
        assert_eq!((looked.at, &looked.rows), (index, &positions[index]));
        // The move is marked, and those that would have won.
        let marked = |class: &str| {
            let mut marked = cells(&browser.value(&format!(
                "[...document.querySelectorAll('#board .{class}')].map((cell) => [Number(cell.dataset.row), Number(cell.dataset.column)])"
            )));
            marked.sort_unstable();
            marked
        };
        assert_eq!(marked("mistake"), [shown.moves[index]]);
        assert_eq!(marked("hint"), twin.winning_moves(&positions[index]));
        browser.wait_to_say("#said", "gave the win away");
        browser.click("#retry");
        let tried = browser.shown();
        assert_eq!((&tried.moves[..], tried.at), (&shown.moves[..index], index));
        assert_eq!((&*tried.turn, marked("mistake")), ("you", vec![]));
        assert_eq!(browser.value(undo), at_the_end, "a verdict moves nothing");
        browser.back();
        browser.wait_to_say("#verdict", &expected);
        browser.click("#again");
        let again = browser.shown();
        assert_eq!((again.start, again.moves.len()), (shown.start, 0));
    });
    // On a phone the end of a game is seen with what comes next.
    browser.resize(390, 844, true);
    browser.play(&site, &[10; 8], "you");
    browser.run("scrollTo(0, 0);");
    browser.click(&cell((1, 1)));
    browser.wait_to_say("#verdict", "let the computer win");
    let seen = "document.getElementById('retry').getBoundingClientRect().bottom <= innerHeight && scrollY === 0";
    assert_eq!(browser.value(seen), true);
    browser.is_content();
}
