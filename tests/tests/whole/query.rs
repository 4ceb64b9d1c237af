//! `chomp query` and `chomp openings` answer as the definition does, wherever the table is, and
//! refuse what they cannot know.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::cluster::Cluster;
use crate::common::random::seed;
use crate::common::{ask, chomp, end, hasten_limits, run};
use chomp_table::rng::Rng;
use chomp_table::{Digest, Position, Word};
use chomp_testing::definition::{self, index_of};
use chomp_testing::tables::{SMALL, publish};
use serde_json::{Value, json};

fn query(table: &str, args: &[&str]) -> Command {
    let mut command = chomp("query --table");
    command.arg(table).args(args);
    command
}

fn path(table: &Path) -> &str {
    table.to_str().expect("a plain path")
}

fn binary(word: Word) -> String {
    format!("{:#b}\n", word.get())
}

/// However many lines of a batch are refused, and however slowly they are read.
#[test]
fn no_error_of_a_batch_is_lost() {
    const BAD: usize = 200_000;
    let dir = tempfile::tempdir().unwrap();
    let mut command = query(path(dir.path()), &["--keep-going", "--no-moves"]);
    let errors = dir.path().join("errors");
    command.stderr(fs::File::create(&errors).unwrap());
    let ended = ask(&mut command, "2x2\n".to_owned() + &"4,5\n".repeat(BAD)).exits(2);
    assert_eq!(ended.stdout, "2x2 is winning\n");
    let errors = fs::read_to_string(&errors).unwrap();
    for (number, line) in (2..).zip(errors.lines().skip(1).take(BAD)) {
        assert!(
            line.starts_with(&format!("line {number} of stdin: ")),
            "{line}"
        );
    }
    assert_eq!(
        errors.lines().last(),
        Some("error: 200000 positions have no answer")
    );
    assert_eq!(errors.lines().count(), BAD + 2);
}

/// Perfect play from a position ends at the poison, and is told alike with a table and without one.
#[test]
fn perfect_play_is_told_with_and_without_a_table() {
    let dir = tempfile::tempdir().unwrap();
    let ask = |args: &[&str]| {
        end(query(path(dir.path()), &["--json", "--depth", "--line"]).args(args)).summary()
    };
    let few = ["3x100", "5,5,3", "120,7,7,2", "1x20", "40x2", "1"];
    let without: Vec<Value> = few.iter().map(|name| ask(&[name])).collect();
    end(&mut run(dir.path(), 14)).summary();
    for (name, without) in few.iter().zip(without) {
        let with = ask(&[name]);
        assert_eq!(
            [&with["depth"], &with["line"]],
            [&without["depth"], &without["line"]]
        );
        let line: Vec<[u32; 2]> = serde_json::from_value(without["line"].clone()).unwrap();
        assert_eq!(without["depth"], line.len(), "{name}");
        assert_eq!(without["losing"], line.len() % 2 == 1, "{name}");
        let mut rows: Vec<u32> = serde_json::from_value(without["rows"].clone()).unwrap();
        for (place, &[row, column]) in line.iter().enumerate() {
            let (row, left) = (row as usize - 1, column - 1);
            assert!(rows[row] > left, "{name}: move {place}");
            rows[row..]
                .iter_mut()
                .for_each(|length| *length = left.min(*length));
            assert_eq!(
                rows[0] == 0,
                place + 1 == line.len(),
                "{name}: move {place}"
            );
        }
    }
    let told = |args: &[&str]| {
        end(query(path(dir.path()), &["--no-moves"]).args(args))
            .done()
            .stdout
    };
    assert_eq!(
        told(&["--line", "3,2"]),
        "3,2 is losing\n  perfect play: (1,2) (2,1) (1,1)\n"
            .replace("(1,2) (2,1)", "(1,3) (2,2) (1,2) (2,1)")
    );
    let many = "3x400 is winning\n  perfect play is not told: at least 10,827,401 positions are inside, and 3,579,139 are the most\n";
    assert_eq!(told(&["--line", "3x400"]), many);
}

/// The moves (board, row, column) from a sum, straight from the rules, and what they leave.
fn moves_of_sum(boards: &[Vec<u32>]) -> Vec<([usize; 3], Vec<Vec<u32>>)> {
    let mut moves = Vec::new();
    for (board, rows) in boards.iter().enumerate() {
        for (row, &length) in rows.iter().enumerate() {
            for left in u32::from(row == 0)..length {
                let mut next = boards.to_vec();
                next[board][row..]
                    .iter_mut()
                    .for_each(|length| *length = left.min(*length));
                next[board].retain(|&length| length > 0);
                moves.push(([board + 1, row + 1, left as usize + 1], next));
            }
        }
    }
    moves
}

