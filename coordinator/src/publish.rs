//! Publication: the shards that workers have written become a table.
//!
//! Workers, or the coordinator, have read each shard back. This module makes the fingerprints from the leaves of the
//! shards, and the counts from what workers counted while they merged. It checks that the words are those of whole
//! mirror pairs, and that the table agrees with each smaller table in the same store and with the fingerprints that are
//! known. It writes `SHA256SUMS`, and then the manifest: a folder without a manifest is no table.
//!
//! The files follow from the journal and this program's version, so an interrupted publication is done again. A table
//! that is there with its manifest stays.

use std::path::Path;

use bytes::Bytes;
use chomp_store::{Journal, ShardSummary, Storage, StoreError, published};
use chomp_table::fingerprint::{Fingerprints, Leaf, combine};
use chomp_table::format::{Damage, FormatError};
use chomp_table::known::{self, OtherThanKnown};
use chomp_table::manifest::{
    MANIFEST_NAME, Manifest, SHA256SUMS_NAME, folder_name, losing_by_bits, sha256sums,
};
use chomp_table::reader::{AnyManifest, TableError};

#[cfg(test)]
mod tests;

/// Why a table was not published.
#[expect(missing_docs, reason = "the variants are named for what they are")]
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the shards do not make a table: {0}")]
    Shards(Damage),
    #[error(
        "the table is wrong: {counted} positions of at most {bits} bits are losing, but the stored ones and their mirror images \
         are {expected}. Do not use this table, build it anew in another directory"
    )]
    Asymmetric {
        bits: u32,
        counted: u64,
        /// The number of stored positions together with their mirror images. If it equals `counted`, some losing
        /// positions that are not stored are mirror images of others than the stored ones.
        expected: u64,
    },
    #[error(
        "{} says something else of the positions of {bits} bits: one of the two tables is wrong; \
         verify both, or build this one anew in another directory", folder_name(*smaller)
    )]
    Contradiction {
        /// The bits of the published table that contradicts this one.
        smaller: u32,
        /// The fewest bits at which the counts or the fingerprints differ.
        bits: u32,
    },
    #[error("a smaller table is wrong: remove it, and run again")]
    Smaller(#[source] TableError),
    #[error(
        "{0}. Some worker's result is wrong and was not found out: do not use this table, build it anew in another \
         directory with --replicas 2"
    )]
    OtherFingerprint(#[from] OtherThanKnown),
    #[error("the manifest of {folder} cannot be used")]
    Manifest { folder: String, source: FormatError },
}

impl PublishError {
    /// Whether the cause may be a wrong result for a shard, and not a failed read or a fault of a smaller table. Then
    /// the shards that one participant alone has found are merged again.
    pub(crate) fn is_contradiction(&self) -> bool {
        !matches!(
            self,
            PublishError::Store(_) | PublishError::Manifest { .. } | PublishError::Smaller(_)
        )
    }
}

/// Publishes the table of `bits` bits whose shards the journal has. Publishes nothing if it fails.
pub async fn publish(
    storage: &dyn Storage,
    journal: &Journal,
    bits: u32,
) -> Result<Manifest, PublishError> {
    // An empty segment proves that no other coordinator took over.
    journal.append(Vec::new()).await?;
    let (shards, range_bits, replicas) = {
        let ledger = journal.ledger();
        let shards = ledger.shards(bits).map(|(summary, _)| summary.clone());
        let shards: Vec<ShardSummary> = shards.collect();
        let heads = ledger.range_bits.head_count(bits);
        let replicas = ledger.done(heads).map(|(_, row, _)| row.replicas).min();
        (shards, ledger.range_bits, replicas.unwrap_or(1).max(1))
    };
    if let Some((number, _)) = (0..)
        .zip(&shards)
        .find(|(number, shard)| shard.number != *number)
    {
        let what = format!("shard {number} is missing");
        return Err(PublishError::Shards(Damage::new(what)));
    }
    let software = concat!("chomp ", env!("CARGO_PKG_VERSION")).to_owned();
    let fingerprints = fingerprints_of(bits, &shards)?;
    let infos: Vec<_> = shards.into_iter().filter_map(|shard| shard.shard).collect();
    let published = Manifest::new(range_bits, replicas, software, fingerprints, infos);
    let published = published.map_err(PublishError::Shards)?;
    known::compare_losing(&published.fingerprints_by_bits)?;
    compare_with_smaller(storage, &published).await?;
    let folder = folder_name(bits);
    // A manifest with the same fingerprint stays: the table is the same, though its replicas or the program's version
    // may have changed since.
    let there = published::manifest(storage, &folder).await?;
    let there = there.and_then(|bytes| Some((Manifest::parse(&bytes).ok()?, bytes)));
    let (published, bytes) = match there {
        Some((there, bytes)) if there.fingerprint == published.fingerprint => (there, bytes),
        _ => {
            let bytes = published.to_bytes().into();
            (published, bytes)
        }
    };
    let sums = sha256sums(&bytes, &published);
    put(storage, &folder, SHA256SUMS_NAME, sums.into()).await?;
    put(storage, &folder, MANIFEST_NAME, bytes).await?;
    Ok(published)
}

