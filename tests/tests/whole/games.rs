//! `chomp game`: what it prints, what it lists, and what it refuses.

use std::fs;
use std::path::Path;

use crate::common::{Ended, ask, chomp, end};
use serde_json::{Value, json};

fn game(args: &str) -> Ended {
    end(&mut chomp(&format!("game {args}")))
}

fn told(args: &str) -> String {
    let ended = game(args).done();
    ended.stdout
}

fn object(args: &str) -> Value {
    serde_json::from_str(&told(args)).expect("one JSON object")
}

/// Each example in `docs/GAMES.md` is what the program prints.
#[test]
fn the_page_tells_the_truth() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/GAMES.md");
    let page = fs::read_to_string(page).unwrap();
    let blocks = page.split("```console\n").skip(1);
    let mut examples = 0;
    for block in blocks.map(|rest| rest.split("```").next().unwrap()) {
        for example in block.split("$ chomp game ").skip(1) {
            let (command, printed) = example.split_once('\n').unwrap();
            assert_eq!(told(command), printed, "{command}");
            examples += 1;
        }
    }
    assert_eq!(examples, 10);
}

#[test]
fn many_positions_are_told_one_after_the_other() {
    assert_eq!(
        told("poisons 1 0 2,1@1,2@2,1"),
        "1@1,1 is losing: no move wins\nvalue 0\nx\n\
         0@1,1 is won: the other one has lost\n\
         2,1@1,2@2,1 is losing: no move wins\nvalue 0\n. x\nx\n"
    );
    assert!(told("nim 0").starts_with("0 is lost: there is no move\nvalue 0\n"));
    assert_eq!(told("nim --json 1 2,2 3").lines().count(), 3);
}

/// Results for one position are used for the next ones.
#[test]
fn positions_are_read_from_stdin() {
    let line = |n| format!("100,{},{}\n", 60 + n % 40, n % 60);
    let lines: Vec<String> = (0..100).map(line).collect();
    let text = format!("# boards\n\n{}3,3,2\n", lines.concat());
    let ended = ask(&mut chomp("game poisons"), text).done();
    assert_eq!(ended.stdout.matches("@1,1 is ").count(), 101);
    let alone = told("poisons 3,3,2");
    assert!(ended.stdout.ends_with(&alone), "{alone}");
}

/// It ends the program with code 2, after the answers to those before it.
#[test]
fn a_wrong_position_does_not_hide_those_before_it() {
    let ended = game("nim 0 one").exits(2);
    assert!(ended.stdout.starts_with("0 is lost"), "{ended:?}");
    ended.says("\"one\"");
}

#[test]
fn json_has_moves_and_what_they_lead_to() {
    let answer = object("nim 1,2 --json");
    let leads = |name: [u32; 2], position: &str, value: u32| json!({"move": name, "position": position, "losing": value == 0, "value": value});
    assert_eq!(
        answer,
        json!({
            "game": "nim", "position": "1,2", "over": false, "losing": false, "value": 3,
            "winning_moves": [[2, 1]], "reply": [2, 1],
            "moves": [leads([1, 0], "0,2", 2), leads([2, 0], "1,0", 1), leads([2, 1], "1,1", 0)],
            "parts": [
                {"name": "heap 1", "value": 1, "binary": "01"},
                {"name": "heap 2", "value": 2, "binary": "10"},
            ],
            "explanation": [
                "heap 1    1  01", "heap 2    2  10", "XOR       3  11",
                "To make all columns even: heap 2 from 2 to 1.",
            ],
        })
    );
    let over = object("poisons 1@1,2 --json");
    let fields = ["over", "losing", "value", "reply"].map(|name| &over[name]);
    assert_eq!(json!(fields), json!([true, false, null, null]));
}

