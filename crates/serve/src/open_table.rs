//! An open table of losing positions, and two results that are computed from it once, on the first request: the winning
//! first moves of all known rectangles, and the number of losing positions of each area.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use chomp_query::{Opening, with_boxes};
use chomp_table::manifest::{Manifest, folder_name};
use chomp_table::{Digest, Table, TableError, Word};
use serde::Serialize;
use tokio::time::Instant;

use crate::answer::{Refusal, json_line};
use crate::job::JobPhase;
use crate::once::Once;
use crate::published::Published;
use crate::status::StatusText;

/// How long a request waits for the list of openings, which needs reads of the table for some ten thousand moves.
const OPENINGS_TIMEOUT: Duration = Duration::from_secs(20);
/// The pause after each piece that is counted, as a multiple of its time: this leaves most of a CPU to questions.
const PAUSE_FACTOR: u32 = 3;
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The openings, and the same as JSON.
type OpeningList = (Arc<Vec<Opening>>, Bytes);

/// An open table of losing positions. Dropping it ends the counting of its positions by area.
#[derive(Debug)]
pub(crate) struct OpenTable {
    pub(crate) table: Arc<Table>,
    /// The directory with the table, and perhaps with files of boxes.
    published: Arc<Published>,
    /// The answer to `/api/table`.
    pub(crate) facts: Bytes,
    /// The answer to `/api/status` where there is no job.
    pub(crate) status: StatusText,
    openings: Once<OpeningList>,
    /// The words counted so far.
    counted: Arc<AtomicU64>,
    by_area: Once<Vec<u64>>,
}

/// A finished table.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct TableFacts {
    /// The table covers the positions of at most so many bits: first row + number of rows.
    bits: u32,
    /// The number of these positions, the empty one included.
    positions: u64,
    /// The number of losing positions among them, both of a mirror pair.
    losing: u64,
    /// The number of mirror pairs among the losing positions. A position that is its own mirror image counts as a pair.
    pub(crate) stored: u64,
    /// The fingerprint in the manifest, which names the content: of version 1 for a table of format 1, else of version
    /// 2.
    #[cfg_attr(test, schemars(with = "String", regex(pattern = "^[0-9a-f]{64}$")))]
    fingerprint: Digest,
    /// The path of its files on this server.
    path: String,
}

/// A finished table, and its losing positions by bits.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct TableSummary<'a> {
    #[serde(flatten)]
    pub(crate) facts: TableFacts,
    /// At index k, the number of losing positions of at most k bits.
    losing_by_bits: &'a [u64],
}

/// The status without a job: the facts of a finished table, and the phase, fraction and program that a job has.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct FinishedTable<'a> {
    #[serde(flatten)]
    facts: TableFacts,
    /// Always `finished`.
    phase: JobPhase,
    /// Always 1: all of the work is done.
    done: f64,
    /// The program, as `chomp 1.2.3`.
    software: &'a str,
}

/// The losing positions of each area, once they are counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct AreaCounts {
    /// The stored words that are counted so far.
    pub(crate) counted: u64,
    /// All stored words.
    pub(crate) stored: u64,
    /// The largest area up to which all positions are in the table. Up to this area the counts are those of the game.
    pub(crate) complete_to: u32,
    /// At index n, the losing positions of n cells in the table, both of a mirror pair. Null until all are counted.
    pub(crate) losing_by_area: Option<Vec<u64>>,
}

impl TableSummary<'_> {
    pub(crate) fn new(manifest: &Manifest, bits: u32) -> TableSummary<'_> {
        let losing_by_bits = &manifest.losing_by_bits[..=bits as usize];
        let losing = losing_by_bits[bits as usize];
        let facts = TableFacts {
            bits,
            positions: 1 << bits.saturating_sub(1),
            losing,
            // Each even number of bits has one losing position that is its own mirror image.
            stored: losing.midpoint(u64::from(bits / 2)),
            fingerprint: manifest.fingerprints_by_bits[bits as usize],
            path: format!("/{}/", folder_name(manifest.bits)),
        };
        TableSummary {
            facts,
            losing_by_bits,
        }
    }
}

impl OpenTable {
    pub(crate) fn new(table: Table, published: Arc<Published>) -> OpenTable {
        let manifest = table.manifest();
        let summary = TableSummary::new(manifest, manifest.bits);
        let status = FinishedTable {
            facts: summary.facts.clone(),
            phase: JobPhase::Finished,
            done: 1.0,
            software: concat!("chomp ", env!("CARGO_PKG_VERSION")),
        };
        OpenTable {
            facts: json_line(&summary).into(),
            status: StatusText::new(&status),
            table: Arc::new(table),
            published,
            openings: Once::default(),
            counted: Arc::default(),
            by_area: Once::default(),
        }
    }

