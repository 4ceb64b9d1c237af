//! The small games: each is played and won by clicks and by keys, and what a page shows is what follows from the moves
//! alone.

use std::collections::HashMap;

use super::browser::{Browser, Key, calm};
use super::site::{Site, number};
use chomp_games::{Choice, Effort, GameAnswer, GameError, Move};

/// Games that who begins can win, and what is said when you have.
const WON: [(&str, &str, &str); 14] = [
    ("ichomp", "2x3/3x2/3,1/2", "You took the last cell."),
    ("poisons", "3x5@1,1@2,2", "The computer took a poison."),
    ("poisons", "3,3,2,1@2,1", "The computer took a poison."),
    ("nim", "3,4,5", "You took the last counter."),
    ("nim", "1,2,4@misere", "The computer took the last counter."),
    ("towers", "1-8,2-6,5-3", "The computer cannot move."),
    ("horse", "6,8", "The computer cannot move."),
    ("space", "3x3x2", "The computer took the poison."),
    ("space", "3,2/3,1/1", "The computer took the poison."),
    ("divisors", "72", "The computer took 1."),
    ("divisors", "420/12", "The computer took 1."),
    ("crossed", "4x5@2,3@4,5", "The computer took the poison."),
    ("transfinite", "3xw", "The computer took the poison."),
    ("transfinite", "wx1", "The computer took the poison."),
];

/// All about a position; the rules stand in the text, behind `@`.
fn answer(game: &str, text: &str) -> Result<GameAnswer, GameError> {
    let (position, rules) = text.split_once('@').unwrap_or((text, ""));
    chomp_games::open(game, rules, Effort::USUAL)?.answer(position)
}

/// Outcomes and values by their definition, from the moves alone.
#[derive(Debug, Default)]
struct Twin(HashMap<String, (bool, Option<u32>)>);

impl Twin {
    /// Whether a position is losing, and its value: the smallest number that no move leads to.
    fn of(&mut self, game: &str, position: &str) -> (bool, Option<u32>) {
        if let Some(&known) = self.0.get(position) {
            return known;
        }
        let told = answer(game, position).unwrap();
        let next: Vec<_> = moves(game, position, &told.moves)
            .map(|choice| self.of(game, &choice.position))
            .collect();
        let losing = if told.over {
            told.losing
        } else {
            next.iter().all(|&(losing, _)| !losing)
        };
        let reached = |value: &u32| next.iter().any(|&(_, next)| next == Some(*value));
        let value = (0..=u32::MAX).find(|value| !reached(value));
        let value = value.filter(|_| !told.over || told.losing);
        // A board that goes on without end may have a value that is no number.
        let is_endless = position.contains('w') || position.ends_with("...");
        let value = value.filter(|_| !is_endless || losing);
        self.0.insert(position.to_owned(), (losing, value));
        (losing, value)
    }

    /// Moves that are no way back come first.
    fn winning_moves(&mut self, game: &str, position: &str) -> Vec<Move> {
        let told = answer(game, position).unwrap();
        let winning = told.moves.iter();
        let winning = winning.filter(|choice| self.of(game, &choice.position).0);
        winning.map(|choice| choice.name.clone()).collect()
    }
}

/// All moves, but those of towers that go back: they may go round in circles, and never win.
fn moves<'a>(game: &str, position: &str, all: &'a [Choice]) -> impl Iterator<Item = &'a Choice> {
    let gaps = |text: &str| -> u32 {
        let columns = text.split(',').filter_map(|column| column.split_once('-'));
        let row = |text: &str| text.parse::<u32>().unwrap();
        columns
            .map(|(own, other)| row(own).abs_diff(row(other)))
            .sum()
    };
    let now = (game == "towers").then(|| gaps(position));
    let all = all.iter();
    all.filter(move |choice| now.is_none_or(|now| gaps(&choice.position) < now))
}

/// A game as its page shows it.
#[derive(Debug)]
struct Shown {
    turn: String,
    position: String,
    moves: usize,
}

