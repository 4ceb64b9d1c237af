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

/// The winning moves by the definition.
fn winning_moves(word: Word, losing: &[bool]) -> Vec<(u32, u32)> {
    let winning = word.moves().filter(|&(_, next)| losing[index_of(next)]);
    let mut moves: Vec<_> = winning.map(|(cell, _)| (cell.row, cell.column)).collect();
    moves.sort_unstable();
    moves
}

/// The whole answer for positions of a small table, from all places that a table can be at.
#[test]
fn answers_are_the_same_from_everywhere() {
    let cluster = Cluster::new();
    end(&mut run(&cluster.table(), 20)).summary();
    let losing = definition::losing(20);
    let _coordinator = cluster.start_coordinator(&mut cluster.coordinator(20, 12));

    let folder = cluster.table().join("table-20");
    let shard = folder.join("shard-0000.zst");
    let places = [
        path(&cluster.table()).to_owned(),
        path(&folder).to_owned(),
        path(&shard).to_owned(),
        cluster.url(),
        format!("{}/table-20", cluster.url()),
    ];
    let mut random = Rng(seed());
    let words: Vec<Word> = (0..500).map(|_| Word::new(random.below(1 << 19))).collect();
    let positions: String = words.iter().copied().map(binary).collect();
    let mut told: HashSet<String> = HashSet::new();
    for place in &places {
        let mut command = cluster.chomp("query --json --table");
        let ended = ask(command.arg(place), positions.clone());
        told.insert(ended.done().stdout);
    }
    assert_eq!(told.len(), 1, "all say the same");
    let told = told.into_iter().next().unwrap();
    for (word, line) in words.into_iter().zip(told.lines()) {
        let said: Value = serde_json::from_str(line).unwrap();
        let moves = winning_moves(word, &losing);
        assert_eq!(said["rows"], json!(Position::from(word).rows()));
        assert_eq!(said["bits"], word.bits());
        assert_eq!(said["losing"], losing[index_of(word)]);
        assert_eq!(said["winning_moves"], json!(moves), "{line}");
    }
}

#[test]
fn what_is_not_known_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let table = path(dir.path());
    end(&mut query(table, &["20x20"])).refuses(1, &["no published table", "chomp run"]);
    end(&mut run(dir.path(), 20)).summary();
    for (position, code, texts) in [
        (
            "20x20",
            5,
            &["40 bits", "covers 20", "20x20", "137,846,528,820"][..],
        ),
        ("4,5", 2, &["4,5", "longest first"]),
        ("0b101", 2, &["0b101", "even"]),
        ("cake", 2, &["cake", "5,4,2,1"]),
        ("", 2, &["is not a position"]),
    ] {
        end(&mut query(table, &[position])).refuses(code, texts);
        end(&mut query(table, &["--json", position])).refuses(code, texts);
    }
    let openings = |boards: &str| end(&mut chomp(&format!("openings --table {table} {boards}")));
    assert_eq!(
        openings("10x8 8x10").stdout,
        "10x8 (6,5) (9,4)\n8x10 (4,9) (5,6)\n"
    );
    openings("8x13").refuses(5, &["21 bits"]);

    // Lines before a bad one are answered, and the bad one is named.
    let lines = "2x2\n\n# a remark\n3x3\n4,5\n4x4\n";
    let ended = ask(&mut query(table, &[]), lines.into()).exits(2);
    let answered = "2x2 is winning, with (2,2)\n3x3 is winning, with (2,2)\n";
    assert_eq!(ended.stdout, answered);
    ended.says("line 5 of stdin");
    // It reads the rows that `chomp export` writes.
    let mut export = chomp("export --format rows --out - --table");
    let losing = end(export.arg(table)).stdout;
    let ended = ask(&mut query(table, &["--no-moves"]), losing.clone());
    assert_eq!(ended.stdout.lines().count(), losing.lines().count() - 1);
    let mut lines = ended.stdout.lines();
    assert!(lines.all(|line| line.ends_with(" is losing")));
    let ended = ask(&mut query(table, &[]), "2x2\n20x20\n4x4\n".into()).exits(5);
    assert_eq!(ended.stdout, "2x2 is winning, with (2,2)\n");

    let shard = dir.path().join("table-20/shard-0000.zst");
    end(&mut query(path(&shard), &["20x20"]))
        .refuses(5, &["shard-0000.zst", "ask the whole table"]);
    end(&mut query(path(&shard), &["6x14"])).done();
    let nobody = "http://127.0.0.1:9";
    end(hasten_limits(&mut query(nobody, &["2x2"]), 10)).refuses(4, &[nobody]);
    end(&mut query("http://", &["2x2"])).refuses(2, &["not the URL"]);
}

