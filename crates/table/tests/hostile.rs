//! Tables that mean ill, with right digests: what they claim is refused before memory is taken for it.

#![expect(
    clippy::disallowed_methods,
    reason = "a table made for a test need not be durable"
)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use chomp_table::manifest::Manifest;
use chomp_table::reader::{ShardFile, Table, TableError};
use chomp_table::{Digest, Word};
use chomp_testing::tables::{SMALL, publish, write_manifest};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const BITS: u32 = 12;
/// The bytes that the tables here claim: more than any small table takes.
const CLAIM: u64 = 600 << 20;
/// The most bytes of memory to find out that they lie.
const MEMORY_MAX: usize = 80 << 20;

/// Runs one test at a time, since all share the memory that is counted.
fn within_memory(test: impl FnOnce(&Path)) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    test(dir.path());
    let taken = MEMORY.peak_usage() - before;
    assert!(taken < MEMORY_MAX, "{} MiB", taken >> 20);
}

fn published(dir: &Path) -> (PathBuf, Manifest) {
    let folder = publish(dir, BITS, SMALL);
    let manifest = Manifest::parse(&fs::read(folder.join("manifest.json")).unwrap()).unwrap();
    (folder, manifest)
}

fn assert_refused<T>(result: Result<T, TableError>, expected: &str) {
    match result {
        Err(TableError::Damaged { what, .. }) => {
            assert!(what.contains(expected), "{what} instead of {expected}");
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("taken for good instead of {expected}"),
    }
}

/// The first shard says that its last data frame has 600 MiB, and has them, as a hole in the file.
#[test]
fn a_frame_that_is_longer_than_its_words() {
    within_memory(|dir| {
        let (folder, mut manifest) = published(dir);
        let path = folder.join("shard-0000.zst");
        let bytes = fs::read(&path).unwrap();
        let start = usize::try_from(manifest.shards[0].index_offset).unwrap();
        let mut index = bytes[start..].to_vec();
        let (entries_end, length) = (index.len() - 48, u32::try_from(CLAIM).unwrap());
        // The last entry ends with the length and the digest of its frame, which nobody gets to.
        let at = entries_end - 36;
        let before = u32::from_le_bytes(index[at..at + 4].try_into().unwrap());
        index[at..at + 4].copy_from_slice(&length.to_le_bytes());
        let start = start as u64 + u64::from(length - before);
        let end = index.len() - 32;
        index[end - 8..end].copy_from_slice(&start.to_le_bytes());
        let digest = Digest::of(&index[..end]);
        index[end..].copy_from_slice(&digest.0);

        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(start).unwrap();
        drop(file);
        let mut whole = File::options().append(true).open(&path).unwrap();
        std::io::Write::write_all(&mut whole, &index).unwrap();
        assert_refused(ShardFile::open(&path), "bytes for");

        let shard = &mut manifest.shards[0];
        shard.index_offset = start;
        shard.bytes = start + index.len() as u64;
        shard.index_sha256 = Digest::of(&index);
        write_manifest(&folder, &manifest);
        assert_refused(Table::open(&folder), "words cannot have");
        // A manifest that was not parsed does not help either.
        let table = Table::with_manifest(folder, manifest.clone());
        let last = Word::new(manifest.shards[0].last);
        assert_refused(table.is_losing(last), "bytes for");
    });
}

#[test]
fn a_shard_that_is_longer_than_its_words() {
    within_memory(|dir| {
        let (folder, manifest) = published(dir);
        for more in [1 << 20, CLAIM, 1_000_000_000_000_000] {
            let mut manifest = manifest.clone();
            manifest.shards[1].bytes += more;
            manifest.shards[1].index_offset += more;
            write_manifest(&folder, &manifest);
            assert_refused(Table::open(&folder), "words cannot have");
        }
    });
}

/// As many shards as there can be, each with as many words as it can have: a table of 12 bits has fewer losing
/// positions.
#[test]
fn a_million_shards() {
    within_memory(|dir| {
        let (folder, manifest) = published(dir);
        let mut many = manifest.clone();
        many.shards = vec![manifest.shards[0].clone(); 60_000];
        write_manifest(&folder, &many);
        assert_refused(Table::open(&folder), "called");

        let text = String::from_utf8(manifest.to_bytes()).unwrap();
        let list = text.find("\"shards\": [").unwrap() + 11;
        // So short that a million fit into a manifest.
        let shards = "{},".repeat(1_000_000);
        let more = format!("{}{shards}{}", &text[..list], &text[list..]);
        fs::write(folder.join("manifest.json"), more).unwrap();
        assert_refused(Table::open(&folder), "not a manifest");
    });
}

#[test]
fn lists_without_an_end() {
    within_memory(|dir| {
        let (folder, manifest) = published(dir);
        let text = String::from_utf8(manifest.to_bytes()).unwrap();
        for (list, value) in [
            ("\"losing_by_bits\": [", "0,".to_owned()),
            (
                "\"fingerprints_by_bits\": [",
                format!("\"{}\",", manifest.fingerprint),
            ),
        ] {
            let at = text.find(list).unwrap() + list.len();
            let values = value.repeat((25 << 20) / value.len());
            let more = [&text[..at], &values, &text[at..]].concat();
            fs::write(folder.join("manifest.json"), more).unwrap();
            assert_refused(
                Table::open(&folder),
                "invalid length 66, expected a list of at most 65",
            );
        }
    });
}
