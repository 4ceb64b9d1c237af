//! Decides random positions by the definition: a position is losing exactly when none of its moves leads to a losing
//! one. So the table must list it exactly when it lists none of the positions that its moves lead to.
//!
//! Few positions are losing, so only half of the sample is picked from all positions. A quarter is picked from the
//! positions that the table lists, and a quarter differs by one cell from such a position. Both quarters are likely to
//! find words that were written wrongly.
//!
//! The table is read once for each batch of positions whose moves fit in memory.

use serde::Serialize;

use chomp_table::rng::Rng;
use chomp_table::{Table, Word};

use crate::explain::reexamine;
use crate::join::{Query, join};
use crate::{CheckError, Watch, tell};

/// No position has more moves: the square of 64 bits.
const MOVES_MAX: usize = 1024;
/// The most listed positions that one pass picks.
const PICKS_MAX: u64 = 1 << 20;
/// Makes the picks from the listed positions differ from the picks from all, which have the same seed.
const LISTED_STREAM: u64 = 0x6c69_7374_6564_2121;

/// The random positions to decide, and the memory for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The number of positions to pick, with repetition.
    pub positions: u64,
    /// Equal seeds pick equal positions from equal tables, whatever the memory.
    pub seed: u64,
    /// How many bytes queries may take; 64 KiB is the least. The listed positions that are being picked
    /// take up to 32 MiB more.
    pub memory: u64,
}

/// The sample that was decided.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SampleReport {
    pub seed: u64,
    /// The positions, picked with repetition.
    pub positions: u64,
    /// How many of them were picked from all positions, each as likely as any other.
    pub of_all: u64,
    /// How many were picked from the listed positions and their mirror images.
    pub of_listed: u64,
    /// How many differ by one cell from a position that was picked from the listed ones.
    pub beside_listed: u64,
    pub losing: u64,
    pub moves: u64,
    /// How many times the table was read.
    pub passes: u64,
    /// The number n for which this holds: if more than 1 in n of all positions contradicted their moves, the
    /// sample would have met one with a probability of 99 %. At least 1.
    pub one_in_of_all: u64,
    /// The number n of `one_in_of_all`, for the listed positions.
    pub one_in_of_listed: u64,
}

/// The number n for which `picks` picks meet one contradiction in n with a probability of 99 %. All picks
/// miss a share p with the probability (1-p)^picks, at most e^(-p picks), and e^-4.6052 is 1 %.
pub(crate) fn one_in(picks: u64) -> u64 {
    let n = u128::from(picks) * 10_000 / 46_052;
    u64::try_from(n.max(1)).expect("less than the picks")
}

/// Decides random positions by the definition, and compares the table with that. Fails if the table cannot be read; if
/// it lists one of the positions and one that a move from there leads to; if it lists neither the position nor any that
/// a move leads to.
pub fn check_sample(
    table: &Table,
    sample: Sample,
    watch: Watch<'_>,
) -> Result<SampleReport, CheckError> {
    let manifest = table.manifest();
    let listed = if manifest.stored == 0 {
        0
    } else {
        sample.positions / 4
    };
    let of_all = sample.positions - 2 * listed;
    let mut batch = Batch::new(table, sample, watch);
    batch.picked = if listed == 0 { 1.0 } else { 0.0 };
    let mut rng = Rng(sample.seed);
    for _ in 0..of_all {
        batch.push(random_word(&mut rng, manifest.bits))?;
    }
    let mut rng = Rng(sample.seed ^ LISTED_STREAM);
    let mut left = 2 * listed;
    while left > 0 {
        // Of each two picks the second is for a position beside the one that is picked.
        let count = left.min(PICKS_MAX);
        let mut picks: Vec<Pick> = (0..count)
            .map(|number| Pick {
                rank: random_below(&mut rng, manifest.stored),
                beside: number % 2 == 1,
                rng: rng.next_u64(),
            })
            .collect();
        picks.sort_unstable();
        batch.report.passes += 1;
        let (before, decided) = (2 * listed - left, batch.decided(0, 0.0));
        let watch = |fraction| {
            let picked = fraction_done(before, count, 2 * listed, fraction);
            watch(f64::midpoint(picked, decided))
        };
        let words = pick(table, &picks, &watch)?;
        left -= count;
        batch.picked = fraction_done(2 * listed - left, 0, 2 * listed, 0.0);
        for word in words {
            batch.push(word)?;
        }
    }
    batch.decide()?;
    Ok(SampleReport {
        of_all,
        of_listed: listed,
        beside_listed: listed,
        one_in_of_all: one_in(of_all),
        one_in_of_listed: one_in(listed),
        ..batch.report
    })
}

/// A listed position to be picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pick {
    /// The index of its word among the stored words of the table.
    rank: u64,
    /// Whether a position that differs from it by one cell is decided instead.
    beside: bool,
    /// The random number that chooses between the position and its mirror image, and chooses the cell.
    rng: u64,
}