/// Positions beyond a table, or any table, mixed with those that it has.
#[test]
fn positions_beyond_the_table_are_solved_on_the_spot() {
    let dir = tempfile::tempdir().unwrap();
    let table = path(dir.path());
    let told = |args: &[&str]| end(&mut query(table, args)).done().stdout;
    let large = [
        "500x4 is winning, with (291,3)\n",
        "3000,1200,700,12 is winning, with (1,16)\n",
        "101,100 is losing: no move wins\n",
    ];
    let names = ["500x4", "3000,1200,700,12", "101,100"];
    assert_eq!(told(&names), large.concat());
    assert_eq!(
        told(&["--no-moves", "4x500", "2x3"]),
        "4x500 is winning\n2x3 is winning\n"
    );
    let json = told(&["--json", "1x100"]);
    let row = json!({"rows": [100], "bits": 101, "area": 100, "losing": false,
        "winning_moves": [[1, 2]], "losing_positions": [[1]], "reply": [1, 2]});
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), row);

    let large = "5x100000";
    end(&mut query(table, &[large])).refuses(2, &[large, "sets of rows", "8,589,934,592"]);
    end(&mut query(table, &["5x200000"])).refuses(2, &["sets of rows"]);
    let mixed = ["2x100", "6x13", "2x2", "9x10", "[70,1^69]", "8x10"];
    let expected = "2x100 is winning, with (2,100)\n6x13 is winning, with (4,12) (5,9)\n\
                    2x2 is winning, with (2,2)\n9x10 is winning, with (7,8) (9,5)\n\
                    70,1^69 is losing: no move wins\n8x10 is winning, with (4,9) (5,6)\n";
    let expected = expected.replace("1^69", &["1"; 69].join(","));
    let everywhere = || {
        assert_eq!(told(&mixed), expected);
        let lines = ask(&mut query(table, &[]), mixed.join("\n"));
        assert_eq!(lines.done().stdout, expected);
    };
    everywhere();

    // Every position is told as a table tells it.
    end(&mut run(dir.path(), 16)).summary();
    let none = tempfile::tempdir().unwrap();
    let all = (0..1 << 15)
        .step_by(41)
        .map(|index| Position::from(Word::new(2 * index)));
    let names: Vec<String> = all.map(|position| position.to_string()).collect();
    let lines = names.join("\n");
    for flag in ["--json", "--no-moves", "--depth"] {
        let [by_table, solved] = [table, path(none.path())]
            .map(|table| ask(&mut query(table, &[flag]), lines.clone()).done().stdout);
        assert_eq!(by_table, solved, "{flag}");
    }
    everywhere();
}

/// A shard answers for all that it has, also if positions with as many bits are in the next one, and small positions
/// that it does not have are solved.
#[test]
fn one_shard_answers_as_its_table_does() {
    let dir = tempfile::tempdir().unwrap();
    end(&mut run(dir.path(), 28)).summary();
    let small = tempfile::tempdir().unwrap();
    let small = publish(small.path(), 12, SMALL);
    for (shard, positions) in [
        (
            dir.path().join("table-28/shard-0000.zst"),
            "14^13,1\n14^7,13^7\n14,12^13\n3,1",
        ),
        (small.join("shard-0001.zst"), "1\n2,1\n6x6\n3^2,1\n5,4,2,1"),
    ] {
        for flag in ["--json", "--no-moves"] {
            let [whole, alone] = [shard.parent().unwrap(), &shard].map(|place| {
                ask(&mut query(path(place), &[flag]), positions.into())
                    .done()
                    .stdout
            });
            assert_eq!(alone, whole, "{flag} {positions}");
        }
    }
}

