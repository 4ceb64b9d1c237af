//! Every byte of a table is checked, the lists first; and what the words give is what the manifest
//! says.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::common::{asked, check_all, check_bytes, check_sample, publish, right_words};
use chomp_table::manifest::{Manifest, sha256sums};
use chomp_table::reader::AnyTable;
use chomp_table::shard::ShardInfo;
use chomp_table::{Digest, Table, TableError, Word};
use chomp_verify::bytes::{self, ComputedFacts, check_shard};
use chomp_verify::folder::{FolderLists, warnings_of_strangers};
use chomp_verify::known;
use chomp_verify::marking::{Band, losing};
use chomp_verify::report::TableFacts;
use chomp_verify::{CheckError, UNWATCHED, sample};

const BITS: u32 = 13;

/// All that is checked of a table without deciding positions.
fn quick(folder: &Path) -> Result<ComputedFacts, CheckError> {
    let lists = FolderLists::read(folder)?;
    let AnyTable::Losing(table) = lists.open(folder)? else {
        panic!("a table of values");
    };
    let content = check_bytes(&table)?;
    content.check_known_fingerprints()?;
    known::compare(&content.survey)?;
    Ok(content)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

/// The text of the damage that is found, which names `file`, or the list that vouches for it.
fn damage(folder: &Path, file: &str, case: &str) -> String {
    let error = quick(folder).map(drop).expect_err(case);
    assert!(
        matches!(error, CheckError::Table(TableError::Damaged { .. })),
        "{file}, {case}: {error}"
    );
    let text = error.to_string();
    // Which of the two lists is wrong cannot be told if they disagree.
    let lists = ["manifest.json", "SHA256SUMS"];
    let named = text.contains(file) || lists.contains(&file) && text.contains("SHA256SUMS");
    assert!(named, "{file}, {case}: {text}");
    text
}

#[test]
fn every_flipped_bit_of_every_file_is_found() {
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let dir = dir.unwrap();
    let table = publish(dir.path(), BITS, &right_words(BITS));
    let folder = table.folder();
    assert!(quick(folder).is_ok());
    let files = files(folder);
    let names: Vec<&str> = files.iter().map(|file| name(file)).collect();
    assert_eq!(names, ["SHA256SUMS", "manifest.json", "shard-0000.zst"]);
    let mut flips = 0;
    for path in &files {
        let whole = fs::read(path).unwrap();
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                fs::write(path, bytes).unwrap();
                damage(folder, name(path), &format!("byte {at}, bit {bit}"));
                flips += 1;
            }
        }
        for length in [0, whole.len() / 2, whole.len() - 1] {
            fs::write(path, &whole[..length]).unwrap();
            damage(folder, name(path), &format!("cut to {length}"));
        }
        fs::write(path, [&whole[..], b"\n"].concat()).unwrap();
        damage(folder, name(path), "a byte more");
        fs::remove_file(path).unwrap();
        if name(path) == "manifest.json" {
            assert!(matches!(
                Table::open(folder),
                Err(TableError::NotFound { .. })
            ));
        }
        assert!(damage(folder, name(path), "removed").contains("is missing"));
        fs::write(path, whole).unwrap();
    }
    assert!(flips > 20_000, "{flips}");
    quick(folder).unwrap();
}

fn unlisted(table: &Table) -> Result<Vec<String>, TableError> {
    let shards = table.manifest().shards.iter();
    warnings_of_strangers(table.folder(), shards.map(|shard| &shard.name[..]))
}

#[test]
fn files_that_nobody_listed_are_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let table = publish(dir.path(), BITS, &right_words(BITS));
    assert_eq!(unlisted(&table).unwrap(), [""; 0]);
    fs::write(table.folder().join("shard-0001.zst"), "").unwrap();
    fs::create_dir(table.folder().join("b")).unwrap();
    let warnings = unlisted(&table).unwrap();
    assert_eq!(warnings.len(), 2);
    assert!(warnings[0].starts_with("b is in the folder and not part of the table"));
    assert!(warnings[1].starts_with("shard-0001.zst "));
    let more = |numbers: std::ops::Range<u32>| {
        for number in numbers {
            fs::write(table.folder().join(number.to_string()), "").unwrap();
        }
        unlisted(&table).unwrap()
    };
    assert_eq!(more(0..18).len(), 20);
    let warnings = more(18..30);
    assert_eq!(
        (warnings.len(), &*warnings[20]),
        (21, "and 12 more that are not part of the table")
    );
    quick(table.folder()).unwrap();
}

fn write_lists(folder: &Path, manifest: &Manifest) {
    let bytes = manifest.to_bytes();
    fs::write(folder.join("SHA256SUMS"), sha256sums(&bytes, manifest)).unwrap();
    fs::write(folder.join("manifest.json"), bytes).unwrap();
}

