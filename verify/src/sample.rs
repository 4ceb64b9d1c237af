//! Random positions, decided by the definition: a position is losing exactly when none of its
//! moves leads to a losing one, so the table must list it exactly when it lists none of those.
//!
//! The moves of many positions are looked up together, in one pass over the table, so that the
//! table is read once for each batch that fits in memory.

use chomp_table::{Position, Table, Word};

use crate::join::{Query, join};
use crate::{CheckError, name};

/// No position has more moves: the square of 64 bits.
const MOVES_MAX: usize = 1024;

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleReport {
    /// The positions, drawn with repetition.
    pub positions: u64,
    /// How many of them are losing.
    pub losing: u64,
    /// Their moves.
    pub moves: u64,
    /// How many times the table was read.
    pub passes: u64,
}

impl SampleReport {
    /// With 95 % confidence, no larger share than this of all positions contradicts its moves: the
    /// rule of three, 3 / n after n random positions without an error.
    #[expect(clippy::cast_precision_loss, reason = "a bound to two digits")]
    pub fn wrong_share_bound(&self) -> f64 {
        3.0 / self.positions as f64
    }
}

/// Decides `positions` random positions, uniform over all of the table, and compares.
///
/// Equal seeds draw equal positions, whatever the memory. `memory` is in bytes; the queries take at
/// most so much, but no less than 64 KiB.
///
/// # Errors
///
/// If the table cannot be read; if it lists one of the positions and one that a move from there
/// leads to; if it lists neither the position nor any that a move leads to.
pub fn check_sample(
    table: &Table,
    positions: u64,
    seed: u64,
    memory: u64,
) -> Result<SampleReport, CheckError> {
    let mut random = Random(seed);
    let bits = table.manifest().bits;
    let limit = usize::try_from(memory / size_of::<Query>() as u64).unwrap_or(usize::MAX);
    let limit = limit.clamp(4 * MOVES_MAX, u32::MAX as usize / 2);
    let mut report = SampleReport::default();
    let most = usize::try_from(positions).unwrap_or(usize::MAX);
    let mut batch = Batch {
        words: Vec::new(),
        queries: Vec::with_capacity(limit.min(most.saturating_mul(MOVES_MAX + 1))),
    };
    for _ in 0..positions {
        batch.push(random.word(bits));
        if batch.queries.len() + MOVES_MAX >= limit {
            batch.decide(table, &mut report)?;
        }
    }
    batch.decide(table, &mut report)?;
    Ok(report)
}

/// Positions that are decided in one pass.
#[derive(Debug)]
struct Batch {
    words: Vec<Word>,
    queries: Vec<Query>,
}

impl Batch {
    /// The tag of a query is the number of the position doubled; its own query has 1 more.
    fn push(&mut self, word: Word) {
        let tag = 2 * u32::try_from(self.words.len()).expect("a batch has fewer positions");
        self.words.push(word);
        self.queries.push(Query::new(word, tag + 1));
        let moves = word.moves().map(|(_, next)| Query::new(next, tag));
        self.queries.extend(moves);
    }

    /// Decides the positions of the batch and empties it.
    fn decide(&mut self, table: &Table, report: &mut SampleReport) -> Result<(), CheckError> {
        if self.words.is_empty() {
            return Ok(());
        }
        report.passes += 1;
        report.positions += self.words.len() as u64;
        report.moves += (self.queries.len() - self.words.len()) as u64;
        let mut listed = vec![false; 2 * self.words.len()];
        join(table, &mut self.queries, |tag| listed[tag as usize] = true)?;
        for (&word, listed) in self.words.iter().zip(listed.chunks_exact(2)) {
            let losing = word != Word::EMPTY && !listed[0];
            if listed[1] != losing {
                return Err(explain(table, word, listed[1]));
            }
            report.losing += u64::from(losing);
        }
        self.words.clear();
        self.queries.clear();
        Ok(())
    }
}

/// What is wrong about `word`, which is listed or not.
fn explain(table: &Table, word: Word, listed: bool) -> CheckError {
    let name = name(word);
    if word == Word::EMPTY {
        return CheckError::Wrong(format!("the table lists {name}, which is winning"));
    }
    if !listed {
        let what = format!("the table does not list {name}, nor any that a move from it leads to");
        return CheckError::Wrong(what);
    }
    for (cell, next) in word.moves() {
        match table.is_losing(next) {
            Ok(false) => {}
            Ok(true) => {
                let (row, column, next) = (cell.row, cell.column, Position::from(next));
                return CheckError::Wrong(format!(
                    "the table lists {name} and also {next}, to which the move ({row},{column}) leads"
                ));
            }
            Err(error) => return error.into(),
        }
    }
    CheckError::Wrong(format!(
        "the table lists {name}, and reading it twice gave different answers about its moves"
    ))
}

/// Random numbers by `SplitMix64`: equal seeds give equal numbers, everywhere and for ever.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A position of at most `bits` bits, each as likely as any other.
    fn word(&mut self, bits: u32) -> Word {
        let index = self.next().checked_shr(u64::BITS + 1 - bits.max(1));
        Word::new(index.unwrap_or(0) << 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_reference() {
        let mut random = Random(1_234_567);
        let numbers = [(); 3].map(|()| random.next());
        assert_eq!(
            numbers,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn every_position_is_drawn() {
        for bits in 0..=10 {
            let mut random = Random(1);
            let size = 1 << bits.max(1);
            let mut seen = vec![false; size];
            for _ in 0..20 * size {
                let word = random.word(bits);
                seen[usize::try_from(word.get()).unwrap()] = true;
            }
            let even = seen.iter().step_by(2).all(|&seen| seen);
            let odd = seen.iter().skip(1).step_by(2).any(|&seen| seen);
            assert!(even && !odd, "{bits} bits");
        }
        let mut random = Random(1);
        let long = (0..100).filter(|_| random.word(64).bits() == 64).count();
        assert!((30..70).contains(&long), "{long}");
    }
}