/// A batch goes on, and the code is that of the first position without an answer.
#[test]
fn a_position_without_an_answer_stops_no_other_with_keep_going() {
    let dir = tempfile::tempdir().unwrap();
    let table = path(dir.path());
    let goes_on = |lines: &str| ask(&mut query(table, &["--keep-going"]), lines.into());
    let answered =
        "2x2 is winning, with (2,2)\n3x3 is winning, with (2,2)\n4x4 is winning, with (2,2)\n";
    let lines = "2x2\n4,5\n3x3\n20x20\n60x60\nOO**\n\n4x4 # the last one\n";
    let ended = goes_on(lines).exits(2);
    assert_eq!(ended.stdout, answered);
    for line in [
        "line 2 of",
        "line 4 of",
        "line 5 of",
        "line 6 of",
        "4 positions have no answer",
    ] {
        ended.says(line);
    }
    goes_on("60x60\n4,5\n").exits(5).says("2 positions");
    goes_on("20x20\n4,5\n2x2").exits(1).says("line 2 of stdin");
    goes_on("2x2\n").done();
    let ended = ask(&mut query(table, &[]), lines.into()).exits(2);
    assert_eq!(ended.stdout, "2x2 is winning, with (2,2)\n");

    let arguments = ["--keep-going", "2x2", "3,y", "3x3", "4x4"];
    let ended = end(&mut query(table, &arguments)).exits(2);
    assert_eq!(ended.stdout, answered);
    ended.says("the position \"3,y\"");
    ended.says("one position has no answer");
}

/// Cut by a shell or not, on a command line and on stdin.
#[test]
fn a_position_may_be_written_in_the_ways_of_the_field() {
    let dir = tempfile::tempdir().unwrap();
    let table = path(dir.path());
    for (text, name) in [
        ("5+4+2+1", "5,4,2,1"),
        ("5 4 2 1", "5,4,2,1"),
        ("[5, 4, 2, 1]", "5,4,2,1"),
        ("{5, 4, 2, 1}", "5,4,2,1"),
        ("5, 4, 2, 1", "5,4,2,1"),
        ("5 + 4 + 2 + 1", "5,4,2,1"),
        ("3^2,1", "3,3,1"),
        ("3^2 1", "3,3,1"),
        ("(3^{2}, 1)", "3,3,1"),
        ("8*10", "8x10"),
        ("8 × 10", "8x10"),
        ("8 x 10", "8x10"),
    ] {
        let cut: Vec<&str> = text.split(' ').collect();
        let mut told = [
            end(&mut query(table, &[text])).done(),
            end(&mut query(table, &cut)).done(),
            ask(&mut query(table, &[]), text.into()).done(),
        ];
        for ended in &mut told {
            let named = ended.stdout.starts_with(&format!("{name} is "));
            assert!(
                named && ended.stdout.lines().count() == 1,
                "{text}: {}",
                ended.stdout
            );
        }
        if text == "5 4 2 1" {
            told[1].says("5 4 2 1 is one position here, 5,4,2,1");
            told[1].says("5,0 4,0 2,0 1,0");
        }
        if text.contains('+') {
            told[0].says(&format!(
                "{text} is one position here, 5,4,2,1; write [5] + [4] + [2] + [1] for a sum"
            ));
        }
    }
    let both = ["longest first", "4,0 5,0"];
    end(&mut query(table, &["4", "5"])).refuses(2, &both);
    end(&mut query(table, &["2 + 3"])).refuses(2, &["longest first", "[2] + [3]"]);
    let each = end(&mut query(table, &["8x10", "4", "3", "3,1", "7"])).done();
    assert_eq!(each.stdout.lines().count(), 4);
    // In quotes, numbers are a whole position.
    let each = end(&mut query(table, &["5 4", "2 1"])).done();
    assert_eq!(
        each.stdout,
        "5,4 is losing: no move wins\n2,1 is losing: no move wins\n"
    );
    let words = end(&mut query(
        table,
        &["--numbers", "words", "--no-moves", "38", "14"],
    ))
    .done();
    assert_eq!(words.stdout, "3,1,1 is losing\n3 is winning\n");

    end(&mut run(dir.path(), 18)).summary();
    for board in ["8*10", "8X10", "8 × 10"] {
        let mut openings = chomp("openings --table");
        let told = end(openings.arg(table).arg(board)).done().stdout;
        assert_eq!(told, "8x10 (4,9) (5,6)\n");
    }
}