impl Browser {
    fn game(&self, game: &str) -> Shown {
        let found = self.run(
            "const fields = new URLSearchParams(location.hash.slice(1));
             return [document.body.dataset.turn, fields.get('start'), fields.get('moves') ?? '', fields.get('at') ?? ''];",
        );
        let text = |index: usize| found[index].as_str().unwrap_or("").to_owned();
        let mut position = answer(game, &text(1)).unwrap().position;
        let all = text(2);
        let all: Vec<&str> = all.split('_').filter(|name| !name.is_empty()).collect();
        let at = text(3).parse().unwrap_or(all.len());
        for name in &all[..at] {
            let numbers = name.split('-').map(|number| number.parse().unwrap());
            let name: Move = numbers.collect();
            let told = answer(game, &position).unwrap();
            let choice = told.moves.iter().find(|choice| choice.name == name);
            position.clone_from(&choice.expect("a legal move").position);
        }
        Shown {
            turn: text(0),
            position,
            moves: all.len(),
        }
    }

    /// Waits until `moves` moves were made, it is not the computer's turn, and the server has answered.
    fn wait_for_game(&self, game: &str, moves: usize) -> Shown {
        self.wait_for_moves(moves);
        self.wait("document.body.dataset.turn === 'over' || document.querySelector('#board .playable') !== null");
        self.game(game)
    }

    fn open_game(&self, site: &Site, game: &str, start: &str) -> Shown {
        self.open("about:blank");
        let start = start.replace('@', "%40").replace('/', "%2F");
        self.open(&site.url(&format!("/games/{game}#start={start}&first=you")));
        self.wait("document.body.dataset.turn !== undefined");
        self.hurry();
        self.wait_for_game(game, 0)
    }
}

fn square(name: &Move) -> String {
    let numbers: Vec<String> = name.iter().map(u32::to_string).collect();
    format!("#board button[data-move=\"{}\"]", numbers.join("-"))
}

/// The texts in the squares, by their moves.
fn texts(browser: &Browser) -> HashMap<String, String> {
    let found = browser.run(
        "return Object.fromEntries([...document.querySelectorAll('#board button.valued:not(.gone)')]
            .map((button) => [button.dataset.move, button.textContent]));",
    );
    serde_json::from_value(found).unwrap()
}

/// Compares the values in the squares with the definition.
fn compare(browser: &Browser, twin: &mut Twin, game: &str, position: &str) {
    let told = answer(game, position).unwrap();
    let shown = texts(browser);
    for choice in &told.moves {
        let name: Vec<String> = choice.name.iter().map(u32::to_string).collect();
        let expected = match game {
            "ichomp" => {
                let quadrant = choice.name[0] as usize - 1;
                let board = choice.position.split('/').nth(quadrant);
                twin.of(game, board.unwrap()).1
            }
            "poisons" | "horse" | "space" | "crossed" | "transfinite" => {
                twin.of(game, &choice.position).1
            }
            _ => None,
        };
        let found = shown.get(&name.join("-"));
        let expected = expected.map(|value| value.to_string());
        // A move that takes a poison has no value, and says so beside it.
        let poison = format!("@{}", name.join(","));
        let is_poison = position.contains(&poison);
        let loses = || (game == "poisons" && !is_poison).then(|| "✕".to_owned());
        let expected = expected.or_else(loses);
        assert_eq!(found, expected.as_ref(), "{game} {position} {name:?}");
    }
}

