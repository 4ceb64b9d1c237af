//! Chomp on a finite order with a least element. A move takes an element and all above it. Who takes the least loses.
//!
//! **Theorem** (strategy stealing). If there are two elements or more and one is above all others, who is to move wins.
//! If taking the greatest element wins, that is a winning move. If not, the other player has a winning reply. The
//! reply takes the greatest element too, so it leaves the same when it is the first move.
//!
//! The proof names no winning move, so all positions that can come of one are searched. A position is the set of the
//! elements that are left: with each element all below it.

use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use crate::answer::{GameAnswer, Theory};
use crate::error::GameError;
use crate::game::{Game, GameValue, Move};
use crate::search::{Effort, search};
use crate::text::list;

pub(crate) const ELEMENTS_MAX: usize = 128;

/// A game of this kind: which orders it has, and how people write them. An element is the move that takes it.
pub(crate) trait Elements: Debug {
    const NAME: &'static str;
    /// The noun for an element, in texts.
    const WORD: &'static str;
    /// The largest size of a list, and what it counts.
    const SIZE_MAX: (usize, &'static str);
    /// The text of the position of size N from which all others in a list come.
    const LARGEST: &'static str;

    /// The elements of the position that a text means, in ascending order. They may end behind [`ELEMENTS_MAX`].
    fn parse(&self, text: &str) -> Result<Vec<Move>, GameError>;

    /// The text of a position: the same if the same elements are left.
    fn text(elements: &[&Move]) -> String;

    fn takes(lower: &[u32], upper: &[u32]) -> bool {
        lower.iter().zip(upper).all(|(lower, upper)| lower <= upper)
    }

    /// A drawing of the position of an answer, line by line: cells by rows and columns, and layers side by side. `x` is
    /// the least, `O` a move that wins, `.` one that does not, and `-` is not there, but another one beyond it.
    fn draw(answer: &GameAnswer) -> Vec<String> {
        let cells = answer.moves.iter().map(|choice| &choice.name);
        let most = |at| cells.clone().map(|cell| *cell.get(at).unwrap_or(&1)).max();
        let [rows, columns, layers] = [0, 1, 2].map(|at| most(at).unwrap_or(0));
        let line = |row| {
            let mut line = String::new();
            for layer in 1..=layers {
                for column in 1..=columns {
                    let cell = [row, column, layer];
                    let mut beyond = answer.moves.iter();
                    line += match beyond.find(|other| Self::takes(&cell, &other.name)) {
                        None => "  ",
                        Some(choice) if !cell.starts_with(&choice.name) => "- ",
                        Some(_) if cell == [1; 3] => "x ",
                        Some(choice) if choice.losing => "O ",
                        Some(_) => ". ",
                    };
                }
                line += "  ";
            }
            line.trim_end().to_owned()
        };
        (1..=rows).map(line).collect()
    }
}

#[derive(Debug)]
pub(crate) struct Orders<E>(pub(crate) E, pub(crate) Effort);

/// A position: the elements of an order that are left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    /// All elements of the order, each with a mask of those that are taken with it.
    order: Rc<[(Move, u128)]>,
    mask: u128,
}

/// The positions of a search have the order in common.
impl Hash for Left {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.mask.hash(state);
    }
}

impl Left {
    fn elements(&self) -> impl Iterator<Item = &(Move, u128)> {
        let all = self.order.iter().enumerate();
        let left = all.filter(|(at, _)| self.mask >> at & 1 == 1);
        left.map(|(_, element)| element)
    }
}

impl<E: Elements> Game for Orders<E> {
    type Position = Left;

    fn moves(&self, left: &Left) -> Vec<(Move, Left)> {
        let take = |(element, taken): &(Move, u128)| {
            let (order, mask) = (Rc::clone(&left.order), left.mask & !taken);
            (element.clone(), Left { order, mask })
        };
        left.elements().map(take).collect()
    }

    /// The other one took the last element, which is the least.
    fn end_is_won(&self, _: &Left) -> bool {
        true
    }
}

impl<E: Elements> Theory for Orders<E> {
    const NAME: &'static str = E::NAME;

    fn position(&self, text: &str) -> Result<Left, GameError> {
        let elements = self.0.parse(text)?;
        GameError::check(elements.len(), ELEMENTS_MAX, E::WORD)?;
        let with_taken = |lower: &Move| {
            let taken = (0..)
                .zip(&elements)
                .filter(|(_, upper)| E::takes(lower, upper));
            (
                lower.clone(),
                taken.fold(0, |mask, (at, _): (u32, _)| mask | 1 << at),
            )
        };
        let order: Rc<[_]> = elements.iter().map(with_taken).collect();
        let mask = order.first().map_or(0, |least| least.1);
        Ok(Left { order, mask })
    }

    fn text(&self, left: &Left) -> String {
        let elements: Vec<&Move> = left.elements().map(|(element, _)| element).collect();
        E::text(&elements)
    }

    fn verdicts(&self, all: &[Left], _: &[Vec<u32>]) -> Result<Vec<GameValue>, GameError> {
        let solution = search(self, [all[0].clone()], self.1)?;
        let verdict = |left| solution.verdict(left).expect("it comes of the first");
        Ok(all.iter().map(verdict).collect())
    }

    fn explain(&self, _: &Left, answer: &GameAnswer) -> Vec<String> {
        let mut lines = E::draw(answer);
        let all: Vec<&Move> = answer.moves.iter().map(|choice| &choice.name).collect();
        if let [_, .., last] = all[..]
            && all.iter().all(|other| E::takes(other, last))
        {
            let why = "so who is to move wins: an answer to that could have come first.";
            lines.push(format!("Every move takes ({}), {why}", list(last)));
        }
        lines
    }

    fn losing(&self, size: u32) -> Result<Vec<Left>, GameError> {
        let (size_max, what) = E::SIZE_MAX;
        GameError::check(size as usize, size_max, what)?;
        let largest = self.position(&E::LARGEST.replace('N', &size.to_string()))?;
        let solution = search(self, [largest], self.1)?;
        let mut losing: Vec<Left> = solution.losing().cloned().collect();
        losing.sort_by_key(|left| (left.mask.count_ones(), left.mask));
        Ok(losing)
    }
}
