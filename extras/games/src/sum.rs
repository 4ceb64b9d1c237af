//! Games side by side: a move is a move in one of them.
//!
//! In normal play the value of a sum is the XOR of the values (Sprague 1935, Grundy 1939). So it is losing if and
//! only if each column of their binary digits has an even number of ones; and where a column is odd, some value has
//! a one in the highest such column: moving this game from value v to v XOR (the XOR of all) makes all columns even.

use serde::Serialize;

use crate::game::{Game, Move};

/// Positions of one game, in normal play. A move is the number of a position, from 1, and a move there.
#[derive(Debug)]
pub(crate) struct Sum<G>(pub(crate) G);

impl<G: Game> Game for Sum<G> {
    type Position = Vec<G::Position>;

    fn moves(&self, position: &Vec<G::Position>) -> Vec<(Move, Vec<G::Position>)> {
        let mut moves = Vec::new();
        for (number, (index, part)) in (1..).zip(position.iter().enumerate()) {
            for (inner, left) in self.0.moves(part) {
                let mut next = position.clone();
                next[index] = left;
                moves.push(([vec![number], inner].concat(), next));
            }
        }
        moves
    }
}

/// A part of a sum, and its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Summand {
    /// The name and the number, as `heap 2`.
    pub name: String,
    /// Its value.
    pub value: u32,
    /// The value in binary, with as many digits as the other parts have.
    pub binary: String,
}

/// The parts of a sum, named and numbered, if they have a name.
pub(crate) fn named(name: &str, values: &[u32]) -> Vec<Summand> {
    let most = values.iter().copied().max().unwrap_or(0).max(1);
    let digits = most.ilog2() as usize + 1;
    let part = |(number, &value): (usize, &u32)| Summand {
        name: format!("{name} {number}"),
        value,
        binary: format!("{value:0digits$b}"),
    };
    let named = values.iter().filter(|_| !name.is_empty());
    (1..).zip(named).map(part).collect()
}

pub(crate) fn xor(values: &[u32]) -> u32 {
    values.iter().fold(0, |all, value| all ^ value)
}

/// The columns of binary digits, with the XOR below, and what follows from them.
pub(crate) fn explain(parts: &[Summand]) -> Vec<String> {
    let total = parts.iter().fold(0, |all, part| all ^ part.value);
    let digits = parts.first().map_or(1, |part| part.binary.len());
    let width = parts.iter().map(|part| part.name.len()).max().unwrap_or(0);
    let line = |name: &str, value| format!("{name:width$} {value:4}  {value:0digits$b}");
    let lines = parts.iter().map(|part| line(&part.name, part.value));
    let mut lines: Vec<String> = lines.chain([line("XOR", total)]).collect();
    let Some(highest) = total.checked_ilog2() else {
        lines.push("Every column has an even number of ones: each move makes one odd.".into());
        return lines;
    };
    let odd = parts.iter().filter(|part| part.value >> highest & 1 == 1);
    let change = |part: &Summand| {
        format!(
            "{} from {} to {}",
            part.name,
            part.value,
            part.value ^ total
        )
    };
    let changes: Vec<String> = odd.map(change).collect();
    lines.push(format!("To make all columns even: {}.", changes.join(", ")));
    lines
}

/// All ways to choose at most `most` of some games, given by size, value and what they are, the same one again if need
/// be, that have no larger size together and the XOR 0: the small ones first, and in each the last of the games first.
pub(crate) fn balanced<T: Clone>(games: &[(u32, u32, T)], most: usize, size: u32) -> Vec<Vec<T>> {
    // The numbers of the games, their size, their XOR.
    let mut chosen = vec![(Vec::new(), 0, 0)];
    let mut at = 0;
    while let Some((numbers, used, xor)) = chosen.get(at).cloned() {
        let last = numbers.last().map_or(games.len(), |last| last + 1);
        let fits = |&number: &usize| numbers.len() < most && used + games[number].0 <= size;
        for number in (0..last).filter(fits) {
            let (more, value, _) = games[number];
            chosen.push(([&numbers[..], &[number]].concat(), used + more, xor ^ value));
        }
        at += 1;
    }
    chosen.retain(|&(_, _, xor)| xor == 0);
    chosen.sort_by_key(|&(_, used, _)| used);
    let game = |number: usize| games[number].2.clone();
    let games = |(numbers, ..): (Vec<usize>, _, _)| numbers.into_iter().map(game).collect();
    chosen.into_iter().map(games).collect()
}
