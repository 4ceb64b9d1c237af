//! Published tables as a whole: what they answer, and what happens when a file is not as it was.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use chomp_table::reader::{Files, Folder};
use chomp_table::shard::ShardSize;
use chomp_table::{Digest, Table, TableError, Word};
use chomp_testing::definition;
use chomp_testing::tables::{SMALL, publish, publish_words, words, write_manifest};

/// All words of the table in `folder`, after its answers were compared with them.
fn read_all(folder: &Path) -> Result<Vec<u64>, TableError> {
    let table = Table::open(folder)?;
    let words = table.words().collect::<Result<Vec<_>, _>>()?.concat();
    for &word in words.iter().step_by(3) {
        assert!(table.is_losing(Word::new(word))?);
        assert!(table.is_losing(Word::new(word).mirror())?);
    }
    Ok(words)
}

/// Asserts that the table is refused by whoever reads all of it, with a text that names `file`,
/// and that whoever reads a part gets the right answer or an error.
fn assert_noticed(folder: &Path, file: &str, words: &[u64], case: &str) {
    let error = Table::open(folder).and_then(|table| table.verify_bytes());
    let error = error.expect_err(case).to_string();
    assert!(error.contains(file), "{case}: {error}");
    if let Ok(found) = read_all(folder) {
        assert!(found == words, "{case}");
    }
}

/// The damage that is found in a table that opens.
fn damage(folder: &Path) -> String {
    let table = Table::open(folder).unwrap();
    table.verify_bytes().unwrap_err().to_string()
}

#[test]
fn answers_agree_with_the_definition() {
    let dir = tempfile::tempdir().unwrap();
    let bits = 15;
    let folder = publish(dir.path(), bits, SMALL);
    for size in [SMALL, ShardSize::PUBLISHED] {
        let dir = tempfile::tempdir().unwrap();
        publish(dir.path(), bits, size);
        let table = Table::open(dir.path()).unwrap();
        table.verify_bytes().unwrap();
        let losing = definition::losing(bits);
        for (index, &losing) in losing.iter().enumerate() {
            assert_eq!(
                table.is_losing(Word::new(index as u64 * 2)).unwrap(),
                losing,
                "{index}"
            );
        }
        assert_eq!(
            table.manifest().losing,
            losing.iter().filter(|&&losing| losing).count() as u64
        );
        assert_eq!(read_all(dir.path()).unwrap(), words(bits));
    }
    let table = Table::open(&folder).unwrap();
    assert!(table.manifest().shards.len() > 3);
    for word in [1 << 15, u64::MAX - 1, 1 << 63].map(Word::new) {
        let error = table.is_losing(word).unwrap_err().to_string();
        let bits = word.bits();
        assert!(error.contains(&format!("has {bits} bits (")), "{error}");
        assert!(error.contains("and the table covers 15:"), "{error}");
    }
}

#[test]
fn the_table_of_the_most_bits_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let error = Table::open(dir.path()).unwrap_err();
    assert!(
        matches!(&error, TableError::NotFound { path } if path == dir.path()),
        "{error}"
    );
    assert!(error.to_string().contains("chomp run"), "{error}");
    assert!(matches!(
        Table::open(&dir.path().join("none")),
        Err(TableError::NotFound { .. })
    ));

    // A path that cannot exist says nothing of a table.
    let error = Table::open(Path::new("\0")).unwrap_err();
    assert!(matches!(error, TableError::Io { .. }), "{error}");

    let smallest = publish(dir.path(), 1, SMALL);
    let table = Table::open(dir.path()).unwrap();
    assert!(!table.is_losing(Word::EMPTY).unwrap());
    table.verify_bytes().unwrap();
    publish(dir.path(), 9, SMALL);
    publish(dir.path(), 10, SMALL);
    fs::create_dir(dir.path().join("table-11")).unwrap();
    fs::write(dir.path().join("table-12"), "").unwrap();
    assert_eq!(Table::open(dir.path()).unwrap().manifest().bits, 10);
    assert_eq!(Table::open(&smallest).unwrap().manifest().bits, 1);

    fs::remove_dir(dir.path().join("table-11")).unwrap();
    fs::rename(dir.path().join("table-10"), dir.path().join("table-11")).unwrap();
    let error = Table::open(dir.path()).unwrap_err().to_string();
    assert!(
        error.contains("manifest.json is damaged: it is the manifest of a table of 10 bits"),
        "{error}"
    );
}

