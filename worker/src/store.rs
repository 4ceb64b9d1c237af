//! The store, and the journal as far as this worker has read it.
//!
//! The coordinator says where the store is, unless the user has named a place. A worker uses the store there directly
//! if it finds its coordinator's journal, or, in a place that the user has named, the table of its job. Any other
//! worker logs the reason, and goes through the [relay](crate::relay).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use chomp_store::journal::is_opened_by;
use chomp_store::location::StoreLocation;
use chomp_store::part::read_records;
use chomp_store::{Follower, RangeRow, Storage, StorageError, StorageProblem, StoreError};
use chomp_table::format::describe;
use chomp_table::range::max_record_len;
use chomp_table::{Head, RangeBits};
use tokio::sync::{Mutex, RwLock};

use crate::client::{Client, lost_record};
use crate::link::JobDescription;
use crate::relay::RelayStorage;
use crate::trouble::Trouble;

/// How often the worker looks for a segment that a task names: where many machines share files, one may see them later
/// than another.
const LOOKS: u32 = 6;
/// How long to wait after the first look; twice as long after each one.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Where a worker finds the store, in place of what the coordinator says.
#[derive(Clone, Debug)]
pub enum StoreChoice {
    /// This storage: for a worker in the process of its coordinator, or in a simulation.
    Shared(Arc<dyn Storage>),
    /// A directory or a bucket.
    Location(StoreLocation),
    /// Through the coordinator.
    Coordinator,
}

/// The store of the present job. It is opened anew when the job has another table, when the table was put back to an
/// earlier state, or when the journal cannot be followed. A store that fails for this worker is bypassed through the
/// coordinator, until another coordinator takes over.
#[derive(Debug)]
pub(crate) struct StoreProvider {
    choice: Option<StoreChoice>,
    client: Client,
    open: Mutex<Option<Arc<Store>>>,
    /// The coordinator under which the store did not work, and why.
    useless: Mutex<Option<(u64, String)>>,
}

#[derive(Debug)]
pub(crate) struct Store {
    table: u64,
    pub(crate) range_bits: RangeBits,
    pub(crate) storage: Arc<dyn Storage>,
    /// Whether all requests go through the coordinator.
    proxied: bool,
    /// The same through the coordinator.
    relay: Arc<dyn Storage>,
    /// The ranges whose records are read through the coordinator: this worker cannot read them in another way.
    detours: parking_lot::Mutex<BTreeSet<Head>>,
    /// The coordinator whose journal this is.
    epoch: AtomicU64,
    pub(crate) journal: RwLock<Follower>,
}

impl StoreProvider {
    pub(crate) fn new(choice: Option<StoreChoice>, client: Client) -> StoreProvider {
        StoreProvider {
            choice,
            client,
            open: Mutex::default(),
            useless: Mutex::default(),
        }
    }

    /// The store, of whose journal all segments below `journal_end` are read.
    pub(crate) async fn caught_up_to(&self, journal_end: u64) -> Result<Arc<Store>, Trouble> {
        let store = match self.present(None).await {
            Err(Trouble::Failed(reason)) => {
                tracing::warn!("{reason}; joining again");
                self.client.link.join_again().await?;
                self.present(None).await?
            }
            present => present?,
        };
        let error = match store.follow(journal_end).await {
            Ok(()) => return Ok(store),
            Err(error) => error,
        };
        tracing::warn!("{}; reading the journal anew", describe(&error));
        let store = self.present(Some(&store)).await?;
        store.follow(journal_end).await?;
        Ok(store)
    }

    /// Whether more of the journal is read than all segments below `journal_end`.
    pub(crate) async fn has_read_beyond(&self, journal_end: u64) -> bool {
        match &*self.open.lock().await {
            Some(store) => store.journal.read().await.ledger().next_segment > journal_end,
            None => false,
        }
    }

