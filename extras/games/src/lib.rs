//! Small impartial games, each with its rules, the theorem that solves it, and a search that checks the theorem.
//!
//! Two players move in turn, and both have the same moves. A position is **losing** if no move leads to a losing
//! position. Its **value** (Sprague-Grundy) is the smallest number, from 0, that no move leads to; it is 0 exactly
//! in losing positions, and the value of several games side by side is the XOR of theirs.
//!
//! | module | holds |
//! |---|---|
//! | `game` | what a game is: positions, moves, who has won |
//! | `search` | outcomes and values by their definition, for any game |
//! | `sum` | games side by side, and the columns of binary digits that explain them |
//! | `answer` | a game as people and programs ask it: texts in, answers out |
//! | `text`, `board` | positions as text; the boards of Chomp |
//! | `ichomp`, `poisons`, `nim`, `towers`, `horse`, `transfinite` | the games |
//! | `orders` | Chomp on any finite order; `space`, `divisors`, `crossed` are such games |
//!
//! # What always holds
//!
//! * Nothing of the project, no I/O, no threads, no clock.

mod answer;
mod board;
mod crossed;
mod divisors;
mod error;
mod game;
mod horse;
mod ichomp;
mod nim;
mod orders;
mod poisons;
mod search;
mod space;
mod sum;
mod text;
mod towers;
mod transfinite;

#[cfg(test)]
mod tests;

pub use answer::{Choice, GameAnswer, GameList, LosingList, Playable};
pub use error::GameError;
pub use game::Move;
use orders::Orders;
pub use poisons::{Picture, Poisons};
pub use search::Effort;
pub use sum::Summand;

/// The names of the games.
pub const NAMES: [&str; 9] = [
    "ichomp",
    "poisons",
    "nim",
    "towers",
    "horse",
    "space",
    "divisors",
    "crossed",
    "transfinite",
];

/// The game of a name, by the rules that stand behind the `@` of its positions; no text for the usual rules. `effort`
/// is the most that an answer may take. Fails if there is no such game, or it has no such rules.
pub fn open(name: &str, rules: &str, effort: Effort) -> Result<Box<dyn Playable>, GameError> {
    Ok(match (name, rules) {
        ("ichomp", "") => Box::new(ichomp::IChomp(effort)),
        ("poisons", _) => Box::new(Poisons::parse(rules, effort)?),
        ("nim", _) => Box::new(nim::Nim::parse(rules)?),
        ("towers", "") => Box::new(towers::CHESSBOARD),
        ("horse", "") => Box::new(horse::Horse),
        ("space", "") => Box::new(Orders(space::Space, effort)),
        ("divisors", "") => Box::new(Orders(divisors::Divisors, effort)),
        ("crossed", _) => Box::new(Orders(crossed::Crossed::parse(rules)?, effort)),
        ("transfinite", "") => Box::new(transfinite::Transfinite(effort)),
        _ => {
            return Err(GameError::syntax(
                &[name, rules].join("@"),
                "a game, and rules that it has",
            ));
        }
    })
}

/// The first cell in a game's `rules` that is not on a board, as a clause of a message: a poison there was taken or
/// never was one, and a cell there cannot be crossed out. An empty board has none. Fails if either is not understood.
pub fn stray_cell(name: &str, board: &str, rules: &str) -> Result<Option<String>, GameError> {
    let cells = match name {
        "poisons" if !rules.is_empty() => Poisons::parse(rules, Effort::USUAL)?.cells,
        "crossed" => crossed::Crossed::parse(rules)?.0,
        _ => return Ok(None),
    };
    let rows = board::parse(board)?;
    let mut stray = cells.iter().filter(|&&cell| !board::has(&rows, cell));
    let stray = stray.next().filter(|_| !rows.is_empty());
    Ok(stray.map(|(row, column)| {
        let board = board::name(&rows);
        format!("the cell ({row},{column}) is not on the board {board}")
    }))
}
