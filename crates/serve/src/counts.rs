//! How many losing positions of each area a table has: counted once, beside everything else, when
//! somebody asks.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chomp_table::{Table, TableError, Word};
use serde::Serialize;
use tokio::time::Instant;

/// The thread's rest after each piece of the table, as a multiple of the time that counting it took: questions about
/// positions have most of a CPU.
const REST: u32 = 3;
/// The longest rest.
const REST_MAX: Duration = Duration::from_millis(500);

/// The counts of a table, and how far they have come. Dropping it ends the counting.
#[derive(Debug)]
pub(crate) struct Counts {
    table: Arc<Table>,
    counting: Arc<Counting>,
}

#[derive(Debug, Default)]
struct Counting {
    stop: AtomicBool,
    /// The words counted so far.
    counted: AtomicU64,
    stage: Mutex<CountsState>,
}

#[derive(Debug, Default)]
enum CountsState {
    /// Nobody asked yet, or those who did were told what failed.
    #[default]
    Idle,
    UnderWay,
    /// Why it came to nothing, for the next who asks.
    Failed(Arc<TableError>),
    Known(Vec<u64>),
}

/// How far it has come, or what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct SoFar {
    /// The stored words that are counted.
    counted: u64,
    /// Those that the table has.
    stored: u64,
    /// The largest area up to which all positions are in the table.
    complete_to: u32,
    /// For each area from 0, the losing positions of the table.
    losing_by_area: Option<Vec<u64>>,
}

impl Counts {
    pub(crate) fn new(table: Arc<Table>) -> Counts {
        Counts {
            table,
            counting: Arc::default(),
        }
    }

    /// How far it has come. The first who asks has it begun, and so has the first after it failed
    /// and somebody was told.
    pub(crate) fn so_far(&self) -> Result<SoFar, Arc<TableError>> {
        let mut stage = self.counting.stage_now();
        let losing_by_area = match &*stage {
            CountsState::Known(by_area) => Some(by_area.clone()),
            CountsState::UnderWay => None,
            CountsState::Failed(error) => {
                let error = Arc::clone(error);
                *stage = CountsState::Idle;
                return Err(error);
            }
            CountsState::Idle => {
                *stage = CountsState::UnderWay;
                self.counting.counted.store(0, Ordering::Release);
                let (table, counting) = (Arc::clone(&self.table), Arc::clone(&self.counting));
                tokio::task::spawn_blocking(move || counting.run(&table));
                None
            }
        };
        drop(stage);
        let manifest = self.table.manifest();
        Ok(SoFar {
            counted: self.counting.counted.load(Ordering::Acquire),
            stored: manifest.stored,
            complete_to: manifest.bits.saturating_sub(1),
            losing_by_area,
        })
    }
}

impl Drop for Counts {
    fn drop(&mut self) {
        self.counting.stop.store(true, Ordering::Release);
    }
}

impl Counting {
    /// Counts, and keeps what comes of it. After a panic the next who asks has it begun again.
    fn run(&self, table: &Table) {
        let mut end = End {
            counting: self,
            stage: CountsState::Idle,
        };
        end.stage = match self.count(table) {
            Ok(Some(by_area)) => CountsState::Known(by_area),
            Ok(None) => CountsState::Idle,
            Err(error) => CountsState::Failed(Arc::new(error)),
        };
    }

    /// Counts until it is done; nothing comes of it when it was told to stop.
    fn count(&self, table: &Table) -> Result<Option<Vec<u64>>, TableError> {
        let mut by_area = vec![0; 1 + area_max(table.manifest().bits)];
        let mut start = Instant::now();
        for piece in table.words() {
            let piece = piece?;
            add(&piece, &mut by_area);
            self.counted.fetch_add(piece.len() as u64, Ordering::AcqRel);
            std::thread::park_timeout((start.elapsed() * REST).min(REST_MAX));
            if self.stop.load(Ordering::Acquire) {
                return Ok(None);
            }
            start = Instant::now();
        }
        let largest = by_area.iter().rposition(|&count| count > 0);
        by_area.truncate(largest.map_or(1, |area| area + 1));
        Ok(Some(by_area))
    }

    fn stage_now(&self) -> MutexGuard<'_, CountsState> {
        // It is changed in one step, whoever panicked.
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says how the counting ended when it does, however that is.
struct End<'a> {
    counting: &'a Counting,
    stage: CountsState,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        *self.counting.stage_now() = std::mem::take(&mut self.stage);
    }
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
    use chomp_table::definition;

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

    #[test]
    fn mirror_images_are_counted_too() {
        let losing = definition::losing(16);
        let words = (0..losing.len()).filter(|&index| losing[index]);
        let words: Vec<Word> = words.map(|index| Word::new(index as u64 * 2)).collect();
        let mut expected = vec![0; 1 + area_max(16)];
        for word in &words {
            expected[word.area() as usize] += 1;
        }
        let stored = words.iter().filter(|word| **word == word.representative());
        let stored: Vec<u64> = stored.map(|word| word.get()).collect();
        let mut by_area = vec![0; 1 + area_max(16)];
        add(&stored, &mut by_area);
        assert_eq!(by_area, expected);
    }

    /// Whoever counts a table that is served no more stops after a piece.
    #[test]
    fn nothing_is_counted_for_nobody() {
        let directory = tempfile::tempdir().unwrap();
        crate::tests::publish(directory.path(), 14);
        let table = Arc::new(Table::open(directory.path()).unwrap());
        let counting = Arc::new(Counting::default());
        let counts = Counts {
            table: Arc::clone(&table),
            counting: Arc::clone(&counting),
        };
        drop(counts);
        counting.run(&table);
        let counted = counting.counted.load(Ordering::Acquire);
        assert!(
            0 < counted && counted < table.manifest().stored,
            "{counted}"
        );
        assert!(matches!(*counting.stage_now(), CountsState::Idle));
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
        let counts = Counts::new(Arc::clone(&table));
        let end = async || loop {
            match counts.so_far() {
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