#[test]
fn each_game_is_won_by_clicks_and_keys_and_shows_what_the_definition_says() {
    let Some(browser) = calm() else { return };
    let site = Site::new();
    for (game, start, end) in WON {
        let mut twin = Twin::default();
        let mut shown = browser.open_game(&site, game, start);
        browser.click_at_once("#hints");
        browser.click_at_once("#values");
        while shown.turn == "you" {
            compare(&browser, &mut twin, game, &shown.position);
            let winning = twin.winning_moves(game, &shown.position);
            let told = format!("{} winning move", winning.len());
            browser.wait_to_say("#hint", &told);
            let marked = browser.number_of("#board .hint");
            assert_eq!(marked, winning.len() as u64, "{game} {shown:?}");
            let wanted = &winning[0];
            // The first moves by keys, the others by clicks.
            if shown.moves < 4 {
                go_to(&browser, wanted);
                browser.press(&[Key::Enter]);
            } else {
                browser.click(&square(wanted));
            }
            shown = browser.wait_for_game(game, shown.moves + 2);
        }
        assert_eq!(browser.text("#turn"), "You won", "{game} {start} {shown:?}");
        assert_eq!(browser.text("#said"), end, "{game} {start}");
        browser.wait_to_say("#verdict", "Perfect!");
        let focus = browser.value("document.activeElement.id");
        assert_eq!(focus, "again", "{game}");
    }
    browser.is_content();
}

/// Goes to a square: to the board with Tab, and on it with the arrow keys, along the column first where there is one.
fn go_to(browser: &Browser, wanted: &Move) {
    let mut tabs = 0;
    while browser.value("document.activeElement.closest('#board') !== null") == false {
        browser.press(&[Key::Tab]);
        tabs += 1;
        assert!(tabs < 12, "the board is not reached");
    }
    let place = |css: &str| {
        let place = format!("[{css}.dataset.row, {css}.dataset.column].map(Number)");
        let found = browser.value(&place);
        (number(&found[0]), number(&found[1]))
    };
    let to = place(&format!("document.querySelector({:?})", square(wanted)));
    for step in 0..400 {
        let at = place("document.activeElement");
        if at == to {
            return;
        }
        let down = if at.0 < to.0 { Key::Down } else { Key::Up };
        let right = if at.1 < to.1 { Key::Right } else { Key::Left };
        let is_down = at.1 == to.1 || at.0 != to.0 && step % 2 == 0;
        // Where something is in the way, another way leads there.
        let around = [Key::Up, Key::Left, Key::Down, Key::Right];
        if step % 5 == 4 {
            browser.press(&around[step / 5 % 4..][..1]);
            continue;
        }
        browser.press(&[if is_down { down } else { right }]);
    }
    panic!("{wanted:?} is not reached");
}

#[test]
fn each_game_begins_with_its_name_its_aim_and_starts_that_can_be_won() {
    let Some(browser) = calm() else { return };
    let site = Site::new();
    for game in chomp_games::NAMES {
        browser.open("about:blank");
        browser.open(&site.url(&format!("/games/{game}")));
        browser.wait("document.querySelector('#board .playable') !== null");
        assert!(!browser.is_hidden("h1") && !browser.is_hidden("#goal"));
        let named = browser.text("h1") + ". " + &browser.text("#goal");
        assert!(named.contains(". Whoever "), "{game}: {named}");
        let options = browser.value(
            "[...document.querySelectorAll('#starts option')].map((option) => [option.value, option.text])",
        );
        let options: Vec<[String; 2]> = serde_json::from_value(options).unwrap();
        for [start, name] in options {
            let told = answer(game, &start).unwrap();
            assert!(!told.losing && !told.over, "{game} {start}");
            let is_text_of_position = name == start || name.contains(['@', '/', '.']);
            assert!(!is_text_of_position && name.contains(' '), "{name}");
        }
        // Values would show which move wins.
        let shown = browser.number_of("#board .valued, #values[aria-pressed=true]");
        assert_eq!((shown, browser.is_hidden("#extra")), (0, true), "{game}");
        if game == "poisons" {
            browser.wait("document.querySelector('#drawing text') !== null");
            let height = "document.querySelector('#drawing text').getBoundingClientRect().height";
            let is_like_other_type = format!("{height} > 8 && {height} < 20");
            assert_eq!(browser.value(&is_like_other_type), true);
        }
    }
    browser.is_content();
}