/// The positions that `picks`, which ascend, stand for.
fn pick(table: &Table, picks: &[Pick], watch: Watch<'_>) -> Result<Vec<Word>, CheckError> {
    let (bits, stored) = (table.manifest().bits, table.manifest().stored);
    let mut words = Vec::with_capacity(picks.len());
    let mut rest = picks;
    let mut before = 0;
    for piece in table.words() {
        let piece = piece?;
        let end = before + piece.len() as u64;
        let (these, others) = rest.split_at(rest.partition_point(|pick| pick.rank < end));
        for pick in these {
            let place = usize::try_from(pick.rank - before).expect("a place in a piece");
            let word = Word::new(piece[place]);
            let word = if pick.rng & 1 == 0 {
                word
            } else {
                word.mirror()
            };
            words.push(if pick.beside {
                beside(word, bits, pick.rng >> 1)
            } else {
                word
            });
        }
        (rest, before) = (others, end);
        tell(watch, before, stored)?;
        if rest.is_empty() {
            return Ok(words);
        }
    }
    Err(CheckError::Wrong(format!(
        "the table has {before} words, and its manifest says {stored}"
    )))
}

/// One of the positions of at most `bits` bits that differ from that of `word` by one cell.
///
/// Exchanging a 0 and a 1 that stand side by side puts a cell on or takes one off. A 0 before the word
/// and a 1 after it stand for the row below the last and the column beside the first row.
fn beside(word: Word, bits: u32, rng: u64) -> Word {
    let path = u128::from(word.get()) << 1 | 1;
    let changed = (0..=word.bits())
        .filter(|place| (path >> place ^ path >> (place + 1)) & 1 == 1)
        .map(|place| path ^ 0b11 << place)
        .filter_map(|path| u64::try_from(path >> path.trailing_ones()).ok())
        .map(Word::new)
        .filter(|word| word.bits() <= bits);
    let changed: Vec<Word> = changed.collect();
    let count = changed.len().max(1) as u64;
    let chosen = usize::try_from(rng % count).expect("fewer than the bits of a word");
    changed.get(chosen).copied().unwrap_or(word)
}

/// Positions that are decided in one pass.
struct Batch<'a> {
    table: &'a Table,
    /// All positions that are to be decided.
    all: u64,
    /// The most queries. Each position has one for itself and one for each of its moves.
    limit: usize,
    watch: Watch<'a>,
    words: Vec<Word>,
    queries: Vec<Query>,
    report: SampleReport,
    /// The fraction of the listed positions that is picked. Picking all takes about as long as deciding all.
    picked: f64,
}

impl<'a> Batch<'a> {
    fn new(table: &'a Table, sample: Sample, watch: Watch<'a>) -> Batch<'a> {
        let limit = usize::try_from(sample.memory / size_of::<Query>() as u64);
        let limit = limit.unwrap_or(usize::MAX);
        let limit = limit.clamp(4 * MOVES_MAX, u32::MAX as usize / 2);
        let most = usize::try_from(sample.positions).unwrap_or(usize::MAX);
        Batch {
            table,
            all: sample.positions,
            limit,
            watch,
            words: Vec::new(),
            queries: Vec::with_capacity(limit.min(most.saturating_mul(MOVES_MAX + 1))),
            report: SampleReport {
                seed: sample.seed,
                ..SampleReport::default()
            },
            picked: 0.0,
        }
    }

    fn decided(&self, these: u64, fraction: f64) -> f64 {
        fraction_done(self.report.positions, these, self.all, fraction)
    }

    /// Adds a position. The tag of its queries is twice its number; the tag of the query for the position
    /// itself is 1 more.
    fn push(&mut self, word: Word) -> Result<(), CheckError> {
        let tag = 2 * u32::try_from(self.words.len()).expect("a batch has fewer positions");
        self.words.push(word);
        self.queries.push(Query::new(word, tag + 1));
        let moves = word.moves().map(|(_, next)| Query::new(next, tag));
        self.queries.extend(moves);
        if self.queries.len() + MOVES_MAX >= self.limit {
            self.decide()
        } else {
            Ok(())
        }
    }

    /// Decides the positions of the batch and empties it.
    fn decide(&mut self) -> Result<(), CheckError> {
        if self.words.is_empty() {
            return Ok(());
        }
        let table = self.table;
        let these = self.words.len() as u64;
        let mut queries = std::mem::take(&mut self.queries);
        let watch =
            |fraction| (self.watch)(f64::midpoint(self.picked, self.decided(these, fraction)));
        let mut listed = vec![false; 2 * self.words.len()];
        join(table, &mut queries, &watch, |tag| {
            listed[tag as usize] = true;
        })?;
        self.queries = queries;
        let report = &mut self.report;
        report.passes += 1;
        report.positions += these;
        report.moves += self.queries.len() as u64 - these;
        for (&word, listed) in self.words.iter().zip(listed.chunks_exact(2)) {
            let losing = word != Word::EMPTY && !listed[0];
            if listed[1] != losing {
                return Err(reexamine(table, word, listed[1]));
            }
            report.losing += u64::from(losing);
        }
        self.words.clear();
        self.queries.clear();
        Ok(())
    }
}

