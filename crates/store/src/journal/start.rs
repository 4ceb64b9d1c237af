//! How a journal is found again.
//!
//! Segments are read by their numbers, from 0 or from a checkpoint on. A listing only saves reading: one that lags
//! lacks the last checkpoints, and then more segments are read.

use bytes::Bytes;
use chomp_table::head::HEAD_BITS_MAX;
use chomp_table::manifest::SHARDS_MAX;

use super::CheckpointSchedule;
use super::format::{CHECKPOINT, RANGE_ENTRY, SEGMENT, decode, read_segment};
use crate::keys;
use crate::ledger::Ledger;
use crate::objects::{Key, Storage, StorageError, StorageProblem};
use crate::{FaultKind, StoreError};

/// The most bytes of a segment, and of a checkpoint: one with all ranges and all shards that there can be, each with an
/// entry of its own.
pub(super) const BYTES_MAX: u64 =
    ((RANGE_ENTRY as u64) << HEAD_BITS_MAX) + SHARDS_MAX as u64 * SHARD_BYTES;
/// The search for a gap looks at most 2^this segments ahead.
const LOOKS_AHEAD: u32 = 20;
/// The bytes reserved for the entry of a shard: those of real tables need half of them.
const SHARD_BYTES: u64 = 2 << 10;

/// Reads the last checkpoint that can be read, and the segments after it.
pub(super) async fn read_all(
    storage: &dyn Storage,
    schedule: &mut CheckpointSchedule,
) -> Result<Option<Ledger>, StoreError> {
    let mut ledger = None;
    // Of the newest checkpoint that is damaged: its number, and what is wrong with it.
    let mut damaged = None;
    for (key, size) in storage
        .list(&keys::checkpoints_prefix())
        .await?
        .into_iter()
        .rev()
    {
        let Some(number) = keys::number_of(&key) else {
            return Err(StoreError::damaged(
                &key,
                "its name is not that of a checkpoint",
            ));
        };
        schedule.checkpoints.insert(0, number);
        if ledger.is_some() {
            continue;
        }
        match read_checkpoint(storage, number).await {
            Err(error @ StoreError::Damaged { .. }) => {
                damaged.get_or_insert((number, error));
            }
            // Removed since it was listed.
            Err(error) if is_missing(&error) => {}
            read => (ledger, schedule.checkpoint_bytes) = (Some(read?), size),
        }
    }
    loop {
        let number = ledger
            .as_ref()
            .map_or(0, |ledger: &Ledger| ledger.next_segment);
        let key = keys::segment(number);
        let bytes = match read_within(storage, &key, BYTES_MAX).await {
            Err(error) if is_missing(&error) => break,
            read => read?,
        };
        schedule.segments += 1;
        schedule.bytes += bytes.len() as u64;
        let read = match &mut ledger {
            Some(ledger) => read_segment(ledger, &bytes),
            None => decode(SEGMENT, &bytes, 0).map(|first| ledger = Some(first)),
        };
        if let Err(wrong) = read {
            let mut wrong = wrong.at(&key);
            if let StoreError::Damaged { what, .. } = &mut wrong
                && !is_followed(storage, number).await?
            {
                *what = format!(
                    "{what}. It is the last segment of the journal: `--without-segment {number}` removes it and \
                     computes its ranges again"
                );
            }
            return Err(wrong);
        }
    }
    match damaged {
        // The segments do not reach as far as the damaged checkpoint.
        Some((number, error))
            if ledger
                .as_ref()
                .is_none_or(|ledger| ledger.next_segment < number) =>
        {
            Err(error)
        }
        _ => Ok(ledger),
    }
}

