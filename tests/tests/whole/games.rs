//! `chomp game`: what it prints, and what it refuses.

use std::fs;
use std::path::Path;

use crate::common::{ask, chomp, end, program};
use serde_json::{Value, json};

fn told(args: &str) -> String {
    end(&mut chomp(&format!("game {args}"))).done().stdout
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

/// Results for one position are used for the next ones. A wrong one ends the program with code 2, after the answers to
/// those before it.
#[test]
fn positions_are_read_from_the_command_line_and_stdin() {
    assert_eq!(
        told("poisons 1 0 2,1@1,2@2,1"),
        "1@1,1 is losing: no move wins\nvalue 0\nx\n\
         0@1,1 is won: the other one has lost\n\
         2,1@1,2@2,1 is losing: no move wins\nvalue 0\n. x\nx\n"
    );
    let line = |n| format!("100,{},{}\n", 60 + n % 40, n % 60);
    let lines: Vec<String> = (0..100).map(line).collect();
    let text = format!("# boards\n\n{}3,3,2\n", lines.concat());
    let ended = ask(&mut chomp("game poisons"), text).done();
    assert_eq!(ended.stdout.matches("@1,1 is ").count(), 101);
    assert!(ended.stdout.ends_with(&told("poisons 3,3,2")));
    let ended = end(&mut chomp("game nim 0 one")).exits(2);
    assert!(ended.stdout.starts_with("0 is lost"), "{ended:?}");
    ended.says("\"one\"");

    // Nothing is skipped but comments and empty lines of stdin.
    end(program().args(["game", "nim", ""])).refuses(2, &["\"\""]);
    let ended = ask(
        &mut chomp("game nim"),
        "# heaps\r\n\n0 # over\nword\n".into(),
    )
    .exits(2);
    assert!(ended.stdout.starts_with("0 is lost"), "{ended:?}");
    ended.says("line 4 of stdin: the position \"word\"");
    let mut games = chomp("game nim");
    ask(&mut games, "1".repeat(1 << 21))
        .refuses(2, &["line 1 of stdin has more than 1048576 bytes"]);
}

#[test]
fn json_has_moves_and_what_they_lead_to() {
    let object = |args: &str| -> Value { serde_json::from_str(&told(args)).unwrap() };
    let answer = object("nim 1,2 --json");
    let moves = json!([
        {"move": [1, 0], "position": "0,2", "losing": false, "value": 2},
        {"move": [2, 0], "position": "1,0", "losing": false, "value": 1},
        {"move": [2, 1], "position": "1,1", "losing": true, "value": 0},
    ]);
    assert_eq!(answer["moves"], moves);
    assert_eq!(answer["winning_moves"], json!([[2, 1]]));
    assert_eq!(answer["value"], 3);
    let picture = object("poisons --losing 10 --fix 3=0 --json");
    // By plain Chomp's own theorem: two rows lose by one cell.
    let expected: Vec<[u32; 2]> = (1..=10).map(|length| [length, length - 1]).collect();
    assert_eq!(picture["losing"], json!(expected));
}

#[test]
fn what_is_wrong_or_too_large_is_refused() {
    for (args, text) in [
        ("nim 3,4,x", "heaps, as 3,4,5"),
        ("horse 101,1", "from 1 to 100"),
        ("poisons 12x12", "too large"),
        ("ichomp --losing 17", "16 cells"),
        ("horse @1,1 --losing 10", "rules"),
        ("transfinite w,100,50", "256 cells"),
        ("nim 3,4 --losing 10", "nothing but rules"),
        ("nim --losing 10 --fix 1=5", "--fix with poisons only"),
        ("chess 1", "values: ichomp, poisons, nim"),
        ("poisons 3x0", "\"3x0\" is not understood"),
        // A word, and an odd one.
        ("poisons 0x3", "\"0x3\" is not understood"),
        ("poisons 3x8@1,1@9,9", "(9,9) is not on the board 3x8"),
        ("poisons --losing 5 @4,1", "(4,1) is not on the board 3x5"),
        ("crossed 4,2@2,3", "(2,3) is not on the board 4,2"),
        (
            "crossed --losing 5 @2,2@2,6",
            "(2,6) is not on the board 5x5",
        ),
    ] {
        end(&mut chomp(&format!("game {args}"))).refuses(2, &[text]);
    }
}
