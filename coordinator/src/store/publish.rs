//! The objects of a published table: whatever bytes the publisher makes, the manifest last; and the
//! checkpoints on the way to it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use chomp_table::Digest;
use chomp_table::shard::ShardInfo;

use super::checkpoint::{self, Checkpoint};
use super::envelope::Wrong;
use super::{Store, StoreError, keys, read_small};
use crate::storage::{Key, Storage, StorageError};

/// The most bytes of a manifest: that of a table of 64 bits would still be smaller.
pub const MANIFEST_BYTES_MAX: u64 = 1 << 26;

/// How far a publication has come, and whether it is to go on.
#[derive(Debug, Default)]
pub(super) struct Publication {
    merged: AtomicU64,
    stop: AtomicBool,
}

impl Store {
    /// Notes that so many ranges are merged.
    pub(crate) fn note_merged(&self, ranges: u64) {
        self.publication.merged.store(ranges, Ordering::Relaxed);
    }

    /// Whether a publication is to end early.
    pub(crate) fn is_publication_stopped(&self) -> bool {
        self.publication.stop.load(Ordering::Relaxed)
    }

    /// How many ranges the publication under way has merged, those before the checkpoint that it
    /// started from too.
    pub fn merged(&self) -> u64 {
        self.publication.merged.load(Ordering::Relaxed)
    }

    /// Has the publication that is under way, or any later one, end after the next range.
    pub(crate) fn stop_publication(&self) {
        self.publication.stop.store(true, Ordering::Relaxed);
    }

    /// Creates an object of the published table of `bits` bits.
    ///
    /// What an interrupted publication left under the name stays if it has the same bytes, and is
    /// replaced if not: nobody reads a table before its manifest is there.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] if other bytes have the name and the table has its manifest;
    /// [`StoreError::Fenced`]; [`StoreError::Name`]; [`StoreError::Storage`].
    pub async fn publish_object(
        &self,
        bits: u32,
        name: &str,
        bytes: Bytes,
    ) -> Result<(), StoreError> {
        let key = keys::published(bits, name)?;
        self.check_owner().await?;
        match self.storage.create(&key, bytes.clone()).await {
            Err(StorageError::AlreadyExists { .. }) => {}
            created => return Ok(created?),
        }
        if self.holds(&key, &bytes).await? {
            return Ok(());
        }
        if exists(&*self.storage, &keys::manifest(bits)).await? {
            let what = "it is not what the table's parts make of it".to_owned();
            return Err(StoreError::Damaged { key, what });
        }
        self.storage.delete(&key).await?;
        Ok(self.storage.create(&key, bytes).await?)
    }

    async fn holds(&self, key: &Key, bytes: &Bytes) -> Result<bool, StorageError> {
        let beyond = bytes.len() as u64 + 1;
        Ok(self.storage.read_at(key, 0..beyond).await? == *bytes)
    }

    /// Whether a shard is there, every byte of it.
    pub(crate) async fn has_shard(&self, info: &ShardInfo) -> Result<bool, StoreError> {
        let key = keys::published(self.bits, &info.name)?;
        match self
            .storage
            .read_at(&key, 0..info.bytes.saturating_add(1))
            .await
        {
            Ok(bytes) => Ok(bytes.len() as u64 == info.bytes && Digest::of(&bytes) == info.sha256),
            Err(StorageError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The digest of the last seal, on which that of each range depends; none if not all layers
    /// are sealed.
    pub(crate) fn content(&self) -> Option<Digest> {
        let chain = self.chain();
        let sealed = chain.len() == self.layer_sizes.len();
        chain.last().copied().filter(|_| sealed)
    }

    /// The checkpoints of the job's publication, those with more shards first.
    pub(crate) async fn checkpoints(&self) -> Result<Vec<Checkpoint>, StoreError> {
        let mut checkpoints = Vec::new();
        for (key, _) in self.storage.list(&keys::checkpoints(self.bits)).await? {
            let shards = keys::shards_of_checkpoint(&key, self.bits);
            let wrong = || Wrong::Damaged("its name is not that of a checkpoint".to_owned());
            let shards = shards.ok_or_else(|| wrong().at(&key))?;
            let bytes = read_small(&*self.storage, &key, checkpoint::BYTES_MAX).await?;
            let checkpoint = Checkpoint::decode(&bytes, self.bits, shards);
            checkpoints.push(checkpoint.map_err(|wrong| wrong.at(&key))?);
        }
        checkpoints.reverse();
        Ok(checkpoints)
    }

    /// Makes a checkpoint durable, and then removes those before it.
    pub(crate) async fn keep_checkpoint(&self, checkpoint: &Checkpoint) -> Result<(), StoreError> {
        let key = keys::checkpoint(self.bits, checkpoint.shards.len());
        let bytes = Bytes::from(checkpoint.encode());
        self.check_owner().await?;
        match self.storage.create(&key, bytes.clone()).await {
            Err(StorageError::AlreadyExists { .. }) => {
                if !self.holds(&key, &bytes).await? {
                    self.storage.delete(&key).await?;
                    self.storage.create(&key, bytes).await?;
                }
            }
            created => created?,
        }
        self.remove_checkpoints(Some(checkpoint)).await
    }

    /// Removes the checkpoints of the job's publication but for this one.
    pub(crate) async fn remove_checkpoints(
        &self,
        but: Option<&Checkpoint>,
    ) -> Result<(), StoreError> {
        let but = but.map(|checkpoint| keys::checkpoint(self.bits, checkpoint.shards.len()));
        let there = self.storage.list(&keys::checkpoints(self.bits)).await?;
        let mut others = there
            .into_iter()
            .filter(|(key, _)| Some(key) != but.as_ref());
        let Some((first, _)) = others.next() else {
            return Ok(());
        };
        self.check_owner().await?;
        self.remove(&first).await?;
        for (key, _) in others {
            self.remove(&key).await?;
        }
        Ok(())
    }

    /// The manifest of the published table of `bits` bits, if it is published.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] if it is too large for one; [`StoreError::Storage`].
    pub async fn published(&self, bits: u32) -> Result<Option<Bytes>, StoreError> {
        let key = keys::manifest(bits);
        match read_small(&*self.storage, &key, MANIFEST_BYTES_MAX).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(StoreError::Storage(StorageError::NotFound { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether an object exists.
pub(super) async fn exists(
    storage: &dyn Storage,
    key: &crate::storage::Key,
) -> Result<bool, StorageError> {
    match storage.read_at(key, 0..0).await {
        Ok(_) => Ok(true),
        Err(StorageError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