#[test]
fn losing_positions_are_listed() {
    assert_eq!(told("nim --losing 4"), "0\n1,1\n2,2\n1,1,1,1\n");
    assert_eq!(told("nim @misere --losing 3"), "1@misere\n1,1,1@misere\n");
    assert_eq!(told("horse --losing 2"), "1,1\n1,2\n2,1\n2,2\n");
    assert_eq!(told("ichomp --losing 2"), "0/0/0/0\n1/1/0/0\n");
    assert_eq!(told("towers --losing 1"), "1-2\n");
    assert_eq!(told("transfinite --losing 4"), "2xw\nwx2\nw,1...\n1\n2,1\n");
    assert_eq!(told("towers --losing 0"), "");
    assert_eq!(
        told("space --losing 2"),
        "1x1x1\n2,1\n2/1\n1,1/1\n2,2/2,1\n"
    );
    assert_eq!(told("divisors --losing 12"), "1\n6/6\n12/12\n");
    assert_eq!(told("crossed @2,2 --losing 2"), "1\n2,1\n");
    assert_eq!(
        object("poisons @1,2@2,1 --losing 3 --json"),
        json!({
            "game": "poisons", "rules": "1,2@2,1", "size": 3, "fixed": null,
            "losing": ["2,1@1,2@2,1", "2,2,1@1,2@2,1", "3,1,1@1,2@2,1", "3,2@1,2@2,1"],
        })
    );
    // (10,9), (10,8,1) and so on, by plain Chomp's own theorem: two rows lose by one cell.
    let picture = object("poisons --losing 10 --fix 3=0 --json");
    let expected: Vec<[u32; 2]> = (1..=10).map(|length| [length, length - 1]).collect();
    assert_eq!(picture["losing"], json!(expected));
    assert_eq!(picture["fixed"], "3=0");
}

#[test]
fn pictures_of_three_rows_of_150_show_what_is_listed() {
    for rules in ["@1,1", "@1,1@2,1", "@1,1@1,2", "@1,1@2,2", "@1,2@2,1"] {
        let list = told(&format!("poisons {rules} --losing 150"));
        assert!(list.lines().count() > 100, "{rules}");
        let picture = told(&format!("poisons {rules} --losing 150 --fix 1=50"));
        let shown = picture.matches('#').count();
        let begins = ["50,", "2x50@", "3x50@"];
        let is_shown = |line: &&str| begins.iter().any(|begin| line.starts_with(begin));
        assert_eq!(shown, list.lines().filter(is_shown).count(), "{rules}");
    }
}

#[test]
fn what_is_wrong_or_too_large_is_refused() {
    for (args, texts) in [
        ("nim 3,4,x", &["\"3,4,x\"", "heaps, as 3,4,5"][..]),
        ("nim 3@chess", &["@misere"]),
        ("horse 101,1", &["from 1 to 100"]),
        ("towers 1-1", &["1-8,3-5"]),
        ("ichomp 1/1/1/1/1", &["at most four boards"]),
        ("poisons 3x8@0,1", &["@1,1@2,2"]),
        ("poisons 12x12", &["too large", "262144 positions"]),
        ("ichomp --losing 17", &["16 cells"]),
        ("poisons --losing 1001", &["1000 columns"]),
        ("nim --losing 41", &["40 counters"]),
        ("towers --losing 9", &["8 columns"]),
        ("horse --losing 101", &["100 rows and columns"]),
        ("horse @1,1 --losing 10", &["rules"]),
        ("space 3,4", &["3x3x4"]),
        ("space 5x5x5", &["too large", "262144 positions"]),
        ("space --losing 5", &["4 rows, columns and layers"]),
        ("divisors 12/5", &["360/12,30"]),
        ("divisors 720720", &["128 divisors"]),
        ("crossed 3x3@1,1", &["@2,3@4,5", "not @1,1"]),
        ("crossed --losing 11", &["10 rows and columns"]),
        ("transfinite 5,w", &["\"5,w\"", "as w,w,5"]),
        ("transfinite w,100,50", &["256 cells"]),
        ("transfinite --losing 31", &["30 cells"]),
        ("nim 3,4 --losing 10", &["nothing but rules"]),
        ("nim --losing 10 --fix 1=5", &["--fix with poisons only"]),
        ("poisons --losing 10 --fix 1=11", &["1=50"]),
        ("poisons --losing 10 --fix 4=1", &["1=50"]),
        (
            "chess 1",
            &["values: ichomp, poisons, nim, towers, horse, space, divisors, crossed, transfinite"],
        ),
    ] {
        game(args).refuses(2, texts);
    }
}
