//! Nim: a move takes some counters from one heap. Who takes the last wins in normal play, and loses in misère play.
//!
//! **Theorem** (Bouton 1901). In normal play a position is losing exactly if the XOR of its heaps is 0. In misère play
//! too while some heap has two counters or more; when all heaps have at most one, exactly if their number is odd.
//!
//! A position is its heaps, as `3,4,5`, or `3,4,5@misere`. A move is (heap, what is left of it).

use crate::answer::{GameAnswer, Theory};
use crate::board;
use crate::error::GameError;
use crate::game::{Game, GameValue, Move};
use crate::sum::{self, xor};
use crate::text::{list, numbers};

const HEAPS_MAX: usize = 32;
const COUNTERS_MAX: u32 = 1000;
const FORM: &str = "heaps, as 3,4,5: at most 32 of at most 1000 counters";
/// The most counters of positions in a list.
const LIST_MAX: usize = 40;

#[derive(Debug)]
pub(crate) struct Nim {
    misere: bool,
}

impl Nim {
    pub(crate) fn parse(rules: &str) -> Result<Nim, GameError> {
        match rules {
            "" => Ok(Nim { misere: false }),
            "misere" => Ok(Nim { misere: true }),
            _ => Err(GameError::syntax(rules, "@misere, or no rules")),
        }
    }

    fn verdict(&self, heaps: &[u32]) -> GameValue {
        let exchanged = self.misere && heaps.iter().all(|&heap| heap <= 1);
        let losing = (xor(heaps) == 0) != exchanged;
        let value = (!self.misere).then(|| xor(heaps));
        GameValue { losing, value }
    }
}

impl Game for Nim {
    type Position = Vec<u32>;

    fn moves(&self, heaps: &Vec<u32>) -> Vec<(Move, Vec<u32>)> {
        let take = |(heap, counter)| {
            let mut next = heaps.clone();
            next[heap as usize - 1] = counter - 1;
            (vec![heap, counter - 1], next)
        };
        board::cells(heaps).map(take).collect()
    }

    fn choices(&self, heaps: &Vec<u32>) -> usize {
        heaps.iter().sum::<u32>() as usize
    }

    fn end_is_won(&self, _: &Vec<u32>) -> bool {
        self.misere
    }
}

impl Theory for Nim {
    const NAME: &'static str = "nim";
    const PART: &'static str = "heap";

    fn position(&self, text: &str) -> Result<Vec<u32>, GameError> {
        let heaps = numbers(text, COUNTERS_MAX).filter(|heaps| heaps.len() <= HEAPS_MAX);
        heaps.ok_or_else(|| GameError::syntax(text, FORM))
    }

    fn text(&self, heaps: &Vec<u32>) -> String {
        list(heaps) + if self.misere { "@misere" } else { "" }
    }

    fn verdicts(&self, all: &[Vec<u32>], _: &[Vec<u32>]) -> Result<Vec<GameValue>, GameError> {
        Ok(all.iter().map(|heaps| self.verdict(heaps)).collect())
    }

    fn parts(&self, positions: &[Vec<u32>]) -> Result<Vec<Vec<u32>>, GameError> {
        Ok(positions.to_vec())
    }

    fn explain(&self, heaps: &Vec<u32>, answer: &GameAnswer) -> Vec<String> {
        let large = heaps.iter().filter(|&&heap| heap > 1).count();
        if self.misere && large < 2 {
            return vec!["Leave an odd number of heaps of one counter, and nothing else.".into()];
        }
        sum::explain(&answer.parts)
    }

    fn losing(&self, size: u32) -> Result<Vec<Vec<u32>>, GameError> {
        GameError::check(size as usize, LIST_MAX, "counters")?;
        let mut positions = board::all(size);
        positions[0].push(0);
        positions.retain(|heaps| self.verdict(heaps).losing);
        Ok(positions)
    }
}
