//! The right ranges, and wrong ones.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use bytes::Bytes;
use chomp_kernel::{Isa, evaluate_table};
use chomp_table::range::{self, RangeSummary};
use chomp_table::{Digest, Head, Range};

use crate::testing::range_bits;

/// The bits of the smallest table here.
pub(super) const BITS_MIN: u32 = 13;
/// The bits of the largest table here: 16 ranges in 11 layers.
pub(super) const BITS_MAX: u32 = 16;
/// So small that a table has several shards.
pub(super) const SHARD_WORDS: u64 = 64;

pub(super) type Record = (RangeSummary, Bytes);

/// The right records, and wrong ones.
#[derive(Debug)]
pub(super) struct Expected {
    /// By head.
    records: Vec<Record>,
    /// The records with one position too many or too few.
    lies: Vec<Record>,
}

impl Expected {
    pub(super) fn get() -> &'static Expected {
        static EXPECTED: OnceLock<Expected> = OnceLock::new();
        EXPECTED.get_or_init(Expected::new)
    }

    fn new() -> Expected {
        let ranges = evaluate_table(BITS_MAX, range_bits(), Isa::Portable);
        let heads = (0..range_bits().heads(BITS_MAX)).map(Head);
        let record = |range: &Range| {
            let (summary, record) = range::encode(range, range_bits());
            (summary, Bytes::from(record))
        };
        Expected {
            records: heads.clone().map(|head| record(&ranges[&head])).collect(),
            lies: heads.map(|head| record(&lie(&ranges[&head]))).collect(),
        }
    }

    pub(super) fn digest(&self, head: Head) -> Digest {
        self.record(head).0.digest
    }

    pub(super) fn record(&self, head: Head) -> &Record {
        &self.records[usize::try_from(head.0).unwrap()]
    }

    pub(super) fn lie(&self, head: Head) -> &Record {
        &self.lies[usize::try_from(head.0).unwrap()]
    }
}

/// The range with one bit wrong.
fn lie(range: &Range) -> Range {
    let mut losing: BTreeSet<u32> = range.losing.indices().collect();
    if range.head.0.is_multiple_of(2) && losing.len() > 1 {
        losing.pop_last();
    } else {
        losing.extend((1..2048).find(|index| !losing.contains(index)));
    }
    Range {
        losing: losing.into_iter().collect(),
        ..range.clone()
    }
}
