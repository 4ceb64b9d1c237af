//! A game as people and programs ask it: a position as text, and all that is to be said of it. One shape serves all
//! games, so one client shows and plays them all.

use serde::Serialize;

use crate::error::GameError;
use crate::game::{Game, GameValue, Move};
use crate::sum::{self, Summand, xor};

/// A move, and the position after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Choice {
    /// The move in numbers. Each game has its own.
    #[serde(rename = "move")]
    pub name: Move,
    /// The position after it, as text.
    pub position: String,
    /// Whether that position is losing, so that the move wins.
    pub losing: bool,
    /// The Sprague-Grundy value of that position. Null if the game is over and won, in misère play, and if nobody
    /// knows it.
    pub value: Option<u32>,
}

/// A position of a game: its outcome, its moves and the explanation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GameAnswer {
    /// The name of the game.
    pub game: &'static str,
    /// The position, as text that can be asked again.
    pub position: String,
    /// Whether there is no move.
    pub over: bool,
    /// Whether the player to move loses against perfect play, or has lost if the game is over.
    pub losing: bool,
    /// The Sprague-Grundy value. Null if the game is over and won, in misère play, and if nobody knows it.
    pub value: Option<u32>,
    /// The moves that leave a losing position.
    pub winning_moves: Vec<Move>,
    /// A move of perfect play: one that wins, or else one that leaves the most moves to choose a wrong one from.
    /// Null if the game is over.
    pub reply: Option<Move>,
    /// All moves.
    pub moves: Vec<Choice>,
    /// The games side by side that the position consists of, if it does.
    pub parts: Vec<Summand>,
    /// The reasons, line by line.
    pub explanation: Vec<String>,
}

/// The losing positions of a game up to a size, or those with one row of a fixed length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GameList {
    /// The name of the game.
    pub game: String,
    /// The rules, as behind `@`; empty for the usual ones.
    pub rules: String,
    /// The size.
    pub size: u32,
    /// The row and its length, as `1=50`; null if no row is fixed.
    pub fixed: Option<String>,
    /// The losing positions.
    pub losing: LosingList,
}

/// The losing positions of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum LosingList {
    /// The positions as text, the small ones first.
    Positions(Vec<String>),
    /// The lengths of the other two rows, the longer one first.
    Rows(Vec<(u32, u32)>),
}

/// A game with a theorem, which is faster than a search.
pub(crate) trait Theory: Game {
    const NAME: &'static str;
    /// The name of a game among those side by side that a position consists of; empty if it is one game.
    const PART: &'static str = "";

    /// The position that a text means, without the rules behind `@`.
    fn position(&self, text: &str) -> Result<Self::Position, GameError>;

    /// The text of a position, with the rules.
    fn text(&self, position: &Self::Position) -> String;

    /// The values of the games side by side that each position consists of, if any; the first leads to the others.
    fn parts(&self, positions: &[Self::Position]) -> Result<Vec<Vec<u32>>, GameError> {
        Ok(vec![Vec::new(); positions.len()])
    }

    /// The verdict on each position, given the `parts` of each; the first position leads to the others.
    fn verdicts(
        &self,
        _positions: &[Self::Position],
        parts: &[Vec<u32>],
    ) -> Result<Vec<GameValue>, GameError> {
        let values = parts.iter().map(|values| xor(values));
        Ok(values.map(GameValue::of).collect())
    }

    /// Why the answer is so, line by line; all else in it is there.
    fn explain(&self, _position: &Self::Position, answer: &GameAnswer) -> Vec<String> {
        sum::explain(&answer.parts)
    }

    /// The losing positions up to a size, the small ones first.
    fn losing(&self, size: u32) -> Result<Vec<Self::Position>, GameError>;
}

/// A game that can be asked without knowing which.
pub trait Playable {
    /// All about a position, given without the rules. Fails if the text means no position, or one that is too large.
    fn answer(&self, text: &str) -> Result<GameAnswer, GameError>;

    /// The losing positions up to a size, the small ones first. Fails if there would be too many.
    fn list(&self, size: u32) -> Result<Vec<String>, GameError>;
}

impl<G: Theory> Playable for G {
    fn answer(&self, text: &str) -> Result<GameAnswer, GameError> {
        let position = self.position(text)?;
        let (names, left): (Vec<Move>, Vec<_>) = self.moves(&position).into_iter().unzip();
        let all = [vec![position], left].concat();
        let parts = self.parts(&all)?;
        let verdicts = self.verdicts(&all, &parts)?;
        let (position, left) = all.split_first().expect("the position");
        let moves = names.into_iter().zip(left.iter().zip(&verdicts[1..]));
        let moves = moves.map(|(name, (left, verdict))| Choice {
            name,
            position: self.text(left),
            losing: verdict.losing,
            value: verdict.value,
        });
        let moves: Vec<Choice> = moves.collect();
        let winning = moves.iter().filter(|choice| choice.losing);
        let winning_moves: Vec<Move> = winning.map(|choice| choice.name.clone()).collect();
        let reply = winning_moves.first().or_else(|| {
            let choices = moves.iter().zip(left).rev();
            let most = choices.max_by_key(|(_, left)| self.choices(left));
            most.map(|(choice, _)| &choice.name)
        });
        let mut answer = GameAnswer {
            game: G::NAME,
            position: self.text(position),
            over: moves.is_empty(),
            losing: verdicts[0].losing,
            value: verdicts[0].value,
            reply: reply.cloned(),
            winning_moves,
            moves,
            parts: sum::named(G::PART, &parts[0]),
            explanation: Vec::new(),
        };
        answer.explanation = self.explain(position, &answer);
        Ok(answer)
    }

    fn list(&self, size: u32) -> Result<Vec<String>, GameError> {
        let positions = self.losing(size)?.into_iter();
        Ok(positions.map(|position| self.text(&position)).collect())
    }
}