/// Whether the player to move loses, who loses without a move.
fn sum_is_losing(boards: &[Vec<u32>], known: &mut HashMap<Vec<Vec<u32>>, bool>) -> bool {
    if let Some(&losing) = known.get(boards) {
        return losing;
    }
    let mut moves = moves_of_sum(boards).into_iter();
    let losing = !moves.any(|(_, left)| sum_is_losing(&left, known));
    known.insert(boards.to_vec(), losing);
    losing
}

#[test]
fn sums_are_answered_as_the_rules_say() {
    let dir = tempfile::tempdir().unwrap();
    let ask = |args: &[&str]| end(query(path(dir.path()), args).arg("--json"));
    let mut known = HashMap::new();
    let mut losing = 0;
    for sum in [
        "2x2 + 3,1",
        "[3] + [3]",
        "2,1 + 2x3",
        "[2,1]+[1 1]+3",
        "0b10 + 2,2,1",
        "3,1 + 2x2 + 2,1",
        "2x2 + [3] + (2,2)",
        "3x3 + 3,2,1",
    ] {
        let told = ask(&[sum]).summary();
        let boards = told["sum"].as_array().unwrap().iter();
        let boards: Vec<Vec<u32>> = boards
            .map(|board| serde_json::from_value(board["rows"].clone()).unwrap())
            .collect();
        assert_eq!(boards.len(), sum.split('+').count(), "{sum}");
        assert_eq!(told["losing"], sum_is_losing(&boards, &mut known), "{sum}");
        assert_eq!(told["losing"], told["value"] == 0, "{sum}");
        let winning = moves_of_sum(&boards)
            .into_iter()
            .filter(|(_, left)| sum_is_losing(left, &mut known));
        let winning: Vec<[usize; 3]> = winning.map(|(cell, _)| cell).collect();
        assert_eq!(told["winning_moves"], json!(winning), "{sum}");
        losing += usize::from(winning.is_empty());
    }
    assert!((1..7).contains(&losing), "{losing}");
    for (sum, with_moves) in [
        (
            "[3] + [2]",
            "3 + 2 has the value 3: it is winning\n  3 has the value 2, won with (1,3)\n  2 has the value 1\n",
        ),
        (
            "[2] + [2]",
            "2 + 2 has the value 0: it is losing, no move wins\n  2 has the value 1\n  2 has the value 1\n",
        ),
    ] {
        let told = |args: &[&str]| end(&mut query(path(dir.path()), args)).done().stdout;
        assert_eq!(told(&[sum]), with_moves);
        let (value, _) = with_moves.split_once(':').unwrap();
        assert_eq!(told(&["--no-moves", sum]), format!("{value}\n"));
    }

    // Cut by a shell it is the same sum.
    let cut = ask(&["2,1", "+", "2x2"]).summary();
    assert_eq!(cut["sum"], ask(&["2,1 + 2x2"]).summary()["sum"]);
    // Nothing that may mean a single position is taken for a sum.
    let words = ask(&["--numbers", "words", "346 + 2"]).summary();
    assert_eq!(words["sum"][0]["rows"], json!([5, 4, 2, 1]));
    let columns = ask(&["--numbers", "columns", "3,1 + 0b1110"]).summary();
    assert_eq!(
        columns["sum"],
        json!([{"rows": [2, 1, 1], "value": 3}, {"rows": [3], "value": 2}])
    );
    for (args, text) in [
        (&["3+2 + 4x4"][..], "single numbers side by side"),
        (&["4x4 + "], "is no sum"),
        (&["4x4 + 0"], "a board without cells"),
        (&["20x20 + 1"], "positions are inside"),
        (&["--line", "2,1 + 2x2"], "not of sums"),
    ] {
        ask(args).refuses(2, &[text]);
    }
    // Words and columns of few rows are these without a table, too.
    let told = |numbers: &str, text: &str| {
        end(&mut query(
            path(dir.path()),
            &["--no-moves", "--numbers", numbers, text],
        ))
        .done()
        .stdout
    };
    assert_eq!(told("words", "346"), "5,4,2,1 is winning\n");
    assert_eq!(told("columns", "0x15a"), "5,4,2,1 is winning\n");
    assert_eq!(told("columns", "4,3,2,2,1"), "5,4,2,1 is winning\n");
}

