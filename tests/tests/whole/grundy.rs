//! `chomp grundy`: the values are those of the definition, also of a run that is killed and goes on.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{
    change, chomp, digests, end, exists, files, fingerprint, folder, number, start,
};
use chomp_access::local;
use chomp_table::digest::Seal;
use chomp_table::manifest::MANIFEST_NAME;
use chomp_table::partition::{Partition, count};
use chomp_table::values::Values;
use chomp_table::values::manifest::values_folder_name;
use chomp_table::values::shard::ValueShardSize;
use chomp_table::{Digest, known};
use chomp_testing::values::publish;
use serde_json::{Value, json};
use tempfile::TempDir;

fn grundy(table: &Path, tiles: u32) -> Command {
    let mut command = chomp(&format!("grundy --json --tiles {tiles} --table"));
    command.arg(table);
    command
}

fn summary(command: &mut Command) -> Value {
    end(command).summary()
}

/// The folder of the files of areas.
const WORK: &str = "values-work";

/// The value of a position by its definition: the least number that no move leads to.
pub(crate) fn value(position: &Partition, known: &mut HashMap<Partition, u8>) -> u8 {
    if let Some(&value) = known.get(position) {
        return value;
    }
    let mut led_to = BTreeSet::new();
    for (row, &length) in position.rows().iter().enumerate() {
        for column in (0..length).filter(|&column| (row, column) != (0, 0)) {
            let mut rows = position.rows().to_vec();
            let cut = rows[row..].iter_mut();
            cut.for_each(|cut| *cut = column.min(*cut));
            rows.retain(|&row| row > 0);
            led_to.insert(value(&Partition::new(rows).unwrap(), known));
        }
    }
    let value = (0..=u8::MAX).find(|value| !led_to.contains(value)).unwrap();
    known.insert(position.clone(), value);
    value
}

#[test]
fn values_are_those_of_the_definition() {
    const TILES: u32 = 22;
    let table = folder();
    let summary = summary(&mut grundy(table.path(), TILES));
    let values = Values::open(table.path()).unwrap();
    let mut known = HashMap::new();
    let mut areas = Vec::new();
    for tiles in 1..=TILES {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        let mut largest = 0;
        for rank in 0..count(tiles) {
            let position = Partition::at(tiles, rank);
            let expected = value(&position, &mut known);
            assert_eq!(values.value(&position).unwrap(), expected, "{position:?}");
            *counts.entry(expected.to_string()).or_default() += 1;
            largest = largest.max(expected);
        }
        let losing = counts.get("0").copied().unwrap_or(0);
        assert_eq!(losing, known::LOSING_BY_TILES[tiles as usize - 1]);
        let positions = count(tiles);
        areas.push(
            json!({"tiles": tiles, "positions": positions, "largest": largest, "values": counts}),
        );
    }
    assert_eq!(summary["areas"], Value::Array(areas));
    assert_eq!(summary["tiles"], TILES);
    assert_eq!(summary["largest"], TILES - 1);
    let positions: u64 = (1..=TILES).map(count).sum();
    assert_eq!(number(&summary, "positions"), positions);
    assert_eq!(number(&summary, "ranges_evaluated"), u64::from(TILES));
    let left = files(table.path()).len();
    assert_eq!(left, TILES as usize + 3, "nothing else is left");
    // It is there now, and other threads change nothing.
    let again = self::summary(&mut grundy(table.path(), TILES));
    assert_eq!(fingerprint(&again), fingerprint(&summary));
    assert_eq!(number(&again, "ranges_evaluated"), 0);
    let other = folder();
    let other = self::summary(grundy(other.path(), TILES).args(["--threads", "7"]));
    assert_eq!(fingerprint(&other), fingerprint(&summary));
}

/// The counts in `docs/grundy-values.csv` add up to all positions of each number of tiles, have the known numbers of
/// losing ones, and are those of a run for up to 40 tiles, whose fingerprint is on the page.
#[test]
fn published_counts_are_those_of_a_run() {
    let text = include_str!("../../../docs/grundy-values.csv");
    let mut published: Vec<BTreeMap<String, u64>> = vec![BTreeMap::new(); 120];
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [tiles, value, positions] = fields[..] else {
            panic!("{line}")
        };
        let counts = &mut published[tiles.parse::<usize>().unwrap() - 1];
        counts.insert(value.to_owned(), positions.parse().unwrap());
    }
    for ((tiles, counts), losing) in (1..).zip(&published).zip(known::LOSING_BY_TILES) {
        assert_eq!(counts.values().sum::<u64>(), count(tiles), "{tiles}");
        assert_eq!(counts.get("0").copied().unwrap_or(0), losing, "{tiles}");
    }
    let table = folder();
    let summary = summary(&mut grundy(table.path(), 40));
    let page = include_str!("../../../docs/FORMAT.md");
    let line = format!("| 40 tiles | {} |\n", fingerprint(&summary));
    assert!(page.contains(&line), "{line}");
    for (area, counts) in summary["areas"].as_array().unwrap().iter().zip(&published) {
        assert_eq!(area["values"], json!(counts));
    }
}

/// The digests of the files of a published table.
fn published(table: &Path, tiles: u32) -> BTreeMap<String, Digest> {
    digests(&table.join(format!("values-{tiles:03}")))
}

/// The files of areas that are there.
fn areas(table: &Path) -> Vec<PathBuf> {
    let listed = files(&table.join(WORK));
    let is_area = |path: &PathBuf| {
        let name = path.file_name().unwrap();
        name.as_encoded_bytes().starts_with(b"area-")
    };
    listed.into_iter().filter(is_area).collect()
}

