//! The table that answers questions: the finished one of the most bits, open. When another takes its
//! place in the directory it is noticed, and opened beside the one in use.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chomp_table::format::describe;
use chomp_table::manifest::{MANIFEST_NAME, folder_name};
use chomp_table::reader::TableName;
use chomp_table::{Table, TableError};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::counts::Counts;
use crate::damage_log::DamageLog;
use crate::facts::TableTexts;
use crate::openings::Openings;
use crate::published::{Published, Stamp};
use crate::status::StatusText;

/// How often to look whether there is another table.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often to try a table again that could not be opened, while its manifest stays the same.
const TRY_AGAIN_EVERY: Duration = Duration::from_secs(30);

/// A table that is open, and what is found out about it once.
#[derive(Debug)]
pub(crate) struct OpenTable {
    pub(crate) table: Arc<Table>,
    pub(crate) facts: TableTexts,
    pub(crate) openings: Openings,
    pub(crate) counts: Counts,
}

/// The table that answers, if there is one.
#[derive(Clone, Debug)]
pub(crate) enum Now {
    /// No finished table.
    Nothing,
    /// One that cannot be used. The log says why.
    Broken,
    /// This one.
    Open(Arc<OpenTable>),
}

impl Now {
    fn status(&self) -> StatusText {
        match self {
            Now::Open(open) => open.facts.status.clone(),
            Now::Nothing | Now::Broken => StatusText::default(),
        }
    }

    fn is(&self, other: &Now) -> bool {
        match (self, other) {
            (Now::Nothing, Now::Nothing) | (Now::Broken, Now::Broken) => true,
            (Now::Open(one), Now::Open(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

/// The table that answers at the moment. Clones share it; it is looked after until the last is gone.
#[derive(Clone, Debug)]
pub(crate) struct Current {
    now: watch::Receiver<Now>,
    told: watch::Receiver<StatusText>,
    _keeper: Arc<AbortOnDropHandle<()>>,
}

impl Current {
    /// Looks for the table once, and then again and again.
    #[expect(clippy::disallowed_methods, reason = "ends with the last clone")]
    pub(crate) async fn new(keeper: TableFinder) -> Current {
        let (keeper, first) = keeper.look_aside(&Now::Nothing).await;
        let (teller, told) = watch::channel(first.status());
        let (sender, now) = watch::channel(first);
        let keeper = tokio::spawn(keeper.keep(sender, teller));
        Current {
            now,
            told,
            _keeper: Arc::new(AbortOnDropHandle::new(keeper)),
        }
    }

    /// The table that answers now.
    pub(crate) fn now(&self) -> Now {
        self.now.borrow().clone()
    }

    /// Its status, for `/api/status`.
    pub(crate) fn told(&self) -> watch::Receiver<StatusText> {
        self.told.clone()
    }
}

/// Finds the table.
#[derive(Debug)]
pub(crate) struct TableFinder {
    published: Arc<Published>,
    cache_bytes: u64,
    damage_log: DamageLog,
    open: Option<(u32, Stamp)>,
    /// The tables that could not be opened, and when that was.
    failed: HashMap<u32, (Stamp, Instant)>,
}

impl TableFinder {
    pub(crate) fn new(
        published: Arc<Published>,
        cache_bytes: u64,
        damage_log: DamageLog,
    ) -> TableFinder {
        TableFinder {
            published,
            cache_bytes,
            damage_log,
            open: None,
            failed: HashMap::new(),
        }
    }

    async fn keep(mut self, sender: watch::Sender<Now>, teller: watch::Sender<StatusText>) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let before = sender.borrow().clone();
            let (keeper, now) = self.look_aside(&before).await;
            self = keeper;
            if !now.is(&before) {
                teller.send_replace(now.status());
                sender.send_replace(now);
            }
        }
    }

    /// Looks, on a thread that may wait for the disk.
    async fn look_aside(mut self, before: &Now) -> (TableFinder, Now) {
        let before = before.clone();
        let looked = tokio::task::spawn_blocking(move || {
            let now = self.look(before);
            (self, now)
        });
        match looked.await {
            Ok(looked) => looked,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The runtime goes down, and this task with it.
            Err(_) => std::future::pending().await,
        }
    }

    /// The table of the most bits that can be opened; the one `before` if it is still that.
    fn look(&mut self, before: Now) -> Now {
        let mut broken = false;
        let folders = self.published.folders().unwrap_or_else(|error| {
            self.published.log(&error);
            broken = true;
            Vec::new()
        });
        for bits in folders.into_iter().rev().filter_map(TableName::bits) {
            let stamp = match self.published.stamp(TableName::Losing(bits)) {
                Ok(Some(stamp)) => stamp,
                Ok(None) => continue,
                Err(error) => {
                    self.published.log(&error);
                    broken = true;
                    continue;
                }
            };
            if self.open == Some((bits, stamp)) {
                return before;
            }
            let failed = self.failed.get(&bits);
            if failed.is_some_and(|(at, time)| *at == stamp && time.elapsed() < TRY_AGAIN_EVERY) {
                broken = true;
                continue;
            }
            match self.try_open(bits) {
                Ok(open) => {
                    self.open = Some((bits, stamp));
                    self.failed.remove(&bits);
                    return Now::Open(Arc::new(open));
                }
                Err(error) => {
                    self.damage_log.log(&describe(&error));
                    self.failed.insert(bits, (stamp, Instant::now()));
                    broken = true;
                }
            }
        }
        self.open = None;
        if broken { Now::Broken } else { Now::Nothing }
    }

    fn try_open(&self, bits: u32) -> Result<OpenTable, TableError> {
        let folder: PathBuf = self.published.directory().join(folder_name(bits));
        let table = Table::open_with_cache(&folder, self.cache_bytes)?;
        let found = table.manifest().bits;
        if found != bits {
            return Err(TableError::Damaged {
                file: folder.join(MANIFEST_NAME),
                what: format!("it is the manifest of a table of {found} bits"),
            });
        }
        let table = Arc::new(table);
        Ok(OpenTable {
            facts: TableTexts::new(table.manifest()),
            openings: Openings::new(
                Arc::clone(&table),
                self.published.directory().to_owned(),
                self.damage_log.clone(),
            ),
            counts: Counts::new(Arc::clone(&table)),
            table,
        })
    }
}
