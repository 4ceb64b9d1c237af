//! Outcomes and values by their definition, for any game: every position that can be reached is visited once.
//!
//! The walk is depth first, on a stack of its own; a position is settled after all that can come of it. Where a game
//! may go round in circles, all are gone through until nothing more follows: of the rest nobody can force an end.

use std::collections::HashMap;
use std::hash::Hash;

use crate::error::GameError;
use crate::game::{Game, GameValue, mex};

pub(crate) const POSITIONS_MAX: usize = 1 << 18;
/// The number of positions that are visited between two checks of the time.
const ASK_EVERY: usize = 1 << 8;

/// The limits of the work for an answer.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The most moves that a search follows.
    pub moves: usize,
    /// Whether there is time left, called again and again.
    pub has_time: fn() -> bool,
}

impl Effort {
    /// The effort for a question on the command line.
    pub const USUAL: Effort = Effort {
        moves: 1 << 24,
        has_time: || true,
    };

    pub(crate) fn check_time(&self) -> Result<(), GameError> {
        (self.has_time)().then_some(()).ok_or(GameError::NoTime)
    }
}

#[derive(Debug)]
pub(crate) struct Solution<P> {
    numbers: HashMap<P, u32>,
    nodes: Vec<Node>,
}

/// A position, by its number, and its verdict so far.
#[derive(Debug, Default)]
struct Node {
    entered: bool,
    next: Vec<u32>,
    end_is_won: bool,
    losing: Option<bool>,
    value: Option<u32>,
    /// Whether `value` is final.
    valued: bool,
}

/// Visits `starts` and all positions that can come of them, with at most so much effort.
pub(crate) fn search<G: Game>(
    game: &G,
    starts: impl IntoIterator<Item = G::Position>,
    effort: Effort,
) -> Result<Solution<G::Position>, GameError> {
    let (mut numbers, mut positions) = (HashMap::new(), Vec::new());
    let mut number = |position: G::Position, positions: &mut Vec<G::Position>| {
        let entry = numbers.entry(position);
        *entry.or_insert_with_key(|position| {
            positions.push(position.clone());
            u32::try_from(positions.len() - 1).expect("not many more than POSITIONS_MAX")
        })
    };
    let starts = starts.into_iter();
    let mut stack: Vec<u32> = starts.map(|start| number(start, &mut positions)).collect();
    let (mut nodes, mut entered, mut followed) = (Vec::new(), 0, 0);
    while let Some(&top) = stack.last() {
        nodes.resize_with(positions.len(), Node::default);
        let at = top as usize;
        if nodes[at].entered {
            stack.pop();
            settle(&mut nodes, at);
            continue;
        }
        let moves = game.moves(&positions[at]);
        let end_is_won = moves.is_empty() && game.end_is_won(&positions[at]);
        entered += 1;
        followed += moves.len();
        let next = moves
            .into_iter()
            .map(|(_, left)| number(left, &mut positions));
        let next: Vec<u32> = next.collect();
        GameError::check(positions.len(), POSITIONS_MAX, "positions to come of it")?;
        GameError::check(followed, effort.moves, "moves to come of it")?;
        if entered % ASK_EVERY == 0 {
            effort.check_time()?;
        }
        nodes.resize_with(positions.len(), Node::default);
        let node = &mut nodes[at];
        (node.entered, node.end_is_won, node.next) = (true, end_is_won, next.clone());
        stack.extend(next.iter().filter(|&&to| !nodes[to as usize].entered));
    }
    while (0..nodes.len())
        .filter(|&at| settle(&mut nodes, at))
        .count()
        > 0
    {
        effort.check_time()?;
    }
    Ok(Solution { numbers, nodes })
}

/// Derives the verdict on a position from the verdicts on its moves; false if it does not change.
fn settle(nodes: &mut [Node], at: usize) -> bool {
    let node = &nodes[at];
    if node.valued {
        return false;
    }
    let next = || node.next.iter().map(|&to| &nodes[to as usize]);
    let wins = node.end_is_won || next().any(|next| next.losing == Some(true));
    let loses = || next().all(|next| next.losing == Some(false));
    let losing = (wins || loses()).then_some(!wins);
    let valued = next().all(|next| next.valued);
    let reached = next().filter_map(|next| next.value);
    let value = (valued && !node.end_is_won).then(|| mex(reached));
    let settled = (losing, valued) != (node.losing, node.valued);
    let node = &mut nodes[at];
    (node.losing, node.value, node.valued) = (losing, value, valued);
    settled
}

impl<P: Eq + Hash> Solution<P> {
    /// The verdict on a position; none if it was not visited, or nobody can force an end.
    pub(crate) fn verdict(&self, position: &P) -> Option<GameValue> {
        let node = &self.nodes[*self.numbers.get(position)? as usize];
        let (losing, value) = (node.losing?, node.value);
        Some(GameValue { losing, value })
    }

    /// The losing positions among the visited ones, in any order.
    pub(crate) fn losing(&self) -> impl Iterator<Item = &P> {
        let is_losing = |at: u32| self.nodes[at as usize].losing == Some(true);
        let losing = self.numbers.iter().filter(move |&(_, &at)| is_losing(at));
        losing.map(|(position, _)| position)
    }
}
