//! Impartial games, and verdicts on their positions.

use std::fmt::Debug;
use std::hash::Hash;

/// A move in numbers that a person can read; each game says which.
pub type Move = Vec<u32>;

/// An impartial game: what may be done depends on the position alone, not on whose turn it is.
pub(crate) trait Game {
    /// All that matters for what follows.
    type Position: Clone + Eq + Hash + Debug;

    /// All moves, and what each leaves. The game is over where there is none.
    fn moves(&self, position: &Self::Position) -> Vec<(Move, Self::Position)>;

    fn choices(&self, position: &Self::Position) -> usize {
        self.moves(position).len()
    }

    /// Whether who is to move has won where the game is over: never in normal play, always in misère play.
    fn end_is_won(&self, _position: &Self::Position) -> bool {
        false
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GameValue {
    pub(crate) losing: bool,
    /// The value. A move after which the other one has won counts for none, so 0 always means losing. There is none
    /// where the game is over and won, or may go round in circles, or where nobody knows.
    pub(crate) value: Option<u32>,
}

impl GameValue {
    pub(crate) fn of(value: u32) -> GameValue {
        let (losing, value) = (value == 0, Some(value));
        GameValue { losing, value }
    }
}

pub(crate) fn mex(values: impl IntoIterator<Item = u32>) -> u32 {
    let mut values: Vec<u32> = values.into_iter().collect();
    values.sort_unstable();
    values
        .into_iter()
        .fold(0, |free, value| free + u32::from(value == free))
}
