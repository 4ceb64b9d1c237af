//! A finished table needs no working files: they are removed.

use std::fs;
use std::path::Path;

use crate::common::{
    FINGERPRINT_20, FINGERPRINT_24, chomp, end, exists, files, folder, number, ranges_done, run_in,
    start,
};
use chomp_table::Table;

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
fn killed_while_it_removes_them() {
    let directory = folder();
    let table = directory.path();
    for bits in [22, 24] {
        let mut child = start(&mut run_in(table, bits, 12));
        let manifest = table.join(format!("table-{bits}/manifest.json"));
        child.wait_until(|| exists(&manifest));
        child.kill();
    }
    end(&mut run_in(table, 24, 12)).made(FINGERPRINT_24);
    assert_pruned(table);
    Table::open(table).unwrap().verify_bytes().unwrap();
}

#[test]
fn status_says_whether_a_job_is_finished_interrupted_or_not_begun() {
    let status = |table: &Path| end(chomp("status --table").arg(table)).done().stdout;
    let goes_on = "no process works on it: run the command that began it again to go on";

    let directory = folder();
    let table = directory.path();
    end(&mut run_in(table, 20, RANGE_BITS)).made(FINGERPRINT_20);
    let said = status(table);
    let place = table.join("table-20");
    let finished = format!(
        "finished: {}, the table of 20 bits: 9,324 losing positions, ",
        place.display()
    );
    assert!(said.starts_with(&finished), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");

    // A job that extends it is not finished.
    let child = start(&mut run_in(table, 32, 14));
    assert!(child.hold_when(|| ranges_done(table) > 0));
    let running = status(table);
    child.kill();
    assert!(running.contains("\nin use by process "), "{running}");
    let said = status(table);
    assert!(said.starts_with(&finished), "{said}");
    for line in ["\nworking files: ", goes_on] {
        assert!(said.contains(line), "{said}");
    }

    let directory = folder();
    let table = directory.path();
    let mut begin = chomp("coordinator --bits 24 --listen 127.0.0.1:0 --table");
    let mut coordinator = start(begin.arg(table));
    coordinator.wait_to_say("listening on");
    coordinator.kill();
    let said = status(table);
    let unbegun = "working files: of a job that has not finished a range";
    assert_eq!(said, format!("{unbegun}\n{goes_on}\n"));
}
