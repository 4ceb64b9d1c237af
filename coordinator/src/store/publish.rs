//! The objects of a published table: whatever bytes the publisher makes, the manifest last.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;

use super::{Store, StoreError, keys, read_small};
use crate::storage::{Storage, StorageError};

/// The most bytes of a manifest: that of a table of 64 bits would still be smaller.
pub const MANIFEST_BYTES_MAX: u64 = 1 << 26;

/// How far a publication has come, and whether it is to go on.
#[derive(Debug, Default)]
pub(super) struct Publication {
    merged: AtomicU64,
    stop: AtomicBool,
}

impl Store {
    /// Notes that so many ranges are merged; returns whether the publication is to go on.
    pub(crate) fn note_merged(&self, ranges: u64) -> bool {
        self.publication.merged.store(ranges, Ordering::Relaxed);
        !self.publication.stop.load(Ordering::Relaxed)
    }

    /// How many ranges the publication under way has merged.
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
        let beyond = bytes.len() as u64 + 1;
        if self.storage.read_at(&key, 0..beyond).await? == bytes {
            return Ok(());
        }
        if exists(&*self.storage, &keys::manifest(bits)).await? {
            let what = "it is not what the table's parts make of it".to_owned();
            return Err(StoreError::Damaged { key, what });
        }
        self.storage.delete(&key).await?;
        Ok(self.storage.create(&key, bytes).await?)
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
