//! A seal: says that all ranges of a layer are committed, and with which content.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 16 | [envelope](super::envelope), magic `chompsea` |
//! | 16 | 4 | bits of the job: which heads a layer has depends on them |
//! | 20 | 4 | range bits |
//! | 24 | 4 | layer |
//! | 28 | 8 | epoch of the owner that wrote it |
//! | 36 | 32 | digest at the end of the seal of the layer before; zeros for layer 0 |
//! | 68 | 4 | number of ranges n: all of the layer |
//! | 72 | 48 n | for each range, heads ascending: head (8), losing positions (8), digest of the content (32) |
//! | 72 + 48 n | 32 | SHA-256 of the bytes before it |
//!
//! Versions: 1, the first.

use chomp_table::RangeBits;

use super::envelope::{Kind, Reader, SUMMARY, Writer, Wrong, check, check_ranges};
use chomp_table::{Digest, RangeSummary};

pub(super) const KIND: Kind = Kind {
    magic: b"chompsea",
    version: 1,
};

/// What stands before the first seal.
pub(super) const NO_SEAL: Digest = Digest([0; 32]);

/// The table and the layer that a seal is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) bits: u32,
    pub(super) range_bits: RangeBits,
    pub(super) layer: u32,
    /// The number of ranges in the layer.
    pub(super) ranges: usize,
}

/// A seal as it is read.
#[derive(Debug)]
pub(super) struct Seal {
    /// The digest of the seal before.
    pub(super) previous: Digest,
    pub(super) ranges: Vec<RangeSummary>,
    /// The digest of this seal.
    pub(super) digest: Digest,
}

impl Subject {
    /// The size of the seal in bytes.
    pub(super) fn size(self) -> u64 {
        (72 + SUMMARY * self.ranges + 32) as u64
    }

    /// Checks that `ranges` are all those of the layer, in order.
    pub(super) fn check(self, ranges: &[RangeSummary]) -> Result<(), Wrong> {
        check_ranges(ranges.iter(), self.range_bits, self.layer)?;
        // In order, of the layer, within the table and this many: so it is each of them once.
        let last = ranges.last().map(|range| range.head.0);
        check(
            last.is_none_or(|last| last < self.range_bits.heads(self.bits)),
            || format!("it has ranges beyond {} bits", self.bits),
        )?;
        check(ranges.len() == self.ranges, || {
            format!("it has {} ranges, the layer {}", ranges.len(), self.ranges)
        })
    }

    /// The bytes of a seal, and its digest.
    pub(super) fn encode(
        self,
        epoch: u64,
        previous: &Digest,
        ranges: &[RangeSummary],
    ) -> (Vec<u8>, Digest) {
        let mut writer = Writer::new(KIND);
        writer.u32(self.bits).u32(self.range_bits.get());
        writer.u32(self.layer).u64(epoch).digest(previous);
        writer.u32(u32::try_from(ranges.len()).expect("memory ends before that many ranges"));
        for range in ranges {
            writer.summary(range);
        }
        writer.finish()
    }

    pub(super) fn decode(self, bytes: &[u8]) -> Result<Seal, Wrong> {
        let mut reader = Reader::whole(KIND, bytes)?;
        let (bits, range_bits, layer) = (reader.u32()?, reader.range_bits()?, reader.u32()?);
        let (asked_bits, asked_range_bits) = (self.bits, self.range_bits);
        check(
            (bits, range_bits, layer) == (asked_bits, asked_range_bits, self.layer),
            || format!("it is for layer {layer} of {bits} bits with {range_bits} range bits"),
        )?;
        let _epoch = reader.u64()?;
        let previous = reader.digest()?;
        let ranges = (0..reader.entries(SUMMARY)?)
            .map(|_| reader.summary())
            .collect::<Result<Vec<_>, _>>()?;
        self.check(&ranges)?;
        Ok(Seal {
            previous,
            ranges,
            digest: reader.digest,
        })
    }
}
