//! Results as they come from workers. Everything about them is checked that can be checked without
//! reading a part.

use chomp_plan::{LeaseId, TaskResult};
use chomp_proto::v1::{self, complete_request};
use chomp_store::ShardSummary;
use chomp_store::part::{self, PlacedRange};
use chomp_table::{Digest, Head, RangeBits, RangeSummary};

use super::{TEXT_CHARS_MAX, excerpt};
use crate::tools::UnitLocation;

/// The longest description of a shard. That of a table of 64 bits has about 10 KiB.
const MERGED_BYTES_MAX: usize = 1 << 20;

/// Why a message of a worker is no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct BadResult(String);

/// Parses the result of a worker under this lease, in a job of `bits` bits.
pub(super) fn result(
    result: Option<complete_request::Result>,
    lease: LeaseId,
    range_bits: RangeBits,
    bits: u32,
) -> Result<TaskResult<UnitLocation>, BadResult> {
    match result {
        Some(complete_request::Result::Evaluated(evaluated)) => {
            let ranges = evaluated_ranges(evaluated.ranges, range_bits)?;
            Ok(UnitLocation::in_part(lease, ranges))
        }
        Some(complete_request::Result::Merged(summary)) => {
            let summary = merged_shard(&summary.json, bits)?;
            Ok(UnitLocation::in_file(Box::new(summary)))
        }
        None => Err(BadResult("a result without content".to_owned())),
    }
}

/// Whether the coordinator takes `sent` for a result, in a job of `bits` bits.
///
/// # Panics
///
/// If the ranges in it would be sent on otherwise than they came.
#[cfg(feature = "fuzzing")]
pub fn is_result(sent: v1::CompleteRequest, range_bits: RangeBits, bits: u32) -> bool {
    let said = sent.result.clone();
    if let Some(complete_request::Result::Evaluated(said)) = said
        && let Ok(placed) = evaluated_ranges(said.ranges.clone(), range_bits)
    {
        let again: Vec<v1::Summary> = placed.iter().map(summary).collect();
        assert_eq!(again, said.ranges, "ranges come back");
    }
    result(sent.result, LeaseId(0), range_bits, bits).is_ok()
}

/// A digest of the right length.
pub(super) fn digest(bytes: &[u8]) -> Result<Digest, BadResult> {
    let digest = <[u8; 32]>::try_from(bytes);
    digest
        .map(Digest)
        .map_err(|_| BadResult(format!("a digest of {} bytes", bytes.len())))
}

/// A range as it is sent.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) fn summary(placed: &PlacedRange) -> v1::Summary {
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

fn evaluated_ranges(
    ranges: Vec<v1::Summary>,
    range_bits: RangeBits,
) -> Result<Vec<PlacedRange>, BadResult> {
    let (count, most) = (ranges.len(), part::RANGES_MAX);
    if count > most {
        return Err(BadResult(format!(
            "{count} ranges, where {most} are possible"
        )));
    }
    let mut placed: Vec<PlacedRange> = Vec::with_capacity(ranges.len());
    let mut free = part::HEADER_BYTES;
    for range in ranges {
        let head = Head(range.head);
        let last = placed.last().map(|last| last.summary.head);
        if last >= Some(head) {
            return Err(BadResult(format!("range {head} comes out of order")));
        }
        let range = PlacedRange {
            summary: RangeSummary {
                head,
                count: range.count,
                stored: range.stored,
                digest: digest(&range.digest)?,
            },
            offset: range.offset,
            length: range.length,
        };
        let checked = range.validate(range_bits);
        checked.map_err(|damage| BadResult(damage.to_string()))?;
        if free != u64::from(range.offset) {
            let at = format!("{} with {} bytes", range.offset, range.length);
            return Err(BadResult(format!(
                "the record of range {head} cannot be at {at}"
            )));
        }
        free = range.end();
        placed.push(range);
    }
    Ok(placed)
}

fn merged_shard(json: &[u8], bits: u32) -> Result<ShardSummary, BadResult> {
    let bytes = json.len();
    if bytes > MERGED_BYTES_MAX {
        return Err(BadResult(format!("a shard described by {bytes} bytes")));
    }
    let summary = ShardSummary::parse(json, bits);
    summary.map_err(|damage| BadResult(excerpt(&damage.to_string(), TEXT_CHARS_MAX)))
}
