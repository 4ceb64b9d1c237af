//! Tests of the cache.

use chomp_kernel::Source;
use chomp_table::{Range, RangeBits};

use super::*;

fn range_bits() -> RangeBits {
    RangeBits::new(20).unwrap()
}

/// A range of about `kib` KiB.
fn range(head: u64, kib: u32) -> Arc<Source> {
    Arc::new(Source::new(Range {
        head: Head(head),
        losing: (0..kib * 512).map(|number| number * 64).collect(),
        edges: 0,
    }))
}

fn digest(number: u64) -> Digest {
    Digest::of(&number.to_le_bytes())
}

/// The place of a range whose record has this digest.
fn place(head: u64, digest: Digest) -> (Head, RangeRow) {
    let row = RangeRow {
        lease: 1,
        layer: 0,
        offset: 0,
        length: 0,
        replicas: 1,
        count: 0,
        stored: 0,
        digest,
    };
    (Head(head), row)
}

fn insert(cache: &RangeCache, head: u64, kib: u32) {
    cache.insert(digest(head), range(head, kib));
}

/// The heads of `heads` that are not there.
fn missing(cache: &RangeCache, heads: &[u64]) -> Vec<u64> {
    let rows = heads.iter().map(|&head| place(head, digest(head)));
    let missing = cache.collect_cached(rows.collect(), &mut TaskSources::default());
    missing.into_iter().map(|(head, _)| head.0).collect()
}

#[test]
fn what_is_used_stays_and_the_bound_is_kept() {
    let bytes_max = 20 << 20;
    let cache = RangeCache::new(bytes_max, range_bits());
    (0..4).for_each(|head| insert(&cache, head, 1000));
    for head in 100..400 {
        assert!(missing(&cache, &[0, 1, 2, 3]).is_empty(), "{head}");
        insert(&cache, head, 500 + u32::try_from(head).unwrap());
        assert!(cache.bytes() <= bytes_max);
    }
    assert!(cache.bytes() > bytes_max / 2, "the room is used");
    let mut sources = TaskSources::default();
    cache.collect_cached(vec![place(3, digest(3))], &mut sources);
    assert_eq!(sources.find(Head(3)), Some(&*range(3, 1000)));
    insert(&cache, 999, 30_000);
    assert_eq!(missing(&cache, &[999]), [999], "too large for all of it");
}

#[test]
fn a_range_with_another_digest_is_another_range() {
    let cache = RangeCache::new(1 << 24, range_bits());
    cache.insert(digest(1), range(5, 10));
    let mut sources = TaskSources::default();
    let other = place(5, digest(2));
    assert_eq!(cache.collect_cached(vec![other], &mut sources), [other]);
    assert!(sources.find(Head(5)).is_none());
    cache.insert(digest(2), range(5, 20));
    assert_eq!(cache.collect_cached(vec![other], &mut sources), []);
    assert_eq!(sources.find(Head(5)), Some(&*range(5, 20)));
    let first = place(5, digest(1));
    assert_eq!(
        cache.collect_cached(vec![first], &mut TaskSources::default()),
        [first]
    );
    let bytes = range(5, 20).memory();
    assert!((bytes..bytes * 2).contains(&cache.bytes()));
}

#[test]
fn equal_calls_have_equal_results() {
    let log = || {
        let cache = RangeCache::new(8 << 20, range_bits());
        let mut rng = fastrand::Rng::with_seed(1);
        let step = |_| {
            let head = rng.u64(..100) * rng.u64(..100) / 100;
            let gone = !missing(&cache, &[head]).is_empty();
            if gone {
                insert(&cache, head, rng.u32(..1000));
            }
            (head, gone, cache.bytes())
        };
        (0..2000).map(step).collect::<Vec<_>>()
    };
    assert_eq!(log(), log());
}
