//! The time to merge a range into a shard: `cargo bench -p chomp-store --bench merge`.
//!
//! The positions are made up, as many as in the middle of a table of 36 bits.

use std::hint::black_box;

use chomp_store::merge::{Merger, ShardBounds};
use chomp_table::range::{BUCKET_BITS, IndexBuckets};
use chomp_table::rng::Rng;
use chomp_table::shard::ShardSize;
use chomp_table::{Head, RangeBits};
use chomp_testing::ns_each;

/// The number of positions for each losing one, on average.
const RARITY: u64 = 180;
const RANGE_BITS: u32 = 24;
const BITS: u32 = 36;
/// Of its words 57 % are smaller than their mirror images, and so stored; of a whole table half are.
const HEAD: Head = Head(0xb6d);

fn losing() -> IndexBuckets {
    let mut rng = Rng(1);
    let (mut lows, mut first) = (Vec::new(), vec![0]);
    for _ in 0..1 << (RANGE_BITS - 1 - BUCKET_BITS) {
        lows.extend((0..=u16::MAX).filter(|_| rng.once_in(RARITY)));
        first.push(u32::try_from(lows.len()).expect("a part of 2^23"));
    }
    IndexBuckets::new(lows, first)
}

fn main() {
    let losing = losing();
    let range_bits = RangeBits::new(RANGE_BITS).expect("12 to 32");
    let words = losing.indices();
    let words = words.map(|index| HEAD.word(index.into(), range_bits));
    let stored = words.filter(|&word| word <= word.mirror()).count() as u64;
    let bounds = ShardBounds {
        number: 0,
        head: HEAD,
        skip: 0,
        end: Head(HEAD.0 + 1),
        last: true,
    };
    ns_each("merging a range", losing.len(), || {
        let mut merger = Merger::new(BITS, range_bits, ShardSize::PUBLISHED, bounds);
        merger
            .push(HEAD, black_box(&losing), stored)
            .expect("it is the next range");
        merger
    });
}