    /// The open store, or another one if that is `useless`.
    async fn present(&self, useless: Option<&Arc<Store>>) -> Result<Arc<Store>, Trouble> {
        let mut open = self.open.lock().await;
        if let (Some(useless), Some(store)) = (useless, &*open)
            && Arc::ptr_eq(useless, store)
        {
            // The worker joins again to get a newer checkpoint.
            *open = None;
            self.client.link.join_again().await?;
        }
        let job = self.client.job();
        if let Some(store) = &*open
            && store.table == job.table
            && store.adopt_epoch(job.epoch).await
        {
            return Ok(Arc::clone(store));
        }
        *open = None;
        let store = Arc::new(self.open(&job).await?);
        Ok(Arc::clone(open.insert(store)))
    }

    /// Goes through the coordinator from now on, if the store was used directly and need not be. Returns whether the
    /// worker can go on.
    pub(crate) async fn fall_back(&self, error: &StorageError) -> bool {
        let mut open = self.open.lock().await;
        let has_other_way = !matches!(
            self.choice,
            Some(StoreChoice::Shared(_) | StoreChoice::Coordinator)
        );
        if !has_other_way {
            return false;
        }
        match &*open {
            // Another lane has fallen back already.
            None => true,
            Some(store) if store.proxied => {
                // Another lane has fallen back already, if the task began while the store was used directly.
                self.useless.lock().await.is_some()
            }
            Some(store) => {
                let epoch = store.epoch.load(Ordering::Relaxed);
                *self.useless.lock().await = Some((epoch, describe(error)));
                *open = None;
                true
            }
        }
    }

    async fn open(&self, job: &JobDescription) -> Result<Store, Trouble> {
        let useless = self.useless.lock().await.clone();
        let useless = useless.filter(|(epoch, _)| *epoch == job.epoch);
        let open_at =
            |location: &StoreLocation| location.open_shared().map_err(|error| describe(&error));
        let storage = match &self.choice {
            Some(StoreChoice::Shared(storage)) => Ok(Arc::clone(storage)),
            Some(StoreChoice::Coordinator) => return self.open_relay(job).await,
            _ if let Some((_, reason)) = useless => Err(reason),
            Some(StoreChoice::Location(location)) => open_at(location),
            None if job.store.is_empty() => return self.open_relay(job).await,
            None => StoreLocation::parse(&job.store)
                .map_err(|error| describe(&error))
                .and_then(|location| open_at(&location)),
        };
        let reason = match storage {
            Ok(storage) => match self.open_direct(storage, job).await {
                Ok(store) => return Ok(store),
                Err(Trouble::Failed(reason)) => reason,
                Err(Trouble::Store(error)) => describe(&error),
                Err(other) => format!("{other:?}"),
            },
            Err(reason) => reason,
        };
        tracing::warn!(
            "records go through the coordinator, which takes longer: this worker cannot use the store: {reason}"
        );
        self.open_relay(job).await
    }

    /// Opens a store that the user has named, or that is the coordinator's.
    async fn open_direct(
        &self,
        storage: Arc<dyn Storage>,
        job: &JobDescription,
    ) -> Result<Store, Trouble> {
        if self.choice.is_none() {
            let mut looks = 1;
            let opened = loop {
                match is_opened_by(&*storage, job.epoch, job.coordinator_secret).await {
                    Ok(opened) => break opened,
                    Err(error) => look_again(&mut looks, error).await?,
                }
            };
            if !opened {
                let what = "its journal is not that of the coordinator";
                return Err(Trouble::Failed(what.to_owned()));
            }
        }
        let relay = Arc::new(RelayStorage(self.client.clone()));
        Store::open(storage, relay, job, false).await
    }

    async fn open_relay(&self, job: &JobDescription) -> Result<Store, Trouble> {
        let relay = Arc::new(RelayStorage(self.client.clone()));
        Store::open(relay.clone(), relay, job, true).await
    }

    /// Has the records of these ranges be read through the coordinator from now on.
    pub(crate) async fn detour(&self, heads: Vec<u64>) {
        if let Some(store) = &*self.open.lock().await {
            store.detours.lock().extend(heads.into_iter().map(Head));
        }
    }
}