#[test]
fn what_the_manifest_says_is_made_again_from_the_words() {
    let dir = tempfile::tempdir().unwrap();
    let table = publish(dir.path(), BITS, &right_words(BITS));
    let (folder, honest) = (table.folder(), table.manifest());
    let lie = |change: &dyn Fn(&mut Manifest), part: &str| {
        let mut manifest = honest.clone();
        change(&mut manifest);
        write_lists(folder, &manifest);
        let text = damage(folder, "manifest.json", part);
        assert!(text.contains(part), "{text}");
    };
    for bits in 3..BITS as usize {
        lie(
            &|manifest| manifest.losing_by_bits[bits] = manifest.losing_by_bits[bits + 1],
            &format!("for {bits} bits"),
        );
        lie(
            &|manifest| manifest.fingerprints_by_bits[bits] = Digest::of(b"other"),
            &format!("the words of {bits} bits have the fingerprint"),
        );
    }
    // A number that is larger than the format: the lists agree, so this is a newer table.
    let text = String::from_utf8(honest.to_bytes()).unwrap();
    let newer = text.replace("\"format\": 2", "\"format\": 3");
    fs::write(folder.join("manifest.json"), &newer).unwrap();
    damage(folder, "manifest.json", "the lists disagree");
    let sums = sha256sums(newer.as_bytes(), honest);
    fs::write(folder.join("SHA256SUMS"), sums).unwrap();
    let error = quick(folder).unwrap_err();
    let text = "manifest.json has format 3, and this program knows format 2";
    assert!(error.to_string().contains(text), "{error}");
    // It changed after it was opened.
    write_lists(folder, honest);
    let lists = FolderLists::read(folder).unwrap();
    let mut other = honest.clone();
    other.software = "another".into();
    write_lists(folder, &other);
    let error = lists.open(folder).unwrap_err();
    assert!(error.to_string().contains("it changed while"), "{error}");
}

#[test]
fn a_check_that_is_stopped_ends() {
    let dir = tempfile::tempdir().unwrap();
    let table = publish(dir.path(), BITS, &right_words(BITS));
    let stop = |_| ControlFlow::Break(());
    let shards = || (0..1).map(|number| check_shard(&table, number));
    let stopped = |error| assert!(matches!(error, CheckError::Stopped), "{error}");
    stopped(bytes::check_all(&table, shards(), &stop).unwrap_err());
    stopped(Band::gather(&table, BITS, 0, &stop).unwrap_err());
    let band = Band::gather(&table, BITS, 0, UNWATCHED).unwrap();
    stopped(band.check_window(BITS, 0, &stop).unwrap_err());
    stopped(sample::check_sample(&table, asked(8, 1, 0), &stop).unwrap_err());
}

/// The progress that checks tell grows from 0 to 1, so that a display can show it.
#[test]
fn how_much_is_done_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let table = publish(dir.path(), BITS + 3, &right_words(BITS + 3));
    let told = |run: &dyn Fn(chomp_verify::Watch<'_>)| {
        let parts = std::cell::RefCell::new(Vec::new());
        run(&|part| {
            parts.borrow_mut().push(part);
            ControlFlow::Continue(())
        });
        let parts = parts.into_inner();
        assert!(parts.is_sorted() && parts.len() > 1, "{parts:?}");
        assert!((0.0..=1.0).contains(&parts[0]));
        parts
    };
    let ends = |parts: &[f64]| (parts.last().unwrap() - 1.0).abs() < 1e-9;
    let shards = table.manifest().shards.len();
    let file = |shard: &ShardInfo| {
        fs::metadata(table.folder().join(&shard.name))
            .unwrap()
            .len()
    };
    let all = table.manifest().shards.iter();
    let most = all.map(|shard| 8 * shard.entries + file(shard)).max();
    assert!(shards > 1);
    assert_eq!(bytes::shard_bytes(&table), (4 << 20) + most.unwrap());
    let parts = told(&|watch| {
        let shards = (0..shards).map(|number| check_shard(&table, number));
        bytes::check_all(&table, shards, watch).unwrap();
    });
    assert!(ends(&parts));
    // Decided in many passes, or in one; and some are picked before.
    for memory in [0, 1 << 30] {
        let parts = told(&|watch| {
            sample::check_sample(&table, asked(500, 1, memory), watch).unwrap();
        });
        assert!(ends(&parts));
        // When nothing is decided yet.
        assert!(parts[0] < 0.5, "{memory}: {parts:?}");
    }
    told(&|watch| {
        Band::gather(&table, 12, 3, watch).unwrap();
    });
}

/// The rows of the two pages that publish fingerprints: bits, and the digests of a row.
fn published() -> BTreeMap<u32, Vec<Digest>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pages = ["docs/FORMAT.md", "docs/RESULTS.md"];
    let text = pages.map(|page| fs::read_to_string(root.join(page)).unwrap());
    let mut rows = BTreeMap::new();
    for line in text.concat().lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let digests = cells
            .iter()
            .filter_map(|cell| cell.trim_matches('`').parse().ok());
        let digests: Vec<Digest> = digests.collect();
        let bits = cells.get(1).and_then(|cell| cell.parse().ok());
        if let Some(bits) = bits
            && !digests.is_empty()
        {
            let before = rows.insert(bits, digests.clone());
            assert!(before.is_none_or(|before| before == digests), "{bits} bits");
        }
    }
    rows
}

