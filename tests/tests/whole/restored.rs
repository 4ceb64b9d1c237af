//! A published table is extended without its parts: its ranges come back from its shards.

use std::fs;
use std::path::Path;

use crate::common::{
    Ended, FINGERPRINT_28, copy, end, fingerprint, folder, number, ranges_done, run, run_in, send,
    start, wait, wait_until,
};
use chomp_table::known;
use nix::sys::signal::Signal;

/// Some thousand ranges, and some hundred.
const RANGE_BITS: u32 = 14;
const STEP_RANGE_BITS: u32 = 20;

/// Fails unless a run of so many bits evaluated only what the table of `before` bits does not have.
fn extends(ended: &Ended, range_bits: u32, before: u32, bits: u32) {
    let summary = ended.summary();
    let known = known::fingerprints().find(|(of, _)| *of == bits).unwrap();
    assert_eq!(fingerprint(&summary), known.1.to_string());
    let heads = |bits: u32| 1_u64 << (bits - range_bits);
    let evaluated = number(&summary, "ranges_evaluated");
    assert_eq!(
        evaluated,
        heads(bits) - heads(before),
        "{before} to {bits} bits"
    );
}

/// What a download is, in a directory of its own.
fn published(from: &Path, bits: u32) -> tempfile::TempDir {
    let directory = folder();
    let name = format!("table-{bits}");
    copy(&from.join(&name), &directory.path().join(&name));
    directory
}

#[test]
fn step_by_step_each_from_what_was_published_before() {
    let mut directory = folder();
    end(&mut run(directory.path(), 25)).summary();
    for bits in 26..=32 {
        directory = published(directory.path(), bits - 1);
        let ended = end(&mut run_in(directory.path(), bits, STEP_RANGE_BITS));
        extends(&ended, STEP_RANGE_BITS, bits - 1, bits);
    }
}

#[test]
fn killed_while_it_restores() {
    let first = folder();
    end(&mut run(first.path(), 27)).summary();
    let directory = published(first.path(), 27);
    let table = directory.path();
    let all = 1_u64 << (27 - RANGE_BITS);
    let mut before = 0;
    for kill in 1..=3 {
        let mut child = start(&mut run_in(table, 29, RANGE_BITS));
        assert!(wait_until(&mut child, || ranges_done(table) > before));
        send(child.id(), Signal::SIGKILL);
        wait(child);
        let restored = ranges_done(table);
        assert!(
            restored > before && restored < all,
            "{restored} after {kill} kills"
        );
        before = restored;
    }
    let ended = end(&mut run_in(table, 29, RANGE_BITS));
    extends(&ended, RANGE_BITS, 27, 29);
}

/// What it cannot give is computed.
#[test]
fn a_damaged_shard_is_named_and_its_ranges_are_computed() {
    let first = folder();
    end(&mut run(first.path(), 26)).summary();
    let table = first.path();
    let shard = table.join("table-26/shard-0000.zst");
    let mut bytes = fs::read(&shard).unwrap();
    bytes[1000] ^= 16;
    fs::write(&shard, bytes).unwrap();
    let ended = end(&mut run_in(table, 28, RANGE_BITS));
    let summary = ended.summary();
    assert_eq!(fingerprint(&summary), FINGERPRINT_28);
    assert_eq!(number(&summary, "ranges_evaluated"), 1 << (28 - RANGE_BITS));
    assert!(ended.stderr.contains(shard.to_str().unwrap()), "{ended:?}");
    assert!(
        ended.stderr.contains("the others are computed"),
        "{ended:?}"
    );
}
