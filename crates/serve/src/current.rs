//! The open tables that answer questions: the finished table of losing positions with the most bits, and the finished
//! table of values with the most tiles. A newly published table is opened before it replaces the table in use.

use std::sync::Arc;
use std::time::Duration;

use chomp_table::reader::{AnyManifest, TableKind};
use chomp_table::values::Values;
use chomp_table::{Table, TableError};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::answer::Refusal;
use crate::open_table::OpenTable;
use crate::published::{Published, PublishedTable};
use crate::question_threads::blocking;
use crate::status::StatusText;

/// The interval at which the directory is searched for new tables.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The open table that answers, with the published files that it was opened from; or the refusal while there is none.
type Now<T> = Result<(Arc<PublishedTable>, Arc<T>), Refusal>;

#[derive(Debug)]
pub(crate) struct Current {
    published: Arc<Published>,
    cache_bytes: u64,
    losing: Mutex<Now<OpenTable>>,
    values: Mutex<Now<Values>>,
    /// The answer to `/api/status` where there is no job.
    pub(crate) status: watch::Sender<StatusText>,
}

impl Current {
    pub(crate) fn new(published: Arc<Published>, cache_bytes: u64) -> Current {
        Current {
            published,
            cache_bytes,
            losing: Mutex::new(Err(Refusal::Nothing)),
            values: Mutex::new(Err(Refusal::Nothing)),
            status: watch::Sender::default(),
        }
    }

    /// Searches the directory for tables until the server ends.
    pub(crate) async fn follow(self: Arc<Current>) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            self.look().await;
        }
    }

    /// Searches the directory for tables, on a thread that may block on the disk.
    pub(crate) async fn look(self: &Arc<Current>) {
        let this = Arc::clone(self);
        let look = move || {
            let none = "there is no finished table yet";
            this.renew(&this.losing, TableKind::Losing, none, |of| {
                let table = Table::open_with_cache(&of.folder, this.cache_bytes)?;
                warn_of_wrong_fingerprint(&table.manifest().clone().into(), of);
                Ok(OpenTable::new(table, Arc::clone(&this.published)))
            });
            let none = "there is no finished table of values yet";
            this.renew(&this.values, TableKind::Values, none, |of| {
                let table = Values::open(&of.folder)?;
                warn_of_wrong_fingerprint(&AnyManifest::Values(table.manifest().clone()), of);
                Ok(table)
            });
            let open = this.losing();
            let status = open.map(|open| open.status.clone()).unwrap_or_default();
            this.status.send_if_modified(|before| {
                let is_new = *before != status;
                *before = status;
                is_new
            });
        };
        // This fails only at the shutdown of the runtime, which ends this task too.
        blocking(look)
            .await
            .expect("looking for tables does not panic");
    }

    pub(crate) fn losing(&self) -> Result<Arc<OpenTable>, Refusal> {
        self.losing.lock().clone().map(|(_, table)| table)
    }

    pub(crate) fn values(&self) -> Result<Arc<Values>, Refusal> {
        self.values.lock().clone().map(|(_, table)| table)
    }

    /// Opens the largest finished table of this `kind` that is undamaged, and puts it in `place`, unless it is there
    /// already. Puts a refusal there if no table can be opened.
    fn renew<T>(
        &self,
        place: &Mutex<Now<T>>,
        kind: TableKind,
        none: &'static str,
        open: impl Fn(&PublishedTable) -> Result<T, TableError>,
    ) {
        let before = place.lock().clone();
        let is_before =
            |of: &Arc<PublishedTable>| matches!(&before, Ok((at, _)) if Arc::ptr_eq(at, of));
        let folders = self.published.folders();
        let mut now = Err(Refusal::NotNow(none, 10));
        let largest_first = folders.iter().flatten().rev();
        for name in largest_first.filter(|name| name.kind() == kind) {
            now = match self.published.table(*name) {
                Ok(None) => continue,
                Ok(Some(of)) if is_before(&of) => return,
                Ok(Some(of)) => open(&of)
                    .map(|table| (of, Arc::new(table)))
                    .map_err(|error| self.published.refuse_logging_damage(&error)),
                Err(damaged) => Err(damaged),
            };
            if now.is_ok() {
                break;
            }
        }
        *place.lock() = folders.and(now);
    }
}

fn warn_of_wrong_fingerprint(manifest: &AnyManifest, of: &PublishedTable) {
    if let Err(error) = manifest.check_known(&of.folder) {
        tracing::warn!("{error}");
    }
}
