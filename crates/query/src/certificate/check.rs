//! The check of a certificate. To believe its answers takes this page and the three things that it needs of words.
//!
//! A [`Word`] is a position: the number of its border. This page needs three things of it. `moves` are the cells of the
//! position, each with the position that is left when it is taken with all cells beyond it in both directions. `mirror`
//! exchanges rows and columns. `EMPTY` has no cells: the player to move there has won, as the other has taken the poison.
//!
//! **Theorem.** Let S be a set of positions that have cells. After each move from one of them that leaves cells, let
//! some reply leave a position of S or the mirror image of one. Then the player to move from a position of S loses.
//!
//! *Proof* by induction on the cells. A move that leaves none has taken the poison, and loses. After any other move the
//! opponent replies as the set says, and the player is to move again: from a position of fewer cells that is in S, or
//! from the mirror image of one, where the same moves are there with rows and columns exchanged.

use std::collections::HashSet;
use std::ops::ControlFlow;

use chomp_table::word::mask;
use chomp_table::{Cell, Word};
use foldhash::fast::RandomState;

/// The most bits of a position: rows and columns of a board together.
pub(super) const BITS_MAX: u32 = u64::BITS;

/// The most answered positions that are remembered. They only save time.
const ANSWERED_MAX: usize = 1 << 22;

/// Why some positions do not prove that a first move wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unproved {
    /// The board has no such move, or has it and nothing is left.
    NoMove,
    /// The position that the first move leaves is not among the positions.
    NoStart(Word),
    /// The position with this index has no cells.
    Empty(usize),
    /// To the move with this cell, from the position with this index, no reply leads back.
    Open(usize, Cell),
    /// `watch` ended the check.
    Stopped,
}

/// The position that a first move leaves on a board of so many rows and columns. None if it has no such move, or one
/// that leaves nothing, or more than [`BITS_MAX`] bits.
pub(super) fn after(board: (u32, u32), opening: Cell) -> Option<Word> {
    let (rows, columns) = board;
    rows.checked_add(columns).filter(|&bits| bits <= BITS_MAX)?;
    let board = mask(columns).checked_shl(rows)?;
    let mut moves = Word::new(board).moves();
    let (_, left) = moves.find(|&(cell, left)| cell == opening && left != Word::EMPTY)?;
    Some(left)
}

/// Whether `positions` prove that the first move wins on the board. `watch` gets the part that is done.
pub(super) fn check(
    board: (u32, u32),
    opening: Cell,
    positions: &[Word],
    watch: &mut dyn FnMut(f64) -> ControlFlow<()>,
) -> Result<(), Unproved> {
    let first = after(board, opening).ok_or(Unproved::NoMove)?;
    if let Some(index) = positions.iter().position(|word| *word == Word::EMPTY) {
        return Err(Unproved::Empty(index));
    }
    let images = positions.iter().flat_map(|word| [*word, word.mirror()]);
    let set: HashSet<Word, RandomState> = images.collect();
    let is_in_set = |word: Word| word != Word::EMPTY && set.contains(&word);
    if !is_in_set(first) {
        return Err(Unproved::NoStart(first));
    }
    let mut answered = HashSet::<Word, RandomState>::default();
    for (index, position) in positions.iter().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "a part, to be shown")]
        let done = index as f64 / positions.len() as f64;
        if index % 64 == 0 && watch(done).is_break() {
            return Err(Unproved::Stopped);
        }
        for (cell, left) in position.moves() {
            if left == Word::EMPTY || answered.contains(&left) {
                continue;
            }
            if !left.moves().any(|(_, reply)| is_in_set(reply)) {
                return Err(Unproved::Open(index, cell));
            }
            if answered.len() == ANSWERED_MAX {
                answered.clear();
            }
            answered.insert(left);
        }
    }
    Ok(())
}
