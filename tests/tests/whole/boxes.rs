//! `chomp box`: what it finds is what a table says; it goes on after it was killed; and what it refuses.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{chomp, end, finished, folder, number, start, wait, wait_until};
use chomp_table::Digest;
use serde_json::Value;

/// The number of times that a run is killed; and that the last one is, which then goes on to its end.
const KILLS: usize = 10;
const KILLS_OF_LAST: usize = 2;
/// A test in which so many in a row are not killed never ends.
const MISSES_MAX: usize = 200;

fn solve(rows: u32, columns: u32) -> Command {
    chomp(&format!("box --rows {rows} --columns {columns} --json"))
}

fn with_folder(rows: u32, columns: u32, folder: &Path) -> Command {
    let mut command = solve(rows, columns);
    command.arg("--scratch").arg(folder);
    command
}

/// The fields that do not depend on how a box was computed.
fn found(summary: &Value) -> [&Value; 4] {
    ["digest", "losing", "losing_by_rows_and_columns", "openings"].map(|name| &summary[name])
}

#[test]
fn openings_are_those_that_a_table_has() {
    let directory = finished(20);
    let openings = end(chomp("openings --json --table").arg(directory.path())).done();
    let board = |opening: &Value| (number(opening, "rows"), number(opening, "columns"));
    let of_table = openings.stdout.lines().map(|line| {
        let opening: Value = serde_json::from_str(line).unwrap();
        (board(&opening), opening)
    });
    let of_table: BTreeMap<_, _> = of_table.collect();

    let summary = end(&mut solve(9, 14)).summary();
    let of_box = summary["openings"].as_array().unwrap();
    assert_eq!(of_box.len(), 9 * 14);
    let mut count = 0;
    for of_box in of_box {
        if let Some(of_table) = of_table.get(&board(of_box)) {
            assert_eq!(of_box, of_table);
            count += 1;
        }
    }
    assert!(count > 70, "{count} rectangles");
    assert_eq!(summary["losing_by_rows_and_columns"][8][8], 322);
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
    let all = ask(&[]).done();
    let board = |line: &str| line.split(' ').next().unwrap().to_owned();
    let boards: Vec<String> = all.stdout.lines().map(board).collect();
    let expected = (1..=7).flat_map(|m| (m..=14).map(move |n| (m, n)));
    let expected = expected.filter(|&(m, n)| m + n <= 14 || m <= 3);
    let expected: Vec<String> = expected.map(|(m, n)| format!("{m}x{n}")).collect();
    assert_eq!(boards, expected);

    let some = ask(&["3x14", "14x3", "2x5"]);
    let three = all.stdout.lines().find(|line| line.starts_with("3x14 "));
    assert_eq!(some.stdout.lines().next(), three);
    assert_eq!(some.stdout.lines().count(), 3, "{some:?}");
    ask(&["4x14"]).refuses(5, &["18 bits", "14"]);
    ask(&["8x101"]).refuses(5, &["109 bits"]);
    let wide = directory.path().join("box-3x300.json");
    fs::write(&wide, end(&mut solve(3, 300)).stdout).unwrap();
    assert_eq!(ask(&["3x300"]).stdout, "3x300 (3,212)\n");
    fs::remove_file(wide).unwrap();

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
    // Who asks the table alone is not concerned, nor who asks a shard, which has none beside it.
    assert_eq!(ask(&["2x5"]).code, Some(0));
    let mut of_shard = chomp("openings --table");
    let of_shard = end(of_shard.arg(directory.path().join("table-14/shard-0000.zst"))).done();
    let of_table: Vec<&str> = all.stdout.lines().collect();
    let told: Vec<&str> = of_shard.stdout.lines().collect();
    assert!(told.iter().all(|line| of_table.contains(line)), "{told:?}");
    assert_eq!((told[0], told[told.len() - 1]), ("1x1", "6x7 (5,5)"));
}

#[test]
fn a_run_that_is_killed_goes_on_and_finds_the_same() {
    let directory = folder();
    let folder = directory.path().join("scratch");
    let state = || fs::read(folder.join("box.json")).ok();
    let (mut kills, mut of_last, mut misses) = (0, 0, 0);
    while kills < KILLS || of_last < KILLS_OF_LAST {
        assert!(misses < MISSES_MAX, "it always ends before it is killed");
        let before = state();
        let mut child = start(with_folder(9, 30, &folder).args(["--threads", "2"]));
        if wait_until(&mut child, || state() != before) {
            child.kill().unwrap();
        }
        let ended = wait(child);
        if ended.code.is_none() {
            (kills, of_last, misses) = (kills + 1, of_last + 1, 0);
        } else {
            ended.done();
            fs::remove_dir_all(&folder).unwrap();
            (of_last, misses) = (0, misses + 1);
        }
    }
    let summary = end(&mut with_folder(9, 30, &folder)).summary();
    let undisturbed = end(solve(9, 30).args(["--threads", "1"])).summary();
    assert_eq!(found(&summary), found(&undisturbed));
}

