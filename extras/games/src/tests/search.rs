//! The search against plain recursion, and its limits.

use std::collections::HashMap;

use crate::game::{Game, GameValue, Move, mex};
use crate::horse::Horse;
use crate::nim::Nim;
use crate::sum::Sum;
use crate::{Effort, GameError, open};

use super::common::{answer as usual, corner, everything, none, rules, search};

/// Plain recursion, by the words of the definition.
fn by_definition<G: Game>(
    game: &G,
    position: &G::Position,
    known: &mut HashMap<G::Position, GameValue>,
) -> GameValue {
    if let Some(&verdict) = known.get(position) {
        return verdict;
    }
    let moves = game.moves(position);
    let next = moves
        .iter()
        .map(|(_, next)| by_definition(game, next, known));
    let next: Vec<GameValue> = next.collect();
    let is_free = |&value: &u32| next.iter().all(|next| next.value != Some(value));
    let is_won = moves.is_empty() && game.end_is_won(position);
    let verdict = GameValue {
        losing: !is_won && !next.iter().any(|next| next.losing),
        value: (0..1000).find(is_free).filter(|_| !is_won),
    };
    known.insert(position.clone(), verdict);
    verdict
}

fn search_is_definition<G: Game>(game: &G, start: &G::Position) {
    let solution = search(game, [start.clone()]).unwrap();
    let mut known = HashMap::new();
    by_definition(game, start, &mut known);
    assert!(known.len() > 20);
    for (position, verdict) in known {
        assert_eq!(solution.verdict(&position), Some(verdict), "{position:?}");
    }
}

#[test]
fn the_search_does_what_the_definition_says() {
    search_is_definition(&corner(), &vec![6, 6, 5, 2]);
    search_is_definition(&none(), &vec![5, 5, 5]);
    search_is_definition(&rules("1,2@3,1"), &vec![6, 6, 6]);
    search_is_definition(&Nim::parse("misere").unwrap(), &vec![5, 4, 3]);
    let boards = vec![vec![3, 2], vec![2, 2], vec![3]];
    search_is_definition(&Sum(none()), &boards);
    search_is_definition(&Horse, &(12, 12));
}

#[test]
fn the_smallest_missing_number() {
    for (values, missing) in [
        (&[][..], 0),
        (&[0], 1),
        (&[1, 2], 0),
        (&[3, 1, 0, 0, 1], 2),
        (&[2, 1, 0], 3),
    ] {
        assert_eq!(mex(values.iter().copied()), missing, "{values:?}");
    }
}

/// A circle of positions with one way out, to an end: who can leave it wins, and who cannot force anything draws.
#[derive(Debug)]
struct Circle;

impl Game for Circle {
    type Position = u32;

    fn moves(&self, position: &u32) -> Vec<(Move, u32)> {
        let next: &[u32] = match position {
            // 0 is lost, so 1 is won, and 2 draws with 3.
            1 => &[0, 2],
            2 => &[3],
            3 => &[2, 1],
            // Each leads to a won position, or back.
            4 => &[1],
            5 => &[1, 6],
            6 => &[4, 5],
            _ => &[],
        };
        next.iter().map(|&next| (vec![next], next)).collect()
    }
}

#[test]
fn who_goes_round_in_circles_draws() {
    let solution = search(&Circle, [3, 6]).unwrap();
    let losing = |position| solution.verdict(&position).map(|verdict| verdict.losing);
    assert_eq!([0, 4, 5].map(losing), [Some(true); 3]);
    assert_eq!([1, 6].map(losing), [Some(false); 2]);
    assert_eq!([2, 3].map(losing), [None; 2]);
    assert_eq!(losing(7), None, "it was not visited");
    let value = |position| solution.verdict(&position).unwrap().value;
    assert_eq!((value(0), value(1), value(6)), (Some(0), None, None));
}

#[test]
fn the_value_of_a_sum_is_the_xor_of_the_values() {
    let sum = Sum(none());
    let start = vec![vec![3, 2], vec![2, 1, 1], vec![4]];
    let (whole, parts) = (search(&sum, [start.clone()]), search(&sum.0, start.clone()));
    let (whole, parts) = (whole.unwrap(), parts.unwrap());
    for position in everything(&sum, start) {
        let value = |part| parts.verdict(part).unwrap().value.unwrap();
        let xor = position.iter().map(value).fold(0, |all, value| all ^ value);
        let expected = Some(GameValue::of(xor));
        assert_eq!(whole.verdict(&position), expected, "{position:?}");
    }
}

#[test]
fn searches_have_limits_of_positions_and_moves() {
    for (board, limit) in [
        (vec![12; 12], "262144 positions to come of it"),
        (vec![700; 2], "16777216 moves to come of it"),
    ] {
        let error = search(&corner(), [board]).unwrap_err();
        assert!(matches!(error, GameError::TooLarge(..)), "{error}");
        assert!(error.to_string().ends_with(limit), "{error}");
    }
}

/// A search with less effort has no answer, or one without values where another way tells the winner.
#[test]
fn who_wants_fewer_moves_waits_for_no_more() {
    const HUNDRED: Effort = Effort {
        moves: 100,
        ..Effort::USUAL
    };
    let answer = |name, text: &str| open(name, "", HUNDRED)?.answer(text);
    let (small, large) = (answer("ichomp", "2x3").unwrap(), answer("ichomp", "4x4"));
    assert_eq!(small, usual("ichomp", "2x3").unwrap());
    assert!(
        matches!(large, Err(GameError::TooLarge(100, _))),
        "{large:?}"
    );
    assert!(answer("poisons", "4x4").is_err());
    let told = answer("poisons", "3x9").unwrap();
    let all = usual("poisons", "3x9").unwrap();
    assert_eq!((told.value, told.winning_moves), (None, all.winning_moves));
    assert!(all.value.is_some());
}

/// The largest position of all, whose moves are too many to look beyond each.
#[test]
fn a_reply_is_found_among_many_moves() {
    let answer = usual("nim", &vec!["1000"; 32].join(",")).unwrap();
    assert!(answer.losing && answer.moves.len() == 32_000);
    assert_eq!(answer.reply, Some(vec![1, 999]));
}
