//! A finished table needs no working files: they are removed, and a larger table is computed anew, or from
//! the ranges that were kept. The unfinished job of another version is refused.

use std::fs;
use std::path::Path;

use crate::common::{
    FINGERPRINT_20, FINGERPRINT_24, end, exists, files, folder, number, ranges_done, run, run_in,
    start, wait, wait_until,
};
use chomp_table::{Digest, Table};

const RANGE_BITS: u32 = 13;

/// Asserts that the working files of a table are its journal alone, in which nothing is done any more.
fn assert_pruned(table: &Path) {
    assert!(files(&table.join("work/parts")).is_empty());
    assert_eq!(files(&table.join("work/checkpoints")).len(), 1);
    assert_eq!(ranges_done(table), 0);
}

#[test]
fn they_are_removed_unless_they_are_to_be_kept() {
    let directory = folder();
    let table = directory.path();
    end(run_in(table, 20, RANGE_BITS).arg("--keep-parts")).summary();
    assert_eq!(ranges_done(table), 1 << 7);
    // The next run has nothing else to do.
    for _ in 0..2 {
        let summary = end(&mut run_in(table, 20, RANGE_BITS)).summary();
        assert_eq!(number(&summary, "ranges_evaluated"), 0);
        assert_pruned(table);
    }
}

/// Damage in what is not needed any more does not keep the table from answering.
#[test]
fn damaged_ones_are_left_alone() {
    let directory = folder();
    let table = directory.path();
    end(run_in(table, 20, RANGE_BITS).arg("--keep-parts")).summary();
    let segment = files(&table.join("work/journal")).pop().unwrap();
    fs::write(&segment, "damage").unwrap();
    let before = files(&table.join("work"));
    let ended = end(&mut run_in(table, 20, RANGE_BITS));
    ended.made(FINGERPRINT_20);
    ended.says("is damaged");
    assert_eq!(files(&table.join("work")), before);
}

#[test]
fn a_table_is_extended() {
    let all = 1 << (24 - RANGE_BITS);
    for is_kept in [false, true] {
        let directory = folder();
        let table = directory.path();
        let mut smaller = run_in(table, 20, RANGE_BITS);
        smaller.args(is_kept.then_some("--keep-parts"));
        let there = number(&end(&mut smaller).summary(), "ranges_evaluated");
        let summary = end(&mut run(table, 24)).made(FINGERPRINT_24);
        // Without parts nothing depends on their ranges, and the usual ones are taken.
        let evaluated = number(&summary, "ranges_evaluated");
        assert_eq!(is_kept, evaluated == all - there, "{evaluated}");
        Table::open(table).unwrap().verify_bytes().unwrap();
        assert_pruned(table);
    }
}

/// Shards alone, as they are downloaded: the larger table must agree with them.
#[test]
fn downloaded_shards_are_extended() {
    let made = folder();
    end(&mut run_in(made.path(), 20, RANGE_BITS)).summary();
    let directory = folder();
    let table = directory.path();
    fs::rename(made.path().join("table-20"), table.join("table-20")).unwrap();
    // Any range bits will do.
    end(&mut run_in(table, 24, 16)).made(FINGERPRINT_24);
}

#[test]
fn killed_while_it_removes_them() {
    let directory = folder();
    let table = directory.path();
    for bits in [22, 24] {
        let mut child = start(&mut run_in(table, bits, 12));
        let manifest = table.join(format!("table-{bits}/manifest.json"));
        wait_until(&mut child, || exists(&manifest));
        child.kill().unwrap();
        wait(child);
    }
    end(&mut run_in(table, 24, 12)).made(FINGERPRINT_24);
    assert_pruned(table);
    Table::open(table).unwrap().verify_bytes().unwrap();
}

#[test]
fn an_unfinished_job_of_another_version_is_refused() {
    let directory = folder();
    let table = directory.path();
    end(run_in(table, 20, RANGE_BITS).arg("--keep-parts")).summary();
    fs::remove_dir_all(table.join("table-20")).unwrap();
    // A slow machine writes few segments, and none of these.
    let checkpoints = table.join("work/checkpoints");
    if exists(&checkpoints) {
        fs::remove_dir_all(checkpoints).unwrap();
    }
    let segment = table.join("work/journal/0000000000");
    let mut bytes = fs::read(&segment).unwrap();
    bytes[8] -= 1;
    let sealed = bytes.len() - 32;
    let digest = Digest::of(&bytes[..sealed]);
    bytes[sealed..].copy_from_slice(&digest.0);
    fs::write(&segment, bytes).unwrap();
    let before = files(&table.join("work"));
    let refused = [
        "work/journal/0000000000",
        "the version that began it",
        "folder work",
    ];
    end(&mut run_in(table, 20, RANGE_BITS)).refuses(5, &refused);
    assert_eq!(files(&table.join("work")), before);
    fs::remove_dir_all(table.join("work")).unwrap();
    end(&mut run_in(table, 20, RANGE_BITS)).made(FINGERPRINT_20);
}
