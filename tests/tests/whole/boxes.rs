//! `chomp box`: what it finds is what a table says; it goes on after it was killed; and what it refuses.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::common::cluster::at_home;
use crate::common::{ask, change, chomp, end, finished, folder, number, start, wrapped};
use chomp_table::Digest;
use serde_json::{Value, json};

fn solve(rows: u32, columns: u32) -> Command {
    chomp(&format!("box --rows {rows} --columns {columns} --json"))
}

fn with_folder(rows: u32, columns: u32, folder: &Path) -> Command {
    let mut command = solve(rows, columns);
    command.arg("--scratch").arg(folder);
    command
}

#[test]
fn openings_are_those_that_a_table_has() {
    let directory = finished(20);
    let openings = end(chomp("openings --json --table").arg(directory.path())).done();
    let of_table = openings.stdout.lines();
    let of_table = of_table.map(|line| serde_json::from_str(line).unwrap());
    let of_table: Vec<Value> = of_table.collect();
    let board = |opening: &Value| [number(opening, "rows"), number(opening, "columns")];

    let summary = end(&mut solve(9, 14)).summary();
    let of_box = summary["openings"].as_array().unwrap();
    assert_eq!(of_box.len(), 9 * 14);
    let mut count = 0;
    for opening in &of_table {
        if let Some(of_box) = of_box.iter().find(|of_box| board(of_box) == board(opening)) {
            assert_eq!(of_box, opening);
            count += 1;
        }
    }
    assert!(count > 70, "{count} rectangles");
    assert_eq!(summary["losing_by_rows_and_columns"][8][8], 322);

    let wins = end(&mut chomp("box --opening 3,3 --columns 19 --json")).summary();
    let wins: Vec<[u64; 2]> = serde_json::from_value(wins["boards"].clone()).unwrap();
    let inside = wins.into_iter().filter(|[m, n]| m <= n && m + n <= 20);
    let has_it = |one: &&Value| one["moves"].as_array().unwrap().contains(&json!([3, 3]));
    let expected = of_table.iter().filter(has_it).map(board);
    assert_eq!(inside.collect::<Vec<_>>(), expected.collect::<Vec<_>>());

    // A board is a box of one layer.
    let space = end(&mut chomp("box --space 4x6x1 --json")).summary();
    assert_eq!(space["losing"], end(&mut solve(4, 6)).summary()["losing"]);
    // The most rows and columns would take more bytes than 64 bits can count.
    end(&mut solve(5, 200_000)).refuses(2, &["--memory"]);
    end(solve(5, 200_000).arg("--periods")).refuses(2, &["--memory"]);
    end(&mut chomp("query 5x200000")).refuses(2, &["18,446,744,073,709,551,615 sets of rows"]);
    end(&mut chomp("box --space 6x6x6")).refuses(2, &["2^32 surroundings"]);
    end(&mut chomp("box 4x10 --rows 3")).refuses(2, &["cannot be used with"]);
}