#[test]
fn published_fingerprints_are_those_of_the_pages() {
    let trees: BTreeMap<u32, Digest> = known::fingerprints().collect();
    let linear: BTreeMap<u32, Digest> = known::linear_sha256().collect();
    let all: BTreeSet<u32> = trees.keys().chain(linear.keys()).copied().collect();
    let both = |bits| {
        let digests = [&trees, &linear].map(|digests: &BTreeMap<u32, Digest>| digests.get(&bits));
        (bits, digests.into_iter().flatten().copied().collect())
    };
    let known: BTreeMap<u32, Vec<Digest>> = all.into_iter().map(both).collect();
    assert_eq!(known, published());
    for bits in [20, 24, 28, 32, 36, 38, 40, 42] {
        assert!(linear.contains_key(&bits), "{bits}");
    }
    assert!(trees.contains_key(&44));
    for (bits, tree) in trees.iter().filter(|(bits, _)| **bits <= 31) {
        assert_eq!(
            *tree,
            Digest::of(&linear[bits].0),
            "one leaf of {bits} bits"
        );
    }
}

/// A table that was published, with both fingerprints of its words.
#[test]
fn a_table_of_format_2_is_checked() {
    let fixture = "../table/tests/fixtures/format-2/table-16";
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join(fixture);
    let content = quick(&fixture).unwrap();
    let table = Table::open(&fixture).unwrap();
    let manifest = table.manifest();
    assert_eq!(content.fingerprints.by_bits, manifest.fingerprints_by_bits);
    assert_eq!(check_all(&table, 14).unwrap(), (1 << 15, manifest.losing));
    check_sample(&table, 500, 1, 1 << 30).unwrap();

    let lists = FolderLists::read(&fixture).unwrap();
    let mut facts = TableFacts::new(&table, &lists);
    let text = serde_json::to_value(&facts).unwrap();
    assert_eq!(text["fingerprint"], manifest.fingerprint.to_string());
    assert_eq!(text["linear_sha256"], serde_json::Value::Null);
    facts.add(&content);
    let text = serde_json::to_value(&facts).unwrap();
    assert_eq!(text["fingerprint"], manifest.fingerprint.to_string());
    let linear = "8a3baa0672419eb661afeeba914d9bfdfb6f58a7a1de61b20fc00174d132c225";
    assert_eq!(text["linear_sha256"], linear);
}

/// The representatives of the losing positions of `bits` bits, by marking.
fn representatives(bits: u32) -> Vec<u64> {
    let words = losing(bits).into_iter().map(Word::new);
    words
        .filter(|&word| word == word.representative())
        .map(Word::get)
        .collect()
}

/// One word is removed, added or exchanged, and every digest, count and fingerprint made again: the
/// bytes are in order, and marking finds it; a published fingerprint too, where there is one.
#[test]
fn a_single_wrong_position_with_new_digests_is_found() {
    let bits = 20;
    let right = representatives(bits);
    let dir = tempfile::tempdir().unwrap();
    let table = publish(dir.path(), bits, &right);
    let content = quick(table.folder()).unwrap();
    assert_eq!(content.check_known_fingerprints().unwrap(), 2);
    let fingerprint = content.fingerprints.by_bits[20];
    assert!(known::fingerprints().any(|known| known == (20, fingerprint)));
    assert_ne!(
        table.manifest().fingerprint,
        fingerprint,
        "its leaves are small"
    );
    let all = (1 << (bits - 1), table.manifest().losing);
    assert_eq!(check_all(&table, 17).unwrap(), all);

    let mut noticed = 0;
    for case in 0..12 {
        // The last words are of 20 bits, the first third of fewer.
        let place = (case * 397 + 11) % right.len();
        let removed = right[place];
        let added = (removed + 2..)
            .step_by(2)
            .map(Word::new)
            .find(|word| {
                *word == word.representative() && right.binary_search(&word.get()).is_err()
            })
            .unwrap();
        let mut words = right.clone();
        if case % 3 != 1 {
            words.remove(place);
        }
        if case % 3 != 0 {
            words.push(added.get());
            words.sort_unstable();
        }
        let dir = tempfile::tempdir().unwrap();
        let table = publish(dir.path(), bits, &words);
        table.verify_bytes().unwrap();
        let error = check_all(&table, 17).unwrap_err();
        let lowest = if case % 3 == 1 { added.get() } else { removed };
        let text = error.to_string();
        assert!(
            matches!(error, CheckError::Wrong(_)) && text.contains(&format!("(word {lowest}, ")),
            "case {case}: {text}"
        );
        if let Ok(content) = check_bytes(&table) {
            let error = content.check_known_fingerprints().unwrap_err().to_string();
            assert!(error.contains("the published one is ccc3c24a"), "{error}");
        }
        noticed += u32::from(check_sample(&table, 20_000, 1, 1 << 30).is_err());
    }
    assert!(noticed > 0, "a large sample meets some of them");
}