impl Store {
    async fn open(
        storage: Arc<dyn Storage>,
        relay: Arc<dyn Storage>,
        job: &JobDescription,
        proxied: bool,
    ) -> Result<Store, Trouble> {
        let journal = Follower::open(Arc::clone(&storage), job.checkpoint).await?;
        let found = journal.ledger().table;
        if found != job.table {
            return Err(Trouble::Failed(format!(
                "it has the table {found:016x} and not that of the job, {:016x}",
                job.table
            )));
        }
        Ok(Store {
            table: found,
            range_bits: job.range_bits,
            storage,
            proxied,
            relay,
            detours: parking_lot::Mutex::default(),
            epoch: AtomicU64::new(job.epoch),
            journal: RwLock::new(journal),
        })
    }

    /// Goes on with the coordinator that took the table over with segment `epoch`. False if the segments that were read
    /// are not of its journal. If that segment was read before, under an earlier coordinator, the table was put back to
    /// an earlier state since.
    async fn adopt_epoch(&self, epoch: u64) -> bool {
        if self.epoch.load(Ordering::Relaxed) == epoch {
            return true;
        }
        if self.journal.read().await.ledger().next_segment > epoch {
            tracing::warn!("the table was put back as it was earlier; reading its journal anew");
            return false;
        }
        self.epoch.store(epoch, Ordering::Relaxed);
        true
    }

    /// Reads the journal on until all segments below `next` are read.
    async fn follow(&self, next: u64) -> Result<(), StoreError> {
        if self.journal.read().await.ledger().next_segment >= next {
            return Ok(());
        }
        let mut journal = self.journal.write().await;
        let mut looks = 1;
        while let Err(error) = journal.catch_up(next).await {
            look_again(&mut looks, error).await?;
        }
        Ok(())
    }

    pub(crate) async fn done_ranges(
        &self,
        heads: impl IntoIterator<Item = Head>,
    ) -> Result<Vec<(Head, RangeRow)>, Trouble> {
        let journal = self.journal.read().await;
        let ledger = journal.ledger();
        let row = |head| match ledger.range(head) {
            Some(&row) => Ok((head, row)),
            None => Err(Trouble::Missing(head)),
        };
        heads.into_iter().map(row).collect()
    }

    /// The records of these rows, in their order. Each has the digest that the journal names. Fails with all that are
    /// lost, if some are.
    pub(crate) async fn records(&self, rows: &[(Head, RangeRow)]) -> Result<Vec<Bytes>, Trouble> {
        let most = max_record_len(self.range_bits);
        let (mut records, mut lost) = (Vec::with_capacity(rows.len()), Vec::new());
        for (head, row) in rows {
            if u64::from(row.length) > most {
                let reason = format!("it has {} bytes, more than a range can have", row.length);
                lost.push(lost_record(*head, row, reason));
            }
        }
        if !lost.is_empty() {
            return Err(Trouble::Lost(lost));
        }
        let (detours, direct): (Vec<_>, Vec<_>) = {
            let detours = self.detours.lock();
            rows.iter().partition(|(head, _)| detours.contains(head))
        };
        let mut reads = read_records(&*self.storage, &direct).await;
        reads.extend(read_records(&*self.relay, &detours).await);
        let heads = direct.iter().chain(&detours).map(|&(head, _)| head);
        let mut reads: BTreeMap<Head, _> = heads.zip(reads).collect();
        for (head, row) in rows {
            match reads.remove(head).expect("each was read") {
                Ok(record) => records.push(record),
                Err(StoreError::Lost { what, .. }) => {
                    lost.push(lost_record(*head, row, what));
                }
                Err(error) => return Err(error.into()),
            }
        }
        if lost.is_empty() {
            Ok(records)
        } else {
            Err(Trouble::Lost(lost))
        }
    }
}

async fn look_again(looks: &mut u32, error: StoreError) -> Result<(), StoreError> {
    match error {
        StoreError::Storage(error)
            if error.problem == StorageProblem::NotFound && *looks < LOOKS =>
        {
            tokio::time::sleep(LOOK_AGAIN * (1 << (*looks - 1))).await;
            *looks += 1;
            Ok(())
        }
        error => Err(error),
    }
}

#[cfg(test)]
mod tests;
