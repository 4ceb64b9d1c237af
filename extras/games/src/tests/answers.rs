//! Answers about positions, and texts that are refused.

use std::collections::BTreeSet;

use super::common::answer;
use crate::{Effort, GameAnswer, GameError, NAMES, open};

/// Pages rely on this: texts lead on, and who follows the replies from a winning position wins.
#[test]
fn games_are_played_to_their_ends() {
    for (name, start) in [
        ("ichomp", "3x3/3,1/2"),
        ("poisons", "3x7@1,1@2,2"),
        ("poisons", "5,4,4,2"),
        ("nim", "3,4,5"),
        ("nim", "3,4,6@misere"),
        ("towers", "1-8,3-5,8-2"),
        ("horse", "15,16"),
        ("space", "3x3x3"),
        ("divisors", "360"),
        ("crossed", "4x5@2,3@4,5"),
        ("transfinite", "wxw"),
        ("transfinite", "w,w,4,2"),
        ("transfinite", "wx2"),
    ] {
        let mut game = answer(name, start).unwrap();
        let begun = game.losing;
        let (mut turn, mut left) = (false, 200);
        while !game.over {
            let reply = game.reply.clone().expect("there is a move");
            // The winner plays perfectly, the other player anything.
            let choice = if turn == begun {
                let mut moves = game.moves.iter();
                moves.find(|choice| choice.name == reply).unwrap()
            } else {
                &game.moves[left % game.moves.len()]
            };
            let next = answer(name, &choice.position).unwrap();
            let found = (next.losing, next.value);
            assert_eq!((choice.losing, choice.value), found, "{choice:?}");
            assert_eq!((name, &choice.position), (next.game, &next.position));
            (game, turn, left) = (next, !turn, left - 1);
        }
        let winner = if game.losing { !turn } else { turn };
        assert_eq!(winner, begun, "{name}");
    }
}

#[test]
fn answers_are_json_of_one_shape() {
    let texts = [
        "2x2/3",
        "2x2@1,1@2,2",
        "2,1",
        "1-4",
        "3,3",
        "2,1/1",
        "12",
        "2x2@1,2",
        "w,3",
    ];
    for (name, text) in NAMES.into_iter().zip(texts) {
        let answer: GameAnswer = answer(name, text).unwrap();
        let json = serde_json::to_value(&answer).unwrap();
        let keys: BTreeSet<&String> = json.as_object().unwrap().keys().collect();
        let keys: Vec<&str> = keys.into_iter().map(String::as_str).collect();
        let expected =
            "explanation game losing moves over parts position reply value winning_moves";
        assert_eq!(keys.join(" "), expected, "{name}");
        let winning = answer.moves.iter().filter(|choice| choice.losing);
        assert!(winning.map(|choice| &choice.name).eq(&answer.winning_moves));
        assert_eq!(json["moves"][0].as_object().unwrap().len(), 4);
    }
}

#[test]
fn parts_are_explained_by_columns() {
    let of = |name, text| answer(name, text).unwrap().explanation;
    assert_eq!(
        of("nim", "3,4,5"),
        [
            "heap 1    3  011",
            "heap 2    4  100",
            "heap 3    5  101",
            "XOR       2  010",
            "To make all columns even: heap 1 from 3 to 1.",
        ]
    );
    assert_eq!(
        of("nim", "7,4,2").last().unwrap(),
        "To make all columns even: heap 1 from 7 to 6."
    );
    assert_eq!(
        of("ichomp", "2/2").last().unwrap(),
        "Every column has an even number of ones: each move makes one odd."
    );
    assert_eq!(
        of("nim", "2,1@misere"),
        ["Leave an odd number of heaps of one counter, and nothing else."]
    );
    assert_eq!(of("poisons", "3,2@1,1@1,2"), ["x x .", ". O"]);
}

#[test]
fn texts_that_mean_nothing_are_refused() {
    for (name, text) in [
        ("chess", "1"),
        ("nim", ""),
        ("nim", "3,"),
        ("nim", "-1"),
        ("nim", "+1"),
        ("nim", "1001"),
        ("nim", "3@chess"),
        ("nim", "4294967296"),
        ("nim", "3;4"),
        ("nim", "[3,4"),
        ("towers", "1-1"),
        ("towers", "0-4"),
        ("towers", "1-9"),
        ("towers", "1"),
        ("towers", "1-2,1-2,1-2,1-2,1-2,1-2,1-2,1-2,1-2"),
        ("towers", "1-2@misere"),
        ("horse", "0,1"),
        ("horse", "1"),
        ("horse", "1,101"),
        ("horse", "1,2,3"),
        ("ichomp", "1/1/1/1/1"),
        ("ichomp", "1,2"),
        ("ichomp", "3@1,1"),
        ("poisons", "3x"),
        ("poisons", "x3"),
        ("poisons", "3x0"),
        ("poisons", "0x3"),
        ("poisons", "0x+8"),
        ("poisons", "2,3"),
        ("poisons", "3x1001"),
        ("poisons", "17x17"),
        ("poisons", "4294967295x4294967295"),
        ("poisons", "3x8@0,1"),
        ("poisons", "3x8@1"),
        ("poisons", "3x8@1,1@1,2@2,1"),
        ("poisons", "3x8@1,1001"),
    ] {
        let refused = answer(name, text);
        assert!(
            matches!(refused, Err(GameError::Syntax(..))),
            "{name} {text}"
        );
    }
    let limits = [16, 1000, 40, 8, 100, 4, 1_000_000_000, 10, 30];
    for (name, limit) in NAMES.into_iter().zip(limits) {
        let refused = open(name, "", Effort::USUAL).unwrap().list(limit + 1);
        assert!(matches!(refused, Err(GameError::TooLarge(..))), "{name}");
    }
}

#[test]
fn texts_are_read_as_they_are_written() {
    for (name, text) in [
        ("nim", "3,0,5"),
        ("nim", "1,2@misere"),
        ("ichomp", "3x4/2,1/0/0"),
        ("poisons", "8,5,2@1,1@2,2"),
        ("poisons", "3x8@1,2"),
        ("poisons", "0@1,1"),
        ("towers", "1-8,5-3"),
        ("horse", "4,7"),
    ] {
        assert_eq!(answer(name, text).unwrap().position, text);
    }
    let words = ["0b1111100", "0x7c"];
    let others = ["5,5,0", "5 5", "[5, 5]", "2 X 5", "2×5"];
    for text in others.into_iter().chain(words) {
        let position = answer("poisons", text).unwrap().position;
        assert_eq!(position, "2x5@1,1", "{text}");
    }
    let over = answer("poisons", "3,1@2,2").unwrap();
    assert!(over.over && !over.losing && over.value.is_none() && over.reply.is_none());
    let over = answer("nim", "0,0").unwrap();
    assert!(over.over && over.losing && over.value == Some(0));
}
