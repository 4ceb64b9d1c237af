//! One pass over a table. It counts losing positions by rows, columns and area, and compares them with
//! what is proved about all losing positions.
//!
//! The pass checks of every table:
//!
//! * The table stores the smaller word of each mirror pair, each pair once. Words ascend and are even.
//! * No rectangle is losing but 1x1: if taking the last cell does not win, some answer to it does,
//!   and that answer is a move that the first player can make at once.
//! * A position with as many rows as columns is losing only if it is a hook with equal arms: if it
//!   has the cell (2,2), taking that leaves such a hook. All those hooks are losing, one for each
//!   even number of bits. No other losing position is its own mirror image.
//! * The losing positions of two rows are (a, a-1). Those of three rows are (3,1,1) and (2,2,1) if the
//!   third row has one cell, and all (a, a-2, 2) if it has two.

use std::collections::BTreeSet;

use chomp_table::word::mask;
use chomp_table::{Position, Table, Word};

use crate::explain::name;
use crate::{CheckError, UNWATCHED, each_piece, ensure, rows_and_columns};

/// A table has at most 2^16 intervals, of 2^20 words at least.
const INTERVALS_MAX_BITS: u32 = 16;
const INTERVAL_BITS_MIN: u32 = 20;

/// Positions have fewer rows and fewer columns than this.
const SIDES: usize = 65;

/// The counts of the losing positions of a table, both of each mirror pair.
#[derive(Clone, Debug)]
pub struct Survey {
    bits: u32,
    stored: u64,
    /// At [rows][columns]: the losing positions with exactly these sides.
    by_sides: Vec<[u64; SIDES]>,
    /// By area, for areas below the bits of the table.
    areas: Vec<u64>,
    /// By the bits of the word from [`interval_bits`] up.
    intervals: Vec<u64>,
}

/// Counts the words of a table, or of a run of them.
#[derive(Clone, Debug)]
pub struct Counter<'a> {
    table: &'a Table,
    survey: Survey,
    /// All further words must be at least this. The words so far are below.
    least: u64,
    first: Option<u64>,
    /// The rows of the losing positions of few rows.
    few_rows: BTreeSet<Vec<u32>>,
}

impl<'a> Counter<'a> {
    /// A counter for words of `table`, which has counted none yet.
    pub fn new(table: &'a Table) -> Counter<'a> {
        let bits = table.manifest().bits;
        Counter {
            table,
            survey: Survey {
                bits,
                stored: 0,
                by_sides: vec![[0; SIDES]; SIDES],
                areas: vec![0; bits as usize],
                intervals: vec![0; 1 << (bits - interval_bits(bits))],
            },
            least: 0,
            first: None,
            few_rows: BTreeSet::new(),
        }
    }

    /// Checks and counts the next words. Fails if they do not ascend, or contradict what is proved.
    pub fn push(&mut self, words: &[u64]) -> Result<(), CheckError> {
        self.first = self.first.or_else(|| words.first().copied());
        for &word in words {
            self.check_order(word)?;
            self.least = word.saturating_add(2);
            self.take(Word::new(word))?;
        }
        Ok(())
    }

    /// Adds the counts of `later`, whose words follow the words of this counter. Fails if they do not follow.
    pub fn append(&mut self, later: Counter<'_>) -> Result<(), CheckError> {
        let Some(first) = later.first else {
            return Ok(());
        };
        self.check_order(first)?;
        self.first = self.first.or(later.first);
        self.least = later.least;
        self.few_rows.extend(later.few_rows);
        let add = |sums: &mut [u64], counts: &[u64]| {
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum += count;
            }
        };
        let (all, more) = (&mut self.survey, later.survey);
        all.stored += more.stored;
        add(
            all.by_sides.as_flattened_mut(),
            more.by_sides.as_flattened(),
        );
        add(&mut all.areas, &more.areas);
        add(&mut all.intervals, &more.intervals);
        Ok(())
    }

    /// The counts, after all words of the table. Fails if a count contradicts what is proved, or what the manifest
    /// says.
    pub fn finish(self) -> Result<Survey, CheckError> {
        check_few_rows(self.survey.bits, &self.few_rows)?;
        self.survey.check_counts(self.table)?;
        Ok(self.survey)
    }

    fn check_order(&self, word: u64) -> Result<(), CheckError> {
        let least = self.least;
        ensure(word >= least && word.is_multiple_of(2), || {
            format!("the table has word {word} where an even one from {least} on belongs")
        })
    }

    /// Checks and counts one word and its mirror image.
    fn take(&mut self, word: Word) -> Result<(), CheckError> {
        let table = self.table;
        let survey = &mut self.survey;
        let wrong = |what: &str| format!("the table lists {}: {what}", name(table, word));
        let mirror = word.mirror();
        ensure(word <= mirror, || {
            wrong("its mirror image has the smaller word")
        })?;
        ensure(word != Word::EMPTY, || {
            wrong("it has no cells, and is winning")
        })?;
        ensure(word.bits() <= survey.bits, || {
            wrong("it has more bits than the table")
        })?;
        let (rows, columns) = rows_and_columns(word);
        let rectangle = mask(columns) << rows;
        ensure(word.get() != rectangle || (rows, columns) == (1, 1), || {
            wrong("it is a rectangle, and those are winning")
        })?;
        let hook = 1 << (word.bits() - 1) | mask(columns) & !1;
        ensure(rows != columns || word.get() == hook || rows == 1, || {
            wrong("it has as many rows as columns and is no hook with equal arms")
        })?;
        let images: &[Word] = if word == mirror {
            &[word]
        } else {
            &[word, mirror]
        };
        for &image in images {
            let (rows, columns) = rows_and_columns(image);
            survey.by_sides[rows as usize][columns as usize] += 1;
            let interval = image.get().checked_shr(interval_bits(survey.bits));
            let interval = usize::try_from(interval.unwrap_or(0)).expect("it has 16 bits");
            survey.intervals[interval] += 1;
            if rows <= 3 {
                let rows = Position::from(image).rows().to_vec();
                self.few_rows.insert(rows);
            }
        }
        if let Some(area) = area_below(word, survey.bits) {
            survey.areas[area as usize] += images.len() as u64;
        }
        survey.stored += 1;
        Ok(())
    }
}