    /// The winning first moves. The first request starts the computation.
    pub(crate) async fn openings(&self) -> Result<OpeningList, Refusal> {
        let (table, published) = (Arc::clone(&self.table), Arc::clone(&self.published));
        let work = move || {
            let openings = chomp_query::openings(&*table);
            let openings = openings.map_err(|error| published.refuse_logging_damage(&error))?;
            let all = with_boxes(openings.clone(), &published.directory).unwrap_or_else(|error| {
                // If a file of boxes is unusable, the list has the openings of the table alone.
                published.refuse_logging_damage(&error);
                openings
            });
            let text = json_line(&all).into();
            Ok((all.into(), text))
        };
        let soon = "the list of openings is being worked out: try again soon";
        let list = self.openings.ask(OPENINGS_TIMEOUT, work).await?;
        list.ok_or(Refusal::NotNow(soon, 10))
    }

    /// The counts, or how far the counting has come. The first request starts it.
    pub(crate) async fn counts(&self) -> Result<AreaCounts, Refusal> {
        let (table, published) = (Arc::clone(&self.table), Arc::clone(&self.published));
        let counted = Arc::downgrade(&self.counted);
        let work = move || {
            count(&table, &counted).map_err(|error| published.refuse_logging_damage(&error))
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

/// Counts the losing positions of each area. Ends early if the [`OpenTable`] that has `counted` is dropped, as nobody
/// can ask for the result then.
fn count(table: &Table, counted: &Weak<AtomicU64>) -> Result<Vec<u64>, TableError> {
    let mut start = Instant::now();
    count_by_area(table, table.manifest().bits, |so_far| {
        let goes_on = counted
            .upgrade()
            .map(|counted| counted.store(so_far, Ordering::Release));
        std::thread::park_timeout((start.elapsed() * PAUSE_FACTOR).min(PAUSE_MAX));
        start = Instant::now();
        goes_on.is_some()
    })
}

/// The number of losing positions of each area, among those of at most `bits` bits. `watch` gets the words counted
/// after each piece of the table, and returns whether to go on.
pub(crate) fn count_by_area(
    table: &Table,
    bits: u32,
    mut watch: impl FnMut(u64) -> bool,
) -> Result<Vec<u64>, TableError> {
    // The position with the largest area is a square, or a rectangle whose sides differ by one.
    let mut by_area = vec![0; (1 + bits / 2 * bits.div_ceil(2)) as usize];
    let mut so_far = 0;
    for piece in table.words() {
        let piece = piece?;
        let words = piece.iter().map(|&word| Word::new(word));
        for word in words.take_while(|word| word.bits() <= bits) {
            // A position and its mirror image, or one position if they are equal.
            by_area[word.area() as usize] += if word.mirror() == word { 1 } else { 2 };
        }
        so_far += piece.len() as u64;
        let is_last = piece
            .last()
            .is_some_and(|&word| Word::new(word).bits() > bits);
        if is_last || !watch(so_far) {
            break;
        }
    }
    let largest = by_area.iter().rposition(|&count| count > 0);
    by_area.truncate(largest.map_or(1, |area| area + 1));
    Ok(by_area)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The counting stops after the current piece of the table once the table is no longer served.
    #[test]
    fn nothing_is_counted_for_nobody() {
        let directory = tempfile::tempdir().unwrap();
        let table = Table::open(&crate::tests::publish(directory.path(), 14)).unwrap();
        let losing = |counts: Vec<u64>| counts.iter().sum::<u64>();
        let counted = Arc::default();
        let all = count(&table, &Arc::downgrade(&counted)).unwrap();
        assert_eq!(losing(all), table.manifest().losing);
        assert_eq!(counted.load(Ordering::Acquire), table.manifest().stored);
        let some = count(&table, &Weak::new()).unwrap();
        assert!(losing(some) < table.manifest().losing);
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
        let table = Table::open(directory.path()).unwrap();
        let published = Arc::new(Published::new(directory.path().to_owned()));
        let open = OpenTable::new(table, published);
        let end = async || loop {
            match open.counts().await {
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
        assert_eq!(counted.counted, open.table.manifest().stored);
        assert!(counted.losing_by_area.is_some());
    }
}
