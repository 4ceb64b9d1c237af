//! Opening a store: reads all of it, checks every byte, and takes the table over.

use std::sync::{Arc, Mutex};

use chomp_table::{RangeBits, head};

use super::envelope::Wrong;
use super::index::Index;
use super::keys::{self, EPOCH_MAX, PartName};
use super::publish::Publication;
use super::seal::{NO_SEAL, Seal, Subject};
use super::{Progress, Store, StoreError, epoch, job, part, read_small};
use crate::storage::{Key, Storage, StorageError};
use chomp_table::Digest;

/// How often an owner tries to take the number after the last when others are taking it too.
const EPOCH_TRIES: u64 = 16;

impl Store {
    /// Takes over the table in `storage`, and tells what is done of the job of `bits` bits.
    ///
    /// Parts of ranges beyond `bits` bits are kept for a later job.
    ///
    /// # Errors
    ///
    /// If an object is damaged or newer, if the table has other range bits, if results disagree,
    /// or if the storage fails.
    pub async fn open(
        storage: Arc<dyn Storage>,
        range_bits: RangeBits,
        bits: u32,
    ) -> Result<(Store, Progress), StoreError> {
        agree_on_job(&*storage, range_bits).await?;
        let epoch = take_epoch(&*storage).await?;
        let layers = head::layers(bits, range_bits);
        let store = Store {
            layer_sizes: layers.iter().map(Vec::len).collect(),
            storage,
            range_bits,
            bits,
            epoch,
            replicas: 1,
            index: Mutex::default(),
            chain: Mutex::default(),
            publication: Publication::default(),
        };
        let seals = store.read_seals().await?;
        let mut index = Index::default();
        store.read_parts(&mut index).await?;
        for (key, seal) in &seals {
            for range in &seal.ranges {
                index.agrees(range, key)?;
            }
        }
        store.checkpoints().await?;
        let sealed = seals.iter().flat_map(|(_, seal)| &seal.ranges);
        let progress = Progress {
            done: index.below(range_bits.heads(bits)).collect(),
            expected: sealed
                .filter(|range| index.get(range.head).is_none())
                .copied()
                .collect(),
            sealed_layers: seals.iter().map(|_| 1).sum(),
        };
        *store.chain() = seals.iter().map(|(_, seal)| seal.digest).collect();
        *store.index() = index;
        Ok((store, progress))
    }

    /// The range bits of the table in `storage`, if it has any.
    ///
    /// # Errors
    ///
    /// If the job is damaged or newer, or if the storage fails.
    pub async fn range_bits_of(storage: &dyn Storage) -> Result<Option<RangeBits>, StoreError> {
        let key = keys::job();
        match read_small(storage, &key, job::BYTES as u64).await {
            Ok(bytes) => job::decode(&bytes)
                .map(Some)
                .map_err(|wrong| wrong.at(&key)),
            Err(StoreError::Storage(StorageError::NotFound { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What a seal of `layer` is for; none if there is no such layer.
    pub(super) fn subject(&self, layer: u32) -> Option<Subject> {
        let ranges = *self.layer_sizes.get(layer as usize)?;
        Some(Subject {
            bits: self.bits,
            range_bits: self.range_bits,
            layer,
            ranges,
        })
    }

    pub(super) async fn read_seal(&self, key: &Key, subject: Subject) -> Result<Seal, StoreError> {
        let bytes = read_small(&*self.storage, key, subject.size()).await?;
        subject.decode(&bytes).map_err(|wrong| wrong.at(key))
    }

    /// The seals from layer 0 on, each with the one before it.
    async fn read_seals(&self) -> Result<Vec<(Key, Seal)>, StoreError> {
        let mut seals: Vec<(Key, Seal)> = Vec::new();
        let mut previous = NO_SEAL;
        for (key, _) in self.storage.list(&keys::seals(self.bits)).await? {
            let damaged = |what: &str| Wrong::Damaged(what.to_owned()).at(&key);
            let layer = keys::layer_of_seal(&key, self.bits);
            let subject = layer
                .and_then(|layer| self.subject(layer))
                .ok_or_else(|| damaged("its name is not that of a seal"))?;
            if subject.layer as usize != seals.len() {
                let what = "has no seal though a later layer has";
                return Err(StoreError::Damaged {
                    key: keys::seals(self.bits),
                    what: format!("layer {} {what}", seals.len()),
                });
            }
            let seal = self.read_seal(&key, subject).await?;
            if seal.previous != previous {
                return Err(damaged(
                    "it does not follow from the seal of the layer before",
                ));
            }
            previous = seal.digest;
            seals.push((key, seal));
        }
        Ok(seals)
    }

    /// Reads all parts, one at a time.
    async fn read_parts(&self, index: &mut Index) -> Result<(), StoreError> {
        for (key, size) in self.storage.list(&keys::parts()).await? {
            let damaged = |what: &str| Wrong::Damaged(what.to_owned()).at(&key);
            let name =
                PartName::of(&key).ok_or_else(|| damaged("its name is not that of a part"))?;
            if size > part::BYTES_MAX {
                return Err(damaged("it is larger than a part can be"));
            }
            let bytes = self.storage.read_at(&key, 0..size).await?;
            let entries = part::decode(&bytes, name, self.range_bits);
            let entries = entries.map_err(|wrong| wrong.at(&key))?;
            for entry in &entries {
                index.agrees(&entry.summary, &key)?;
            }
            index.add(&key, entries);
        }
        Ok(())
    }

    /// The digest of the seal before that of `layer`; none if that layer is not sealed.
    pub(super) fn digest_before(&self, layer: u32) -> Option<Digest> {
        match layer.checked_sub(1) {
            Some(before) => self.chain().get(before as usize).copied(),
            None => Some(NO_SEAL),
        }
    }
}

/// Writes the job if there is none, and checks that it is the one that is asked for.
async fn agree_on_job(storage: &dyn Storage, asked: RangeBits) -> Result<(), StoreError> {
    let table = match Store::range_bits_of(storage).await? {
        Some(table) => table,
        None => match storage
            .create(&keys::job(), job::encode(asked).into())
            .await
        {
            // Another owner was faster.
            Err(StorageError::AlreadyExists { .. }) => {
                Store::range_bits_of(storage).await?.unwrap_or(asked)
            }
            created => created.map(|()| asked)?,
        },
    };
    if table == asked {
        Ok(())
    } else {
        Err(StoreError::OtherRangeBits { table, asked })
    }
}

/// Takes the number after that of the last owner.
async fn take_epoch(storage: &dyn Storage) -> Result<u64, StoreError> {
    let mut last = 0;
    for (key, _) in storage.list(&keys::epochs()).await? {
        let damaged = |what: &str| Wrong::Damaged(what.to_owned()).at(&key);
        let number = keys::epoch_of(&key);
        last = number.ok_or_else(|| damaged("its name is not that of an epoch"))?;
    }
    if last > 0 {
        let key = keys::epoch(last);
        let bytes = read_small(storage, &key, epoch::BYTES as u64).await?;
        epoch::decode(&bytes, last).map_err(|wrong| wrong.at(&key))?;
    }
    let mut next = last + 1;
    loop {
        let key = keys::epoch(next.min(EPOCH_MAX));
        match storage.create(&key, epoch::encode(next).into()).await {
            Ok(()) => return Ok(next),
            Err(StorageError::AlreadyExists { .. })
                if next < (last + EPOCH_TRIES).min(EPOCH_MAX) =>
            {
                next += 1;
            }
            Err(error) => return Err(error.into()),
        }
    }
}