/// A drawing begins with the poison. One that could mean several positions is refused.
#[test]
fn drawings_are_read_in_the_usual_characters() {
    let dir = tempfile::tempdir().unwrap();
    let ask = |drawing: &str| {
        ask(
            &mut query(path(dir.path()), &["--no-moves"]),
            drawing.into(),
        )
    };
    for drawing in ["P###\n##\n", "XOOO\nOO", "x □ □ □\n□ □\n", "x . O .\n. .\n"] {
        assert_eq!(ask(drawing).done().stdout, "4,2 is winning\n", "{drawing}");
    }
    for drawing in [
        "OO**\nOO",
        "■□□\n□",
        "xoo\no o",
        "xoo\n# a board\no",
        "ooo\noo",
    ] {
        ask(drawing).refuses(2, &["line 1 of stdin"]);
    }
}

/// Of each of these, somebody could take an answer for one to another question.
#[test]
fn what_is_not_a_position_is_not_answered() {
    let dir = tempfile::tempdir().unwrap();
    for (input, answered, error) in [
        // A header below positions, which it says are words.
        (
            "346\nword\n",
            "346 is winning\n",
            "line 2 of stdin: a header below positions",
        ),
        (
            "5,4,2,1\n---\n3,1\n",
            "5,4,2,1 is winning\n",
            "line 2 of stdin: \"---\"",
        ),
        (
            "5,4,2,1\ny\n3,1\n",
            "5,4,2,1 is winning\n",
            "line 2 of stdin: \"y\"",
        ),
        (
            "5,4,2,1\nNN\n3,1\n",
            "5,4,2,1 is winning\n",
            "line 2 of stdin: \"NN\"",
        ),
        (
            "5,4,2,1\nabc,def\n3,1\n",
            "5,4,2,1 is winning\n",
            "line 2 of stdin: \"abc,def\"",
        ),
        ("a,a\n", "", "line 1 of stdin: \"a,a\" is no position"),
        ("id,length\n7,3\n", "", "line 1 of stdin: \"id,length\""),
        ("7,\"5,4,2,1\"\n", "", "line 1 of stdin: \"7,\"5,4,2,1\"\""),
        (
            "rows\n5,4,2,1\n",
            "",
            "line 2 of stdin: the header has 1 column, and",
        ),
        (
            "1 1 1\n1 1 0\n1 0 0\n",
            "3x1 is winning\n",
            "line 2 of stdin: \"1 1 0\"",
        ),
        (
            "111\n110\n100\n",
            "111 is winning\n110 is winning\n",
            "line 3 of stdin: \"100\"",
        ),
        ("x\n5\n3\n", "", "line 1 of stdin: \"x\" begins no drawing"),
        ("0110100\n", "", "line 1 of stdin: \"0110100\""),
        (
            "rows,word\n21,10\n",
            "",
            "line 2 of stdin: its columns rows, 21, and word, 2,1, differ",
        ),
    ] {
        let asked = ask(&mut query(path(dir.path()), &["--no-moves"]), input.into());
        let ended = asked.exits(2);
        assert_eq!(ended.stdout, answered, "{input}");
        ended.says(error);
        // Lines that are understood are answered with --keep-going, unless a header makes them doubtful.
        let keep_going = ["--no-moves", "--keep-going"];
        let ended = ask(&mut query(path(dir.path()), &keep_going), input.into()).exits(2);
        let mut answers = ended.stdout.lines();
        assert!(
            answers.all(|line| answered.contains(line) || line == "3,1 is winning"),
            "{ended:?}"
        );
        ended.says(error);
    }
    let mut bytes = query(path(dir.path()), &["--keep-going"]);
    let utf16: Vec<u16> = "3,1\n".encode_utf16().collect();
    let file = dir.path().join("utf16.txt");
    let content: Vec<u8> = [0xfeff]
        .iter()
        .chain(&utf16)
        .flat_map(|unit| unit.to_le_bytes())
        .collect();
    fs::write(&file, content).unwrap();
    end(bytes.stdin(fs::File::open(&file).unwrap())).refuses(2, &["stdin is UTF-16", "iconv"]);

    let words = |text: &str| end(&mut query(path(dir.path()), &["--numbers", "words", text]));
    for text in ["5,4,2,1", "8x10", "346 14"] {
        words(text).refuses(2, &[text, "is no word"]);
    }
    end(&mut query(path(dir.path()), &["0110100"])).refuses(2, &["0110100"]);
}

