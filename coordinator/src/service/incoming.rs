//! Results as they come from workers: everything is checked about them that can be without reading
//! a part.

use chomp_plan::HEAD_BITS_MAX;
use chomp_proto::v1::{self, complete_request};
use chomp_store::Merged;
use chomp_store::part::{self, Placed};
use chomp_table::range::{losing_max, max_record_len};
use chomp_table::shard::{INDEX_LENGTH_MAX, shard_name};
use chomp_table::{Digest, Head, RangeBits, RangeSummary};

use super::{TEXT_CHARS_MAX, excerpt};
use crate::job::Handed;

/// The longest description of a shard. That of a table of 64 bits has about 10 KiB.
const MERGED_BYTES_MAX: usize = 1 << 20;
/// What a part has before the first record.
const PART_HEADER: u64 = 16;

/// Why a result is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Wrong(String);

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), Wrong> {
    if holds { Ok(()) } else { Err(Wrong(what())) }
}

/// A result of a worker, in a job of so many bits.
pub(super) fn result(
    result: Option<complete_request::Result>,
    range_bits: RangeBits,
    bits: u32,
) -> Result<Handed, Wrong> {
    match result {
        Some(complete_request::Result::Evaluated(evaluated)) => {
            evaluated_ranges(evaluated.ranges, range_bits).map(Handed::Ranges)
        }
        Some(complete_request::Result::Checked(checked)) => Ok(Handed::Checked {
            refuted: checked.refutation.is_some(),
        }),
        Some(complete_request::Result::Merged(merged)) => {
            merged_shard(&merged.json, bits).map(|merged| Handed::Merged(Box::new(merged)))
        }
        None => Err(Wrong("a result without content".to_owned())),
    }
}

/// A digest of the right length.
pub(super) fn digest(bytes: &[u8]) -> Result<Digest, Wrong> {
    let digest = <[u8; 32]>::try_from(bytes);
    digest
        .map(Digest)
        .map_err(|_| Wrong(format!("a digest of {} bytes", bytes.len())))
}

/// A range as it is sent.
pub(super) fn summary(placed: &Placed) -> v1::Summary {
    let RangeSummary {
        head,
        count,
        stored,
        digest,
    } = placed.summary;
    v1::Summary {
        head: head.0,
        count,
        stored,
        digest: digest.0.to_vec(),
        offset: placed.offset,
        length: placed.length,
    }
}

fn evaluated_ranges(ranges: Vec<v1::Summary>, range_bits: RangeBits) -> Result<Vec<Placed>, Wrong> {
    ensure(ranges.len() <= part::RANGES_MAX, || {
        format!(
            "{} ranges, where {} are possible",
            ranges.len(),
            part::RANGES_MAX
        )
    })?;
    let mut placed: Vec<Placed> = Vec::with_capacity(ranges.len());
    let mut free = PART_HEADER;
    for range in ranges {
        let head = Head(range.head);
        let last = placed.last().map(|last| last.summary.head);
        ensure(last < Some(head), || {
            format!("range {head} comes out of order")
        })?;
        ensure(head.0 >> HEAD_BITS_MAX == 0, || {
            format!("range {head} is not of this table")
        })?;
        let most = losing_max(range_bits);
        ensure(range.stored <= range.count && range.count <= most, || {
            format!(
                "range {head} with {} losing positions, {} of them stored, where {most} are possible",
                range.count, range.stored
            )
        })?;
        let (start, length) = (u64::from(range.offset), u64::from(range.length));
        let fits = free <= start && start + length <= part::BYTES_MAX;
        ensure(
            fits && (1..=max_record_len(range_bits)).contains(&length),
            || format!("the record of range {head} cannot be at {start} with {length} bytes"),
        )?;
        free = start + length;
        placed.push(Placed {
            summary: RangeSummary {
                head,
                count: range.count,
                stored: range.stored,
                digest: digest(&range.digest)?,
            },
            offset: range.offset,
            length: range.length,
        });
    }
    Ok(placed)
}

fn merged_shard(json: &[u8], bits: u32) -> Result<Merged, Wrong> {
    ensure(json.len() <= MERGED_BYTES_MAX, || {
        format!("a shard described by {} bytes", json.len())
    })?;
    let merged: Merged = serde_json::from_slice(json)
        .map_err(|error| Wrong(excerpt(&error.to_string(), TEXT_CHARS_MAX)))?;
    check_merged(&merged, bits)
        .map_err(|Wrong(what)| Wrong(format!("shard {}: {what}", merged.number)))?;
    Ok(merged)
}

/// Whether a table of so many bits can have this shard.
fn check_merged(merged: &Merged, bits: u32) -> Result<(), Wrong> {
    let leaf = &merged.leaf;
    let words = merged.shard.as_ref().map_or(0, |shard| shard.entries);
    ensure(leaf.words == words, || {
        format!("a leaf of {} words and a shard of {words}", leaf.words)
    })?;
    if let Some(shard) = &merged.shard {
        let number = usize::try_from(merged.number).unwrap_or(usize::MAX);
        ensure(shard.name == shard_name(number), || {
            "another file name".to_owned()
        })?;
        let even = shard.first.is_multiple_of(2) && shard.last.is_multiple_of(2);
        let ordered = 2 <= shard.first && shard.first <= shard.last;
        ensure(
            even && ordered && u128::from(shard.last) < 1 << bits,
            || format!("words from {} to {}", shard.first, shard.last),
        )?;
        let room = (shard.last - shard.first) / 2 + 1;
        ensure(1 <= words && words <= room, || {
            format!("{words} words in room for {room}")
        })?;
        let index = shard.bytes.checked_sub(shard.index_offset);
        let index = index.is_some_and(|length| (1..=INDEX_LENGTH_MAX).contains(&length));
        ensure(index && shard.bytes <= part::BYTES_MAX, || {
            format!(
                "{} bytes and the index at {}",
                shard.bytes, shard.index_offset
            )
        })?;
    }
    let mut lengths = leaf
        .lengths
        .iter()
        .map(|length| (u64::from(length.bits), length.words));
    ensure(ascends(lengths.clone().map(|(of, _)| of), bits), || {
        "leaves of lengths out of order".to_owned()
    })?;
    ensure(lengths.clone().is_sorted_by_key(|(_, words)| words), || {
        "counts of a leaf that fall".to_owned()
    })?;
    ensure(
        lengths
            .next_back()
            .is_none_or(|(_, last)| last == leaf.words),
        || "counts of a leaf that do not end with its words".to_owned(),
    )?;
    let sums = merged.sums.iter();
    ensure(
        ascends(sums.clone().map(|sum| u64::from(sum.bits)), bits),
        || "sums of lengths out of order".to_owned(),
    )?;
    let possible = |sum: &chomp_store::ledger::LengthSums| {
        u128::from(sum.losing) <= 1 << sum.bits.saturating_sub(1)
    };
    ensure(sums.clone().all(possible), || {
        "more losing words than there are".to_owned()
    })
}

/// Whether these are different numbers of bits, ascending, of a table of so many.
fn ascends(numbers: impl Iterator<Item = u64> + Clone, bits: u32) -> bool {
    let mut last = numbers.clone();
    numbers.is_sorted_by(|one, next| one < next) && last.all(|number| number <= u64::from(bits))
}
