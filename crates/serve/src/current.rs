//! The table that answers questions: the finished one of the most bits, open. When another takes its
//! place in the directory it is noticed, and opened beside the one in use.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chomp_table::format::describe;
use chomp_table::manifest::{MANIFEST_NAME, Manifest, folder_name};
use chomp_table::reader::TableName;
use chomp_table::{Digest, Table, TableError};
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::answer::line;
use crate::counts::Counts;
use crate::job::JobPhase;
use crate::lookups::blocking;
use crate::openings::Openings;
use crate::published::{Published, Stamp};
use crate::refusal::Refusal;
use crate::status::StatusText;

/// How often to look whether there is another table.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often to try a table again that could not be opened, while its manifest stays the same.
const TRY_AGAIN_EVERY: Duration = Duration::from_secs(30);

/// A table that is open, and what is found out about it once.
#[derive(Debug)]
pub(crate) struct OpenTable {
    pub(crate) table: Arc<Table>,
    /// What its manifest was when it was opened.
    stamp: Stamp,
    /// The answer to `/api/table`.
    pub(crate) facts: Bytes,
    /// The answer to `/api/status` where there is no job.
    status: StatusText,
    pub(crate) openings: Openings,
    pub(crate) counts: Counts,
}

/// The table that answers, or why none does.
type Now = Result<Arc<OpenTable>, Refusal>;

/// The table that answers at the moment. Clones share it; it is looked after until the last is gone.
#[derive(Clone, Debug)]
pub(crate) struct Current {
    now: watch::Receiver<Now>,
    /// Its status, for `/api/status`.
    pub(crate) told: watch::Receiver<StatusText>,
    _keeper: Arc<AbortOnDropHandle<()>>,
}

impl Current {
    /// Looks for the table once, and then again and again.
    #[expect(clippy::disallowed_methods, reason = "ends with the last clone")]
    pub(crate) async fn new(published: Arc<Published>, cache_bytes: u64) -> Current {
        let finder = TableFinder {
            published,
            cache_bytes,
            failed: HashMap::new(),
        };
        let (finder, first) = finder.look_aside(&Err(Refusal::Nothing)).await;
        let (teller, told) = watch::channel(status(&first));
        let (sender, now) = watch::channel(first);
        let keeper = tokio::spawn(finder.keep(sender, teller));
        Current {
            now,
            told,
            _keeper: Arc::new(AbortOnDropHandle::new(keeper)),
        }
    }

    /// The table that answers now, or why none does.
    pub(crate) fn now(&self) -> Now {
        self.now.borrow().clone()
    }
}

/// Finds the table.
#[derive(Debug)]
struct TableFinder {
    published: Arc<Published>,
    cache_bytes: u64,
    /// The tables that could not be opened, and when that was.
    failed: HashMap<u32, (Stamp, Instant)>,
}

