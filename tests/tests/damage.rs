//! Bytes that nobody wrote, in any file of a table: each is found and its file named, and none makes
//! a wrong answer or a panic. A part costs the ranges in it, which are computed again; of a journal and a
//! published table, the same command makes them whole when what is damaged is removed.
//!
//! The flips and cuts are tried on files on a disk, by the reader and by the store in this
//! process, and some of them by the program.

mod common;

use std::fs;
use std::path::Path;

use chomp_store::objects::LocalStorage;
use chomp_store::part::read_record;
use chomp_store::{StoreError, journal};
use chomp_table::{Head, Table, TableError, Word, definition};
use common::{end, files, fingerprint, run_in};
use tempfile::TempDir;
use tokio::runtime::Builder;

const BITS: u32 = 14;
const RANGE_BITS: u32 = 12;
/// What is done to a byte: single bits and all of them.
const FLIPS: [u8; 4] = [0x01, 0x10, 0x80, 0xff];
/// Of so many positions one is looked up in a damaged table.
const SOME: usize = 64;

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

/// Calls `check` for every flip and every cut of `file`, which is whole again afterwards.
fn for_each_damage(file: &Path, mut check: impl FnMut(&str)) {
    let whole = fs::read(file).unwrap();
    assert!(!whole.is_empty(), "{}", file.display());
    for at in 0..whole.len() {
        for flip in FLIPS {
            let mut bytes = whole.clone();
            bytes[at] ^= flip;
            fs::write(file, bytes).unwrap();
            check(&format!("byte {at} ^ {flip:02x}"));
        }
        fs::write(file, &whole[..at]).unwrap();
        check(&format!("cut to {at} bytes"));
    }
    fs::write(file, [&whole[..], b"\n"].concat()).unwrap();
    check("a byte too long");
    fs::remove_file(file).unwrap();
    check("removed");
    fs::write(file, &whole).unwrap();
}

fn file_name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

/// Asserts that an error is one of damage that names `file`.
fn names(error: &TableError, file: &Path, what: &str) {
    let text = error.to_string();
    let kind = matches!(error, TableError::Damaged { .. } | TableError::Newer { .. });
    assert!(
        kind && text.contains(file_name(file)),
        "{}, {what}: {text}",
        file.display()
    );
}

#[test]
fn every_damage_to_a_published_file_is_found_by_the_reader() {
    let (directory, _) = finished();
    let losing = definition::losing(BITS);
    let words = || (0..losing.len()).map(|index| Word::new(index as u64 * 2));
    let folder = directory.path().join("table-14");
    let published = files(&folder);
    let published_names: Vec<&str> = published.iter().map(|file| file_name(file)).collect();
    assert_eq!(
        published_names,
        ["SHA256SUMS", "manifest.json", "shard-0000.zst"]
    );
    let mut opened = 0;
    for file in &published {
        for_each_damage(file, |what| {
            if what == "removed" && file_name(file) == "manifest.json" {
                // Without it there is no table, and nothing to answer from.
                let error = Table::open(&folder).unwrap_err();
                assert!(matches!(error, TableError::NotFound { .. }), "{error}");
                return;
            }
            let table = match Table::open(&folder) {
                Ok(table) => table,
                Err(error) => return names(&error, file, what),
            };
            opened += 1;
            names(&table.verify_bytes().unwrap_err(), file, what);
            // All of a frame's positions fare alike: some each time, and all of them in time.
            let some = words().zip(&losing).skip(opened % SOME).step_by(SOME);
            for (word, &losing) in some {
                match table.is_losing(word) {
                    Ok(answer) => assert_eq!(answer, losing, "{what}: {}", word.get()),
                    Err(error) => names(&error, file, what),
                }
            }
        });
    }
    assert!(
        opened > 100,
        "damage in the data of the shard is found later"
    );
    let table = Table::open(&folder).unwrap();
    table.verify_bytes().unwrap();
    for (word, &losing) in words().zip(&losing) {
        assert_eq!(table.is_losing(word).unwrap(), losing);
    }
}

/// What the store of a table says of its journal, and of each record that the journal names.
fn read(table: &Path) -> Result<Vec<Head>, StoreError> {
    let runtime = Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let storage = LocalStorage::view(table).unwrap();
        let Some(ledger) = journal::look(&storage).await? else {
            return Ok(Vec::new());
        };
        let mut heads = Vec::new();
        for (head, place) in ledger.done(u64::MAX) {
            read_record(&storage, head, place).await?;
            heads.push(head);
        }
        Ok(heads)
    })
}

#[test]
fn every_damage_to_a_working_file_is_found_by_the_store() {
    let (kept, _) = finished();
    // That of a table whose working files are removed has a checkpoint.
    let (removed, _) = finished();
    end(&mut run_in(removed.path(), BITS, RANGE_BITS)).summary();
    // In parts nobody reads what comes before the first record, or after the last; and a checkpoint and all
    // segments before it say the same.
    for (directory, folders, skipped) in [
        (&kept, &["journal", "parts"][..], "/parts/"),
        (&removed, &["journal", "checkpoints"], "/"),
    ] {
        let table = directory.path();
        let whole = read(table).unwrap();
        let working = files(&table.join("work"));
        for folder in folders {
            let folder = table.join("work").join(folder);
            assert!(working.iter().any(|file| file.starts_with(&folder)));
        }
        for file in &working {
            let name = file.strip_prefix(table).unwrap().to_str().unwrap();
            for_each_damage(file, |what| match read(table) {
                Err(
                    StoreError::Damaged { key, .. }
                    | StoreError::Newer { key, .. }
                    | StoreError::Lost { key, .. },
                ) => assert_eq!(key.as_str(), name, "{what}"),
                Ok(heads) if name.contains(skipped) => assert_eq!(heads, whole, "{what}"),
                // What is gone without a trace is as if it had never been.
                Ok(heads) if what == "removed" => assert!(whole.starts_with(&heads), "{name}"),
                other => panic!("{name}, {what}: {other:?}"),
            });
        }
    }
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
            assert!(common::number(&summary, "ranges_evaluated") > 0, "{number}");
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
        assert_eq!(common::number(&summary, "ranges_evaluated"), 0);
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
    assert_eq!(common::number(&summary, "ranges_evaluated"), 0);

    // That run has removed the working files, so the next repair takes more.
    flip_the_middle(&folder.join("shard-0000.zst"));
    run().refuses(3, &["remove the folder", "computed again"]);
    fs::remove_dir_all(&folder).unwrap();
    let summary = run().summary();
    assert_eq!(fingerprint(&summary), expected);
    assert_eq!(common::number(&summary, "ranges_evaluated"), 4);
}
