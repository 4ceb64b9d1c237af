//! Answers about sums, which are solved on the spot.

use std::fmt::Write;

use chomp_query::{INSIDE_MAX, drawing, sum};
use serde_json::{Value, json};

use super::board::Boards;
use super::{Form, Style};
use crate::exit::usage;

pub(super) fn text(style: Style, boards: &Boards) -> anyhow::Result<String> {
    if style.play.is_wanted() {
        return Err(usage(
            "--depth and --line are told of single positions, not of sums",
        ));
    }
    let answer = sum(boards.all(), INSIDE_MAX).map_err(|error| usage(error.to_string()))?;
    let (total, solved) = (answer.value, boards.all().iter().zip(&answer.boards));
    if style.form == Form::Json {
        let boards = solved.map(|(rows, board)| json!({ "rows": rows, "value": board.value }));
        let boards: Vec<Value> = boards.collect();
        let mut told = json!({ "sum": boards, "value": total, "losing": total == 0 });
        if style.moves {
            told["winning_moves"] = json!(answer.winning_moves().collect::<Vec<_>>());
        }
        return Ok(told.to_string() + "\n");
    }
    let mut text = format!("{} has the value {total}", boards.name());
    if style.moves {
        text += match total {
            0 => ": it is losing, no move wins",
            _ => ": it is winning",
        };
        for (rows, board) in solved {
            let name = drawing::name(rows);
            write!(text, "\n  {name} has the value {}", board.value).expect("a string takes it");
            if !board.winning_moves.is_empty() {
                text = text + ", won with " + &drawing::moves(&board.winning_moves);
            }
        }
    }
    Ok(text + "\n")
}
