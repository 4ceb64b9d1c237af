//! A finished table needs no working files: they are removed, and made again when it is extended.

mod common;

use std::fs;
use std::path::Path;

use chomp_table::Table;
use common::{
    FINGERPRINT_24, end, files, fingerprint, number, ranges_committed, run_in, start, wait,
    wait_until,
};

const RANGE_BITS: u32 = 13;

/// The working files of a table, but for the job and the epochs, which stay.
fn working(table: &Path) -> usize {
    files(&table.join("work/parts")).len() + files(&table.join("work/seals")).len()
}

#[test]
fn they_are_removed_unless_they_are_to_be_kept() {
    let directory = tempfile::tempdir().unwrap();
    let table = directory.path();
    end(run_in(table, 20, RANGE_BITS).arg("--keep-parts")).summary();
    assert_eq!(ranges_committed(table), 1 << 7);
    assert!(working(table) > 10);
    // The next run has nothing else to do.
    for _ in 0..2 {
        let summary = end(&mut run_in(table, 20, RANGE_BITS)).summary();
        assert_eq!(number(&summary, "ranges_evaluated"), 0);
        assert_eq!(working(table), 0);
        assert!(table.join("work/job").try_exists().unwrap());
    }
}

/// Damage in what is not needed any more does not keep the table from answering.
#[test]
fn damaged_ones_are_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let table = directory.path();
    end(run_in(table, 20, RANGE_BITS).arg("--keep-parts")).summary();
    let part = files(&table.join("work/parts")).pop().unwrap();
    fs::write(&part, "damage").unwrap();
    let before = working(table);
    let ended = end(&mut run_in(table, 20, RANGE_BITS));
    assert_eq!(number(&ended.summary(), "bits"), 20);
    assert!(ended.stderr.contains("is damaged"), "{ended:?}");
    assert_eq!(working(table), before);
}

#[test]
fn a_table_is_extended_from_its_shards() {
    for (first, range_bits) in [(20, 13), (22, 12), (20, 20), (18, 20)] {
        let directory = tempfile::tempdir().unwrap();
        let table = directory.path();
        let summary = end(&mut run_in(table, first, range_bits)).summary();
        let there = number(&summary, "ranges_evaluated");
        // The working files are begun anew, so any range bits will do.
        let kept = u64::from(first < range_bits);
        assert_eq!(
            ranges_committed(table),
            kept,
            "a range beyond the table stays"
        );
        let summary = end(&mut run_in(table, 24, range_bits)).summary();
        assert_eq!(fingerprint(&summary), FINGERPRINT_24);
        let all = 1 << (24 - range_bits);
        assert_eq!(number(&summary, "ranges_evaluated"), all - there);
        Table::open(table).unwrap().verify_bytes().unwrap();
    }
}

/// Shards alone, as they are downloaded: with other range bits than they were made with.
#[test]
fn downloaded_shards_are_extended() {
    let made = tempfile::tempdir().unwrap();
    end(&mut run_in(made.path(), 20, 13)).summary();
    let directory = tempfile::tempdir().unwrap();
    let table = directory.path();
    fs::rename(made.path().join("table-20"), table.join("table-20")).unwrap();
    let summary = end(&mut run_in(table, 24, 16)).summary();
    assert_eq!(fingerprint(&summary), FINGERPRINT_24);
    assert_eq!(number(&summary, "ranges_evaluated"), (1 << 8) - (1 << 4));

    // One that is damaged is not built on.
    let directory = tempfile::tempdir().unwrap();
    let table = directory.path();
    fs::rename(made.path().join("work"), table.join("work")).unwrap();
    end(&mut run_in(table, 20, 13)).summary();
    let shard = table.join("table-20/shard-0000.zst");
    let mut bytes = fs::read(&shard).unwrap();
    bytes[100] ^= 1;
    fs::write(&shard, bytes).unwrap();
    end(&mut run_in(table, 24, 13)).refuses(3, &["shard-0000.zst is damaged"]);
    assert!(!table.join("work/parts").try_exists().unwrap() || working(table) == 0);
}

#[test]
fn killed_while_it_removes_them_or_makes_them_again() {
    let directory = tempfile::tempdir().unwrap();
    let table = directory.path();
    let begin = |bits| start(&mut run_in(table, bits, 12));
    let mut child = begin(22);
    let manifest = table.join("table-22/manifest.json");
    wait_until(&mut child, || manifest.try_exists().unwrap());
    child.kill().unwrap();
    wait(child);
    for _ in 0..5 {
        let mut child = begin(24);
        let before = ranges_committed(table);
        wait_until(&mut child, || ranges_committed(table) > before);
        child.kill().unwrap();
        wait(child);
    }
    let summary = wait(begin(24)).summary();
    assert_eq!(fingerprint(&summary), FINGERPRINT_24);
    assert_eq!(working(table), 0);
    Table::open(table).unwrap().verify_bytes().unwrap();
}