#[test]
fn what_does_not_fit_is_refused_with_the_figure_or_streamed() {
    let directory = folder();
    let little = ["--memory", "41MiB", "--threads", "1"];
    end(solve(10, 26).args(little)).refuses(2, &["needs at least 43 MiB", "--scratch"]);
    let streamed = end(with_folder(10, 26, directory.path()).args(little)).summary();
    assert_eq!(number(&streamed, "losing"), 2_572_498);
    let least = ["--memory", "1MiB"];
    let refused = end(with_folder(10, 26, directory.path()).args(least));
    refused.refuses(2, &["needs at least"]);
    end(&mut solve(33, 30)).refuses(2, &["1 to 32 rows"]);
    end(&mut with_folder(9, 30, directory.path())).refuses(5, &["10 rows"]);
}

#[test]
fn few_rows_take_many_columns() {
    let few = |columns: u32| end(&mut solve(4, columns)).summary();
    let (some, more) = (few(250), few(300));
    let counts = |summary: &Value, rows: usize| -> Vec<Value> {
        let counts = summary["losing_by_rows_and_columns"][rows].as_array();
        counts.unwrap()[..=250].to_vec()
    };
    for rows in 0..=4 {
        assert_eq!(counts(&some, rows), counts(&more, rows), "{rows} rows");
    }
    let openings = |summary: &Value| -> BTreeMap<(u64, u64), Value> {
        let openings = summary["openings"].as_array().unwrap().iter();
        let openings = openings.filter(|one| number(one, "columns") <= 250);
        let board = |one: &Value| (number(one, "rows"), number(one, "columns"));
        openings
            .map(|one| (board(one), one["moves"].clone()))
            .collect()
    };
    assert_eq!(openings(&some), openings(&more));
    assert_eq!(number(&more, "losing"), 917_363);
}