#[test]
fn every_truncation_and_every_flip_of_every_file_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let folder = publish(dir.path(), 12, SMALL);
    let words = words(12);
    assert_eq!(read_all(&folder).unwrap(), words);
    let mut files = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap();
        let original = fs::read(&path).unwrap();
        files += 1;
        for length in 0..original.len() {
            fs::write(&path, &original[..length]).unwrap();
            // A manifest that ends early may be noticed there or in the list of digests.
            let named = if file == "manifest.json" { "" } else { file };
            assert_noticed(&folder, named, &words, &format!("{file} of {length} bytes"));
        }
        fs::write(&path, [&original[..], b" "].concat()).unwrap();
        let named = if file == "manifest.json" {
            "SHA256SUMS"
        } else {
            file
        };
        assert_noticed(&folder, named, &words, &format!("{file} and a byte more"));
        for at in 0..original.len() {
            for mask in [1, 0x20, 0x80, 0xff] {
                let mut bytes = original.clone();
                bytes[at] ^= mask;
                fs::write(&path, &bytes).unwrap();
                let named = if file == "manifest.json" { "" } else { file };
                assert_noticed(
                    &folder,
                    named,
                    &words,
                    &format!("{file}, byte {at} ^ {mask:02x}"),
                );
            }
        }
        fs::remove_file(&path).unwrap();
        if file == "manifest.json" {
            assert!(matches!(
                Table::open(&folder),
                Err(TableError::NotFound { .. })
            ));
        } else {
            assert_noticed(&folder, file, &words, &format!("{file} is missing"));
        }
        fs::write(&path, &original).unwrap();
    }
    assert!(files >= 4);
    assert_eq!(read_all(&folder).unwrap(), words);
}

/// A flipped byte is named with the part of the file that it is in.
#[test]
fn damage_is_named_by_its_part() {
    let dir = tempfile::tempdir().unwrap();
    let folder = publish(dir.path(), 12, SMALL);
    let table = Table::open(&folder).unwrap();
    let frame = table
        .frame_of(Word::new(words(12)[30 + 17]))
        .unwrap()
        .unwrap();
    assert_eq!((frame.shard, frame.frame), ("shard-0001.zst", 2));
    let info = &table.manifest().shards[1];
    assert_eq!(table.frame_of(Word::EMPTY).unwrap(), None);
    assert_eq!(chomp_table::reader::locate(dir.path()).unwrap(), folder);
    let index = usize::try_from(info.index_offset).unwrap();
    let length = usize::try_from(info.bytes).unwrap();

    let path = folder.join("shard-0001.zst");
    let original = fs::read(&path).unwrap();
    let mut named = Vec::new();
    for at in 0..length {
        let mut bytes = original.clone();
        bytes[at] ^= 1;
        fs::write(&path, bytes).unwrap();
        let error = table.verify_bytes().unwrap_err().to_string();
        let (_, part) = error.split_once(&info.sha256.to_string()).unwrap();
        let (_, bytes) = part.split_once("(bytes ").unwrap();
        let (first, last) = bytes.split_once(')').unwrap().0.split_once(" to ").unwrap();
        let part = part[..part.find(" is damaged").unwrap()].to_owned();
        let range = first.parse::<usize>().unwrap()..=last.parse().unwrap();
        assert!(range.contains(&at), "{at}: {error}");
        if named.last() != Some(&part) {
            named.push(part);
        }
    }
    let parts = [
        ": its header",
        ": its frame 0",
        ": its frame 1",
        ": its frame 2",
        ": its index",
    ];
    assert_eq!(named, parts);
    assert!(20 < index && index < length);
    fs::write(&path, &original).unwrap();

    let sums = fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
    let second = sums.lines().nth(1).unwrap();
    fs::write(folder.join("SHA256SUMS"), sums.replace(second, "0")).unwrap();
    let error = Table::open(&folder).unwrap_err().to_string();
    assert!(error.contains("its line 2 is not"), "{error}");
    assert!(error.contains(second), "{error}");
}

/// The error about a part of a table names the file that is damaged or missing.
#[test]
fn a_file_without_the_part_that_is_asked_for_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let folder = publish(dir.path(), 13, SMALL);
    let manifest = Table::open(&folder).unwrap().manifest().clone();
    let check = |folder: &Path| {
        let table = Table::with_manifest(folder.to_owned(), manifest.clone());
        let firsts = manifest.shards.iter().map(|shard| Word::new(shard.first));
        table.are_losing(&firsts.collect::<Vec<_>>())
    };
    check(&folder).unwrap();
    for shard in &manifest.shards {
        let path = folder.join(&shard.name);
        let whole = fs::read(&path).unwrap();
        let mut damaged = whole.clone();
        damaged[usize::try_from(shard.index_offset).unwrap() + 20] ^= 1;
        for bytes in [&damaged[..], &whole[1..]] {
            fs::write(&path, bytes).unwrap();
            let error = check(&folder).unwrap_err();
            assert!(matches!(error, TableError::Damaged { .. }), "{error}");
            assert!(error.to_string().contains(&shard.name), "{error}");
        }
        fs::remove_file(&path).unwrap();
        let error = check(&folder).unwrap_err();
        assert!(matches!(error, TableError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains("it is missing"), "{error}");
        fs::write(&path, whole).unwrap();
    }
    // Not even a folder: that says nothing of the table.
    let error = check(&folder.join("manifest.json")).unwrap_err();
    assert!(matches!(error, TableError::Io { .. }), "{error}");
}

