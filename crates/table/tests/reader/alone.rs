//! A shard without its table answers what it can, and nothing that is wrong.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use chomp_table::shard::TRAILER_LENGTH;
use chomp_table::{ShardFile, TableError, Word};
use chomp_testing::definition::{index_of, losing};

use chomp_testing::tables::{SMALL, publish};

const BITS: u32 = 12;

/// All positions of the table.
fn positions() -> impl Iterator<Item = Word> {
    (0..1u64 << (BITS - 1)).map(|index| Word::new(index * 2))
}

#[test]
fn each_shard_knows_its_words() {
    let dir = tempfile::tempdir().unwrap();
    let folder = publish(dir.path(), BITS, SMALL);
    let losing = losing(BITS);
    let mut shards = 0;
    while let Ok(shard) = ShardFile::open(&folder.join(format!("shard-{shards:04}.zst"))) {
        let (mut known, mut unknown, mut found) = (0, 0, 0);
        for word in positions() {
            match shard.is_losing(word) {
                Ok(answer) => {
                    assert_eq!(answer, losing[index_of(word)], "{}", word.get());
                    known += 1;
                    found += u64::from(answer);
                }
                Err(TableError::NotInShard {
                    word: said,
                    first,
                    last,
                    ..
                }) => {
                    assert_eq!(said, word.representative().get());
                    assert!(!(first..=last).contains(&said));
                    assert!(first > 2 || said > last);
                    unknown += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert!(known > 0 && unknown > 0 && found > 0);
        if shards > 0 {
            assert_eq!(shard.bits(), 0);
        } else {
            let bits = shard.bits();
            assert!(0 < bits && bits < BITS);
            let all = positions().filter(|word| word.bits() <= bits);
            assert!(
                all.map(|word| shard.is_losing(word))
                    .all(|answer| answer.is_ok())
            );
        }
        shards += 1;
    }
    assert!(shards > 1, "{shards}");
}

#[test]
fn nothing_damaged_is_believed() {
    let dir = tempfile::tempdir().unwrap();
    let path = publish(dir.path(), BITS, SMALL).join("shard-0000.zst");
    let original = fs::read(&path).unwrap();
    let losing = losing(BITS);
    let check = |bytes: &[u8], what: &str| {
        fs::write(&path, bytes).unwrap();
        let Ok(shard) = ShardFile::open(&path) else {
            return;
        };
        let mut refused = false;
        for word in positions() {
            match shard.is_losing(word) {
                Ok(answer) => assert_eq!(answer, losing[index_of(word)], "{what}"),
                Err(TableError::NotInShard { .. }) => {}
                Err(error) => {
                    assert!(matches!(error, TableError::Damaged { .. }), "{error}");
                    refused = true;
                }
            }
        }
        assert!(refused, "{what}");
    };
    for at in 0..original.len() {
        let mut bytes = original.clone();
        bytes[at] ^= 1 << (at % 8);
        check(&bytes, &format!("byte {at}"));
    }
    for length in (0..original.len()).step_by(7) {
        check(&original[..length], &format!("{length} bytes"));
    }
    check(&[&original[..], &[0]].concat(), "one byte more");
    fs::write(&path, &original).unwrap();
    assert!(
        ShardFile::open(&path)
            .unwrap()
            .is_losing(Word::new(2))
            .unwrap()
    );
}

#[test]
fn other_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let folder = publish(dir.path(), BITS, SMALL);
    for name in ["manifest.json", "SHA256SUMS"] {
        let error = ShardFile::open(&folder.join(name)).unwrap_err();
        assert!(matches!(error, TableError::NotAShard { .. }), "{error}");
    }
    // A long index is not read to see that it is none.
    let long = dir.path().join("long.zst");
    let mut bytes = fs::read(folder.join("shard-0000.zst")).unwrap();
    let trailer = bytes.split_off(bytes.len() - TRAILER_LENGTH);
    bytes.resize(bytes.len() + (2 << 20), 0);
    bytes.extend(trailer);
    fs::write(&long, bytes).unwrap();
    let error = ShardFile::open(&long).unwrap_err().to_string();
    assert!(error.contains("does not end with the index"), "{error}");
    // The user who names a link means the file; a pipe is not waited for.
    let link = dir.path().join("link");
    symlink(folder.join("shard-0000.zst"), &link).unwrap();
    ShardFile::open(&link).unwrap();
    let pipe = dir.path().join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let error = ShardFile::open(&pipe).unwrap_err();
    assert!(matches!(error, TableError::Io { .. }), "{error}");
    let missing = ShardFile::open(&folder.join("none"));
    assert!(matches!(missing, Err(TableError::Io { .. })));
}