impl Survey {
    /// Reads a table once, and counts its losing positions. Fails if the table cannot be read, if it contradicts what
    /// is proved, or if its manifest has other counts than its words.
    pub fn of(table: &Table) -> Result<Survey, CheckError> {
        let mut counter = Counter::new(table);
        each_piece(table, UNWATCHED, |words| counter.push(words))?;
        counter.finish()
    }

    /// Checks that the manifest has the same counts, and that the table has all hooks with equal arms.
    fn check_counts(&self, table: &Table) -> Result<(), CheckError> {
        let manifest = table.manifest();
        for side in 1..=self.bits / 2 {
            let found = self.by_sides[side as usize][side as usize];
            ensure(found == 1, || {
                format!(
                    "the table lists {found} positions of {side} rows and {side} columns; the hook with equal arms is losing"
                )
            })?;
        }
        for (bits, &said) in (0..).zip(&manifest.losing_by_bits) {
            let found = self.losing(bits);
            ensure(found == said, || {
                format!(
                    "the table lists {found} losing positions of at most {bits} bits, and its manifest says {said}"
                )
            })?;
        }
        let (found, said) = (
            (self.losing(self.bits), self.stored),
            (manifest.losing, manifest.stored),
        );
        ensure(found == said, || {
            format!(
                "the table has losing positions and stored words {found:?}, and its manifest says {said:?}"
            )
        })
    }

    /// The bits of the table.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Losing positions of at most `bits` bits, as far as the table goes.
    pub fn losing(&self, bits: u32) -> u64 {
        let bits = bits as usize;
        let row = |(rows, class): (usize, &[u64; SIDES])| -> u64 {
            class.iter().take((bits + 1).saturating_sub(rows)).sum()
        };
        self.by_sides.iter().enumerate().map(row).sum()
    }

    /// The number of losing positions inside a box of `rows` rows and `columns` columns, or none if the table
    /// does not cover the box.
    pub fn inside(&self, rows: u32, columns: u32) -> Option<u64> {
        let row = |class: &[u64; SIDES]| class[..=columns as usize].iter().sum::<u64>();
        (rows + columns <= self.bits).then(|| self.by_sides[..=rows as usize].iter().map(row).sum())
    }

    /// Index n holds the number of losing positions of n cells: losing partitions of n. The indices go up
    /// to the bits of the table less 1, as the table covers all positions of so few cells.
    pub fn by_area(&self) -> &[u64] {
        &self.areas
    }

    /// Losing words by their bits from [`interval_bits`] up.
    pub fn intervals(&self) -> &[u64] {
        &self.intervals
    }
}

/// The bits of an interval of a table of `bits` bits: an interval has 2^`interval_bits` words.
pub fn interval_bits(bits: u32) -> u32 {
    let least = bits.saturating_sub(INTERVALS_MAX_BITS);
    least.max(INTERVAL_BITS_MIN).min(bits)
}

/// The number of cells of the position of `word`, if it is less than `limit`.
fn area_below(word: Word, limit: u32) -> Option<u32> {
    let (mut rest, mut area) = (word.get(), 0);
    // Each 0 from the low end up is a row, as long as there are 1s above it: the first is longest.
    while rest != 0 {
        if rest & 1 == 0 {
            area += rest.count_ones();
            if area >= limit {
                return None;
            }
        }
        rest >>= 1;
    }
    Some(area)
}

/// Compares the losing positions of at most three rows, of which the third has at most two cells,
/// with all that there are of at most `bits` bits.
fn check_few_rows(bits: u32, found: &BTreeSet<Vec<u32>>) -> Result<(), CheckError> {
    let known = |rows: &&Vec<u32>| rows.get(2).is_none_or(|&third| third <= 2);
    let mut expected = vec![vec![1], vec![3, 1, 1], vec![2, 2, 1]];
    expected.extend((2..=bits).map(|a| vec![a, a - 1]));
    expected.extend((4..=bits).map(|a| vec![a, a - 2, 2]));
    let covered = |rows: &&Vec<u32>| rows[0] as usize + rows.len() <= bits as usize;
    let expected: BTreeSet<&Vec<u32>> = expected.iter().filter(covered).collect();
    let found: BTreeSet<&Vec<u32>> = found.iter().filter(known).collect();
    if let Some(missing) = expected.difference(&found).next() {
        let what = format!("the table does not list the position {missing:?}, which is losing");
        return Err(CheckError::Wrong(what));
    }
    match found.difference(&expected).next() {
        Some(wrong) => Err(CheckError::Wrong(format!(
            "the table lists the position {wrong:?}, which is winning"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_areas_are_exact_and_large_ones_are_left_out() {
        for path in 0..1 << 13 {
            let word = Word::new(path);
            for limit in [1, 7, 12, 40] {
                let expected = Some(word.area()).filter(|&area| area < limit);
                if word != Word::EMPTY {
                    assert_eq!(area_below(word, limit), expected, "{path:b} below {limit}");
                }
            }
        }
    }
}
