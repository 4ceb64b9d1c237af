//! Functions that the tests of the games share.

use crate::answer::Theory;
use crate::game::{Game, GameValue};
use crate::ichomp::by_search;
use crate::poisons::Poisons;
use crate::search::{self, Effort, Solution};
use crate::{GameAnswer, GameError, open};

/// All about a position of the game of a name; the rules stand in the text, behind `@`.
pub(super) fn answer(name: &str, text: &str) -> Result<GameAnswer, GameError> {
    let (position, rules) = text.split_once('@').unwrap_or((text, ""));
    open(name, rules, Effort::USUAL)?.answer(position)
}

/// The verdicts on some positions and all that can come of them, with the usual effort.
pub(super) fn search<G: Game>(
    game: &G,
    starts: impl IntoIterator<Item = G::Position>,
) -> Result<Solution<G::Position>, GameError> {
    search::search(game, starts, Effort::USUAL)
}

/// All positions that can come of one.
pub(super) fn everything<G: Game>(game: &G, start: G::Position) -> Vec<G::Position> {
    let mut seen = std::collections::HashSet::from([start.clone()]);
    let mut all = vec![start];
    let mut at = 0;
    while at < all.len() {
        for (_, next) in game.moves(&all[at]) {
            if seen.insert(next.clone()) {
                all.push(next);
            }
        }
        at += 1;
    }
    all
}

/// The values of positions by the game's theorem. The first position leads to the others.
pub(super) fn verdicts<G: Theory>(game: &G, all: &[G::Position]) -> Vec<GameValue> {
    game.verdicts(all, &game.parts(all).unwrap()).unwrap()
}

/// Compares what a game's theorem says of all positions that come of `start` with the search. Games whose values are
/// not told are compared by their outcomes alone.
pub(super) fn agrees<G: Theory>(game: &G, start: G::Position) {
    let solution = search(game, [start.clone()]).unwrap();
    let all = everything(game, start);
    let mut losing = 0;
    for (position, said) in all.iter().zip(verdicts(game, &all)) {
        let found = solution.verdict(position).expect("the game ends");
        assert_eq!(said.losing, found.losing, "{position:?}");
        if said.value.is_some() {
            assert_eq!(said, found, "{position:?}");
        }
        losing += usize::from(said.losing);
    }
    assert!(
        (1..all.len()).contains(&losing),
        "{losing} of {}",
        all.len()
    );
}

pub(super) fn rules(poisons: &str) -> Poisons {
    Poisons::parse(poisons, Effort::USUAL).unwrap()
}

pub(super) fn value_of(rows: &[u32]) -> u32 {
    by_search(&[rows.to_vec()], Effort::USUAL).unwrap()[0]
}

/// Plain Chomp.
pub(super) fn corner() -> Poisons {
    Poisons::new(vec![(1, 1)], Effort::USUAL)
}

/// Boards whose corners may be taken.
pub(super) fn none() -> Poisons {
    Poisons::new(Vec::new(), Effort::USUAL)
}