/// The files of a run that is killed when some areas are there.
fn interrupted(tiles: u32) -> TempDir {
    loop {
        let directory = folder();
        let table = directory.path();
        let mut child = start(grundy(table, tiles).args(["--threads", "1"]));
        child.wait_until(|| areas(table).len() > 40);
        child.kill();
        // It may have been finished before.
        if !exists(&table.join(values_folder_name(tiles)).join(MANIFEST_NAME)) {
            return directory;
        }
    }
}

#[test]
fn a_run_that_is_killed_goes_on_and_finds_the_same() {
    const TILES: u32 = 66;
    let undisturbed = folder();
    summary(&mut grundy(undisturbed.path(), TILES));
    let expected = published(undisturbed.path(), TILES);
    let table = interrupted(TILES);
    let there = areas(table.path()).len() as u64;
    let status = end(chomp("status --json --table").arg(table.path())).summary();
    assert_eq!(number(&status, "areas"), there);
    // A file that was begun, and one of somebody else.
    fs::write(table.path().join(WORK).join(".area-066.x.partial"), "begun").unwrap();
    fs::write(table.path().join(WORK).join("notes"), "mine").unwrap();
    // Areas that are damaged are named, and computed again.
    let there_now = areas(table.path());
    change(&there_now[3], |bytes| bytes[50] ^= 1);
    change(&there_now[11], |bytes| bytes.truncate(60));
    change(&there_now[20], |bytes| bytes[12] ^= 1);
    let went_on = end(&mut grundy(table.path(), TILES));
    for number in [3, 11, 20] {
        let path = there_now[number].display();
        went_on.says(&format!("{path} is computed again: "));
    }
    let evaluated = number(&went_on.summary(), "ranges_evaluated");
    assert_eq!(evaluated, u64::from(TILES) - there + 3);
    assert_eq!(published(table.path(), TILES), expected);
    let notes = fs::read(table.path().join(WORK).join("notes"));
    assert_eq!(notes.unwrap(), b"mine");
    assert_eq!(areas(table.path()), [] as [PathBuf; 0]);
    // A run that was killed between the table and the end left some.
    fs::write(table.path().join(WORK).join("area-066"), "left").unwrap();
    summary(&mut grundy(table.path(), TILES));
    assert_eq!(areas(table.path()), [] as [PathBuf; 0]);
}

#[test]
fn what_stands_in_the_way_is_named_and_stays() {
    let table = folder();
    end(grundy(table.path(), 60).args(["--threads", "1", "--memory", "64MiB"]))
        .refuses(2, &["--memory 71MiB"]);
    // A folder in the place of an area, and a link in that of all.
    fs::create_dir_all(table.path().join(WORK).join("area-007/mine")).unwrap();
    end(&mut grundy(table.path(), 12)).refuses(1, &["area-007"]);
    assert!(exists(&table.path().join(WORK).join("area-007/mine")));
    let other = folder();
    std::os::unix::fs::symlink(table.path(), other.path().join(WORK)).unwrap();
    end(&mut grundy(other.path(), 12)).refuses(1, &[WORK, "link"]);
}

/// Marks the changed file of an area.
fn mark(bytes: &mut [u8], seal: &Seal) {
    let mark = seal.mark(Digest::of_parts(&[&bytes[..16], &bytes[48..]]));
    bytes[16..48].copy_from_slice(&mark.0);
}

/// Values that another user has exchanged keep all counts, and would be published.
#[test]
fn areas_of_other_users_are_computed_again() {
    const TILES: u32 = 66;
    let undisturbed = folder();
    summary(&mut grundy(undisturbed.path(), TILES));
    let table = interrupted(TILES);
    let planted = table.path().join(WORK).join("area-020");
    change(&planted, |bytes| {
        bytes.swap(48, 49);
        mark(bytes, &Seal::new(b"theirs"));
    });
    let went_on = end(&mut grundy(table.path(), TILES));
    went_on.says("area-020 is computed again: it is damaged, or another user");
    assert_eq!(
        published(table.path(), TILES),
        published(undisturbed.path(), TILES)
    );
    // A finished table that is known to be wrong.
    let mut areas = chomp_testing::values::areas(45);
    let value = areas[45].iter_mut().find(|value| **value == 5).unwrap();
    *value = 6;
    let wrong = folder();
    publish(wrong.path(), ValueShardSize::PUBLISHED, &areas);
    let refused = ["45 tiles", "that of the published table is"];
    end(&mut grundy(wrong.path(), 45)).refuses(3, &refused);
    end(chomp("verify --table").arg(wrong.path())).refuses(3, &refused);
}

/// Digests that fit do not make a wrong value right.
#[test]
fn a_wrong_value_is_not_published() {
    const TILES: u32 = 66;
    let table = interrupted(TILES);
    let seal = local::seal().unwrap();
    change(&table.path().join(WORK).join("area-030"), |bytes| {
        let losing = bytes[48..].iter().position(|&value| value == 0).unwrap();
        bytes[48 + losing] = 1;
        mark(bytes, &seal);
    });
    let refused = ["of 30 tiles 218", "220 are known", "computes wrongly"];
    end(&mut grundy(table.path(), TILES)).refuses(3, &refused);
    assert!(!exists(
        &table
            .path()
            .join(values_folder_name(TILES))
            .join(MANIFEST_NAME)
    ));
    // A smaller table contradicts a right one.
    let table = folder();
    let mut areas = chomp_testing::values::areas(12);
    let value = areas[12].iter_mut().find(|value| **value == 5).unwrap();
    *value = 6;
    publish(table.path(), ValueShardSize::PUBLISHED, &areas);
    end(&mut grundy(table.path(), 14))
        .refuses(3, &["values-012", "one of the two tables is wrong"]);
}
