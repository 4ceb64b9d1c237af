//! Results as they come from workers. Everything about them is checked that can be checked without reading a part.

use chomp_plan::{LeaseId, TaskResult};
use chomp_proto::v1::{self, complete_request};
use chomp_store::ShardSummary;
use chomp_store::part::{self, PlacedRange};
use chomp_table::format::Damage;
use chomp_table::{Digest, Head, RangeBits, RangeSummary};

use super::{TEXT_CHARS_MAX, excerpt};
use crate::tools::UnitLocation;

/// The longest description of a shard. That of a table of 64 bits has about 10 KiB.
const MERGED_BYTES_MAX: usize = 1 << 20;

pub(super) fn result(
    result: Option<complete_request::Result>,
    lease: LeaseId,
    range_bits: RangeBits,
    bits: u32,
) -> Result<TaskResult<UnitLocation>, Damage> {
    match result {
        Some(complete_request::Result::Evaluated(evaluated)) => {
            let ranges = evaluated_ranges(evaluated.ranges, range_bits)?;
            Ok(UnitLocation::in_part(lease, ranges))
        }
        Some(complete_request::Result::Merged(v1::Merged { json, is_forged })) => {
            let summary = merged_shard(&json, bits)?;
            Ok(UnitLocation::in_file(Box::new(summary), is_forged))
        }
        None => Err(Damage::new("a result without content")),
    }
}

/// Whether the coordinator accepts `sent` as a result, in a job of `bits` bits. Panics if the decoded ranges, encoded
/// again, differ from those in `sent`.
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

pub(super) fn digest(bytes: &[u8]) -> Result<Digest, Damage> {
    let digest = <[u8; 32]>::try_from(bytes);
    digest
        .map(Digest)
        .map_err(|_| Damage::new(format!("a digest of {} bytes", bytes.len())))
}

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
) -> Result<Vec<PlacedRange>, Damage> {
    let (count, most) = (ranges.len(), part::RANGES_MAX);
    if count > most {
        return Err(Damage::new(format!(
            "{count} ranges, where {most} are possible"
        )));
    }
    let mut placed: Vec<PlacedRange> = Vec::with_capacity(ranges.len());
    let mut free = part::HEADER_BYTES;
    for range in ranges {
        let head = Head(range.head);
        let last = placed.last().map(|last| last.summary.head);
        if last >= Some(head) {
            return Err(Damage::new(format!("range {head} comes out of order")));
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
        range.validate(range_bits)?;
        if free != u64::from(range.offset) {
            let at = format!("{} with {} bytes", range.offset, range.length);
            return Err(Damage::new(format!(
                "the record of range {head} cannot be at {at}"
            )));
        }
        free = range.end();
        placed.push(range);
    }
    Ok(placed)
}

fn merged_shard(json: &[u8], bits: u32) -> Result<ShardSummary, Damage> {
    let bytes = json.len();
    if bytes > MERGED_BYTES_MAX {
        return Err(Damage::new(format!("a shard described by {bytes} bytes")));
    }
    let summary = ShardSummary::parse(json, bits);
    summary.map_err(|damage| Damage::new(excerpt(&damage.to_string(), TEXT_CHARS_MAX)))
}
