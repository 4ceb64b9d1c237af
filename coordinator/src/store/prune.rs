//! Removing the working files of a finished table: its shards hold all that the ranges do, and
//! the [import](crate::import) makes them again.
//!
//! Checkpoints of publications go first, then seals, the last layer of a job before those that
//! it stands on, and then parts. So what an interruption leaves is a store in order, with fewer ranges done. The job and the epochs
//! stay: a later owner must agree on the range bits and have a number of its own.

use chomp_table::manifest::Manifest;

use super::{Store, StoreError, keys};
use crate::storage::{Key, StorageError};

impl Store {
    /// Removes all checkpoints, seals and parts, if a published table has all their words; else none. May be
    /// repeated after any failure. Returns whether the table allowed it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Fenced`]; [`StoreError::Damaged`] if the manifest is none;
    /// [`StoreError::Storage`].
    pub async fn prune(&self) -> Result<bool, StoreError> {
        if !self.is_all_published().await? {
            return Ok(false);
        }
        self.check_owner().await?;
        for (key, _) in self.storage.list(&keys::all_checkpoints()).await? {
            self.remove(&key).await?;
        }
        let seals = self.storage.list(&keys::all_seals()).await?;
        for (key, _) in seals.into_iter().rev() {
            self.remove(&key).await?;
        }
        self.chain().clear();
        let parts = self.index().parts();
        for key in parts {
            self.remove(&key).await?;
        }
        self.index().clear();
        Ok(true)
    }

    /// Whether the published table of the job's bits has all words of all committed ranges, those
    /// of other jobs too.
    async fn is_all_published(&self) -> Result<bool, StoreError> {
        let Some(bytes) = self.published(self.bits).await? else {
            return Ok(false);
        };
        let key = keys::manifest(self.bits);
        let damaged = |what| StoreError::Damaged { key, what };
        let manifest = Manifest::parse(&bytes).map_err(|error| damaged(error.to_string()))?;
        let last = self.index().last();
        let bits = last.map_or(0, |head| head.len() + self.range_bits.get());
        Ok(manifest.bits >= bits)
    }

    /// Removes an object that an earlier, interrupted removal may have removed.
    pub(super) async fn remove(&self, key: &Key) -> Result<(), StoreError> {
        match self.storage.delete(key).await {
            Ok(()) | Err(StorageError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
