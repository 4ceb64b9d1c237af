//! The import: ranges made again from the shards of a published table.
//!
//! The working files of a finished table may be gone. A table of more bits can still be built on
//! it, for its shards hold all that the ranges did: every stored word, and its mirror image. What
//! comes of it are the records that evaluation gives, byte for byte, committed as if workers had
//! submitted them. A range that is committed already is left alone, so an import that was
//! interrupted goes on at the next start.
//!
//! Mirror images scatter over the whole table, so each pass over the shards picks the words of
//! a band of heads that fits into memory. A first pass counts what each range has.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range as Span;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use chomp_table::range::{self, RangeSummary};
use chomp_table::word::mask;
use chomp_table::{Head, Range, RangeBits, Table, TableError, Word};

use crate::store::{PART_RANGES_MAX, PART_RECORDS_BYTES_MAX, Progress, Store, StoreError};

/// The words of a band: 256 MiB of 4 bytes each. A table of 34 bits has fewer.
const BAND_WORDS: u64 = 1 << 26;

/// Why ranges were not imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The published table is damaged, or cannot be read.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The store failed, or is damaged.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A seal says that a range had another content.
    #[error(
        "{} and the seals of this table differ on range {head}: nothing in this table can be trusted; \
         build it anew in another directory",
        folder.display()
    )]
    Disagrees {
        /// The range.
        head: Head,
        /// The published table.
        folder: PathBuf,
    },
}

