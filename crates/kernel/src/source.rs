//! A finished range in the form in which the ranges that depend on it read it.
//!
//! Losing positions are rare, so the high bits of their indices say little: they are kept once for each *bucket* of
//! 2^16 consecutive indices, and the low 16 bits for each index. That takes half the memory of a list of indices, and a
//! bucket's bits of a bitmap, 8 KiB, stay in the first-level cache while they are set.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::ops::Range as Span;

use chomp_table::format::FormatError;
use chomp_table::range::{self, IndexBuckets, decode_trusting_stored};
use chomp_table::{Head, Range, RangeBits};

use crate::chunk::{CHUNK_LEN, Chunk, u32_of, u32s};

/// The number of low bits that are kept for each index.
pub(crate) const BUCKET_BITS: usize = range::BUCKET_BITS as usize;
const BUCKET_U32S: usize = (1 << BUCKET_BITS) / u32::BITS as usize;

/// Finished ranges, by head.
pub trait Sources {
    /// The range of `head`, if it is here.
    fn find(&self, head: Head) -> Option<&Source>;
}

impl<S: BuildHasher> Sources for HashMap<Head, Source, S> {
    fn find(&self, head: Head) -> Option<&Source> {
        self.get(&head)
    }
}

/// A range cannot be evaluated without this source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("range {0} is needed as a source and is not here")]
pub struct MissingSource(pub Head);

/// The losing positions of a finished range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source(Range);

impl Source {
    /// `range` as a source.
    pub fn new(range: Range) -> Source {
        Source(range)
    }

    /// Checked as by [`decode_trusting_stored`]. Fails if this is not a record of a range with `range_bits`.
    pub fn decode(record: &[u8], range_bits: RangeBits) -> Result<Source, FormatError> {
        let (range, _) = decode_trusting_stored(record, range_bits)?;
        Ok(Source(range))
    }

    /// The head of the range.
    pub fn head(&self) -> Head {
        self.0.head
    }

    /// The losing positions.
    pub fn losing(&self) -> &IndexBuckets {
        &self.0.losing
    }

    /// The bytes of memory that it takes.
    pub fn memory(&self) -> u64 {
        size_of::<Source>() as u64 + self.losing().memory()
    }

    /// Bit x, for 0 ≤ x ≤ b: whether the path head · 0^x · 1^(b-x) is a losing position.
    pub fn edges(&self) -> u64 {
        self.0.edges
    }

    /// Whether the position at `index` is losing.
    pub fn contains(&self, index: u64) -> bool {
        self.losing().contains(index)
    }

    /// The losing indices from `indices.start` to before `indices.end`.
    pub fn between(&self, indices: Span<u64>) -> impl Iterator<Item = u64> {
        let runs = self.runs(indices);
        runs.flat_map(|(start, run)| run.iter().map(move |&low| start + u64::from(low)))
    }

    /// The losing indices of [`Source::between`] by buckets: the first index of each, and low bits.
    #[inline(always)]
    pub(crate) fn runs(&self, indices: Span<u64>) -> impl Iterator<Item = (u64, &[u16])> {
        let buckets = indices.start >> BUCKET_BITS..indices.end.div_ceil(1 << BUCKET_BITS);
        buckets.map(move |number| {
            let start = number << BUCKET_BITS;
            let bucket = self.bucket(number);
            let from = bucket.partition_point(|&low| start + u64::from(low) < indices.start);
            let to = bucket.partition_point(|&low| start + u64::from(low) < indices.end);
            (start, &bucket[from..to])
        })
    }

    /// The low bits of the losing indices that have these high bits.
    #[inline(always)]
    pub(crate) fn bucket(&self, number: u64) -> &[u16] {
        self.losing()
            .bucket(usize::try_from(number).unwrap_or(usize::MAX))
    }
}

/// The losing indices of a source from `first` on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SourceTail<'a> {
    pub(crate) source: &'a Source,
    /// A multiple of 2^16.
    pub(crate) first: u64,
}

/// Makes `set` the union of the losing indices of `parts`, each counted from where its part begins, without indices
/// beyond the set. The set has whole buckets, or less than one if the sources have no more. A bucket of the set takes
/// from all parts before the next bucket does, so each bucket is loaded into the first-level cache once.
#[inline(always)]
pub(crate) fn scatter(parts: &[SourceTail], set: &mut [Chunk]) {
    if set.len() * CHUNK_LEN < 1 << BUCKET_BITS {
        set.fill(Chunk::EMPTY);
        for part in parts {
            scatter_within(part.source.bucket(0), 0, set);
        }
        return;
    }
    let buckets = u32s(set).as_chunks_mut::<BUCKET_U32S>().0;
    for (number, u32s) in (0..).zip(buckets) {
        u32s.fill(0);
        for part in parts {
            let bucket = part.source.bucket((part.first >> BUCKET_BITS) + number);
            let (fours, rest) = bucket.as_chunks::<4>();
            for four in fours {
                for &low in four {
                    insert(u32s, low);
                }
            }
            for &low in rest {
                insert(u32s, low);
            }
        }
    }
}

#[inline(always)]
fn insert(u32s: &mut [u32; BUCKET_U32S], low: u16) {
    u32s[u32_of(low)] |= 1 << (u32::from(low) % u32::BITS);
}

