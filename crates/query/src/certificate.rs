//! Proofs that a first move wins, which can be checked without a table.
//!
//! A set of positions is **closed** if after every move from one of them, but the one that takes the poison, some reply
//! leads into the set again. The player to move from a position of the set loses: the other player always has such a
//! reply, and the number of cells falls until the poison alone is left to the loser. A closed set with the position
//! that a first move leaves is a proof that this move wins: its **certificate**. A mirror image stands for its
//! position.
//!
//! A closed set has losing positions only, so it is a part of the table. The search begins with the position that the
//! first move leaves. If only one reply to a move from the set leads to a losing position, this position joins the set.
//! Positions that join in this way are **necessary**: every certificate of the first move has them, so no certificate
//! is smaller than their number. Moves with several losing replies come after that, from the largest position down. If
//! no reply leads into the set by then, the losing position with the fewest cells joins, and with it all positions that
//! become necessary.
//!
//! The text of a certificate: lines that begin with `#` are comments; `board 8x10` and `move 5,6` say what is claimed;
//! each other line is a position, as its rows.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::fmt;
use std::ops::ControlFlow;
use std::str::FromStr;

use chomp_table::position::TIMES;
use chomp_table::{Cell, Position, Word};
use foldhash::fast::FixedState;

/// The most positions of a certificate that is read.
const POSITIONS_MAX: usize = 1 << 28;

/// A board, a first move, and a set of positions that is to be closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The rows and columns of the board.
    pub board: (u32, u32),
    /// The first move.
    pub opening: Cell,
    /// The positions: those of a mirror pair are one. The largest come first.
    pub positions: Vec<Word>,
}

/// Why a certificate proves nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the variants are named for what they are")]
pub enum CertificateError {
    #[error("({},{}) is no first move of {}x{} without the poison", .1.row, .1.column, .0.0, .0.1)]
    NoMove((u32, u32), Cell),
    #[error("the position that the first move leaves, {0}, is not among them")]
    NoStart(Position),
    #[error("from {from} the move ({},{}) has no reply that leads to one of them", .cell.row, .cell.column)]
    Open { from: Position, cell: Cell },
    #[error("line {line}: {what}")]
    Line {
        /// Counted from 1.
        line: usize,
        what: String,
    },
    /// `watch` ended the search or the check.
    #[error("stopped")]
    Stopped,
}

