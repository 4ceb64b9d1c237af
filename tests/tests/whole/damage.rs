//! The program finds bytes that nobody wrote in any file of a table, and names the file. A part costs the ranges in it,
//! which are computed again; of a journal and a published table, the same command makes them whole when what is damaged
//! is removed.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use crate::common::{Ended, FINGERPRINT_20, change, copy, end, files, folder, number, run_in};
use chomp_table::Table;
use tempfile::TempDir;

const BITS: u32 = 20;
const RANGE_BITS: u32 = 17;

fn run(table: &Path) -> Ended {
    end(&mut run_in(table, BITS, RANGE_BITS))
}

/// A finished table with its working files, made once.
fn template() -> &'static Path {
    static TABLE: OnceLock<TempDir> = OnceLock::new();
    let made = TABLE.get_or_init(|| {
        let directory = folder();
        end(run_in(directory.path(), BITS, RANGE_BITS).arg("--keep-parts")).made(FINGERPRINT_20);
        directory
    });
    made.path()
}

/// A copy of it.
fn finished() -> TempDir {
    let directory = folder();
    copy(template(), directory.path());
    directory
}

/// The table without its published files: the program has to look at its working files.
fn unpublished() -> TempDir {
    let directory = finished();
    fs::remove_dir_all(directory.path().join("table-20")).unwrap();
    directory
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
fn check(table: &Path, ended: &Ended, is_right: impl Fn(u64) -> bool) {
    let evaluated = number(&ended.made(FINGERPRINT_20), "ranges_evaluated");
    assert!(is_right(evaluated), "{ended:?}");
    Table::open(table).unwrap().verify_bytes().unwrap();
}

#[test]
fn a_damaged_part_costs_its_ranges() {
    for part in files(&template().join("work/parts")) {
        let part = name(&part, template());
        for is_removed in [false, true] {
            let directory = unpublished();
            let table = directory.path();
            if is_removed {
                fs::remove_file(table.join(part)).unwrap();
            } else {
                flip_the_middle(&table.join(part));
            }
            let ended = run(table);
            ended.says(part);
            check(table, &ended, |evaluated| evaluated > 0);
        }
    }
}

#[test]
fn the_program_names_a_damaged_file_of_the_journal_and_goes_on_without_it() {
    let journal = files(&template().join("work/journal"));
    let names: Vec<&str> = journal.iter().map(|file| name(file, template())).collect();
    for (number, damaged) in names.iter().enumerate() {
        let directory = unpublished();
        let table = directory.path();
        flip_the_middle(&table.join(damaged));
        for _ in 0..2 {
            run(table).refuses(3, &[damaged, "is damaged"]);
        }
        for later in &names[number..] {
            fs::remove_file(table.join(later)).unwrap();
        }
        check(table, &run(table), |_| true);
    }
}

/// All bytes of a published table are read before it answers, also for a smaller one.
#[test]
fn the_program_names_a_published_file_and_makes_the_table_again() {
    for file in files(&template().join("table-20")) {
        let file = file.file_name().unwrap().to_str().unwrap();
        let directory = finished();
        let table = directory.path();
        let published = table.join("table-20");
        let damages: [fn(&Path); 2] = [flip_the_middle, |path| {
            change(path, |bytes| bytes.truncate(bytes.len() - 1));
        }];
        // The run after the first repair removes the working files, so the next repair takes more.
        let ways = [
            ("made anew from the finished ranges", 0),
            ("computed again", 8),
        ];
        for (damage, (how, evaluated)) in damages.into_iter().zip(ways) {
            damage(&published.join(file));
            for bits in [BITS, BITS - 4] {
                let ended = end(&mut run_in(table, bits, RANGE_BITS));
                ended.refuses(3, &[file, "is damaged", "remove the folder", how]);
            }
            fs::remove_dir_all(&published).unwrap();
            check(table, &run(table), |found| found == evaluated);
        }
    }
}
