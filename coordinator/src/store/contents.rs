//! What there is of a table's working files, told by their names alone.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Store, StoreError, keys};
use crate::storage::Storage;

/// The working files of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Contents {
    /// The bits of a range.
    pub range_bits: u32,
    /// The parts, each the result of a task.
    pub parts: u64,
    /// The bytes of these.
    pub part_bytes: u64,
    /// The layers that are sealed, by the bits of the job.
    pub layers_sealed: BTreeMap<u32, u64>,
    /// The shards from which an interrupted publication goes on, by the bits of the job.
    pub shards_done: BTreeMap<u32, u64>,
}

impl Store {
    /// What there is of the working files of a table, none of it read: nothing, if it has none.
    ///
    /// # Errors
    ///
    /// If the storage fails, or the job is damaged.
    pub async fn contents(storage: &dyn Storage) -> Result<Option<Contents>, StoreError> {
        let Some(range_bits) = Store::range_bits_of(storage).await? else {
            return Ok(None);
        };
        let mut layers_sealed = BTreeMap::new();
        for (key, _) in storage.list(&keys::all_seals()).await? {
            if let Some(bits) = keys::bits_of_seal(&key) {
                *layers_sealed.entry(bits).or_default() += 1;
            }
        }
        let mut shards_done = BTreeMap::new();
        for (key, _) in storage.list(&keys::all_checkpoints()).await? {
            if let Some((bits, shards)) = keys::bits_and_shards(&key) {
                shards_done.insert(bits, shards as u64);
            }
        }
        let parts = storage.list(&keys::parts()).await?;
        Ok(Some(Contents {
            range_bits: range_bits.get(),
            parts: parts.len() as u64,
            part_bytes: parts.iter().map(|(_, bytes)| bytes).sum(),
            layers_sealed,
            shards_done,
        }))
    }

    /// Whether a table has finished ranges among its working files.
    ///
    /// # Errors
    ///
    /// If the storage fails.
    pub async fn has_parts(storage: &dyn Storage) -> Result<bool, StoreError> {
        Ok(!storage.list(&keys::parts()).await?.is_empty())
    }
}