/// Sums and positions in one list are answered in order, on a command line and on stdin.
#[test]
fn sums_are_answered_among_positions() {
    let dir = tempfile::tempdir().unwrap();
    let table = path(dir.path());
    let two = "2,1 + 2x2 has the value 2: it is winning\n  2,1 has the value 0\n  \
               2x2 has the value 2, won with (2,2)\n";
    let expected = [
        ("2x2", "2x2 is winning, with (2,2)\n"),
        ("2,1 + 2x2", two),
        ("3 + 2", "3,2 is losing: no move wins\n"),
        (
            "[3] + [3]",
            "3 + 3 has the value 0: it is losing, no move wins\n  3 has the value 2\n  3 has the value 2\n",
        ),
        ("3x3", "3x3 is winning, with (2,2)\n"),
    ];
    let everywhere = || {
        let [asked, told] = [0, 1].map(|side| expected.map(|pair| [pair.0, pair.1][side]));
        let lines = ask(&mut query(table, &[]), asked.join(" # a comment\n"));
        assert_eq!(lines.done().stdout, told.concat());
        let arguments = end(&mut query(table, &asked)).done();
        assert_eq!(arguments.stdout, told.concat());
        let json = ask(&mut query(table, &["--json"]), asked.join("\n")).done();
        let lines = json.stdout.lines();
        let sums: Vec<bool> = lines.map(|line| line.contains("\"sum\":[{")).collect();
        assert_eq!(sums, [false, true, false, true, false], "{}", json.stdout);
    };
    everywhere();
    end(&mut run(dir.path(), 12)).summary();
    everywhere();

    let lines = "2x2\n20x20 + 1\n2,1 + 2x2\n4x4 +\n3+2 + 4x4\n[2] + 0\n";
    let ended = ask(&mut query(table, &["--keep-going"]), lines.into()).exits(2);
    let answered = ["2x2 is winning, with (2,2)\n", two].concat();
    assert_eq!(ended.stdout, answered);
    for text in [
        "line 2 of stdin: cannot tell about 20x20 + 1: 20x20 is too large",
        "line 4 of stdin: \"4x4 +\" is no sum",
        "line 5 of stdin: \"3+2 + 4x4\" has single numbers",
        "line 6 of stdin: cannot tell about 2 + 0: a sum has a board without cells",
        "4 positions have no answer",
    ] {
        ended.says(text);
    }
    let ended = ask(&mut query(table, &[]), lines.into()).exits(2);
    assert_eq!(ended.stdout, "2x2 is winning, with (2,2)\n");
    let deep = ["--keep-going", "--depth", "--no-moves"];
    let ended = ask(&mut query(table, &deep), "2,1 + 2x2\n1\n".into()).exits(2);
    ended.says("line 1 of stdin");
    assert!(
        ended.stdout.starts_with("1 is losing\n"),
        "{}",
        ended.stdout
    );
}

/// Names and fields that would command a terminal, of the table's folder, of a file in it, in its manifest.
#[test]
fn escape_sequences_are_shown_and_never_sent() {
    const COMMAND: &str = "\u{1b}]0;title\u{7}\u{9b}2J";
    const SHOWN: &str = "\\u001b]0;title\\u0007\\u009b2J";
    let dir = tempfile::tempdir().unwrap();
    let table = dir.path().join(COMMAND);
    let check = |table: &Path, code: i32| {
        for json in [false, true] {
            let query = if code == 1 {
                "query 20x20"
            } else {
                "query 8x10"
            };
            for name in [query, "verify --level quick"] {
                let mut command = chomp(name);
                command.args(json.then_some("--json"));
                let ended = end(command.arg("--table").arg(table));
                let said = format!("{}{}", ended.stdout, ended.stderr);
                let raw = |char: char| char.is_control() && !['\n', '\t'].contains(&char);
                assert!(!said.contains(raw), "{said:?}");
                assert_eq!(ended.code, Some(code), "{said}");
                let silent = code == 0 && name.starts_with("query");
                assert!(silent || said.contains(SHOWN), "{said}");
                for line in said.lines().filter(|_| json && name.starts_with("verify")) {
                    serde_json::from_str::<Value>(line).expect("still JSON");
                }
            }
        }
    };
    check(&table, 1);

    end(&mut run(&table, 18)).summary();
    let folder = table.join("table-18");
    fs::write(folder.join(COMMAND), "").unwrap();
    check(&table, 0);

    let manifest = folder.join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let field = format!("{{{}: 1,", json!(COMMAND));
    let text = text.replacen('{', &field, 1);
    fs::write(&manifest, &text).unwrap();
    let sums = fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
    let (_, rest) = sums.split_once('\n').unwrap();
    let digest = Digest::of(text.as_bytes());
    let sums = format!("{digest}  manifest.json\n{rest}");
    fs::write(folder.join("SHA256SUMS"), sums).unwrap();
    check(&table, 3);
}