/// The fraction of `all` that is done when `before` and `fraction` of `these` are.
#[expect(clippy::cast_precision_loss, reason = "it is shown to people")]
pub(crate) fn fraction_done(before: u64, these: u64, all: u64, fraction: f64) -> f64 {
    (before as f64 + these as f64 * fraction) / all as f64
}

/// A number below `end`, which is not 0, each as likely as any other to 1 in 2^64 / `end`. Equal seeds give equal
/// numbers, in every version of the program.
pub(crate) fn random_below(rng: &mut Rng, end: u64) -> u64 {
    let scaled = u128::from(rng.next_u64()) * u128::from(end);
    u64::try_from(scaled >> u64::BITS).expect("the product is below end * 2^64")
}

/// A position of at most `bits` bits, each as likely as any other.
fn random_word(rng: &mut Rng, bits: u32) -> Word {
    let index = rng.next_u64().checked_shr(u64::BITS + 1 - bits.max(1));
    Word::new(index.unwrap_or(0) << 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use chomp_table::Position;

    use super::*;

    /// The positions that differ by one cell, straight from the rows.
    fn by_rows(word: Word, bits: u32) -> BTreeSet<Word> {
        let rows = Position::from(word).rows().to_vec();
        let mut found = BTreeSet::new();
        for row in 0..=rows.len() {
            for longer in [false, true] {
                let mut rows = rows.clone();
                rows.push(0);
                if longer {
                    rows[row] += 1;
                } else if rows[row] > 0 {
                    rows[row] -= 1;
                } else {
                    continue;
                }
                rows.retain(|&row| row > 0);
                if let Ok(position) = Position::new(rows) {
                    found.insert(Word::from(&position));
                }
            }
        }
        found.retain(|word| word.bits() <= bits);
        found
    }

    #[test]
    fn all_positions_that_differ_by_one_cell_are_beside() {
        for bits in [2, 7, 11] {
            for word in (2..1 << bits).step_by(2).map(Word::new) {
                let expected = by_rows(word, bits);
                let found: BTreeSet<Word> = (0..200).map(|rng| beside(word, bits, rng)).collect();
                assert_eq!(found, expected, "{word:?} within {bits} bits");
            }
        }
        // 64 bits: nothing is lost above.
        let longest = Word::new(1 << 63 | 0b1010);
        let found: BTreeSet<Word> = (0..200).map(|rng| beside(longest, 64, rng)).collect();
        assert_eq!(found, by_rows(longest, 64));
    }

    #[test]
    fn what_would_have_been_noticed() {
        for picks in [1, 5, 1000, 50_000, u64::MAX] {
            let n = one_in(picks);
            #[expect(clippy::cast_precision_loss, reason = "the bound has a margin")]
            let missed = |n: u64| (picks as f64 * (-1.0 / n as f64).ln_1p()).exp();
            assert!(n == 1 || missed(n) <= 0.01, "{picks} picks, 1 in {n}");
            assert!(missed(n + 1 + n / 1000) > 0.0099, "{picks} picks, 1 in {n}");
        }
        assert_eq!(one_in(50_000), 10_857);
    }

    #[test]
    fn numbers_below_an_end_are_all_picked() {
        let mut rng = Rng(3);
        let mut counts = [0; 7];
        for _ in 0..7000 {
            counts[usize::try_from(random_below(&mut rng, 7)).unwrap()] += 1;
        }
        assert!(
            counts.iter().all(|count| (800..1200).contains(count)),
            "{counts:?}"
        );
        assert_eq!(random_below(&mut rng, 1), 0);
    }

    #[test]
    fn every_position_is_picked() {
        for bits in 0..=10 {
            let mut rng = Rng(1);
            let size = 1 << bits.max(1);
            let mut seen = vec![false; size];
            for _ in 0..20 * size {
                let word = random_word(&mut rng, bits);
                seen[usize::try_from(word.get()).unwrap()] = true;
            }
            let even = seen.iter().step_by(2).all(|&seen| seen);
            let odd = seen.iter().skip(1).step_by(2).any(|&seen| seen);
            assert!(even && !odd, "{bits} bits");
        }
        let mut rng = Rng(1);
        let long = (0..100).filter(|_| random_word(&mut rng, 64).bits() == 64);
        let long = long.count();
        assert!((30..70).contains(&long), "{long}");
    }

    #[test]
    fn a_pick_is_a_word_or_its_mirror_image() {
        let fixture = "../table/tests/fixtures/format-2/table-16";
        let fixture = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(fixture);
        let table = Table::open(&fixture).unwrap();
        let picks = [2, 3].map(|rng| Pick {
            rank: 100,
            beside: false,
            rng,
        });
        let words = pick(&table, &picks, crate::UNWATCHED).unwrap();
        assert!(words[0] < words[1] && words[0].mirror() == words[1]);
    }
}