impl TableFinder {
    async fn keep(mut self, sender: watch::Sender<Now>, teller: watch::Sender<StatusText>) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let before = sender.borrow().clone();
            let (finder, now) = self.look_aside(&before).await;
            self = finder;
            let is_same = match (&now, &before) {
                (Ok(now), Ok(before)) => Arc::ptr_eq(now, before),
                (Err(now), Err(before)) => now == before,
                _ => false,
            };
            if !is_same {
                teller.send_replace(status(&now));
                drop(sender.send_replace(now));
            }
        }
    }

    /// Looks, on a thread that may wait for the disk.
    async fn look_aside(mut self, before: &Now) -> (TableFinder, Now) {
        let before = before.clone();
        let looked = blocking(move || {
            let now = self.look(before);
            (self, now)
        });
        // It fails when the runtime goes down, and this task with it.
        looked.await.expect("looking for tables does not panic")
    }

    /// The table of the most bits that can be opened; the one `before` if it is still that.
    fn look(&mut self, before: Now) -> Now {
        let mut refusal = Refusal::NotNow("there is no finished table yet", 10);
        let folders = self.published.folders().unwrap_or_else(|damaged| {
            refusal = damaged;
            Vec::new()
        });
        for bits in folders.into_iter().rev().filter_map(TableName::bits) {
            let stamp = match self.published.stamp(TableName::Losing(bits)) {
                Ok(Some(stamp)) => stamp,
                Ok(None) => continue,
                Err(damaged) => {
                    refusal = damaged;
                    continue;
                }
            };
            if let Ok(open) = &before
                && (open.table.manifest().bits, open.stamp) == (bits, stamp)
            {
                return before;
            }
            let failed = self.failed.get(&bits);
            if failed.is_some_and(|(at, time)| *at == stamp && time.elapsed() < TRY_AGAIN_EVERY) {
                refusal = Refusal::Damaged;
                continue;
            }
            match self.try_open(bits, stamp) {
                Ok(open) => {
                    self.failed.remove(&bits);
                    return Ok(Arc::new(open));
                }
                Err(error) => {
                    refusal = self.published.damage_log.damaged(&describe(&error));
                    self.failed.insert(bits, (stamp, Instant::now()));
                }
            }
        }
        Err(refusal)
    }

    fn try_open(&self, bits: u32, stamp: Stamp) -> Result<OpenTable, TableError> {
        let folder = self.published.directory.join(folder_name(bits));
        let table = Table::open_with_cache(&folder, self.cache_bytes)?;
        let found = table.manifest().bits;
        if found != bits {
            return Err(TableError::Damaged {
                file: folder.join(MANIFEST_NAME),
                what: format!("it is the manifest of a table of {found} bits"),
            });
        }
        let table = Arc::new(table);
        let (facts, status) = told_of(table.manifest());
        Ok(OpenTable {
            stamp,
            facts,
            status,
            openings: Openings::new(Arc::clone(&table), Arc::clone(&self.published)),
            counts: Counts::new(Arc::clone(&table), Arc::clone(&self.published)),
            table,
        })
    }
}

fn status(now: &Now) -> StatusText {
    let open = now.as_ref();
    open.map_or_else(|_| StatusText::default(), |open| open.status.clone())
}

/// A finished table.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TableFacts<'a> {
    /// The table covers the positions of at most so many bits: first row + number of rows.
    bits: u32,
    /// The number of these positions, the empty one included.
    positions: u64,
    /// The number of losing positions among them, both of a mirror pair.
    losing: u64,
    /// The number of words in the shards: one for each mirror pair.
    stored: u64,
    /// The fingerprint in the manifest: it names the content. Tables of format 1 have one of version 1.
    #[cfg_attr(test, schemars(with = "String", regex(pattern = "^[0-9a-f]{64}$")))]
    fingerprint: Digest,
    /// The path of its files on this server.
    path: &'a str,
}

/// A finished table, and its losing positions by bits.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct TableSummary<'a> {
    #[serde(flatten)]
    facts: TableFacts<'a>,
    /// At index k, the number of losing positions of at most k bits.
    losing_by_bits: &'a [u64],
}

/// A finished table, where there is no job. It has the fields of a finished job that a table knows.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct FinishedTable<'a> {
    #[serde(flatten)]
    facts: TableFacts<'a>,
    /// Always `finished`.
    phase: JobPhase,
    /// Always 1: all of the work is done.
    done: f64,
    /// The program, as `chomp 1.2.3`.
    software: &'a str,
}

/// The texts about a table, which do not change: as `/api/table`, and as `/api/status`.
fn told_of(manifest: &Manifest) -> (Bytes, StatusText) {
    let facts = TableFacts {
        bits: manifest.bits,
        positions: manifest.positions,
        losing: manifest.losing,
        stored: manifest.stored,
        fingerprint: manifest.fingerprint,
        path: &format!("/{}/", folder_name(manifest.bits)),
    };
    let summary = TableSummary {
        facts,
        losing_by_bits: &manifest.losing_by_bits,
    };
    let status = StatusText::new(&FinishedTable {
        facts,
        phase: JobPhase::Finished,
        done: 1.0,
        software: concat!("chomp ", env!("CARGO_PKG_VERSION")),
    });
    (line(&summary).into(), status)
}