/// Removes the last segment of a journal, which is damaged. The ranges and shards that it names are computed again, and
/// come out the same. A party that only this segment says is out is trusted again, until it is found out once more.
/// Fails with [`StoreError::Refused`] if the segment is not damaged, or not the last.
pub async fn remove_damaged(storage: &dyn Storage, number: u64) -> Result<(), StoreError> {
    let segment = keys::segment(number);
    match read_all(storage, &mut CheckpointSchedule::default()).await {
        Err(StoreError::Damaged { key, .. })
            if key == segment && !is_followed(storage, number).await? =>
        {
            Ok(storage.delete(&[key]).await?)
        }
        Err(error @ StoreError::Storage(_)) => Err(error),
        _ => Err(StoreError::Refused(format!(
            "{segment} is not removed: it is in order, is not there, or is not the last"
        ))),
    }
}

async fn is_followed(storage: &dyn Storage, number: u64) -> Result<bool, StorageError> {
    exists(storage, &keys::segment(number.saturating_add(1))).await
}

/// Fails if the journal lacks segment `next` and has later ones. Only some later numbers are tried, since a journal can
/// have a million segments: the nearest, and then each twice as far away. If there are later segments and none of them
/// is tried, the coordinator writes the missing ones. When it comes to the first existing one, it ends, as if another
/// coordinator had written that segment.
pub(super) async fn check_no_gap(storage: &dyn Storage, next: u64) -> Result<(), StoreError> {
    let key = keys::segment(next);
    let far = (4..=LOOKS_AHEAD).map(|power| 1 << power);
    for ahead in (1..16).chain(far) {
        let later = keys::segment(next.saturating_add(ahead));
        // Another coordinator may have written the next one since the journal was read.
        if exists(storage, &later).await? && !exists(storage, &key).await? {
            return Err(StoreError::damaged(
                &key,
                "it is missing, and there are later ones",
            ));
        }
    }
    Ok(())
}

fn is_missing(error: &StoreError) -> bool {
    matches!(error, StoreError::Storage(error) if error.problem == StorageProblem::NotFound)
}

/// A ledger to begin with: that of a checkpoint, or after segment 0 if the checkpoint is missing or damaged.
pub(super) async fn begin(
    storage: &dyn Storage,
    checkpoint: Option<u64>,
) -> Result<Ledger, StoreError> {
    if let Some(number) = checkpoint {
        match read_checkpoint(storage, number).await {
            Err(error) if is_missing(&error) || matches!(error, StoreError::Damaged { .. }) => {}
            read => return read,
        }
    }
    let key = keys::segment(0);
    let bytes = read_within(storage, &key, BYTES_MAX).await?;
    decode(SEGMENT, &bytes, 0).map_err(|wrong| wrong.at(&key))
}

async fn read_checkpoint(storage: &dyn Storage, number: u64) -> Result<Ledger, StoreError> {
    let key = keys::checkpoint(number);
    let bytes = read_within(storage, &key, BYTES_MAX).await?;
    decode(CHECKPOINT, &bytes, number).map_err(|wrong| wrong.at(&key))
}

pub(super) async fn exists(storage: &dyn Storage, key: &Key) -> Result<bool, StorageError> {
    match storage.read_at(key, 0..0).await {
        Ok(_) => Ok(true),
        Err(error) if error.problem == StorageProblem::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

pub(super) async fn read_within(
    storage: &dyn Storage,
    key: &Key,
    most: u64,
) -> Result<Bytes, StoreError> {
    let read = storage.read_at(key, 0..most + 1).await;
    let bytes = read.map_err(|error| match error.problem {
        StorageProblem::Fault(FaultKind::Damage) => {
            StoreError::damaged(key, error.source.to_string())
        }
        _ => error.into(),
    })?;
    if bytes.len() as u64 > most {
        return Err(StoreError::damaged(key, "it is too long"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::SimulatedStorage;
    use crate::ready;

    #[test]
    fn what_is_too_long_is_not_read() {
        let storage = SimulatedStorage::new(0);
        let key = keys::segment(0);
        for (bytes, fits) in [(0, true), (9, true), (10, false), (20, false)] {
            storage.overwrite(&key, vec![7; bytes]);
            match ready(read_within(&storage, &key, 9)) {
                Ok(read) => assert!(fits && read.len() == bytes, "{bytes}"),
                Err(error) => assert!(!fits && error.to_string().contains("too long"), "{error}"),
            }
        }
    }
}
