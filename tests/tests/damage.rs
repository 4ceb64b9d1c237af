//! Bytes that nobody wrote, in any file of a table: each is found and its file named, none makes a
//! wrong answer or a panic, and with that file removed the same command makes the table whole.
//!
//! The flips and cuts are tried on files on a disk, by the reader and by the store in this
//! process, and some of them by the program.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chomp_coordinator::storage::{LocalStorage, TableLock};
use chomp_coordinator::store::{Store, StoreError};
use chomp_table::{RangeBits, Table, TableError, Word, definition};
use common::{Ended, end, files, fingerprint, run_in};
use tempfile::TempDir;

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

/// The table without its published files: the program has to look at its working files.
fn unpublished() -> (TempDir, String) {
    let (directory, fingerprint) = finished();
    fs::remove_dir_all(directory.path().join("table-14")).unwrap();
    (directory, fingerprint)
}

#[test]
fn every_damage_to_a_working_file_is_found_by_the_store() {
    let (directory, _) = unpublished();
    let table = directory.path();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let storage = Arc::new(LocalStorage::open(TableLock::acquire(table).unwrap()).unwrap());
    let working = files(&table.join("work"));
    let folders = ["epochs/", "job", "parts/", "seals/"];
    for folder in folders {
        let name = format!("/work/{folder}");
        let mut names = working.iter().map(|file| file.to_str().unwrap());
        assert!(names.any(|file| file.contains(&name)), "{working:?}");
    }

    let epochs = files(&table.join("work/epochs"));
    for file in &working {
        let name = file.strip_prefix(table).unwrap().to_str().unwrap();
        for_each_damage(file, |what| {
            let range_bits = RangeBits::new(RANGE_BITS).unwrap();
            let opened = runtime.block_on(Store::open(storage.clone(), range_bits, BITS));
            // A start leaves an epoch, which must not stay: each is to find what the last one did.
            for epoch in files(&table.join("work/epochs")) {
                if !epochs.contains(&epoch) {
                    fs::remove_file(epoch).unwrap();
                }
            }
            match opened {
                Err(StoreError::Damaged { key, .. } | StoreError::Newer { key, .. })
                    if key.as_str() == name => {}
                // A seal that is missing between others.
                Err(StoreError::Damaged { key, .. })
                    if what == "removed" && name.starts_with(key.as_str()) => {}
                // What is gone without a trace is as if it had never been.
                Ok((_, progress)) if what == "removed" => {
                    let missing = u64::from(name.contains("/parts/"));
                    assert_eq!(progress.done.len() as u64, 4 - missing, "{name}");
                }
                other => panic!("{name}, {what}: {other:?}"),
            }
        });
    }
}

/// What an error of the program says is damaged: the one path of this table that it names.
fn named(ended: &Ended, table: &Path) -> PathBuf {
    let (before, _) = ended.stderr.split_once(" is damaged").expect("damage");
    table.join(before.rsplit(' ').next().unwrap())
}

fn flip_the_middle(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x20;
    fs::write(file, bytes).unwrap();
}

#[test]
fn the_program_names_a_working_file_and_makes_the_table_without_it() {
    let (known, expected) = unpublished();
    for number in 0..files(&known.path().join("work")).len() {
        let (directory, _) = unpublished();
        let table = directory.path();
        let file = &files(&table.join("work"))[number];
        let name = file.strip_prefix(table).unwrap().to_str().unwrap();
        flip_the_middle(file);
        let run = || end(&mut run_in(table, BITS, RANGE_BITS));
        for _ in 0..2 {
            run().refuses(3, &[name, "is damaged", "remove it and run again"]);
        }
        fs::remove_file(file).unwrap();
        let mut ended = run();
        if ended.code == Some(3) {
            // A seal is gone from between others: they are named together.
            let seals = table.join("work/seals/14");
            assert!(file.starts_with(&seals), "{ended:?}");
            assert_eq!(named(&ended, table), seals);
            fs::remove_dir_all(seals).unwrap();
            ended = run();
        }
        assert_eq!(fingerprint(&ended.summary()), expected, "{name}");
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
        for bits in [BITS, BITS + 2] {
            let ended = end(&mut run_in(table, bits, RANGE_BITS));
            ended.refuses(3, &[file_name(&file), "is damaged", "table-14"]);
        }
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
