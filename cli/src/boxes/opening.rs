//! `chomp box --opening`: the boards on which a first move near the poison wins.

use std::str::FromStr;

use chomp_boxes::hooks::{self, SUM_MAX};
use indicatif::HumanCount;
use serde::Serialize;

use super::{BoxArgs, enough, run_and_print};
use crate::exit::usage;
use crate::progress::{Display, Teller};
use crate::summary::TextReport;

/// A cell of a first move: (row, column), counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct FirstCell(usize, usize);

impl FromStr for FirstCell {
    type Err = String;

    fn from_str(text: &str) -> Result<FirstCell, String> {
        let cell = text.split_once(',');
        let cell = cell.and_then(|(i, j)| Some(FirstCell(i.parse().ok()?, j.parse().ok()?)));
        cell.filter(|&FirstCell(i, j)| i > 0 && j > 0 && i.saturating_add(j) <= SUM_MAX)
            .ok_or_else(|| {
                format!("a first move is ROW,COLUMN, as 3,3, of at most {SUM_MAX} together")
            })
    }
}

const COLUMNS_MAX: usize = 10_000;

#[derive(Debug, Serialize)]
struct SolvedOpening {
    opening: FirstCell,
    /// The most rows and columns.
    columns: usize,
    /// The boards on which it wins: rows and columns.
    boards: Vec<(usize, usize)>,
}

pub(super) async fn run(
    args: &BoxArgs,
    opening: FirstCell,
    sides: [usize; 2],
    display: &Display,
) -> anyhow::Result<()> {
    let columns = sides[0].max(sides[1]);
    if columns > COLUMNS_MAX {
        return Err(usage(format!(
            "with --opening boards have at most {COLUMNS_MAX} rows and columns"
        )));
    }
    let FirstCell(i, j) = opening;
    if i.max(j) > columns {
        return Err(usage(format!(
            "no board of at most {columns} rows and columns has the cell ({i},{j})"
        )));
    }
    enough(&args.share, hooks::memory([i, j], columns), "")?;
    let solve = move |teller: &Teller| {
        let tell = |done| teller.stage("positions", done).is_continue();
        let boards = hooks::boards_won_by([i, j], columns, tell);
        let fits = |&(m, n): &(usize, usize)| m <= sides[0] && n <= sides[1];
        Ok(boards.map(|boards| SolvedOpening {
            opening,
            columns,
            boards: boards.into_iter().filter(fits).collect(),
        }))
    };
    run_and_print(args, display, solve, |told| {
        let lines = told.boards.iter().map(|(m, n)| format!("{m}x{n}\n"));
        let mut lines = TextReport::after(lines.collect());
        lines.line("boards", HumanCount(told.boards.len() as u64));
        lines
    })
    .await
}
