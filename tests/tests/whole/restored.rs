//! A published table is extended without its parts: its ranges come back from its shards.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::Duration;

use crate::common::{
    FINGERPRINT_28, change, copy, end, files, finished, folder, number, ranges_done, run_in, start,
};
use chomp_table::known;
use chomp_table::rng::Rng;
use chomp_testing::trials;

const RANGE_BITS: u32 = 14;
const STEP_RANGE_BITS: u32 = 20;

fn known(bits: u32) -> String {
    let known = known::fingerprints().find(|(of, _)| *of == bits);
    known.unwrap().1.to_string()
}

/// The ranges of a step to the table of `bits` bits.
fn ranges_of_step(bits: u32) -> u64 {
    1 << (bits - 1 - STEP_RANGE_BITS)
}

/// A copy of the published table alone, as a download gives it.
fn published(from: &Path, bits: u32) -> tempfile::TempDir {
    let directory = folder();
    let name = format!("table-{bits}");
    copy(&from.join(&name), &directory.path().join(&name));
    directory
}

#[test]
fn step_by_step_each_from_what_was_published_before() {
    let mut directory = finished(25);
    for bits in 26..=30 {
        directory = published(directory.path(), bits - 1);
        let ended = end(&mut run_in(directory.path(), bits, STEP_RANGE_BITS));
        let evaluated = number(&ended.made(&known(bits)), "ranges_evaluated");
        assert_eq!(evaluated, ranges_of_step(bits), "to {bits} bits");
    }
}

#[test]
fn killed_while_it_restores() {
    let first = finished(28);
    let amid = AtomicU32::new(0);
    trials("kills while ranges are restored")
        .at_least(8)
        .run(|seed| {
            let directory = published(first.path(), 28);
            let table = directory.path();
            let journal = table.join("work/journal");
            let mut child = start(&mut run_in(table, 29, STEP_RANGE_BITS));
            assert!(child.wait_until(|| !files(&journal).is_empty()));
            sleep(Duration::from_millis(Rng(seed).below(60)));
            child.kill();
            amid.fetch_add(u32::from(ranges_done(table) == 0), Ordering::Relaxed);
            let summary = end(&mut run_in(table, 29, STEP_RANGE_BITS)).made(&known(29));
            assert!(number(&summary, "ranges_evaluated") <= ranges_of_step(29));
        });
    assert!(amid.into_inner() > 0, "no kill came before the end of it");
}

/// The damage is in the first shard, and all ranges are computed.
#[test]
fn a_damaged_shard_is_named_and_its_ranges_are_computed() {
    let first = finished(26);
    let table = first.path();
    let shard = table.join("table-26/shard-0000.zst");
    change(&shard, |bytes| bytes[1000] ^= 16);
    let ended = end(&mut run_in(table, 28, RANGE_BITS));
    let summary = ended.made(FINGERPRINT_28);
    assert_eq!(number(&summary, "ranges_evaluated"), 1 << (28 - RANGE_BITS));
    ended.says(shard.to_str().unwrap());
    ended.says("the others are computed");
}
