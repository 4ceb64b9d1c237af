//! Perfect play: after how many moves a game ends, and which they are.

use chomp_query::{INSIDE_MAX, Inside, TooManyInside, drawing};
use chomp_table::Cell;
use serde_json::Value;

use crate::flags::flag;

/// The parts of perfect play to tell.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct PlayArgs {
    /// Say after how many moves the game ends if the winner hurries and the loser delays; of positions with at most
    /// 2^24 positions inside, or fewer if they have more than 256 cells, as 12x12 or 3x300
    #[arg(long, value_parser = flag)]
    pub(crate) depth: bool,

    /// Say which moves these are, to the poison. Among equally good moves the one with the smallest row is taken, then
    /// the one with the smallest column
    #[arg(long, value_parser = flag)]
    pub(crate) line: bool,
}

pub(super) struct Play {
    args: PlayArgs,
    moves: Result<Vec<(u32, u32)>, TooManyInside>,
}

impl PlayArgs {
    pub(super) fn is_wanted(self) -> bool {
        self.depth || self.line
    }

    pub(super) fn find(self, rows: &[u32]) -> Option<Play> {
        let depths = self.is_wanted().then(|| Inside::depths(rows, INSIDE_MAX))?;
        let pair = |cell: Cell| (cell.row, cell.column);
        let moves = depths.map(|depths| depths.line().into_iter().map(pair).collect());
        Some(Play { args: self, moves })
    }
}

impl Play {
    /// Adds the play to a JSON answer, as null if it is unknown.
    pub(super) fn add_to(&self, answer: &mut Value) {
        let moves = self.moves.as_ref().ok();
        if self.args.depth {
            answer["depth"] = moves.map(Vec::len).into();
        }
        if self.args.line {
            answer["line"] = serde_json::json!(moves);
        }
    }

    pub(super) fn text(&self) -> String {
        let moves = match &self.moves {
            Ok(moves) => moves,
            Err(many) => {
                let what = if self.args.depth {
                    "how many moves to the end"
                } else {
                    "perfect play"
                };
                return format!("  {what} is not told: {many}\n");
            }
        };
        let (count, noun) = (moves.len(), if moves.len() == 1 { "move" } else { "moves" });
        let depth =
            format!("  {count} {noun} to the end, if the winner hurries and the loser delays\n");
        let played = format!("  perfect play: {}\n", drawing::moves(moves));
        match (self.args.depth, self.args.line) {
            (true, false) => depth,
            (true, true) => depth + &played,
            (false, _) => played,
        }
    }
}