/// Inserts `low - base` into `set`, which is smaller than a bucket, for each of `run`.
#[inline(always)]
pub(crate) fn scatter_within(run: &[u16], base: u16, set: &mut [Chunk]) {
    let u32s = u32s(set);
    for &low in run {
        let bit = low - base;
        u32s[u32_of(bit)] |= 1 << (u32::from(bit) % u32::BITS);
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the low bits are what is asked for"
)]
pub(crate) fn low(index: u64) -> u16 {
    index as u16
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::chunk::CHUNK_BITS;

    fn source(indices: &BTreeSet<u32>) -> Source {
        Source::new(Range {
            head: Head(5),
            losing: indices.iter().copied().collect(),
            edges: 9,
        })
    }

    /// The set of `index - first` for the indices from `first` on, as far as 2^`bits` go.
    fn slowly(indices: &BTreeSet<u32>, first: u64, bits: usize) -> Vec<Chunk> {
        let mut set = vec![Chunk::EMPTY; 1 << (bits - CHUNK_BITS)];
        let indices = indices.iter().map(|&index| u64::from(index));
        for index in indices.filter(|index| (first..first + (1 << bits)).contains(index)) {
            let bit = usize::try_from(index - first).unwrap();
            set[bit / CHUNK_LEN].insert(bit);
        }
        set
    }

    /// Indices of ranges with 12 to 32 range bits, many of them at the borders of buckets.
    fn indices() -> impl Strategy<Value = (usize, BTreeSet<u32>)> {
        (11usize..32).prop_flat_map(|q| {
            let last = (1u64 << q) - 1;
            let border = (0..=last >> BUCKET_BITS, -2i64..2).prop_map(move |(bucket, by)| {
                let index = (bucket << BUCKET_BITS).saturating_add_signed(by);
                u32::try_from(index.min(last)).unwrap()
            });
            let any = (0..=last).prop_map(|index| u32::try_from(index).unwrap());
            (
                Just(q),
                prop::collection::btree_set(prop_oneof![border, any], 0..200),
            )
        })
    }

    proptest! {
        #[test]
        fn it_holds_what_the_range_does((q, indices) in indices(), from in any::<u32>(), to in any::<u32>()) {
            let source = source(&indices);
            prop_assert_eq!((source.head(), source.edges()), (Head(5), 9));
            let all: Vec<u64> = indices.iter().map(|&index| index.into()).collect();
            prop_assert!(source.between(0..1 << q).eq(all.iter().copied()));
            let range_bits = RangeBits::new(u32::try_from(q).unwrap() + 1).unwrap();
            let edges = u64::from(indices.contains(&0)) << range_bits.get();
            let range = Range { head: Head(5), losing: indices.iter().copied().collect(), edges };
            if all.len() as u64 <= range::losing_max(range_bits) {
                let (_, record) = range::encode(&range, range_bits);
                let decoded = Source::decode(&record, range_bits).unwrap();
                prop_assert_eq!(decoded.losing(), &decode_trusting_stored(&record, range_bits).unwrap().0.losing);
                prop_assert_eq!((decoded.head(), decoded.edges()), (Head(5), edges));
                prop_assert!(decoded.between(0..1 << q).eq(all.iter().copied()));
                prop_assert!(decoded.between(0..2 << q).eq(all.iter().copied()));
            }
            let (from, to) = (u64::from(from.min(to)), u64::from(from.max(to)));
            let between = all.iter().copied().filter(|index| (from..to).contains(index));
            prop_assert!(source.between(from..to).eq(between));
            for index in all.iter().flat_map(|&index| [index.saturating_sub(1), index, index + 1]) {
                let holds = u32::try_from(index).is_ok_and(|index| indices.contains(&index));
                prop_assert_eq!(source.contains(index), holds);
            }
        }

        #[test]
        fn sources_are_scattered_as_their_ranges_say(
            (q, mut one) in indices(),
            (other_q, mut other) in indices(),
        ) {
            let q = q.min(other_q);
            for indices in [&mut one, &mut other] {
                indices.retain(|&index| u64::from(index) < 1 << q);
            }
            let sources = [source(&one), source(&other)];
            let scattered = |first: [u64; 2], bits: usize| {
                let part = |i: usize| SourceTail { source: &sources[i], first: first[i] };
                let mut set = vec![Chunk::EMPTY; 1 << (bits - CHUNK_BITS)];
                scatter(&[part(0), part(1)], &mut set);
                set
            };
            let both = |first: [u64; 2], bits: usize| {
                let mut set = slowly(&one, first[0], bits);
                for (chunk, more) in set.iter_mut().zip(slowly(&other, first[1], bits)) {
                    *chunk |= more;
                }
                set
            };
            if q <= 20 {
                prop_assert_eq!(scattered([0, 0], q), both([0, 0], q));
            }
            for bits in (BUCKET_BITS..=q).take(3) {
                let last = (1u64 << q) - (1 << bits);
                let first = [last, (last / 2) & !((1 << BUCKET_BITS) - 1)];
                prop_assert_eq!(scattered(first, bits), both(first, bits));
            }
        }
    }

    #[test]
    fn it_takes_little_more_than_two_bytes_for_each_position() {
        let indices: BTreeSet<u32> = (0..1 << 24).step_by(200).collect();
        let bytes = source(&indices).memory();
        let least = 2 * indices.len() as u64;
        assert!(
            (least..least * 21 / 20 + (2 << 13)).contains(&bytes),
            "{bytes} for {least}"
        );
    }

    #[test]
    fn crowded_buckets_are_as_others() {
        for step in [1, 2, 7, 8, 9] {
            let indices: BTreeSet<u32> = (0..1 << 18).step_by(step).collect();
            let source = source(&indices);
            let all = indices.iter().map(|&index| u64::from(index));
            assert!(source.between(0..1 << 18).eq(all), "{step}");
            let mut set = vec![Chunk::EMPTY; 1 << (18 - CHUNK_BITS)];
            let part = SourceTail {
                source: &source,
                first: 0,
            };
            scatter(&[part], &mut set);
            assert_eq!(set, slowly(&indices, 0, 18), "{step}");
        }
    }
}
