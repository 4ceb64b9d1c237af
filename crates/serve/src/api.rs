//! `/api`: what the table says, and what small games say, as JSON.
//!
//! | path | answers |
//! |---|---|
//! | `/api/table` | what the table is |
//! | `/api/position/{position}` | one position: whether it is losing, the winning moves, what they leave |
//! | `/api/depth/{position}` | the moves to the end if the winner hurries and the loser delays, and their number |
//! | `/api/value/{position}` | the Grundy value of a position, and the moves to each smaller value |
//! | `/api/openings`, `/api/openings/{rows}x{columns}` | the winning first moves of rectangles |
//! | `/api/counts` | the losing positions of each area |
//! | `/api/games` | which small games there are, with their rules |
//! | `/api/games/{game}/{position}` | one position: who wins, all moves and what they leave, why |
//! | `/api/games/{game}/losing/{size}` | the losing positions up to a size |
//! | `/api/games/{game}/picture/{fixed}/{size}` | the losing positions of `poisons` with one row of a given length |
//!
//! `openapi.json` describes every field. A test compares its schemas with the types of the answers.

use std::num::NonZeroUsize;

use axum::extract::State;
use axum::response::Response;
use chomp_games::GameError;
use chomp_query::{Inside, SolveError, SolveLimits, TooManyInside, solve};
use chomp_table::position::parse_rows;
use chomp_table::{Partition, Position, Table, TableError, Word};
use http::StatusCode;
use serde::Serialize;

use crate::answer::{JSON, Refusal, Texts, json, number, text};
use crate::games;
use crate::question_threads::has_time;
use crate::site::Site;

/// The most positions inside a position whose depth is computed. The computation takes some milliseconds.
pub(crate) const INSIDE_MAX: u64 = 1 << 17;

/// The longest row or column of a position that the table does not have.
pub(crate) const LENGTH_MAX: u32 = 10_000;
/// The limits of a position that is solved without the table. Solving it takes half a second or so at most.
pub(crate) const SOLVE_LIMITS: SolveLimits = SolveLimits {
    inside: 1 << 21,
    lower_rows: 1 << 21,
    memory: 64 << 20,
    threads: NonZeroUsize::MIN,
};

/// A position, and the length of the game from it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[expect(clippy::struct_field_names, reason = "programs know the name")]
pub(crate) struct Depth {
    /// The lengths of its rows from the poisoned corner outwards. None for the empty position.
    rows: Vec<u32>,
    /// The number of moves until the poison is taken, if the winner hurries and the loser delays. It is odd if the
    /// position is losing.
    depth: u32,
    /// These moves, as cells `[row, column]`. Among equally good moves the smallest row, then the smallest column.
    line: Vec<(u32, u32)>,
}

pub(crate) async fn table(State(site): State<Site>) -> Result<Response, Refusal> {
    let facts = site.current.losing()?.facts.clone();
    Ok(text(StatusCode::OK, JSON, facts))
}

pub(crate) async fn counts(State(site): State<Site>) -> Result<Response, Refusal> {
    Ok(json(&site.current.losing()?.counts().await?))
}

pub(crate) async fn position(
    State(site): State<Site>,
    Texts([position]): Texts<1>,
) -> Result<Response, Refusal> {
    let rows = parse_rows(&position, LENGTH_MAX)?;
    let position = Position::new(rows.clone());
    let open = site.current.losing();
    let refusal = match (position, open) {
        (Ok(position), Ok(open)) => {
            let (bits, table_bits) = (Word::from(&position).bits(), open.table.manifest().bits);
            if bits <= table_bits {
                return ask(&site, move |table| chomp_query::answer(table, &position)).await;
            }
            let beyond = TableError::Beyond { bits, table_bits };
            site.published.refuse_logging_damage(&beyond)
        }
        (Ok(_), Err(none @ Refusal::NotNow(..))) => none,
        (Ok(_), Err(other)) => return Err(other),
        (Err(error), _) => error.into(),
    };
    // This runs on the thread for games, so that it delays no question to the table.
    let question = move || solve(&rows, SOLVE_LIMITS, |_| has_time());
    let answer = site.search_threads.run(question).await?;
    let answer = answer.map_err(|error| match (refusal, error) {
        (_, SolveError::Stopped) => GameError::NoTime.into(),
        (Refusal::Wrong(why), error) => Refusal::Wrong(format!("{why}; {error}")),
        (other, _) => other,
    })?;
    Ok(json(&answer))
}