#[test]
fn positions_of_few_rows_are_written() {
    let directory = folder();
    let file = directory.path().join("losing.csv");
    let written = |memory: &str| {
        let mut command = solve(4, 60);
        command.arg("--positions").arg(&file);
        let summary = end(command.args(["--memory", memory])).summary();
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(number(&summary["file"], "bytes"), text.len() as u64);
        let digest = Digest::of(text.as_bytes()).to_string();
        assert_eq!(summary["file"]["sha256"], digest);
        fs::remove_file(&file).unwrap();
        (number(&summary, "losing"), text)
    };
    let (losing, text) = written("1GiB");
    let lines = text.lines();
    let positions: Vec<Vec<u32>> = lines
        .map(|line| {
            line.split(',')
                .map(|length| length.parse().unwrap())
                .collect()
        })
        .collect();
    assert!(positions.is_sorted() && positions.len() as u64 == losing);
    assert_eq!(positions[..3], [[1, 0, 0, 0], [2, 1, 0, 0], [2, 2, 1, 0]]);
    // Of all boards of 4 rows and 60 columns.
    let counted = end(&mut solve(4, 60)).summary();
    assert_eq!(number(&counted, "losing"), losing);
    let mut command = solve(4, 60);
    command
        .arg("--positions")
        .arg(&file)
        .args(["--memory", "32MiB"]);
    end(&mut command).refuses(2, &["is too small"]);
    assert!(!file.try_exists().unwrap());

    fs::write(&file, "mine").unwrap();
    let mut command = solve(4, 60);
    end(command.arg("--positions").arg(&file)).refuses(5, &["losing.csv"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    let wrong = |rows: u32, more: &str| {
        let mut command = solve(rows, 60);
        end(command.args(["--positions", more]))
    };
    wrong(6, "losing.csv").refuses(2, &["3 to 5 rows"]);
    wrong(3, "losing.txt").refuses(2, &[".csv, .npy or .parquet"]);
}

#[test]
fn periods_of_few_rows_are_told() {
    let told = end(&mut chomp("box --rows 3 --columns 200 --periods"))
        .done()
        .stdout;
    let of = |third: &str| told.lines().find(|line| line.starts_with(third));
    assert_eq!(of("0:"), Some("0: period 1 from 0"));
    assert_eq!(of("1:"), Some("1: none from 3"));
    assert_eq!(of("11:"), Some("11: period 1 from 19"));
    assert_eq!(of("190:"), Some("190: no period seen"));
    let json = end(&mut chomp("box --rows 4 --columns 100 --periods --json")).summary();
    let tails = json["tails"].as_array().unwrap();
    assert_eq!(tails.len(), 101 * 102 / 2);
    let found = serde_json::json!({"tail": [6, 3], "period": 8, "from": 10, "proved": true});
    assert!(tails.contains(&found), "{json}");
    let periods = json["periods"].as_array().unwrap().iter();
    let with = periods.map(|one| one[1].as_u64().unwrap() + one[2].as_u64().unwrap());
    let all = with.sum::<u64>() + number(&json, "dead") + number(&json, "unknown");
    assert_eq!(all, tails.len() as u64);
    end(&mut chomp("box --rows 6 --columns 100 --periods")).refuses(2, &["3 to 5 rows"]);
}

#[test]
fn few_rows_go_on_after_they_were_killed() {
    let directory = folder();
    let folder = directory.path().join("scratch");
    let file = folder.join("few");
    let state = || fs::metadata(&file).and_then(|data| data.modified()).ok();
    let mut kills = 0;
    while kills < 3 {
        let before = state();
        let mut child = start(with_folder(4, 700, &folder).args(["--threads", "2"]));
        if wait_until(&mut child, || state() != before) {
            child.kill().unwrap();
        }
        if wait(child).code.is_none() {
            kills += 1;
        } else {
            fs::remove_dir_all(&folder).unwrap();
            kills = 0;
        }
    }
    let other = end(&mut with_folder(4, 701, &folder));
    other.refuses(5, &["4 rows and 700 columns"]);
    let summary = end(&mut with_folder(4, 700, &folder)).summary();
    let undisturbed = end(solve(4, 700).args(["--threads", "1"])).summary();
    assert_eq!(found(&summary), found(&undisturbed));
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    end(&mut with_folder(4, 700, &folder)).refuses(3, &["few is damaged"]);
}

#[test]
fn an_opening_near_the_poison_wins_where_a_table_says_so() {
    let directory = finished(20);
    let openings = end(chomp("openings --json --table").arg(directory.path())).done();
    let openings = openings.stdout.lines();
    let openings = openings.map(|line| serde_json::from_str(line).unwrap());
    let openings: Vec<Value> = openings.collect();
    for (i, j) in [(3, 3), (2, 3), (2, 4), (3, 4), (2, 2)] {
        let mut expected: Vec<[u64; 2]> = Vec::new();
        for one in &openings {
            let (m, n) = (number(one, "rows"), number(one, "columns"));
            let moves = one["moves"].as_array().unwrap();
            if moves.contains(&serde_json::json!([i, j])) {
                expected.push([m, n]);
            }
            if m != n && moves.contains(&serde_json::json!([j, i])) {
                expected.push([n, m]);
            }
        }
        expected.sort_unstable();
        let wins = chomp(&format!("box --opening {i},{j} --columns 19 --json"));
        let wins = end(&mut { wins }).summary();
        let wins: Vec<[u64; 2]> = serde_json::from_value(wins["boards"].clone()).unwrap();
        let inside = wins.into_iter().filter(|[m, n]| m + n <= 20);
        assert_eq!(inside.collect::<Vec<_>>(), expected, "({i}, {j})");
    }
}

#[test]
fn a_box_of_one_layer_is_a_board() {
    let plane = end(&mut solve(4, 6)).summary();
    let space = end(&mut chomp("box --space 4x6x1 --json --threads 2")).summary();
    assert_eq!(space["losing"], plane["losing"]);
    assert_eq!(number(&space, "positions"), 210);
    let moves =
        |of: &Value| -> Vec<Vec<u64>> { serde_json::from_value(of["moves"].clone()).unwrap() };
    for inner in space["boxes"].as_array().unwrap() {
        let sides: Vec<u64> = serde_json::from_value(inner["sides"].clone()).unwrap();
        let mut boards = plane["openings"].as_array().unwrap().iter();
        let board = |one: &&Value| [number(one, "rows"), number(one, "columns")] == sides[..2];
        let expected = moves(boards.find(board).unwrap()).into_iter();
        let expected = expected.map(|cell| [&cell[..], &[1]].concat());
        assert_eq!(moves(inner), expected.collect::<Vec<_>>(), "{inner}");
    }
    end(&mut chomp("box --space 6x6x6")).refuses(2, &["2^32 surroundings"]);
    end(&mut chomp("box --space 3x3")).refuses(2, &["AxBxC"]);
}