/// As on a site of files, where pages have other addresses.
#[test]
fn a_page_knows_its_game_at_any_address() {
    let Some(browser) = calm() else { return };
    let site = Site::new();
    browser.open_game(&site, "nim", "3,4,5");
    browser.run(
        "document.getElementById('starts').remove();
         document.getElementById('board').replaceChildren();
         history.replaceState(null, '', 'nim.html');
         return import('../assets/game.js?again');",
    );
    browser.wait("document.querySelectorAll('#board button').length === 12");
    browser.is_content();
}

#[test]
fn what_is_no_position_or_link_is_refused() {
    let Some(browser) = calm() else { return };
    let site = Site::new();
    for (game, typed, reason) in [
        ("nim", "", "Write a position"),
        ("nim", "0,0", "over before it begins"),
        ("nim", "3,x", "is not understood"),
        ("ichomp", "12x12", "too large"),
        ("horse", "100,100", "too large to be drawn"),
        ("towers", "<img src=x onerror=alert(1)>", "not understood"),
    ] {
        browser.open(&site.url(&format!("/games/{game}")));
        browser.wait("document.querySelector('#board .playable') !== null");
        browser.click("label:has([value=typed])");
        browser.write("#typed", typed);
        browser.click("#new-game");
        browser.wait_to_say("#wrong", reason);
    }
    browser.open("about:blank");
    browser.open(&site.url("/games/nim#start=3,4,5&moves=1-7"));
    browser.wait_to_say("#notice", "Move 1 is none that can be made");
    // The browser writes down each answer that is a refusal.
    browser.complaints();
}

#[test]
fn random_starts_can_be_won_and_mistakes_are_made_if_wanted() {
    let Some(browser) = calm() else { return };
    let site = Site::new();
    for game in chomp_games::NAMES {
        browser.open(&site.url(&format!("/games/{game}")));
        browser.wait("document.querySelector('#board .playable') !== null");
        browser.click("label:has([value=random])");
        for _ in 0..2 {
            browser.run("history.replaceState(null, '', '#waiting');");
            browser.click("#new-game");
            browser.wait("location.hash.startsWith('#start=')");
            let shown = browser.wait_for_game(game, 0);
            let told = answer(game, &shown.position).unwrap();
            assert!(!told.losing, "{game} {shown:?}");
        }
    }
    // The computer can win this, and does not always.
    browser.open(&site.url("/games/horse"));
    browser.wait("document.querySelector('#board .playable') !== null");
    browser.click("label:has([value=human])");
    browser.click("label:has([name=first][value=computer])");
    let mut twin = Twin::default();
    assert!(!twin.of("horse", "6,8").0);
    for _ in 0..80 {
        browser.run("history.replaceState(null, '', '#waiting');");
        browser.click("#new-game");
        browser.wait("location.hash.startsWith('#start=')");
        let shown = browser.wait_for_game("horse", 1);
        if shown.turn == "you" && !twin.of("horse", &shown.position).0 {
            return;
        }
    }
    panic!("no mistake was made");
}

#[test]
fn squares_are_crossed_out_by_clicks_and_the_rest_is_played() {
    let Some(browser) = calm() else { return };
    let site = Site::new();
    browser.open_game(&site, "crossed", "3x4");
    browser.click("#cross-out");
    // The poison stays.
    browser.click(&square(&vec![1, 1]));
    for (cell, start) in [([2, 3], "3x4@2,3"), ([3, 4], "4,4,3@2,3")] {
        browser.click(&square(&cell.to_vec()));
        let gone = format!(
            "document.querySelector({:?}) === null",
            square(&cell.to_vec())
        );
        browser.wait(&gone);
        let shown = browser.wait_for_game("crossed", 0);
        assert_eq!(shown.position, start);
    }
    browser.click("#cross-out");
    browser.click(&square(&vec![2, 2]));
    let shown = browser.wait_for_game("crossed", 2);
    assert!(
        shown.moves == 2 && !shown.position.contains('@'),
        "{shown:?}"
    );
    browser.is_content();
}