/// The positions are in the column of their name, whichever program wrote the file.
#[test]
fn columns_are_found_by_their_names() {
    let dir = tempfile::tempdir().unwrap();
    for input in [
        "id,rows\n7,\"5,4,2,1\"\n8,4\n9,3\n",
        // R, and pandas.
        "\"\",\"rows\"\n\"1\",\"5,4,2,1\"\n\"2\",\"4\"\n\"3\",\"3\"\n",
        ",rows\n0,\"5,4,2,1\"\n1,4\n2,3\n",
        "rows;id\n5,4,2,1;7\n4;8\n3;9\n",
        "id\trows\n7\t5 4 2 1\n8\t4\n\t3\n",
        "word,rows\n346,5+4+2+1\n30,4\n14,3\n",
        "id,word\n8,346\n9,30\n10,14\n",
    ] {
        let asked = ask(&mut query(path(dir.path()), &["--no-moves"]), input.into()).done();
        assert_eq!(
            asked.stdout, "5,4,2,1 is winning\n4 is winning\n3 is winning\n",
            "{input}"
        );
    }
    // The program reads back its JSON and its CSV, also if another program wrote that anew.
    let table = path(dir.path());
    end(&mut run(dir.path(), 14)).summary();
    let answers = |input: &str| {
        ask(&mut query(table, &["--json"]), input.into())
            .done()
            .stdout
    };
    let mut export = chomp("export --format rows --out - --table");
    let exported = end(export.arg(table)).done().stdout;
    let expected = answers(&exported);
    assert_eq!(expected.lines().count(), exported.lines().count() - 1);
    assert_eq!(answers(&expected), expected);
    let in_quotes = |line: &str| format!("\"{}\"\n", line.replace(',', "\",\""));
    let in_quotes: String = exported.lines().map(in_quotes).collect();
    assert_eq!(answers(&in_quotes), expected);
    let with_tabs = exported.replace(',', "\t");
    assert_eq!(answers(&with_tabs), expected);
    // No cell has a sign that a program could take for one between thousands.
    let are_plain = |line: &str| line.split(',').count() == 4 && !line.contains(['"', ' ', '.']);
    assert!(exported.lines().all(are_plain));
    let old = exported.replace('+', ",");
    let lines = old
        .lines()
        .map(|line| match line.splitn(4, ',').collect::<Vec<_>>()[..] {
            [word, bits, area, rows] => format!("{word},{bits},{area},\"{rows}\"\n"),
            _ => panic!("{line}"),
        });
    assert_eq!(answers(&lines.collect::<String>()), expected);
    let sums = answers("2,1 + 2x2\n[3] + [2]\n");
    assert_eq!(answers(&sums), sums);
    let openings = end(chomp("openings --json --table").arg(table))
        .done()
        .stdout;
    assert_eq!(answers(&openings).lines().count(), openings.lines().count());
}

/// A table that is named and not there is no reason to fail, and none to be silent.
#[test]
fn a_missing_table_that_was_named_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let nowhere = dir.path().join("nowhere");
    let reported = format!(
        "{} has no table: positions are solved without one\n",
        nowhere.display()
    );
    let mut by_flag = query(path(&nowhere), &["2x2"]);
    let mut by_variable = chomp("query 2x2");
    for command in [&mut by_flag, by_variable.env("CHOMP_TABLE", &nowhere)] {
        let ended = end(command).done();
        assert_eq!(
            (&*ended.stdout, &*ended.stderr),
            ("2x2 is winning, with (2,2)\n", &*reported)
        );
    }
    let ended = end(chomp("query 2x2").current_dir(dir.path())).done();
    assert_eq!(ended.stderr, "");
    end(chomp("query --table chomp-table 2x2").current_dir(dir.path()))
        .done()
        .says("chomp-table has no table");
    end(&mut run(&nowhere, 8)).summary();
    end(&mut query(path(&nowhere), &["2x2", "4x9"]))
        .done()
        .says_nothing_of("no table");
}

/// Many programs read numbers of JSON as floats of 53 bits.
#[test]
fn no_number_is_beyond_those_that_json_readers_know() {
    let dir = tempfile::tempdir().unwrap();
    let word = |position: &str| {
        let ended = end(&mut query(
            path(dir.path()),
            &["--json", "--no-moves", position],
        ));
        ended
            .summary()
            .get("word")
            .map(|word| word.as_u64().unwrap())
    };
    assert_eq!(word("52"), Some((1 << 53) - 2));
    assert_eq!(word("[26, 1^26]"), Some(1 << 52 | ((1 << 25) - 1) << 1));
    for large in ["53", "2x52", "1^53", "[30, 1^29]"] {
        assert_eq!(word(large), None, "{large}");
    }
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
