//! Tables with one mistake, consistent in themselves: each check finds what it can find.

use std::collections::BTreeMap;

use crate::common::{check_all, check_sample, publish, right_words};
use crate::others::catalogue::check_published;
use crate::others::openings::{Opening, check_openings, openings};
use chomp_table::{Cell, Position, Table, Word};
use chomp_verify::CheckError;
use chomp_verify::known::compare;
use chomp_verify::survey::{Counter, Survey};

const BITS: u32 = 16;
/// Enough random positions to meet most of the 2^15 positions.
const SAMPLE: u64 = 3 << 15;

fn word(rows: &[u32]) -> u64 {
    Word::from(&Position::new(rows.to_vec()).unwrap()).get()
}

/// The right words without some and with others.
fn changed(removed: &[u64], added: &[u64]) -> Vec<u64> {
    let mut words = right_words(BITS);
    for word in removed {
        let place = words.binary_search(word).unwrap();
        words.remove(place);
    }
    for word in added {
        let place = words.binary_search(word).unwrap_err();
        words.insert(place, *word);
    }
    words
}

/// The texts of what checks find wrong in a table, by check; none of those that pass.
struct Findings(BTreeMap<&'static str, String>);

impl Findings {
    /// Whether the check finds something, and names all `parts`.
    fn assert_has(&self, check: &str, parts: &[&str]) {
        assert_names(self.0.get(check), parts);
    }

    /// Whether all of these checks find something, and no others.
    fn assert_by(&self, checks: &[&str]) {
        assert_eq!(self.0.keys().copied().collect::<Vec<_>>(), checks);
    }
}

fn wrong<T>(result: Result<T, CheckError>) -> Option<String> {
    match result {
        Ok(_) => None,
        Err(CheckError::Wrong(what)) => Some(what),
        Err(error) => panic!("{error}"),
    }
}

fn findings(words: &[u64]) -> Findings {
    let dir = tempfile::tempdir().unwrap();
    let table = publish(dir.path(), BITS, words);
    table.verify_bytes().unwrap();
    let survey = Survey::of(&table);
    let of_survey = |check: &dyn Fn(&Table, &Survey) -> Option<String>| match &survey {
        Ok(survey) => check(&table, survey),
        Err(_) => None,
    };
    let published =
        |table: &Table, survey: &Survey| wrong(check_published(table, survey, 1 << 20, |_| ()));
    let full = wrong(check_all(&table, BITS));
    for window_bits in [7, 12, 15] {
        assert_eq!(wrong(check_all(&table, window_bits)), full);
    }
    let all = [
        ("full", full),
        ("sample", wrong(check_sample(&table, SAMPLE, 1, 1 << 30))),
        ("counts", of_survey(&|_, survey| wrong(compare(survey)))),
        (
            "openings",
            wrong(openings(&table).and_then(|all| check_openings(&all))),
        ),
        ("published", of_survey(&published)),
        ("structure", wrong(survey)),
    ];
    let found = all.map(|(check, found)| Some((check, found?)));
    Findings(found.into_iter().flatten().collect())
}

fn assert_names(finding: Option<&String>, parts: &[&str]) {
    let finding = finding.unwrap_or_else(|| panic!("nothing is found with {parts:?}"));
    for part in parts {
        assert!(finding.contains(part), "{finding:?} has {part:?}");
    }
}

#[test]
fn nothing_is_found_in_the_right_table() {
    assert_eq!(findings(&right_words(BITS)).0, BTreeMap::new());
}

/// A position of 8 rows and 7 columns, deep in the table and no opening.
fn somewhere() -> u64 {
    let words = right_words(BITS);
    let found = words
        .iter()
        .rev()
        .map(|&word| Word::new(word))
        .find(|word| {
            let rows = Position::from(*word).rows().to_vec();
            rows.len() == 8 && rows[0] == 7 && rows[1] < 7 && rows[7] == 1
        });
    found.unwrap().get()
}

#[test]
fn a_missing_word_is_found() {
    let missing = somewhere();
    let name = format!("(word {missing}, shard-0000.zst, frame ");
    let found = findings(&changed(&[missing], &[]));
    found.assert_has(
        "full",
        &[&name, "is not listed, but none of its 28 moves leads to"],
    );
    found.assert_has("sample", &["is not listed, but none"]);
    found.assert_has("counts", &["losing positions inside 7x8", "others"]);
    found.assert_has("published", &["checkpoint for 8x8", "chomp-fast"]);
    // Nothing is proved about such a position, and it is no opening.
    found.assert_by(&["counts", "full", "published", "sample"]);
}

#[test]
fn a_word_too_many_is_found() {
    let words = right_words(BITS);
    let near = (somewhere()..).step_by(2).map(Word::new).find(|&word| {
        let rows = Position::from(word).rows().to_vec();
        let inside = rows.len() == 8 && rows[0] == 7;
        inside && word == word.representative() && words.binary_search(&word.get()).is_err()
    });
    let added = near.unwrap().get();
    let name = format!("(word {added}, shard-0000.zst, frame ");
    let found = findings(&changed(&[], &[added]));
    found.assert_has(
        "full",
        &[&name, "is listed as losing, but the move (", "too"],
    );
    found.assert_has("sample", &["is listed as losing, but the move ("]);
    found.assert_has("counts", &["losing positions inside 7x8"]);
    found.assert_has("published", &["checkpoint for 8x8"]);
    found.assert_by(&["counts", "full", "published", "sample"]);

    let replaced = findings(&changed(&[somewhere()], &[added]));
    replaced.assert_has(
        "full",
        &["is not listed", &format!("(word {}, ", somewhere())],
    );
    replaced.assert_has("published", &["checkpoint for 8x8"]);
    // The class has as many as before.
    replaced.assert_by(&["full", "published", "sample"]);
}

#[test]
fn a_missing_opening_is_found() {
    // 4x9 without the move (4,8); its mirror image is the smaller word.
    let opening = Word::new(word(&[9, 9, 9, 7])).representative().get();
    let found = findings(&changed(&[opening], &[]));
    found.assert_has("openings", &["[] of 4x9", "one for each rectangle"]);
    for check in ["full", "sample", "counts"] {
        found.assert_has(check, &[]);
    }
}

#[test]
fn a_second_opening_is_found() {
    let added = Word::new(word(&[9, 9, 9, 6])).representative().get();
    let found = findings(&changed(&[], &[added]));
    found.assert_has("openings", &["4x9", "others have found [(4, 8)]"]);
    let second = Word::new(word(&[8, 6])).representative().get();
    let found = findings(&changed(&[], &[second]));
    found.assert_has("openings", &["2x8", "(2, 8) is the only one"]);
    found.assert_has(
        "structure",
        &["lists the position [8, 6], which is winning"],
    );
}

#[test]
fn what_is_proved_is_checked() {
    let mirrored = |rows: &[u32]| Word::new(word(rows)).representative().get();
    let hook = word(&[5, 1, 1, 1, 1]);
    for (removed, added, parts) in [
        (vec![], vec![word(&[2, 2])], ["2,2", "it is a rectangle"]),
        (
            vec![],
            vec![mirrored(&[4, 4, 4])],
            ["3,3,3,3", "it is a rectangle"],
        ),
        (vec![hook], vec![], ["lists 0 positions of 5 rows", "hook"]),
        (
            vec![],
            vec![word(&[5, 2, 1, 1, 1])],
            ["5,2,1,1,1", "no hook"],
        ),
        (vec![mirrored(&[9, 8])], vec![], ["does not list", "[9, 8]"]),
        (
            vec![mirrored(&[6, 4, 2])],
            vec![],
            ["does not list", "[6, 4, 2]"],
        ),
        (vec![], vec![mirrored(&[5, 4, 1])], ["[5, 4, 1]", "winning"]),
        (vec![], vec![mirrored(&[7, 2, 2])], ["[7, 2, 2]", "winning"]),
    ] {
        let found = findings(&changed(&removed, &added));
        found.assert_has("structure", &parts);
        found.assert_has("full", &[]);
        found.assert_has("sample", &[]);
    }
}

#[test]
fn words_out_of_order_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let words = right_words(BITS);
    let table = publish(dir.path(), BITS, &words);
    let counted = |words: &[u64]| {
        let mut counter = Counter::new(&table);
        counter.push(words).map(|()| counter)
    };
    let (one, two) = (words[100], words[101]);
    for words in [[two, one], [one, one], [one, two + 1]] {
        assert_names(wrong(counted(&words)).as_ref(), &["where an even one"]);
    }
    // The larger of a mirror pair, instead of the smaller.
    let larger = Word::new(somewhere()).mirror().get();
    let parts = ["its mirror image has the smaller word", &larger.to_string()];
    assert_names(wrong(counted(&[larger])).as_ref(), &parts);
    let mut later = counted(&[two]).unwrap();
    let error = later.append(counted(&[one]).unwrap());
    assert_names(wrong(error).as_ref(), &["where an even one"]);
}

#[test]
fn other_openings_than_the_only_one_are_found() {
    for (rows, columns, row, column) in [(1, 5, 1, 3), (2, 5, 2, 4), (30, 30, 2, 3)] {
        let moves = vec![Cell { row, column }];
        let opening = Opening {
            rows,
            columns,
            moves,
        };
        assert_names(
            wrong(check_openings(&[opening])).as_ref(),
            &["is the only one"],
        );
    }
}

/// The errors of the reader come through.
#[test]
fn a_table_that_cannot_be_read_is_no_wrong_table() {
    let dir = tempfile::tempdir().unwrap();
    let table = publish(dir.path(), BITS, &right_words(BITS));
    let shard = table.folder().join("shard-0001.zst");
    std::fs::remove_file(shard).unwrap();
    let read = |error| assert!(matches!(error, CheckError::Table(_)), "{error}");
    read(Survey::of(&table).unwrap_err());
    read(openings(&table).unwrap_err());
    read(check_sample(&table, 1000, 1, 1 << 20).unwrap_err());
    read(check_all(&table, BITS).unwrap_err());
}