/// One shard with one word, and others that are as small as tables can be.
#[test]
fn the_smallest_tables_are_read() {
    for bits in 2..=6 {
        let dir = tempfile::tempdir().unwrap();
        publish(dir.path(), bits, ShardSize::PUBLISHED);
        assert_eq!(read_all(dir.path()).unwrap(), words(bits), "{bits}");
    }
}

/// Somebody else may have filled the folder.
#[test]
fn what_is_no_file_is_named_and_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let folder = publish(dir.path(), 12, SMALL);
    for name in ["manifest.json", "SHA256SUMS", "shard-0001.zst"] {
        let (path, aside) = (folder.join(name), dir.path().join(name));
        fs::rename(&path, &aside).unwrap();
        let plants: [(&str, &dyn Fn()); 3] = [
            // Even one to the very file.
            ("a symbolic link", &|| symlink(&aside, &path).unwrap()),
            ("a pipe", &|| {
                let made = Command::new("mkfifo").arg(&path).status().unwrap();
                assert!(made.success());
            }),
            ("a socket", &|| drop(UnixListener::bind(&path).unwrap())),
        ];
        for (what, plant) in plants {
            plant();
            let error = Table::open(&folder).and_then(|table| table.verify_bytes());
            let error = error.unwrap_err();
            assert!(matches!(error, TableError::Damaged { .. }), "{error}");
            let text = error.to_string();
            assert!(text.contains(name) && text.contains(what), "{text}");
            fs::remove_file(&path).unwrap();
        }
        fs::rename(&aside, &path).unwrap();
    }
    // Nor is a file read that is too long, or what is no folder.
    let length = fs::metadata(folder.join("manifest.json")).unwrap().len();
    let files = Folder(folder.clone());
    let whole = files.whole("manifest.json", length).unwrap();
    assert_eq!(whole.len() as u64, length);
    let error = files.whole("manifest.json", length - 1).unwrap_err();
    assert!(matches!(error, TableError::Damaged { .. }), "{error}");
    let error = Folder(folder.join("manifest.json")).whole("inside", 1);
    assert!(matches!(error, Err(TableError::Io { .. })), "{error:?}");
    // The folder itself may be elsewhere.
    symlink(&folder, dir.path().join("link")).unwrap();
    let table = Table::open(&dir.path().join("link")).unwrap();
    table.verify_bytes().unwrap();
}

/// A table as it was published: whatever changes later, it stays readable.
#[test]
fn a_table_of_format_2_is_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-2/table-16");
    assert_eq!(read_all(&folder).unwrap(), words(16));
    let table = Table::open(folder.parent().unwrap()).unwrap();
    assert_eq!((table.manifest().format, table.manifest().bits), (2, 16));
    table.verify_bytes().unwrap();
}

/// Every digest fits, but the words are not those that the manifest speaks of.
#[test]
fn verification_notices_a_manifest_that_lies() {
    let dir = tempfile::tempdir().unwrap();
    let folder = publish(dir.path(), 12, SMALL);
    let honest = Table::open(&folder).unwrap().manifest().clone();
    let check = |change: &dyn Fn(&mut chomp_table::manifest::Manifest), what: &str| {
        let mut manifest = honest.clone();
        change(&mut manifest);
        write_manifest(&folder, &manifest);
        let error = damage(&folder);
        assert!(error.contains("manifest.json is damaged"), "{error}");
        assert!(error.contains(what), "{error}");
    };
    check(
        &|manifest| manifest.fingerprints_by_bits[7] = Digest::of(b"other"),
        "fingerprint",
    );
    check(
        &|manifest| manifest.losing_by_bits[7] = manifest.losing_by_bits[6],
        "losing_by_bits has 7 for 7 bits; the words of the shards give 11",
    );
}

#[test]
fn verification_notices_a_word_that_is_not_the_smaller_of_its_pair() {
    let dir = tempfile::tempdir().unwrap();
    let mut words = words(12);
    let at = words
        .iter()
        .rposition(|&word| Word::new(word).mirror().get() != word)
        .unwrap();
    words[at] = Word::new(words[at]).mirror().get();
    words.sort_unstable();
    let folder = publish_words(dir.path(), 12, SMALL, &words);
    let error = damage(&folder);
    assert!(
        error.contains("whose mirror image has a smaller one"),
        "{error}"
    );
}

/// Many threads that need more frames than are kept get the answers of one.
#[test]
fn threads_share_a_table() {
    let dir = tempfile::tempdir().unwrap();
    publish(
        dir.path(),
        14,
        ShardSize {
            frame_words: 1,
            shard_words: 100,
        },
    );
    let table = Table::open(dir.path()).unwrap();
    let losing = definition::losing(14);
    std::thread::scope(|scope| {
        for start in 0..4 {
            let (table, losing) = (&table, &losing);
            scope.spawn(move || {
                for index in (start..losing.len()).chain(0..start).step_by(3) {
                    assert_eq!(
                        table.is_losing(Word::new(index as u64 * 2)).unwrap(),
                        losing[index]
                    );
                }
            });
        }
    });
}
