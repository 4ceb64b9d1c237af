//! Sums of positions: boards side by side, of which a move takes a cell of one.

use std::fmt::Write;

use chomp_query::{INSIDE_MAX, drawing, sum};
use serde_json::{Value, json};

use super::{Board, Numbers, QueryArgs};
use crate::exit::usage;
use crate::progress::Display;

/// The rows of each board.
type Sum = Vec<Vec<u32>>;

/// The positions of a command line as sums, if one of them is one.
pub(super) fn sums(texts: &[String], args: &QueryArgs) -> anyhow::Result<Option<Vec<Sum>>> {
    let has_sum = texts.iter().any(|text| is_sum(text, args.numbers));
    if has_sum && args.play.is_wanted() {
        return Err(usage(
            "--depth and --line are told of single positions, not of sums",
        ));
    }
    let sums = texts.iter().map(|text| parse(text, args.numbers));
    has_sum.then(|| sums.collect()).transpose()
}

/// Whether a text has several boards. Numbers alone, as 3+2, are the rows of one, unless they are words.
fn is_sum(text: &str, numbers: Numbers) -> bool {
    text.contains('+') && (numbers == Numbers::Words || !text.split('+').all(is_row))
}

fn is_row(text: &str) -> bool {
    let is_of_row = |byte: u8| byte.is_ascii_digit() || byte == b'^';
    !text.trim().is_empty() && text.trim().bytes().all(is_of_row)
}

fn parse(text: &str, numbers: Numbers) -> anyhow::Result<Sum> {
    let parts = if is_sum(text, numbers) {
        text.split('+').collect()
    } else {
        vec![text]
    };
    let are_rows = |pair: &[&str]| numbers != Numbers::Words && is_row(pair[0]) && is_row(pair[1]);
    if parts.windows(2).any(are_rows) {
        return Err(usage(format!(
            "\"{text}\" has single numbers side by side: write rows of one board as 3,2 and boards of a sum as [3] + [2]"
        )));
    }
    let board = |part| numbers.parse::<Board>(part).map(Board::into_rows);
    let boards = parts.into_iter().map(board).collect::<Result<_, _>>();
    boards.map_err(|error| {
        usage(format!(
            "\"{text}\" is no sum, as \"5,4,2,1 + 3x3\": {error}"
        ))
    })
}

/// Answers sums, one after the other.
pub(super) async fn run(sums: Vec<Sum>, args: &QueryArgs, display: &Display) -> anyhow::Result<()> {
    for sum in sums {
        let (stop, json, no_moves) = (display.stop(), args.json, args.no_moves);
        let answer = display.during("solving", &stop, move |_| answer(&sum, json, no_moves));
        if !crate::try_print(&answer.await?)? {
            break;
        }
    }
    Ok(())
}

fn answer(boards: &Sum, is_json: bool, no_moves: bool) -> anyhow::Result<String> {
    let answer = sum(boards, INSIDE_MAX).map_err(|error| usage(error.to_string()))?;
    let (total, solved) = (answer.value, boards.iter().zip(&answer.boards));
    if is_json {
        let boards = solved.map(|(rows, board)| json!({ "rows": rows, "value": board.value }));
        let boards: Vec<Value> = boards.collect();
        let mut told = json!({ "sum": boards, "value": total, "losing": total == 0 });
        if !no_moves {
            told["winning_moves"] = json!(answer.winning_moves().collect::<Vec<_>>());
        }
        return Ok(told.to_string() + "\n");
    }
    let names = boards.iter().map(|rows| drawing::name_of_rows(rows));
    let names = names.collect::<Vec<_>>().join(" + ");
    let mut text = format!("{names} has the value {total}");
    if !no_moves {
        text += match total {
            0 => ": it is losing, no move wins",
            _ => ": it is winning",
        };
        for (rows, board) in solved {
            let name = drawing::name_of_rows(rows);
            write!(text, "\n  {name} has the value {}", board.value).expect("a string takes it");
            if !board.winning_moves.is_empty() {
                text = text + ", won with " + &drawing::moves(&board.winning_moves);
            }
        }
    }
    Ok(text + "\n")
}