/// Imports what `found` lacks and `published` has; returns what is there then.
///
/// # Errors
///
/// [`ImportError`]; what was imported before stays.
pub(crate) async fn complete(
    store: &Arc<Store>,
    mut found: Progress,
    published: Option<Table>,
) -> Result<Progress, ImportError> {
    let Some(table) = published else {
        return Ok(found);
    };
    let (store, runtime) = (Arc::clone(store), tokio::runtime::Handle::current());
    // Decoding and sorting are work for a CPU, not for the threads that serve calls.
    let import = tokio::task::spawn_blocking(move || {
        let import = import(&store, &table, &found.expected, BAND_WORDS);
        found.add(runtime.block_on(import)?);
        Ok(found)
    });
    import
        .await
        .unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

/// Commits the ranges that `table` has and `store` lacks, with at most `band_words` words, or one
/// range, in memory; returns them. `expected` are the ranges of which the content is known.
async fn import(
    store: &Store,
    table: &Table,
    expected: &[RangeSummary],
    band_words: u64,
) -> Result<Vec<RangeSummary>, ImportError> {
    let (range_bits, bits) = (store.range_bits(), table.manifest().bits);
    if bits < range_bits.get() {
        // Even the first range has more words than the table.
        return Ok(Vec::new());
    }
    let heads = range_bits.heads(bits.min(store.bits()));
    if (0..heads).all(|head| store.is_committed(Head(head))) {
        return Ok(Vec::new());
    }
    table.verify_bytes()?;
    let mut counts = count(table, range_bits, heads)?;
    for (head, count) in (0..).zip(&mut counts) {
        if store.is_committed(Head(head)) {
            *count = None;
        }
    }
    let expected: HashMap<Head, RangeSummary> =
        expected.iter().map(|range| (range.head, *range)).collect();
    let mut imported = Vec::new();
    for band in bands(&counts, band_words) {
        let mut layers: BTreeMap<u32, Vec<(RangeSummary, Bytes)>> = BTreeMap::new();
        for range in collect(table, range_bits, &counts, band)? {
            let (summary, record) = range::encode(&range, range_bits);
            if expected
                .get(&summary.head)
                .is_some_and(|known| *known != summary)
            {
                return Err(ImportError::Disagrees {
                    head: summary.head,
                    folder: table.folder().to_owned(),
                });
            }
            imported.push(summary);
            let layer = layers.entry(range.head.layer()).or_default();
            layer.push((summary, record.into()));
        }
        for (layer, records) in layers {
            for part in parts(records) {
                let replicas = table.manifest().replicas;
                store.commit_with(replicas, layer, part).await?;
            }
        }
    }
    Ok(imported)
}

/// How many losing words each of the first `heads` ranges has; none for those not wanted.
fn count(table: &Table, range_bits: RangeBits, heads: u64) -> Result<Vec<Option<u64>>, TableError> {
    let mut counts = vec![Some(0); usize::try_from(heads).expect("a plan has fewer ranges")];
    for words in table.words() {
        for_each_losing(&words?, |word| {
            let head = usize::try_from(word >> range_bits.get()).ok();
            if let Some(Some(count)) = head.and_then(|head| counts.get_mut(head)) {
                *count += 1;
            }
        });
    }
    Ok(counts)
}

/// Cuts the wanted heads into runs of at most `band_words` words, or one range.
fn bands(counts: &[Option<u64>], band_words: u64) -> Vec<Span<usize>> {
    let mut bands: Vec<Span<usize>> = Vec::new();
    let mut words = 0;
    for (head, count) in counts.iter().enumerate() {
        let Some(count) = count else { continue };
        match bands.last_mut() {
            Some(band) if words + count <= band_words => band.end = head + 1,
            _ => {
                bands.push(head..head + 1);
                words = 0;
            }
        }
        words += count;
    }
    bands
}

/// The wanted ranges of a band.
fn collect(
    table: &Table,
    range_bits: RangeBits,
    counts: &[Option<u64>],
    band: Span<usize>,
) -> Result<Vec<Range>, TableError> {
    let counts = &counts[band.clone()];
    let with_room = |count: &Option<u64>| {
        count.map(|count| {
            Vec::with_capacity(usize::try_from(count).expect("counted words fit into memory"))
        })
    };
    let mut losing: Vec<Option<Vec<u32>>> = counts.iter().map(with_room).collect();
    let (b, first) = (range_bits.get(), band.start as u64);
    for words in table.words() {
        for_each_losing(&words?, |word| {
            let slot = usize::try_from((word >> b).wrapping_sub(first)).ok();
            if let Some(Some(losing)) = slot.and_then(|slot| losing.get_mut(slot)) {
                let index = (word & mask(b)) >> 1;
                losing.push(u32::try_from(index).expect("a range has at most 2^31 positions"));
            }
        });
    }
    let mut ranges = Vec::with_capacity(losing.len());
    // Heads ascend, so the lookups of edges go through the table in a few ascending runs.
    for (head, losing) in (first..).map(Head).zip(losing) {
        let Some(mut losing) = losing else { continue };
        losing.sort_unstable();
        let edges = edges(table, range_bits, head)?;
        ranges.push(Range {
            head,
            losing,
            edges,
        });
    }
    Ok(ranges)
}

/// Calls `take` with each of the stored words and with its mirror image.
fn for_each_losing(words: &[u64], mut take: impl FnMut(u64)) {
    for &word in words {
        take(word);
        let mirror = (!word).reverse_bits() >> word.leading_zeros();
        if mirror != word {
            take(mirror);
        }
    }
}

fn edges(table: &Table, range_bits: RangeBits, head: Head) -> Result<u64, TableError> {
    let b = range_bits.get();
    let mut edges = 0;
    for x in 0..=b {
        let word = Word::new(head.0 << b | mask(b - x));
        edges |= u64::from(table.is_losing(word)?) << x;
    }
    Ok(edges)
}

/// Cuts the records of a layer so that each piece fits into a part.
fn parts(records: Vec<(RangeSummary, Bytes)>) -> Vec<Vec<(RangeSummary, Bytes)>> {
    let mut parts: Vec<Vec<(RangeSummary, Bytes)>> = Vec::new();
    let mut bytes = 0;
    for record in records {
        let length = record.1.len() as u64;
        match parts.last_mut() {
            Some(part)
                if part.len() < PART_RANGES_MAX && bytes + length <= PART_RECORDS_BYTES_MAX =>
            {
                part.push(record);
            }
            _ => {
                parts.push(vec![record]);
                bytes = 0;
            }
        }
        bytes += length;
    }
    parts
}

#[cfg(test)]
mod tests;
