//! Sums of positions: boards side by side, of which a move takes a cell of one.

use std::fmt::Write;

use chomp_query::drawing;
use chomp_query::inside::{Inside, cells, cut};
use serde_json::json;

use super::{Board, INSIDE_MAX, Numbers, QueryArgs, too_many};
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
    let board = |part: &str| match numbers.parse::<Board>(part).map(Board::into_rows) {
        Ok(rows) if !rows.is_empty() => Ok(rows),
        Ok(_) => Err(usage(format!("\"{text}\" has a board without cells"))),
        Err(error) => Err(usage(format!(
            "\"{text}\" is no sum, as \"5,4,2,1 + 3x3\": {error}"
        ))),
    };
    parts.into_iter().map(board).collect()
}

/// Answers sums, one after the other.
pub(super) async fn run(sums: Vec<Sum>, args: &QueryArgs, display: &Display) -> anyhow::Result<()> {
    for sum in sums {
        let (stop, json, no_moves) = (display.stop(), args.json, args.no_moves);
        let answer = display.during("solving", &stop, move |_| answer(sum, json, no_moves));
        if !crate::try_print(&answer.await?)? {
            break;
        }
    }
    Ok(())
}

fn answer(sum: Sum, is_json: bool, no_moves: bool) -> anyhow::Result<String> {
    let mut solved = Vec::new();
    for rows in sum {
        let name = drawing::name_of_rows(&rows);
        let inside = Inside::values(&rows, INSIDE_MAX);
        let inside =
            inside.map_err(|many| usage(format!("{name} is too large: {}", too_many(many))))?;
        solved.push((name, inside.of(&rows), rows, inside));
    }
    let total = solved.iter().fold(0, |all, (_, value, ..)| all ^ value);
    // A move wins if it leaves the value 0: if it gives its board the XOR of the values of the others.
    let (mut lines, mut boards, mut winning_moves) = (String::new(), Vec::new(), Vec::new());
    for (number, (name, value, rows, inside)) in (1..).zip(&solved) {
        // The first cell is the poison.
        let moves = cells(rows).skip(1).filter(|_| total > 0);
        let winning = moves.filter(|&cell| inside.of(&cut(rows, cell)) == value ^ total);
        let winning: Vec<_> = winning.map(|cell| (cell.row, cell.column)).collect();
        let with = if winning.is_empty() {
            ""
        } else {
            ", won with "
        };
        let moves = drawing::moves(&winning);
        writeln!(lines, "  {name} has the value {value}{with}{moves}").expect("a string takes it");
        boards.push(json!({ "rows": rows, "value": value }));
        winning_moves.extend(
            winning
                .into_iter()
                .map(|(row, column)| (number, row, column)),
        );
    }
    if is_json {
        let mut told = json!({ "sum": boards, "value": total, "losing": total == 0 });
        if !no_moves {
            told["winning_moves"] = json!(winning_moves);
        }
        return Ok(told.to_string() + "\n");
    }
    let names: Vec<&str> = solved.iter().map(|(name, ..)| &name[..]).collect();
    let head = format!("{} has the value {total}", names.join(" + "));
    Ok(match (no_moves, total) {
        (true, _) => head + "\n",
        (false, 0) => format!("{head}: it is losing, no move wins\n{lines}"),
        (false, _) => format!("{head}: it is winning\n{lines}"),
    })
}
