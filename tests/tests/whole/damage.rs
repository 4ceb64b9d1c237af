//! The program finds bytes that nobody wrote in any file of a table, and names the file. A part costs the ranges in it,
//! which are computed again; of a journal and a published table, the same command makes them whole when what is damaged
//! is removed.

use std::fs;
use std::path::Path;

use crate::common::{Ended, change, end, files, fingerprint, folder, number, run_in};
use chomp_table::Table;
use tempfile::TempDir;

const BITS: u32 = 14;

fn run(table: &Path) -> Ended {
    end(&mut run_in(table, BITS, 12))
}

/// A finished table with its working files, and its fingerprint.
fn finished() -> (TempDir, String) {
    let directory = folder();
    let summary = end(run_in(directory.path(), BITS, 12).arg("--keep-parts")).summary();
    let fingerprint = fingerprint(&summary).to_owned();
    (directory, fingerprint)
}

/// The table without its published files: the program has to look at its working files.
fn unpublished() -> (TempDir, String) {
    let (directory, fingerprint) = finished();
    fs::remove_dir_all(directory.path().join("table-14")).unwrap();
    (directory, fingerprint)
}

fn name<'a>(file: &'a Path, table: &Path) -> &'a str {
    file.strip_prefix(table).unwrap().to_str().unwrap()
}

fn flip_the_middle(file: &Path) {
    change(file, |bytes| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x20;
    });
}

/// Asserts that a run has made the table, and evaluated as many ranges as it should.
fn check(table: &Path, ended: &Ended, expected: &str, is_right: impl Fn(u64) -> bool) {
    let evaluated = number(&ended.made(expected), "ranges_evaluated");
    assert!(is_right(evaluated), "{ended:?}");
    Table::open(table).unwrap().verify_bytes().unwrap();
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
            let ended = run(table);
            ended.says(name(part, table));
            check(table, &ended, &expected, |evaluated| evaluated > 0);
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
        flip_the_middle(file);
        for _ in 0..2 {
            run(table).refuses(3, &[name(file, table), "is damaged"]);
        }
        for file in &journal[number..] {
            fs::remove_file(file).unwrap();
        }
        check(table, &run(table), &expected, |_| true);
    }
}

#[test]
fn the_program_names_a_published_file_and_makes_the_table_again() {
    let (known, expected) = finished();
    for file in files(&known.path().join("table-14")) {
        let (directory, _) = finished();
        let table = directory.path();
        let name = name(&file, known.path());
        change(&table.join(name), |bytes| bytes.truncate(bytes.len() - 1));
        let file = name.strip_prefix("table-14/").unwrap();
        run(table).refuses(3, &[file, "is damaged", "table-14"]);
        fs::remove_dir_all(table.join("table-14")).unwrap();
        check(table, &run(table), &expected, |evaluated| evaluated == 0);
    }
}

#[test]
fn the_program_reads_every_byte_of_a_published_table_before_it_answers() {
    let (directory, expected) = finished();
    let table = directory.path();
    let folder = table.join("table-14");
    flip_the_middle(&folder.join("shard-0000.zst"));
    for bits in [BITS, BITS - 4] {
        let ended = end(&mut run_in(table, bits, 12));
        let how = "made anew from the finished ranges";
        ended.refuses(3, &["shard-0000.zst is damaged", "remove the folder", how]);
    }
    fs::remove_dir_all(&folder).unwrap();
    check(table, &run(table), &expected, |evaluated| evaluated == 0);

    // That run has removed the working files, so the next repair takes more.
    flip_the_middle(&folder.join("shard-0000.zst"));
    run(table).refuses(3, &["remove the folder", "computed again"]);
    fs::remove_dir_all(&folder).unwrap();
    check(table, &run(table), &expected, |evaluated| evaluated == 4);
}
