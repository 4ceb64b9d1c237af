//! `chomp grundy`: the values are those of the definition, also of a run that is killed and goes on.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{
    digests, end, files, fingerprint, folder, number, program, ranges_done, run, start, wait_until,
};
use chomp_table::partition::{Partition, count};
use chomp_table::values::Values;
use chomp_table::{Digest, known};
use serde_json::{Value, json};

/// `chomp grundy` with ranges of 2^8 values.
fn grundy(table: &Path, tiles: u32) -> Command {
    let mut command = program();
    command.args(["grundy", "--json", "--rank-bits", "8"]);
    command
        .args(["--tiles", &tiles.to_string(), "--table"])
        .arg(table);
    command
}

fn summary(command: &mut Command) -> Value {
    end(command).summary()
}

/// The value of a position by its definition: the least number that no move leads to.
fn value(position: &Partition, known: &mut HashMap<Partition, u8>) -> u8 {
    if let Some(&value) = known.get(position) {
        return value;
    }
    let mut led_to = BTreeSet::new();
    for (row, &length) in position.rows().iter().enumerate() {
        for column in (0..length).filter(|&column| (row, column) != (0, 0)) {
            let mut rows = position.rows().to_vec();
            rows[row..]
                .iter_mut()
                .for_each(|cut| *cut = column.min(*cut));
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
    // It is there now, and other ranges change nothing.
    let again = self::summary(&mut grundy(table.path(), TILES));
    assert_eq!(fingerprint(&again), fingerprint(&summary));
    assert_eq!(number(&again, "ranges_evaluated"), 0);
    let other = folder();
    let mut command = program();
    command.args(["grundy", "--json", "--tiles", &TILES.to_string(), "--table"]);
    let whole = self::summary(command.arg(other.path()));
    assert_eq!(fingerprint(&whole), fingerprint(&summary));
    assert_eq!(number(&whole, "ranges_evaluated"), u64::from(TILES));
}

/// What `docs/RESULTS.md` publishes has all positions of each number of tiles, the known numbers of losing ones, and for a few
/// tiles what a run finds.
#[test]
fn published_counts_are_those_of_a_run() {
    let text = fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../docs/grundy-values.csv"
    ));
    let text = text.unwrap();
    let mut published: Vec<BTreeMap<String, u64>> = vec![BTreeMap::new(); 100];
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
    let summary = summary(&mut grundy(table.path(), 30));
    for (area, counts) in summary["areas"].as_array().unwrap().iter().zip(&published) {
        assert_eq!(area["values"], json!(counts));
    }
}

/// The digests of the files of a published table.
fn published(table: &Path, tiles: u32) -> BTreeMap<String, Digest> {
    digests(&table.join(format!("values-{tiles:03}")))
}

#[test]
fn a_run_goes_on_where_it_was_stopped_and_beyond() {
    let table = folder();
    let undisturbed = folder();
    let expected = summary(&mut grundy(undisturbed.path(), 42));
    let mut child = start(&mut grundy(table.path(), 42));
    wait_until(&mut child, || ranges_done(table.path()) > 100);
    child.kill().unwrap();
    child.wait().unwrap();
    let there = ranges_done(table.path());
    let went_on = summary(grundy(table.path(), 42).arg("--keep-parts"));
    let all = number(&expected, "ranges_evaluated");
    assert!(
        number(&went_on, "ranges_evaluated") <= all - there,
        "{there} of {all}"
    );
    assert_eq!(
        published(table.path(), 42),
        published(undisturbed.path(), 42)
    );
    // Little memory changes nothing, nor does it if some records are gone.
    let parts = files(&table.path().join("work/parts"));
    for part in parts.iter().step_by(7) {
        fs::remove_file(part).unwrap();
    }
    let mut more = grundy(table.path(), 44);
    let more = summary(more.args(["--threads", "2", "--memory", "400MiB"]));
    assert!(number(&more, "ranges_evaluated") < number(&more, "positions") / 256);
    let alone = folder();
    let alone = summary(&mut grundy(alone.path(), 44));
    assert_eq!(fingerprint(&more), fingerprint(&alone));
}

#[test]
fn tables_of_different_kinds_do_not_mix() {
    let table = folder();
    end(&mut run(table.path(), 16)).summary();
    end(&mut grundy(table.path(), 16)).refuses(5, &["range bits", "use another directory"]);
    let values = folder();
    end(&mut grundy(values.path(), 16)).summary();
    end(&mut run(values.path(), 16)).refuses(5, &["Grundy values", "use another directory"]);
    let mut other = program();
    other.args(["grundy", "--tiles", "17", "--rank-bits", "9", "--table"]);
    other.arg(values.path()).args(["--json", "--keep-parts"]);
    end(&mut other).summary();
    // Once something depends on them, the ranges are what they are.
    let mut third = program();
    third.args(["grundy", "--tiles", "18", "--rank-bits", "10", "--table"]);
    end(third.arg(values.path())).refuses(5, &["ranges of 2^9 Grundy values", "2^10"]);
}
