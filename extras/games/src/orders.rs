//! Chomp on a finite order with a least element. A move takes an element and all above it. Who takes the least element
//! loses.
//!
//! **Theorem** (strategy stealing). If there are two elements or more and one is above all others, who is to move wins.
//! If taking the greatest element wins, that is a winning move. If not, the other player has a winning reply. The
//! reply takes the greatest element too, so it leaves the same when it is the first move.
//!
//! The proof names no winning move, so all positions that can come of one are searched.
//!
//! A position is the set of the elements that are left: with each element all below it.

use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use crate::answer::{GameAnswer, Theory};
use crate::error::GameError;
use crate::game::{Game, GameValue, Move};
use crate::search::search_within;
use crate::text::list;

/// The most elements of an order.
pub(crate) const ELEMENTS_MAX: usize = 128;

/// A game of this kind: which orders it has, and how people write them. An element is the move that takes it.
pub(crate) trait Elements: Debug {
    const NAME: &'static str;
    /// What an element is.
    const WORD: &'static str;
    /// The largest size of a list, and what it counts.
    const SIZE_MAX: (usize, &'static str);

    /// The elements of the position that a text means, in ascending order. They may end behind [`ELEMENTS_MAX`].
    fn parse(&self, text: &str) -> Result<Vec<Move>, GameError>;

    /// The text of a position: the same if the same elements are left.
    fn text(elements: &[&Move]) -> String;

    /// The text of the position of a size of which all others in a list come.
    fn largest(size: u32) -> String;

    /// Whether who takes `lower` takes `upper` too.
    fn takes(lower: &[u32], upper: &[u32]) -> bool {
        lower.iter().zip(upper).all(|(lower, upper)| lower <= upper)
    }

    /// A drawing of the position of an answer, line by line.
    fn draw(answer: &GameAnswer) -> Vec<String>;
}

/// Chomp on the orders of a kind.
#[derive(Debug)]
pub(crate) struct Orders<E> {
    elements: E,
    /// The most moves that a search for an answer follows.
    moves_max: usize,
}

/// An order.
#[derive(Debug, PartialEq, Eq)]
struct Order {
    elements: Vec<Move>,
    /// For each element a mask of all that are taken with it.
    taken: Vec<u128>,
}

/// What is left of an order: a mask of elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    order: Rc<Order>,
    mask: u128,
}

/// The positions of a search have the order in common.
impl Hash for Left {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.mask.hash(state);
    }
}

impl Left {
    /// The elements and what a move leaves of them.
    fn elements(&self) -> impl Iterator<Item = (&Move, u128)> {
        let all = self.order.elements.iter().zip(&self.order.taken);
        let left = all.enumerate().filter(|(at, _)| self.mask >> at & 1 == 1);
        left.map(|(_, (element, taken))| (element, self.mask & !taken))
    }
}

impl<E: Elements> Orders<E> {
    pub(crate) fn new(elements: E, moves_max: usize) -> Orders<E> {
        Orders {
            elements,
            moves_max,
        }
    }
}

impl<E: Elements> Game for Orders<E> {
    type Position = Left;

    fn moves(&self, left: &Left) -> Vec<(Move, Left)> {
        let order = || Rc::clone(&left.order);
        let all = left.elements().map(|(element, mask)| {
            let order = order();
            (element.clone(), Left { order, mask })
        });
        all.collect()
    }

    fn choices(&self, left: &Left) -> usize {
        left.mask.count_ones() as usize
    }

    /// The other one took the last element, which is the least.
    fn end_is_won(&self, _: &Left) -> bool {
        true
    }
}

impl<E: Elements> Theory for Orders<E> {
    const NAME: &'static str = E::NAME;

    fn position(&self, text: &str) -> Result<Left, GameError> {
        let elements = self.elements.parse(text)?;
        GameError::check(elements.len(), ELEMENTS_MAX, E::WORD)?;
        let taken = |lower: &Move| {
            let all = (0..).zip(&elements);
            let taken = all.filter(|(_, upper)| E::takes(lower, upper));
            taken.fold(0, |mask, (at, _): (u32, _)| mask | 1 << at)
        };
        let taken: Vec<u128> = elements.iter().map(taken).collect();
        let mask = taken.first().copied().unwrap_or(0);
        let order = Rc::new(Order { elements, taken });
        Ok(Left { order, mask })
    }

    fn text(&self, left: &Left) -> String {
        let elements: Vec<&Move> = left.elements().map(|(element, _)| element).collect();
        E::text(&elements)
    }

    fn parts(&self, all: &[Left]) -> Result<Vec<Vec<u32>>, GameError> {
        Ok(vec![Vec::new(); all.len()])
    }

    fn verdicts(&self, all: &[Left], _: &[Vec<u32>]) -> Result<Vec<GameValue>, GameError> {
        let solution = search_within(self, [all[0].clone()], self.moves_max)?;
        let verdict = |left| solution.verdict(left).expect("it comes of the first");
        Ok(all.iter().map(verdict).collect())
    }

    fn explain(&self, _: &Left, answer: &GameAnswer) -> Vec<String> {
        let mut lines = E::draw(answer);
        if let [others @ .., last] = &answer.moves[..]
            && !others.is_empty()
            && others.iter().all(|other| E::takes(&other.name, &last.name))
        {
            let last = list(&last.name);
            lines.push(format!(
                "Every move takes ({last}), so who is to move wins: an answer to ({last}) could have come first."
            ));
        }
        lines
    }

    fn losing(&self, size: u32) -> Result<Vec<Left>, GameError> {
        let (size_max, what) = E::SIZE_MAX;
        GameError::check(size as usize, size_max, what)?;
        let largest = self.position(&E::largest(size))?;
        let solution = search_within(self, [largest], self.moves_max)?;
        let mut losing: Vec<Left> = solution.losing().cloned().collect();
        losing.sort_by_key(|left| (left.mask.count_ones(), left.mask));
        Ok(losing)
    }
}

/// The sign of an element in a drawing: `x` is the least, `O` a move that wins, `.` one that does not, and `-` is not
/// there.
pub(crate) fn sign(answer: &GameAnswer, element: &[u32]) -> &'static str {
    let choice = answer.moves.iter().find(|choice| choice.name == element);
    match choice {
        None => "-",
        Some(_) if element.iter().all(|&number| number == 1) => "x",
        Some(choice) if choice.losing => "O",
        Some(_) => ".",
    }
}