/// The fingerprints of the table that these shards make, once it is checked that their words are whole mirror pairs.
fn fingerprints_of(bits: u32, shards: &[ShardSummary]) -> Result<Fingerprints, PublishError> {
    let damage = |what: String| PublishError::Shards(Damage::new(what));
    let mut sums = vec![(0, 0_u64); bits as usize + 1];
    for (number, shard) in shards.iter().enumerate() {
        for length in &shard.sums {
            let sum = sums.get_mut(length.bits as usize);
            let (losing, check_sum) = sum.ok_or_else(|| {
                damage(format!("shard {number} has words of {} bits", length.bits))
            })?;
            *losing += length.losing;
            *check_sum = check_sum.wrapping_add(length.mirror_sum);
        }
    }
    let leaves: Vec<Leaf> = shards.iter().map(|shard| shard.leaf.clone()).collect();
    let fingerprints = combine(bits, &leaves).map_err(PublishError::Shards)?;
    let mut counted = 0;
    let by_bits = sums
        .into_iter()
        .zip(losing_by_bits(&fingerprints.stored_by_bits));
    for (bits, ((losing, check_sum), expected)) in (0..).zip(by_bits) {
        counted += losing;
        if counted != expected || check_sum != 0 {
            return Err(PublishError::Asymmetric {
                bits,
                counted,
                expected,
            });
        }
    }
    Ok(fingerprints)
}

async fn compare_with_smaller(
    storage: &dyn Storage,
    manifest: &Manifest,
) -> Result<(), PublishError> {
    for smaller in 0..manifest.bits {
        let folder = folder_name(smaller);
        let Some(bytes) = published::manifest(storage, &folder).await? else {
            continue;
        };
        let other = match Manifest::parse(&bytes) {
            Ok(other) => AnyManifest::from(other),
            Err(source) => return Err(PublishError::Manifest { folder, source }),
        };
        // The new table was compared with the known fingerprints already, so a difference here is a fault of the
        // smaller one.
        let known = other.check_known(Path::new(&folder));
        known.map_err(PublishError::Smaller)?;
        if let AnyManifest::Losing(other) = other {
            compare(manifest, &other)?;
        }
    }
    Ok(())
}

fn compare(manifest: &Manifest, other: &Manifest) -> Result<(), PublishError> {
    let smaller = other.bits;
    let count = |bits: u32| {
        let bits = bits as usize;
        manifest.losing_by_bits[bits] == other.losing_by_bits[bits]
    };
    let fingerprint = |bits: u32| {
        let of = |manifest: &Manifest| manifest.fingerprints_by_bits[bits as usize];
        of(manifest) == of(other)
    };
    match (0..=smaller).find(|&bits| !count(bits) || !fingerprint(bits)) {
        Some(bits) => Err(PublishError::Contradiction { smaller, bits }),
        None => Ok(()),
    }
}

async fn put(
    storage: &dyn Storage,
    folder: &str,
    name: &str,
    bytes: Bytes,
) -> Result<(), StoreError> {
    let key = published::key(folder, name).expect("these names can be part of a key");
    published::put(storage, folder, &key, bytes).await
}