pub(crate) async fn value(
    State(site): State<Site>,
    Texts([position]): Texts<1>,
) -> Result<Response, Refusal> {
    let position: Partition = position.parse()?;
    let values = site.current.values()?;
    let question = move || chomp_query::value_answers(&values, &[position]);
    let answers = site.question_threads.run(question).await?;
    let answers = answers.map_err(|error| site.published.refuse_logging_damage(&error))?;
    Ok(json(&answers[0]))
}

pub(crate) async fn depth(
    State(site): State<Site>,
    Texts([position]): Texts<1>,
) -> Result<Response, Refusal> {
    let position: Position = position.parse()?;
    let rows = position.rows().to_vec();
    let question = move || {
        let found = Inside::depths_within(position.rows(), INSIDE_MAX, |_| has_time());
        found.map(|found| found.map(|found| found.line()))
    };
    let line = site.question_threads.run(question).await?;
    let line = line.map_err(|TooManyInside { inside, most }| {
        let told = format!("it has {inside} positions inside, and the depth is told up to {most}");
        Refusal::Wrong(told)
    })?;
    let line = line.ok_or(GameError::NoTime)?;
    let line: Vec<(u32, u32)> = line
        .into_iter()
        .map(|cell| (cell.row, cell.column))
        .collect();
    let depth = u32::try_from(line.len()).expect("few moves");
    Ok(json(&Depth { rows, depth, line }))
}

pub(crate) async fn opening(
    State(site): State<Site>,
    Texts([board]): Texts<1>,
) -> Result<Response, Refusal> {
    let (rows, columns) = sides(&board)?;
    let open = site.current.losing()?;
    let (bits, table_bits) = (rows.saturating_add(columns), open.table.manifest().bits);
    if bits <= table_bits {
        return ask(&site, move |table| {
            chomp_query::opening(table, rows, columns)
        })
        .await;
    }
    let (list, _) = open.openings().await?;
    let found = chomp_query::of_board(&list, rows, columns);
    let beyond = || {
        site.published
            .refuse_logging_damage(&TableError::Beyond { bits, table_bits })
    };
    Ok(json(&found.ok_or_else(beyond)?))
}

pub(crate) async fn openings(State(site): State<Site>) -> Result<Response, Refusal> {
    let (_, list) = site.current.losing()?.openings().await?;
    Ok(text(StatusCode::OK, JSON, list))
}

pub(crate) async fn games() -> Response {
    json(&games::GAMES)
}

pub(crate) async fn game_position(
    State(site): State<Site>,
    Texts([game, text]): Texts<2>,
) -> Result<Response, Refusal> {
    let question = move || games::position(&game, &text);
    site.search_threads.run(question).await?
}

pub(crate) async fn game_losing(
    State(site): State<Site>,
    Texts([game, text]): Texts<2>,
) -> Result<Response, Refusal> {
    let question = move || games::listed(game, &text, None);
    site.search_threads.run(question).await?
}

pub(crate) async fn game_picture(
    State(site): State<Site>,
    Texts([game, fixed, text]): Texts<3>,
) -> Result<Response, Refusal> {
    let question = move || games::listed(game, &text, Some(fixed));
    site.search_threads.run(question).await?
}

/// Asks the table, on a thread that may wait for the disk.
async fn ask<T: Serialize>(
    site: &Site,
    question: impl FnOnce(&Table) -> Result<T, TableError> + Send + 'static,
) -> Result<Response, Refusal> {
    let open = site.current.losing()?;
    let work = move || question(&open.table).map(|answer| json(&answer));
    let answer = site.question_threads.run(work).await?;
    answer.map_err(|error| site.published.refuse_logging_damage(&error))
}

fn sides(text: &str) -> Result<(u32, u32), Refusal> {
    let side = |text| number(text).filter(|&side| side > 0);
    let sides = text.split_once('x');
    let sides = sides.and_then(|(rows, columns)| side(rows).zip(side(columns)));
    sides.ok_or_else(|| {
        let what = format!("\"{text}\" is no board: write rows x columns, as 8x10");
        Refusal::Wrong(what)
    })
}
