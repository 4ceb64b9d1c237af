//! `chomp oeis` prints the terms that the encyclopedia, and `docs/OEIS.md`, have.

use std::fs;
use std::path::Path;

use crate::common::{Ended, chomp, end, finished, folder};
use chomp_testing::values::{SMALL, areas, publish};

/// Terms that others have published, from the data of the encyclopedia.
const PUBLISHED: &str = "
A112470 0 0 1 0 1 0 3 0 3 2 5 2 3 10 9 10 9 14 17 14 23 42
A112471 0 1 0 2 2 5 4 11 12 20 25 40 53 67 92 125 167 217 280 371 467 585
A112472 1 0 2 2 5 4 10 10 18 21 28 44 56 70 85 115 150 185 250 317 384
A112473 1 0 0 0 0 0 1 2 2 4 12 9 11 22 40 52 67 95 121 150 201
A029899 0 0 1 3 5 7 10 13 17 20 25 29 33 39 44 51 56 62 70 76 85 92 100 110
A029900 0 1 3 4 6 8 10 11 13 15 16 18 20 21 24 25 27 28 30 32 34 35 37 39 40 42 44 45 48 49 51 53 54 56 57 59 60 63 64 66 68 70 72 73 74 76 78 80 82 83 85 87 89 88 92 93
A029901 0 2 5 7 9 12 14 17 19 22 23 26 29 31 33 36 38 41 43 46 47 50 52 55 58 61 62 65 67 69 71 75
A029902 0 1 3 4 6 8 10 12 13 15 16 18 20 21 23 25 27 29 30 32 33 35 37 39 41 43 44 46 47 49 50 52
A069001 1 2 4 5 9 11 12 13 16 19 21 24 26 28 31 32 35 36 39 42 41 44 46 50 52 55 56 59 62 61 64 67
A395126 1 0 0 0 1 0 0 1 1 0 0 1 0 2 0 2 0 2 0 0 0 2 0 2 0 2 3 4 0 3 0 3 2 0 2 0 2 0 2 2 3 3 0 2 2 0 4";

fn ask(name: &str, terms: usize, table: &Path) -> Ended {
    let mut command = chomp(&format!("oeis {name} --terms {terms} --table"));
    end(command.arg(table))
}

/// A b-file with these terms, the first of which has the number `offset`.
fn b_file(offset: usize, terms: &[&str]) -> String {
    let lines = (offset..)
        .zip(terms)
        .map(|(n, term)| format!("{n} {term}\n"));
    lines.collect()
}

#[test]
fn terms_are_those_of_others_and_of_the_document() {
    let values = folder();
    publish(values.path(), SMALL, &areas(30));
    let losing = finished(20);
    let table = |name: &str| match name {
        "bits" | "several" => losing.path(),
        _ => values.path(),
    };
    let listed = end(&mut chomp("oeis")).done().stdout;
    let mut names: Vec<&str> = listed
        .lines()
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    let mut check = |name: &str, offset: usize, terms: &[&str]| {
        let printed = ask(name, terms.len(), table(name)).done().stdout;
        assert_eq!(printed, b_file(offset, terms), "{name}");
        names.retain(|other| *other != name);
    };
    for line in PUBLISHED.lines().skip(1) {
        let words: Vec<&str> = line.split(' ').collect();
        check(words[0], words[1].parse().unwrap(), &words[2..]);
    }
    // Each entry of the document, as far as that is a matter of a second.
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/OEIS.md")).unwrap();
    for block in text.split("```") {
        let command = block.split("%o chomp oeis ").nth(1);
        let Some(name) = command.and_then(|rest| rest.split(' ').next()) else {
            continue;
        };
        let lines = block.lines().filter(|line| {
            ["%S ", "%T ", "%U "]
                .iter()
                .any(|tag| line.starts_with(tag))
        });
        let terms: Vec<&str> = lines
            .flat_map(|line| line[3..].split(','))
            .filter(|term| !term.is_empty())
            .collect();
        let most = match name {
            "cubes" => 4,
            "2xnxn" => 6,
            "squares" | "missing" => 10,
            "several" => 19,
            "bits" => 20,
            "largest" => 30,
            _ => 55,
        };
        let offset = block
            .split("%O ")
            .nth(1)
            .and_then(|rest| rest.split(',').next())
            .unwrap();
        check(
            name,
            offset.parse().unwrap(),
            &terms[..most.min(terms.len())],
        );
    }
    assert_eq!(names, [""; 0], "sequences that nothing checks");
}

#[test]
fn what_is_missing_for_terms_is_named() {
    let empty = folder();
    let losing = finished(12);
    for (name, terms, table, told) in [
        ("bits", 13, losing.path(), "chomp run --bits 13"),
        ("several", 12, losing.path(), "chomp run --bits 13"),
        ("by-value", 11, empty.path(), "chomp grundy --tiles 5"),
        ("A112472", 7, losing.path(), "chomp grundy --tiles 7"),
        ("largest", 121, empty.path(), "at most 120 tiles"),
        ("moves", 500, empty.path(), "positions are inside"),
        ("squares", 30, empty.path(), "--memory"),
        ("cubes", 7, empty.path(), "2^32 surroundings"),
        ("ichomp", 18, empty.path(), "16 cells"),
        ("A112474", 1, empty.path(), "A112473"),
    ] {
        ask(name, terms, table).refuses(2, &[told]);
    }
    // A table that is damaged matters only to those that it is for.
    let manifest = losing.path().join("table-12/manifest.json");
    let damaged = folder();
    fs::create_dir(damaged.path().join("table-12")).unwrap();
    fs::write(
        damaged.path().join("table-12/manifest.json"),
        &fs::read(manifest).unwrap()[1..],
    )
    .unwrap();
    ask("A029899", 3, damaged.path()).done();
    ask("bits", 3, damaged.path()).exits(3);
    assert_eq!(
        ask("BITS", 12, losing.path()).done().stdout.lines().count(),
        12
    );
    let usual = end(&mut chomp("oeis A029899")).done().stdout;
    assert_eq!(usual.lines().count(), 20);
}
