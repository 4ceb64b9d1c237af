//! The small games beside Chomp, which need no table: their rules, and answers as JSON.

use axum::response::Response;
use chomp_games::{Effort, GameList, LosingList, Poisons};
use serde::Serialize;

use crate::answer::{Refusal, json, number};
use crate::question_threads::has_time;

/// The limits of a search. A board of 8x8 is within them, and takes 10 MiB.
pub(crate) const EFFORT: Effort = Effort {
    moves: 1 << 20,
    has_time,
};
/// The most moves of an answer, of some 200 bytes each. A board of 3x1000 has so many.
pub(crate) const LISTED_MOVES_MAX: usize = 3000;
/// The most positions of a list, of some 100 bytes each at the most.
pub(crate) const LISTED_MAX: usize = 1 << 14;
/// The most columns of lists and pictures of the game `poisons`.
const COLUMNS_MAX: usize = 300;

/// A game and its rules.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct GameRules {
    /// Its name in paths.
    pub(crate) name: &'static str,
    /// Its name for people.
    pub(crate) title: &'static str,
    /// Its rules, in five sentences.
    pub(crate) rules: &'static str,
}

pub(crate) const GAMES: [GameRules; 9] = [
    GameRules {
        name: "ichomp",
        title: "iChomp",
        rules: "Four boards of Chomp, the quadrants, meet in the middle of a bar of chocolate. A move takes a cell and all beyond it, outwards in both directions, in its quadrant. No cell is poisoned. Who takes the last cell wins. The value of a quadrant is the smallest number that no move there leads to, and who leaves values whose XOR is 0 can win.",
    },
    GameRules {
        name: "poisons",
        title: "Chomp with poisons",
        rules: "One or two cells of the board are poisoned, anywhere. A move takes a cell and all that is neither above nor left of it. Who takes a poison loses. Nobody may pass. A position is losing if every move either takes a poison or leaves a winning position.",
    },
    GameRules {
        name: "nim",
        title: "Nim",
        rules: "Counters lie in heaps. A move takes any number of counters, one at least, from one heap. Who takes the last counter wins; in misère play, who takes it loses. Write each heap in binary, one below the other. Who leaves an even number of ones in every column can win.",
    },
    GameRules {
        name: "towers",
        title: "Towers on a chessboard",
        rules: "In each column stands one tower of yours and one of the computer. A move takes one of your own towers along its column, forwards or back, as far as you like. It may not move onto the other tower or past it. Who cannot move loses. The gaps between the towers are heaps of Nim, and who moves back only lets the other one follow.",
    },
    GameRules {
        name: "horse",
        title: "The Trojan horse",
        rules: "One horse stands on a board, and both players move it. A move takes it two columns to the left and one row up, or one column to the left and two rows up. It may not leave the board. Who cannot move loses. The number in a square is the smallest that no move from there leads to, and who moves to a 0 can win.",
    },
    GameRules {
        name: "space",
        title: "Chomp in space",
        rules: "Cubes lie in rows, columns and layers, and the layers are drawn one after the other. A move takes a cube and all whose row, column and layer are not less. The first cube of the first layer is poisoned. Who takes it loses. If there is a last cube that every move takes, who is to move can win.",
    },
    GameRules {
        name: "divisors",
        title: "The game of divisors",
        rules: "All divisors of a number are there. A move takes a divisor and all its multiples. Who takes 1 loses. With two primes this is Chomp on a board, and with three it is Chomp in space. Every first move takes the number itself, so who begins can win from 2 on.",
    },
    GameRules {
        name: "crossed",
        title: "Crossed-out Chomp",
        rules: "Some cells of the board are crossed out, so they are not there. A move takes a cell and all that is neither above nor left of it. The cell in the upper left corner is poisoned. Who takes it loses. If the last cell of a rectangle is there, who begins can win.",
    },
    GameRules {
        name: "transfinite",
        title: "Transfinite Chomp",
        rules: "Rows and columns of the board may go on without end. A move takes a cell and all that is neither above nor left of it. Who takes the poisoned cell in the corner loses. Every game ends, but nobody can say beforehand after how many moves. Of all boards without end three are losing: two rows, two columns, and one row with one column.",
    },
];

pub(crate) fn position(game: &str, text: &str) -> Result<Response, Refusal> {
    let (position, rules) = text.split_once('@').unwrap_or((text, ""));
    let answer = chomp_games::open(game, rules, EFFORT)?.answer(position)?;
    within(answer.moves.len(), LISTED_MOVES_MAX, "moves")?;
    Ok(json(&answer))
}

fn within(size: usize, limit: usize, what: &str) -> Result<(), Refusal> {
    if size > limit {
        let what = format!("this is too large to be told here: the limit is {limit} {what}");
        return Err(Refusal::Wrong(what));
    }
    Ok(())
}

fn sized(text: &str) -> Result<(u32, &str), Refusal> {
    let (size, rules) = text.split_once('@').unwrap_or((text, ""));
    let number = number(size).ok_or_else(|| {
        Refusal::Wrong(format!(
            "\"{text}\" is no size: write a number, and rules behind it, as 20 or 20@misere"
        ))
    });
    Ok((number?, rules))
}

/// The losing positions up to the size in `text`. With `fixed`, only those in which one row has a given length.
pub(crate) fn listed(game: String, text: &str, fixed: Option<String>) -> Result<Response, Refusal> {
    let (size, rules) = sized(text)?;
    if game == "poisons" {
        within(size as usize, COLUMNS_MAX, "columns")?;
    } else if fixed.is_some() {
        let what = "there are pictures of the game poisons only";
        return Err(Refusal::Wrong(what.to_owned()));
    }
    let losing = if let Some(fixed) = &fixed {
        let (rows, _) = Poisons::parse(rules, EFFORT)?.picture(size, fixed)?;
        LosingList::Rows(rows)
    } else {
        let positions = chomp_games::open(&game, rules, EFFORT)?.list(size)?;
        within(positions.len(), LISTED_MAX, "positions")?;
        LosingList::Positions(positions)
    };
    Ok(json(&GameList {
        game,
        rules: rules.to_owned(),
        size,
        fixed,
        losing,
    }))
}