#[test]
fn openings_of_a_box_beside_a_table_are_told_with_its_own() {
    let directory = finished(14);
    let file = directory.path().join("box-3x14.json");
    let found = end(&mut solve(3, 14)).stdout;
    fs::write(&file, &found).unwrap();
    let ask = |boards: &[&str]| {
        end(chomp("openings")
            .args(boards)
            .arg("--table")
            .arg(directory.path()))
    };
    let all = ask(&[]).done().stdout;
    let boards = all
        .lines()
        .map(|line| line.split(' ').next().unwrap().to_owned());
    let expected = (1..=7).flat_map(|m| (m..=14).map(move |n| (m, n)));
    let expected = expected.filter(|&(m, n)| m + n <= 14 || m <= 3);
    assert!(boards.eq(expected.map(|(m, n)| format!("{m}x{n}"))));
    assert_eq!(ask(&["3x14", "2x5"]).done().stdout.lines().count(), 2);
    ask(&["4x14"]).refuses(5, &["18 bits", "14"]);

    // One move of a board that the table has too is another one.
    let board = r#"{"rows":2,"columns":4,"moves":[[2,4]]}"#;
    let wrong = found.replace(board, r#"{"rows":2,"columns":4,"moves":[[2,3]]}"#);
    assert_ne!(wrong, found);
    for (content, text) in [
        (&wrong[..], "contradicts what is known of 2x4"),
        (&found[..200], "is not what"),
    ] {
        fs::write(&file, content).unwrap();
        ask(&[]).refuses(3, &["box-3x14.json", text]);
    }
    // A question to the table alone is not concerned.
    ask(&["2x5"]).done();
}

/// Few rows are solved by another method.
#[test]
fn a_run_that_is_killed_goes_on_and_finds_the_same() {
    for (rows, columns, name) in [(9, 30, "box.json"), (4, 700, "few")] {
        let directory = folder();
        let folder = directory.path().join("scratch");
        let state = || fs::read(folder.join(name)).ok();
        let mut kills = 0;
        while kills < 3 {
            let before = state();
            let mut child = start(with_folder(rows, columns, &folder).args(["--threads", "2"]));
            child.wait_until(|| state() != before);
            if child.kill().code.is_none() {
                kills += 1;
            } else {
                // It came to its end before.
                fs::remove_dir_all(&folder).unwrap();
                kills = 0;
            }
        }
        let other = end(&mut with_folder(rows - 1, columns, &folder));
        other.refuses(5, &[&format!("{rows} rows")]);
        let summary = end(&mut with_folder(rows, columns, &folder)).summary();
        let undisturbed = end(solve(rows, columns).args(["--threads", "1"])).summary();
        for name in ["digest", "losing", "losing_by_rows_and_columns", "openings"] {
            assert_eq!(summary[name], undisturbed[name], "{name}");
        }
        // A state of another user may say anything.
        let mut stranger = at_home(with_folder(rows, columns, &folder), directory.path());
        end(&mut stranger).refuses(3, &[name, "another user or machine wrote it"]);
        let middle = state().unwrap().len() / 2;
        change(&folder.join(name), |bytes| bytes[middle] ^= 1);
        end(&mut with_folder(rows, columns, &folder)).refuses(3, &[name]);
    }
}

/// The length of the tally in a planted state is that of no tally.
#[test]
fn a_planted_state_takes_no_memory() {
    let directory = folder();
    let mut file = File::create(directory.path().join("few")).unwrap();
    file.write_all(&(1_u64 << 30).to_le_bytes()).unwrap();
    file.set_len((1 << 30) + 100).unwrap();
    let limit = ["-c", "ulimit -v 900000; exec \"$0\" \"$@\""];
    let mut command = wrapped("sh", &limit, &with_folder(4, 300, directory.path()));
    end(&mut command).refuses(3, &["few is damaged"]);
}

#[test]
fn what_does_not_fit_is_refused_with_the_figure_or_streamed() {
    let directory = folder();
    let little = ["--memory", "41MiB", "--threads", "1"];
    end(solve(10, 26).args(little)).refuses(2, &["give at least --memory 43MiB", "--scratch"]);
    let streamed = end(with_folder(10, 26, directory.path()).args(little)).summary();
    assert_eq!(number(&streamed, "losing"), 2_572_498);
    let least = ["--memory", "1MiB"];
    let refused = end(with_folder(10, 26, directory.path()).args(least));
    refused.refuses(2, &["give at least"]);
    end(&mut solve(33, 30)).refuses(2, &["from 1 to 32"]);
}

#[test]
fn positions_and_periods_of_few_rows_are_written() {
    let directory = folder();
    let file = directory.path().join("losing.csv");
    let write = |memory: &str| {
        let mut command = solve(4, 60);
        end(command
            .arg("--positions")
            .arg(&file)
            .args(["--memory", memory]))
    };
    write("32MiB").refuses(2, &["are too few: give at least"]);
    assert!(!file.try_exists().unwrap());
    let summary = write("1GiB").summary();
    let text = fs::read_to_string(&file).unwrap();
    let digest = Digest::of(text.as_bytes()).to_string();
    assert_eq!(summary["file"]["sha256"], digest);
    assert!(text.starts_with("rows\n1\n2+1\n2+2+1\n"));
    assert_eq!(number(&summary, "losing"), text.lines().count() as u64 - 1);
    // `chomp query` reads them.
    let table = finished(20);
    let few: Vec<&str> = text.lines().take(21).collect();
    let mut query = chomp("query --no-moves --table");
    let asked = ask(query.arg(table.path()), few.join("\n")).done();
    assert_eq!(asked.stdout.matches("is losing\n").count(), 20);
    assert_eq!(
        end(&mut solve(4, 60)).summary()["losing"],
        summary["losing"]
    );
    // A file that is there stays.
    write("1GiB").refuses(5, &["losing.csv"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), text);

    let told = end(&mut chomp("box --rows 3 --columns 200 --periods"))
        .done()
        .stdout;
    for line in [
        "0: period 1 from 0: (1)",
        "1: no losing position from 3 on: 2 0",
        "11: period 1 from 19: 9 7 9 3 8 8 8 3 (7)",
        "119: no period seen",
    ] {
        assert!(told.lines().any(|found| found == line), "{line}");
    }
    end(&mut chomp("box --rows 6 --columns 100 --periods")).refuses(2, &["3 to 5 rows"]);
}

/// Of a box with more differences than are printed, one period of each tail is, as in a smaller box.
#[test]
fn long_boxes_say_one_period_of_each_tail() {
    let periods = |columns| {
        let found = end(&mut chomp(&format!("box 3x{columns} --periods --json"))).summary();
        found["tails"].as_array().unwrap().clone()
    };
    let (long, short) = (periods(4100), periods(400));
    assert!(long.iter().all(|tail| tail.get("before").is_none()));
    let proved = short
        .iter()
        .zip(&long)
        .filter(|(tail, _)| tail["proved"] == true);
    let proved: Vec<_> = proved.collect();
    assert!(proved.len() > 150, "{}", proved.len());
    for (tail, same) in proved {
        for field in ["tail", "period", "from", "repeats"] {
            assert_eq!(tail[field], same[field], "{tail}");
        }
        assert!(tail.get("before").is_some(), "{tail}");
    }
}

/// The differences that `--periods` tells, against the list of all losing positions. With three rows all periods here
/// are 1, and with four some are longer.
#[test]
fn periods_come_with_the_differences_of_rows() {
    let directory = folder();
    for (rows, columns) in [(3, 60), (4, 40)] {
        let told = format!("box {rows}x{columns} --periods --json");
        let told = end(&mut chomp(&told)).summary();
        let file = directory.path().join(format!("{rows}.csv"));
        end(solve(rows, 2 * columns).arg("--positions").arg(&file)).done();
        let text = fs::read_to_string(&file).unwrap();
        let lines = text.lines().skip(1);
        // By the rows below the first one.
        let losing: HashMap<Vec<u32>, u32> = lines
            .map(|line| {
                let lengths = line.split('+').map(|row| row.parse().unwrap());
                let mut lengths: Vec<u32> = lengths.collect();
                lengths.resize(rows as usize, 0);
                let first = lengths.remove(0);
                (lengths, first)
            })
            .collect();
        let mut lengths = HashSet::new();
        let (mut periods, mut dead) = (0, 0);
        for tail in told["tails"].as_array().unwrap() {
            if tail["from"].is_null() {
                assert!(tail.get("before").is_none(), "{tail}");
                continue;
            }
            let list =
                |name: &str| -> Vec<u32> { serde_json::from_value(tail[name].clone()).unwrap() };
            let [below, before, repeats] = ["tail", "before", "repeats"].map(list);
            let seconds = below[0]..=columns;
            assert_eq!(
                before.len() as u64,
                number(tail, "from") - u64::from(below[0]),
                "{tail}"
            );
            let expected: Vec<Option<u32>> = seconds
                .map(|second| {
                    let first = losing.get(&[&[second], &below[..]].concat());
                    first.map(|first| first - second)
                })
                .collect();
            let mut found: Vec<Option<u32>> = before.into_iter().map(Some).collect();
            if tail["period"].is_null() {
                assert!(repeats.is_empty(), "{tail}");
                found.resize(expected.len(), None);
                dead += 1;
            } else {
                assert_eq!(tail["period"], repeats.len(), "{tail}");
                lengths.insert(repeats.len());
                let left = expected.len() - found.len();
                found.extend(repeats.into_iter().map(Some).cycle().take(left));
                periods += 1;
            }
            assert_eq!(found, expected, "{tail}");
        }
        assert!(periods > 7 && dead > 20, "{periods} periods, {dead} dead");
        assert_eq!(lengths.len() > 1, rows == 4, "{lengths:?}");
    }
}
