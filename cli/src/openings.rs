//! `chomp openings`: the winning first moves of rectangles.

use std::path::Path;

use chomp_query::{Losing, Opening, drawing, of_board, opening, openings, with_boxes};
use chomp_table::TableError;

use crate::exit::usage;
use crate::flags::{SourceArgs, TABLE, TablePlace, flag, sides};
use crate::progress::{Display, blocking};
use crate::source::{self, LosingTable};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Boards are rows x columns, with rows <= columns: the mirror image of a board has the mirror images \
of its moves.

Examples:
  chomp openings
  chomp openings 8x10 9x10
  chomp openings --json | jq -c 'select(.moves | length > 1)'")]
pub(crate) struct OpeningsArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// The boards, as 8x10 [default: all that the table covers, or a file box-….json beside it]
    #[arg(value_name = "BOARD", value_parser = sides)]
    pub(crate) boards: Vec<(u32, u32)>,

    /// Print one JSON object for each board, one a line
    #[arg(long, value_parser = flag)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: OpeningsArgs, display: &Display) -> anyhow::Result<()> {
    let source = source::losing(&args.source, display.overrides()).await?;
    if source.bits() == 0 {
        return Err(usage(format!(
            "{} has no openings, as it does not begin with the smallest positions: give the whole table or its first shard",
            args.source.table
        )));
    }
    let json = args.json;
    let found = blocking(move || find(&source, &args)).await?;
    let mut text = String::new();
    for opening in &found {
        text += &if json {
            serde_json::to_string(opening)? + "\n"
        } else {
            line(opening)
        };
    }
    crate::print(&text)
}

pub(crate) fn line(opening: &Opening) -> String {
    let moves = drawing::moves(&opening.moves);
    let line = format!("{}x{} {moves}", opening.rows, opening.columns);
    line.trim_end().to_owned() + "\n"
}

fn find(source: &LosingTable, args: &OpeningsArgs) -> anyhow::Result<Vec<Opening>> {
    let directory = match &args.source.table {
        TablePlace::Here(path) => path,
        // For a table that is elsewhere, files `box-….json` are read from the usual directory.
        TablePlace::Elsewhere(_) => Path::new(TABLE),
    };
    if args.boards.is_empty() {
        return Ok(with_boxes(openings(source)?, directory)?);
    }
    let boards = &args.boards;
    let table_bits = source.bits();
    let boxes = if boards.iter().all(|(m, n)| m + n <= table_bits) {
        Vec::new()
    } else {
        with_boxes(Vec::new(), directory)?
    };
    let one = |&(rows, columns): &(u32, u32)| {
        if rows + columns <= table_bits {
            return Ok(opening(source, rows, columns)?);
        }
        let bits = rows + columns;
        let beyond = TableError::Beyond { bits, table_bits };
        Ok(of_board(&boxes, rows, columns).ok_or(beyond)?)
    };
    boards.iter().map(one).collect()
}