fn start((rows, columns): (u32, u32), opening: Cell) -> Result<Word, CertificateError> {
    let refused = CertificateError::NoMove((rows, columns), opening);
    let board = Position::new(vec![columns; rows as usize]).map_err(|_| refused.clone())?;
    let mut moves = Word::from(&board).moves();
    let found = moves.find(|&(cell, left)| cell == opening && left != Word::EMPTY);
    found.map(|(_, left)| left.representative()).ok_or(refused)
}

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
    /// board. `watch` gets the fraction of a search that is done, and says whether to go on. Fails if `opening` is no
    /// first move, or if `watch` ends the search.
    pub fn find(
        board: (u32, u32),
        opening: Cell,
        is_losing: impl Fn(Word) -> bool,
        mut watch: impl FnMut(Search, f64) -> ControlFlow<()>,
    ) -> Result<Option<Found>, CertificateError> {
        let first = start(board, opening)?;
        if !is_losing(first) {
            return Ok(None);
        }
        let losing_replies = |left: Word| {
            let replies = left.moves().map(|(_, reply)| reply.representative());
            replies.filter(|&reply| reply != Word::EMPTY && is_losing(reply))
        };
        let mut set = Set::default();
        set.insert(first);
        let (mut positions, mut necessary) = (Vec::new(), None);
        // Positions of the set whose moves were not looked at, and what is left by moves with several losing replies.
        let mut open = BinaryHeap::from([(first.area(), first)]);
        let mut undecided = BinaryHeap::new();
        loop {
            let mut tell = |area: u32, positions: usize| {
                let done = 1.0 - f64::from(area) / f64::from(first.area());
                let search = if necessary.is_none() {
                    Search::Necessary
                } else {
                    Search::Chosen
                };
                let is_stopped = positions.is_multiple_of(64) && watch(search, done).is_break();
                if is_stopped {
                    Err(CertificateError::Stopped)
                } else {
                    Ok(())
                }
            };
            if let Some((area, position)) = open.pop() {
                tell(area, positions.len())?;
                positions.push(position);
                for (_, left) in position.moves() {
                    if !set.is_new(left) || set.answers(left) {
                        continue;
                    }
                    let mut replies = losing_replies(left);
                    let reply = replies
                        .next()
                        .expect("a winning move from a winning position");
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
        Ok(Some(Found {
            necessary: necessary.unwrap_or(positions.len()),
            certificate: Certificate {
                board,
                opening,
                positions,
            },
        }))
    }

    /// Checks that the certificate proves its claim, from the rules of the game alone. `watch` gets the fraction that
    /// is done, and says whether to go on. Fails if the certificate proves nothing, or if `watch` ends the check.
    pub fn check(
        &self,
        mut watch: impl FnMut(f64) -> ControlFlow<()>,
    ) -> Result<(), CertificateError> {
        let first = start(self.board, self.opening)?;
        let mut set = Set::default();
        for &position in &self.positions {
            set.insert(position);
        }
        if !set.positions.contains(&first) {
            return Err(CertificateError::NoStart(first.into()));
        }
        for (index, &position) in self.positions.iter().enumerate() {
            #[expect(clippy::cast_precision_loss, reason = "a fraction, to be shown")]
            let done = index as f64 / self.positions.len() as f64;
            if index % 64 == 0 && watch(done).is_break() {
                return Err(CertificateError::Stopped);
            }
            for (cell, left) in position.moves() {
                if set.is_new(left) && !set.answers(left) {
                    let from = position.into();
                    return Err(CertificateError::Open { from, cell });
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((rows, columns), Cell { row, column }) = (self.board, self.opening);
        writeln!(
            f,
            "# The first move ({row},{column}) wins on {rows}x{columns}: whoever is to move from one of these positions \
             loses.\n# After each move from one of them, but the one that takes the poison (1,1), some reply leads to \
             one of\n# them, or to the mirror image of one. Each line has the rows of one, longest first.\n\
             board {rows}x{columns}\nmove {row},{column}"
        )?;
        self.positions.iter().try_for_each(|&word| {
            let fits = |position: &Position| {
                position.rows().len() <= rows as usize
                    && position.rows().iter().all(|&row| row <= columns)
            };
            let images = [word, word.mirror()].map(Position::from);
            let inside = images.iter().find(|image| fits(image));
            writeln!(f, "{}", inside.unwrap_or(&images[0]))
        })
    }
}

impl FromStr for Certificate {
    type Err = CertificateError;

    fn from_str(text: &str) -> Result<Certificate, CertificateError> {
        let (mut board, mut opening, mut positions) = (None, None, Vec::new());
        let pair = |text: &str, signs: &[char]| {
            let (first, second) = text.split_once(signs)?;
            Some((first.parse().ok()?, second.parse().ok()?))
        };
        for (line, text) in (1..).zip(text.lines()) {
            let refused = |what: String| CertificateError::Line { line, what };
            let text = text.trim();
            if let Some(sides) = text.strip_prefix("board ") {
                board = pair(sides, &TIMES);
            } else if let Some(cell) = text.strip_prefix("move ") {
                opening = pair(cell, &[',']).map(|(row, column)| Cell { row, column });
            } else if !text.is_empty() && !text.starts_with('#') {
                let position = text.parse::<Position>();
                let position = position.map_err(|error| refused(error.to_string()))?;
                if positions.len() == POSITIONS_MAX {
                    return Err(refused("there are too many positions".to_owned()));
                }
                positions.push(Word::from(&position).representative());
            }
        }
        let missing = |what: &str| CertificateError::Line {
            line: text.lines().count(),
            what: format!("the file ends without a line \"{what}\", as certificates have it"),
        };
        Ok(Certificate {
            board: board.ok_or_else(|| missing("board 8x10"))?,
            opening: opening.ok_or_else(|| missing("move 5,6"))?,
            positions,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::ByDefinition;

    const GO_ON: ControlFlow<()> = ControlFlow::Continue(());

    fn found(table: &ByDefinition, rows: u32, columns: u32, opening: Cell) -> Option<Found> {
        let is_losing = |word| table.is_losing(word);
        Certificate::find((rows, columns), opening, is_losing, |_, _| GO_ON).unwrap()
    }

    /// The positions that every certificate has, from the definition of them.
    fn necessary(table: &ByDefinition, first: Word) -> HashSet<Word> {
        let (mut all, mut open) = (HashSet::from([first]), vec![first]);
        while let Some(position) = open.pop() {
            for (_, left) in position.moves() {
                let replies = left.moves().map(|(_, reply)| reply.representative());
                let losing: HashSet<Word> = replies
                    .filter(|&reply| reply != Word::EMPTY && table.is_losing(reply))
                    .collect();
                if losing.len() == 1 {
                    open.extend(losing.iter().filter(|&&reply| all.insert(reply)));
                }
            }
        }
        all
    }

    #[test]
    fn every_winning_first_move_has_a_certificate() {
        let table = ByDefinition::new(14);
        for (rows, columns) in (1..14).flat_map(|rows| (1..=14 - rows).map(move |n| (rows, n))) {
            let board = Position::new(vec![columns; rows as usize]).unwrap();
            for (cell, left) in Word::from(&board).moves() {
                if left == Word::EMPTY {
                    continue;
                }
                let certificate = found(&table, rows, columns, cell);
                assert_eq!(
                    certificate.is_some(),
                    table.is_losing(left),
                    "{board} {cell:?}"
                );
                let Some(Found {
                    certificate,
                    necessary: count,
                }) = certificate
                else {
                    continue;
                };
                let necessary = necessary(&table, left.representative());
                assert_eq!(count, necessary.len(), "{board} {cell:?}");
                let all: HashSet<Word> = certificate.positions.iter().copied().collect();
                assert!(necessary.is_subset(&all) && all.len() == certificate.positions.len());
                assert_eq!(certificate.check(|_| GO_ON), Ok(()));
                assert!(
                    certificate
                        .positions
                        .iter()
                        .all(|&word| table.is_losing(word))
                );
                assert_eq!(certificate.to_string().parse(), Ok(certificate));
            }
        }
    }

    #[test]
    fn a_certificate_without_one_of_its_positions_proves_nothing() {
        let table = ByDefinition::new(12);
        let cell = Cell { row: 4, column: 3 };
        let certificate =
            found(&table, 5, 6, cell).or_else(|| found(&table, 5, 6, Cell { row: 3, column: 4 }));
        let certificate = certificate.unwrap().certificate;
        for index in 0..certificate.positions.len() {
            let mut wrong = certificate.clone();
            let left_out = wrong.positions.remove(index);
            let refused = wrong.check(|_| GO_ON);
            assert!(
                matches!(
                    refused,
                    Err(CertificateError::Open { .. } | CertificateError::NoStart(_))
                ),
                "{left_out:?}: {refused:?}"
            );
        }
        // One that is winning has a move after which no reply leads back.
        let mut wrong = certificate;
        wrong
            .positions
            .push(Word::from(&"3,1".parse::<Position>().unwrap()));
        assert!(matches!(
            wrong.check(|_| GO_ON),
            Err(CertificateError::Open { .. })
        ));
    }
}
