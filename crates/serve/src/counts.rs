//! How many losing positions of each area a table has: counted once, beside everything else, when
//! somebody asks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use chomp_table::{Table, TableError, Word};
use serde::Serialize;
use tokio::time::Instant;

use crate::once::Once;
use crate::published::Published;
use crate::refusal::Refusal;

/// The thread's rest after each piece of the table, as a multiple of the time that counting it took: questions about
/// positions have most of a CPU.
const REST: u32 = 3;
/// The longest rest.
const REST_MAX: Duration = Duration::from_millis(500);

/// The counts of a table, and how far they have come. Dropping it ends the counting.
#[derive(Debug)]
pub(crate) struct Counts {
    table: Arc<Table>,
    published: Arc<Published>,
    /// The words counted so far.
    counted: Arc<AtomicU64>,
    by_area: Once<Vec<u64>>,
}

/// The losing positions of each area, once they are counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct AreaCounts {
    /// The stored words that are counted so far.
    counted: u64,
    /// All stored words.
    stored: u64,
    /// The largest area up to which all positions are in the table. Up to this area the counts are those of the game.
    complete_to: u32,
    /// At index n, the losing positions of n cells in the table, both of a mirror pair. Null until all are counted.
    losing_by_area: Option<Vec<u64>>,
}

impl Counts {
    pub(crate) fn new(table: Arc<Table>, published: Arc<Published>) -> Counts {
        Counts {
            table,
            published,
            counted: Arc::default(),
            by_area: Once::new(),
        }
    }

    /// How far it has come. The first who asks has it begun.
    pub(crate) async fn so_far(&self) -> Result<AreaCounts, Refusal> {
        let (table, published) = (Arc::clone(&self.table), Arc::clone(&self.published));
        let counted = Arc::downgrade(&self.counted);
        let work = move || {
            let by_area = count(&table, &counted);
            by_area.map_err(|error| published.damage_log.refusal(&error))
        };
        let losing_by_area = self.by_area.ask(Duration::ZERO, work).await?;
        let manifest = self.table.manifest();
        Ok(AreaCounts {
            counted: self.counted.load(Ordering::Acquire),
            stored: manifest.stored,
            complete_to: manifest.bits.saturating_sub(1),
            losing_by_area,
        })
    }
}

/// Counts until it is done; nothing comes of it when nobody is left who could ask how far it is.
fn count(table: &Table, counted: &Weak<AtomicU64>) -> Result<Option<Vec<u64>>, TableError> {
    let mut by_area = vec![0; 1 + area_max(table.manifest().bits)];
    let mut so_far = 0;
    let mut start = Instant::now();
    for piece in table.words() {
        let piece = piece?;
        add(&piece, &mut by_area);
        so_far += piece.len() as u64;
        let Some(counted) = counted.upgrade() else {
            return Ok(None);
        };
        counted.store(so_far, Ordering::Release);
        drop(counted);
        std::thread::park_timeout((start.elapsed() * REST).min(REST_MAX));
        start = Instant::now();
    }
    let largest = by_area.iter().rposition(|&count| count > 0);
    by_area.truncate(largest.map_or(1, |area| area + 1));
    Ok(Some(by_area))
}

/// The largest area of a position of `bits` bits: that of the square, or nearly.
fn area_max(bits: u32) -> usize {
    (bits / 2 * bits.div_ceil(2)) as usize
}

/// Counts the positions of some words of a table: a position and its mirror image, or the one that
/// both are.
fn add(words: &[u64], by_area: &mut [u64]) {
    for &word in words {
        let word = Word::new(word);
        by_area[area(word.get()) as usize] += if word.mirror() == word { 1 } else { 2 };
    }
}

/// The number of cells: [`Word::area`], a byte of the word at a time.
fn area(word: u64) -> u32 {
    let [mut ones, mut cells] = [0; 2];
    for byte in word.to_le_bytes().into_iter().rev() {
        let ones_here = byte.count_ones();
        cells += ones * (u8::BITS - ones_here) + u32::from(AREAS[usize::from(byte)]);
        ones += ones_here;
    }
    // The 0s before the first 1 have no 1 before them, so they add nothing.
    cells
}

/// For each byte, the number of its pairs of a 1 and a later 0.
const AREAS: [u8; 256] = areas();

const fn areas() -> [u8; 256] {
    let mut areas = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut ones, mut bit) = (0, 8);
        while bit > 0 {
            bit -= 1;
            if byte >> bit & 1 == 1 {
                ones += 1;
            } else {
                areas[byte] += ones;
            }
        }
        byte += 1;
    }
    areas
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_those_of_the_words() {
        let mut word = 1_u64;
        for _ in 0..10_000 {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            for shift in [0, 1, 20, 40, 62] {
                let word = Word::new(word >> shift);
                assert_eq!(area(word.get()), word.area(), "{word:?}");
            }
        }
        for (bits, most) in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 4), (32, 256), (33, 272)] {
            assert_eq!(area_max(bits), most, "{bits}");
        }
    }

    /// Whoever counts a table that is served no more stops after a piece.
    #[test]
    fn nothing_is_counted_for_nobody() {
        let directory = tempfile::tempdir().unwrap();
        let table = Table::open(&crate::tests::publish(directory.path(), 14)).unwrap();
        let counted = Arc::default();
        let somebody = count(&table, &Arc::downgrade(&counted)).unwrap();
        assert!(somebody.is_some());
        assert_eq!(counted.load(Ordering::Acquire), table.manifest().stored);
        assert_eq!(count(&table, &Weak::new()).unwrap(), None);
    }

    /// A disk that failed once may be well again.
    #[tokio::test]
    #[expect(
        clippy::disallowed_methods,
        reason = "a shard that is not there for a while"
    )]
    async fn what_failed_is_told_once_and_tried_again() {
        let directory = tempfile::tempdir().unwrap();
        let folder = crate::tests::publish(directory.path(), 14);
        let (shard, aside) = (folder.join("shard-0001.zst"), folder.join("aside"));
        let table = Arc::new(Table::open(directory.path()).unwrap());
        let published = Arc::new(Published::new(directory.path().to_owned()));
        let counts = Counts::new(Arc::clone(&table), published);
        let end = async || loop {
            match counts.so_far().await {
                Ok(so_far) if so_far.losing_by_area.is_none() => tokio::task::yield_now().await,
                end => return end,
            }
        };
        std::fs::rename(&shard, &aside).unwrap();
        for _ in 0..2 {
            assert!(end().await.is_err());
        }
        std::fs::rename(&aside, &shard).unwrap();
        let counted = end().await.unwrap();
        assert_eq!(counted.counted, table.manifest().stored);
        assert!(counted.losing_by_area.is_some());
    }
}
