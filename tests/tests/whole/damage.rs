//! The program finds bytes that nobody wrote in any file of a table, and names the file. A part costs the ranges in it,
//! which are computed again; of a journal and a published table, the same command makes them whole when what is damaged
//! is removed.

use std::fs;
use std::path::Path;

use crate::common::{end, files, fingerprint, run_in};
use chomp_table::Table;
use tempfile::TempDir;

const BITS: u32 = 14;
const RANGE_BITS: u32 = 12;

/// A directory in memory if there is such a place: thousands of files are synced.
fn scratch() -> TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

/// A finished table with its working files, and its fingerprint.
fn finished() -> (TempDir, String) {
    let directory = scratch();
    let summary = end(run_in(directory.path(), BITS, RANGE_BITS).arg("--keep-parts")).summary();
    let fingerprint = fingerprint(&summary).to_owned();
    (directory, fingerprint)
}

fn file_name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

fn flip_the_middle(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x20;
    fs::write(file, bytes).unwrap();
}

/// The table without its published files: the program has to look at its working files.
fn unpublished() -> (TempDir, String) {
    let (directory, fingerprint) = finished();
    fs::remove_dir_all(directory.path().join("table-14")).unwrap();
    (directory, fingerprint)
}

#[test]
fn a_damaged_part_costs_its_ranges() {
    let (known, expected) = unpublished();
    let parts = files(&known.path().join("work/parts")).len();
    for number in 0..parts {
        for is_removed in [false, true] {
            let (directory, _) = unpublished();
            let table = directory.path();
            let part = &files(&table.join("work/parts"))[number];
            if is_removed {
                fs::remove_file(part).unwrap();
            } else {
                flip_the_middle(part);
            }
            let ended = end(&mut run_in(table, BITS, RANGE_BITS));
            let summary = ended.summary();
            assert_eq!(fingerprint(&summary), expected, "{number}");
            assert!(
                crate::common::number(&summary, "ranges_evaluated") > 0,
                "{number}"
            );
            let name = part.strip_prefix(table).unwrap().to_str().unwrap();
            assert!(ended.stderr.contains(name), "no {name} in {ended:?}");
            Table::open(table).unwrap().verify_bytes().unwrap();
        }
    }
}

#[test]
fn the_program_names_a_damaged_file_of_the_journal_and_goes_on_without_it() {
    let (known, expected) = unpublished();
    for number in 0..files(&known.path().join("work/journal")).len() {
        let (directory, _) = unpublished();
        let table = directory.path();
        let journal = files(&table.join("work/journal"));
        // How many there are depends on who is done first.
        let Some(file) = journal.get(number) else {
            continue;
        };
        let name = file.strip_prefix(table).unwrap().to_str().unwrap();
        flip_the_middle(file);
        let run = || end(&mut run_in(table, BITS, RANGE_BITS));
        for _ in 0..2 {
            run().refuses(3, &[name, "is damaged"]);
        }
        for file in &journal[number..] {
            fs::remove_file(file).unwrap();
        }
        assert_eq!(fingerprint(&run().summary()), expected, "{name}");
        Table::open(table).unwrap().verify_bytes().unwrap();
    }
}

#[test]
fn the_program_names_a_published_file_and_makes_the_table_again() {
    let (known, expected) = finished();
    for file in files(&known.path().join("table-14")) {
        let (directory, _) = finished();
        let table = directory.path();
        let folder = table.join("table-14");
        let file = folder.join(file_name(&file));
        let length = fs::metadata(&file).unwrap().len();
        let handle = fs::File::options().write(true).open(&file).unwrap();
        handle.set_len(length - 1).unwrap();
        let ended = end(&mut run_in(table, BITS, RANGE_BITS));
        ended.refuses(3, &[file_name(&file), "is damaged", "table-14"]);
        fs::remove_dir_all(&folder).unwrap();
        let summary = end(&mut run_in(table, BITS, RANGE_BITS)).summary();
        assert_eq!(fingerprint(&summary), expected);
        assert_eq!(crate::common::number(&summary, "ranges_evaluated"), 0);
        Table::open(table).unwrap().verify_bytes().unwrap();
    }
}

#[test]
fn the_program_reads_every_byte_of_a_published_table_before_it_answers() {
    let (directory, expected) = finished();
    let folder = directory.path().join("table-14");
    flip_the_middle(&folder.join("shard-0000.zst"));
    for bits in [BITS, BITS - 4] {
        let ended = end(&mut run_in(directory.path(), bits, RANGE_BITS));
        let how = "made anew from the finished ranges";
        ended.refuses(3, &["shard-0000.zst is damaged", "remove the folder", how]);
    }
    fs::remove_dir_all(&folder).unwrap();
    let run = || end(&mut run_in(directory.path(), BITS, RANGE_BITS));
    let summary = run().summary();
    assert_eq!(fingerprint(&summary), expected);
    assert_eq!(crate::common::number(&summary, "ranges_evaluated"), 0);

    // That run has removed the working files, so the next repair takes more.
    flip_the_middle(&folder.join("shard-0000.zst"));
    run().refuses(3, &["remove the folder", "computed again"]);
    fs::remove_dir_all(&folder).unwrap();
    let summary = run().summary();
    assert_eq!(fingerprint(&summary), expected);
    assert_eq!(crate::common::number(&summary, "ranges_evaluated"), 4);
}
