//! Positions that are beyond all tables, but have few rows or columns.

use std::num::NonZeroUsize;

use chomp_boxes::FewQuery;
use chomp_query::{drawing, mirrored, reply};
use chomp_table::position::{PositionError, parse_rows};
use chomp_table::{Cell, Position, Word};
use indicatif::{HumanBytes, HumanCount};
use serde_json::json;

use super::{Numbers, QueryArgs, answer_text, verdict_text};
use crate::exit::{Interruption, usage};
use crate::machine;
use crate::progress::Display;

/// The longest row or column.
const LENGTH_MAX: u32 = 200_000;
/// The most sets of rows below the first that are looked at: they take half an hour.
const LOWER_ROWS_MAX: u64 = 1 << 33;

/// A position with at most five rows, or columns.
pub(super) struct FewPosition {
    rows: Vec<u32>,
    /// Its rows, or if it has too many, its columns.
    query: FewQuery,
    is_mirrored: bool,
}

/// The positions of a command line, if one of them has more bits than the table covers, and all have few rows or columns.
pub(super) fn beyond(args: &QueryArgs, covered: u32) -> Option<Vec<FewPosition>> {
    let is_beyond = |text: &String| match args.numbers.parse::<Position>(text) {
        Ok(position) => Word::from(&position).bits() > covered,
        Err(PositionError::TooLarge { .. }) => covered < u32::MAX,
        Err(_) => false,
    };
    let positions = args.positions.iter();
    let parse = |text: &String| FewPosition::parse(text, args.numbers).ok();
    let is_one = positions.clone().any(is_beyond);
    is_one.then(|| positions.map(parse).collect())?
}

/// Answers positions, one after the other.
pub(super) async fn run(
    positions: Vec<FewPosition>,
    args: &QueryArgs,
    display: &Display,
) -> anyhow::Result<()> {
    let (threads, stop) = (machine::threads(), display.stop());
    for position in positions {
        position.check(threads)?;
        let (rows, wanted) = (position.rows.clone(), args.play);
        let solving = display.during("solving", &stop, move |teller| {
            let tell = |done| teller.stage("third rows", done).is_continue();
            let answer = position.query.answer(threads, tell)?;
            let moves = position.moves(answer.winning_moves);
            Some((answer.losing, moves, wanted.find(&position.rows)))
        });
        let (losing, moves, play) = solving.await.ok_or(Interruption::Lost)?;
        let (winning_moves, left): (Vec<_>, Vec<_>) = moves.into_iter().unzip();
        let name = drawing::name_of_rows(&rows);
        let mut text = match (args.json, args.no_moves) {
            (false, true) => verdict_text(&name, losing),
            (false, false) => answer_text(&name, losing, &winning_moves),
            (true, no_moves) => {
                let first = rows.first().copied().unwrap_or(0);
                let area: u64 = rows.iter().copied().map(u64::from).sum();
                let mut told = json!({
                    "rows": rows,
                    "bits": rows.len() as u64 + u64::from(first),
                    "area": area,
                    "losing": losing,
                });
                if !no_moves {
                    let cells = winning_moves.iter();
                    let cells: Vec<Cell> =
                        cells.map(|&(row, column)| Cell { row, column }).collect();
                    let reply = reply(&rows, &cells).map(|cell| (cell.row, cell.column));
                    told["winning_moves"] = json!(winning_moves);
                    told["losing_positions"] = json!(left);
                    told["reply"] = json!(reply);
                }
                if let Some(play) = &play {
                    play.add_to(&mut told);
                }
                format!("{told}\n")
            }
        };
        if let Some(play) = play.filter(|_| !args.json) {
            text += &play.text();
        }
        if !crate::try_print(&text)? {
            break;
        }
    }
    Ok(())
}

/// The rows of a position that need not fit into a table.
pub(super) fn rows_of(text: &str, numbers: Numbers) -> Result<Vec<u32>, PositionError> {
    if numbers == Numbers::Words {
        return Ok(numbers.parse::<Position>(text)?.rows().to_vec());
    }
    let given = parse_rows(text, LENGTH_MAX)?;
    let is_word = ["0b", "0x"]
        .iter()
        .any(|start| text.trim().starts_with(start));
    let is_mirrored = numbers == Numbers::Columns && !is_word;
    Ok(if is_mirrored { mirrored(&given) } else { given })
}

impl FewPosition {
    fn parse(text: &str, numbers: Numbers) -> Result<FewPosition, PositionError> {
        let rows = rows_of(text, numbers)?;
        let columns = mirrored(&rows);
        let is_mirrored = rows.len() > columns.len();
        let query = FewQuery::new(if is_mirrored { &columns } else { &rows });
        let bits = (rows.len() + columns.len()) as u64;
        let query = query.ok_or(PositionError::TooLarge { bits })?;
        Ok(FewPosition {
            rows,
            query,
            is_mirrored,
        })
    }

    /// Refuses what takes too long or too much memory.
    fn check(&self, threads: NonZeroUsize) -> anyhow::Result<()> {
        let few = self.query.few();
        let (lower, needed) = (few.lower_rows(), few.memory(threads));
        let given = machine::memory_bytes()?;
        if lower <= LOWER_ROWS_MAX && needed <= given {
            return Ok(());
        }
        let [lower, most] = [lower, LOWER_ROWS_MAX].map(HumanCount);
        let [needed, given] = [needed, given].map(HumanBytes);
        Err(usage(format!(
            "{} is too large: {lower} sets of rows below the first are to be looked at, and at most {most} are; that takes \
             {needed}, and {given} are free",
            drawing::name_of_rows(&self.rows)
        )))
    }

    /// Moves of the query as those of the position, ascending, each with the rows that it leaves.
    fn moves(&self, found: Vec<((u32, u32), Vec<u32>)>) -> Vec<((u32, u32), Vec<u32>)> {
        let own = |((row, column), left): ((u32, u32), Vec<u32>)| {
            if self.is_mirrored {
                ((column, row), mirrored(&left))
            } else {
                ((row, column), left)
            }
        };
        let mut moves: Vec<_> = found.into_iter().map(own).collect();
        moves.sort_unstable();
        moves
    }
}
