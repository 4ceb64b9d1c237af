//! The search for a certificate.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::ops::ControlFlow;

use chomp_table::{Cell, Position, Word};
use foldhash::fast::FixedState;

use super::check::after;
use super::text::LINES_BEFORE;
use super::{Certificate, CertificateError};

/// Between two calls of `watch`.
const WATCH_POSITIONS: usize = 64;

/// A certificate that was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The certificate.
    pub certificate: Certificate,
    /// How many of its positions are necessary: every certificate of this first move has them.
    pub necessary: usize,
}

/// A part of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// The search for the necessary positions.
    Necessary,
    /// The search for the other positions.
    Chosen,
}

/// A set of positions, and the positions after moves that were looked at.
#[derive(Default)]
struct Set {
    /// Both of each mirror pair.
    positions: HashSet<Word, FixedState>,
    seen: HashSet<Word, FixedState>,
}

impl Set {
    fn insert(&mut self, position: Word) -> bool {
        let is_new = self.positions.insert(position);
        self.positions.insert(position.mirror());
        is_new
    }

    /// Whether some reply to a move that left this position leads into the set.
    fn answers(&self, left: Word) -> bool {
        let mut replies = left.moves();
        replies.any(|(_, reply)| self.positions.contains(&reply))
    }

    /// Whether a move that leaves this position has to be looked at: it leaves something, and was not seen.
    fn is_new(&mut self, left: Word) -> bool {
        left != Word::EMPTY && self.seen.insert(left)
    }
}

impl Certificate {
    /// A certificate, or none if the first move does not win. `is_losing` is asked about representatives inside the
    /// board. `watch` gets the number of positions that this part of the search has found, and says whether to go on.
    /// Fails if `opening` is no first move, if what `is_losing` says contradicts itself, or if `watch` ends the search.
    pub fn find(
        board: (u32, u32),
        opening: Cell,
        is_losing: &dyn Fn(Word) -> bool,
        watch: &mut dyn FnMut(Search, usize) -> ControlFlow<()>,
    ) -> Result<Option<Found>, CertificateError> {
        let first = after(board, opening).ok_or(CertificateError::NoMove { board, opening })?;
        let first = first.representative();
        let losing_replies = |left: Word| {
            let replies = left.moves().map(|(_, reply)| reply.representative());
            replies.filter(|&reply| reply != Word::EMPTY && is_losing(reply))
        };
        if !is_losing(first) {
            return match losing_replies(first).next() {
                Some(_) => Ok(None),
                None => Err(CertificateError::Contradiction(format!(
                    "it lists neither {} nor a position that a move from there leaves",
                    Position::from(first)
                ))),
            };
        }
        let mut set = Set::default();
        set.insert(first);
        let (mut positions, mut necessary) = (Vec::new(), None);
        // Positions of the set whose moves were not looked at, and what is left by moves with several losing replies.
        let mut open = BinaryHeap::from([(first.area(), first)]);
        let mut undecided = BinaryHeap::new();
        loop {
            if let Some((_, position)) = open.pop() {
                let (search, before) = match necessary {
                    None => (Search::Necessary, 0),
                    Some(necessary) => (Search::Chosen, necessary),
                };
                let is_time = positions.len().is_multiple_of(WATCH_POSITIONS);
                if is_time && watch(search, positions.len() - before).is_break() {
                    return Err(CertificateError::Stopped);
                }
                positions.push(position);
                for (cell, left) in position.moves() {
                    if !set.is_new(left) || set.answers(left) {
                        continue;
                    }
                    let mut replies = losing_replies(left);
                    let reply = replies.next().ok_or_else(|| {
                        let [from, left] = [position, left].map(Position::from);
                        CertificateError::Contradiction(format!(
                            "it lists {from}, and after the move {cell} no move from {left} leaves a position that it \
                             lists"
                        ))
                    })?;
                    if replies.any(|other| other != reply) {
                        undecided.push((left.area(), left));
                    } else if set.insert(reply) {
                        open.push((reply.area(), reply));
                    }
                }
                continue;
            }
            necessary.get_or_insert(positions.len());
            let Some((_, left)) = undecided.pop() else {
                break;
            };
            if !set.answers(left) {
                let smallest = losing_replies(left).min_by_key(|reply| (reply.area(), *reply));
                let reply = smallest.expect("it has several");
                set.insert(reply);
                open.push((reply.area(), reply));
            }
        }
        positions.sort_by_key(|&position| Reverse((position.area(), position)));
        for position in &mut positions {
            if !is_inside(board, *position) {
                *position = position.mirror();
            }
        }
        Ok(Some(Found {
            necessary: necessary.unwrap_or(positions.len()),
            certificate: Certificate {
                board,
                opening,
                positions,
                lines_before: LINES_BEFORE,
            },
        }))
    }
}

fn is_inside((most_rows, most_columns): (u32, u32), position: Word) -> bool {
    let columns = position.get().count_ones();
    columns <= most_columns && position.bits() - columns <= most_rows
}
