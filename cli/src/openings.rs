//! `chomp openings`: the winning first moves of rectangles.

use anyhow::bail;
use chomp_query::{Opening, drawing, opening, openings};
use chomp_table::Position;

use crate::args::OpeningsArgs;
use crate::exit::Exit;
use crate::source::Source;

pub(crate) async fn run(args: OpeningsArgs) -> anyhow::Result<Exit> {
    let source = Source::open(&args.source).await?;
    let json = args.json;
    let told = tokio::task::spawn_blocking(move || find(&source, &args.boards)).await??;
    let mut text = String::new();
    for opening in &told {
        if json {
            text += &serde_json::to_string(opening)?;
        } else {
            let moves = drawing::moves(&opening.moves);
            let line = format!("{}x{} {moves}", opening.rows, opening.columns);
            text += line.trim_end();
        }
        text.push('\n');
    }
    crate::print(&text)?;
    Ok(Exit::Done)
}

fn find(source: &Source, boards: &[String]) -> anyhow::Result<Vec<Opening>> {
    if boards.is_empty() {
        return Ok(openings(source)?);
    }
    let one = |text: &String| {
        let position: Position = text.parse()?;
        let rows = position.rows();
        match rows {
            [columns, ..] if rows.iter().all(|length| length == columns) => {
                let rows = u32::try_from(rows.len()).expect("at most 64 rows");
                Ok(opening(source, rows, *columns)?)
            }
            _ => bail!(NoBoard(text.clone())),
        }
    };
    boards.iter().map(one).collect()
}

/// A position that is no rectangle.
#[derive(Debug, thiserror::Error)]
#[error("\"{0}\" is not a board: write rows x columns, as 8x10")]
pub(crate) struct NoBoard(String);
