//! Two storages as one: the journal in one, everything else in the other.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::{Key, Storage, StorageError};
use crate::keys;

/// The journal and its checkpoints in one storage, everything else in another. A coordinator has the journal in a
/// directory if its bucket may create an object whose key has one already; a worker then reads the journal through the
/// coordinator. A folder can be listed only if its objects are all in one of the two storages.
#[derive(Clone, Debug)]
pub struct Routed {
    /// Has the journal.
    pub journal: Arc<dyn Storage>,
    /// Has the rest.
    pub rest: Arc<dyn Storage>,
}

impl Routed {
    fn of(&self, key: &Key) -> &dyn Storage {
        if keys::is_of_journal(key) {
            &*self.journal
        } else {
            &*self.rest
        }
    }
}

#[async_trait]
impl Storage for Routed {
    async fn create(&self, key: &Key, bytes: Bytes) -> Result<(), StorageError> {
        self.of(key).create(key, bytes).await
    }

    async fn read_at(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StorageError> {
        self.of(key).read_at(key, range).await
    }

    async fn list(&self, prefix: &Key) -> Result<Vec<(Key, u64)>, StorageError> {
        self.of(prefix).list(prefix).await
    }

    async fn delete(&self, keys: &[Key]) -> Result<(), StorageError> {
        let (journal, rest): (Vec<Key>, Vec<Key>) =
            keys.iter().cloned().partition(keys::is_of_journal);
        self.journal.delete(&journal).await?;
        self.rest.delete(&rest).await
    }

    async fn is_in_place(&self) -> bool {
        self.journal.is_in_place().await && self.rest.is_in_place().await
    }

    async fn read_unaliased(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StorageError> {
        self.of(key).read_unaliased(key, range).await
    }

    fn waits_for(&self) -> Option<String> {
        self.journal.waits_for().or_else(|| self.rest.waits_for())
    }

    async fn tidy(&self) -> Result<(), StorageError> {
        self.journal.tidy().await?;
        self.rest.tidy().await
    }
}
