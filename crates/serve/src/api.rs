//! `/api`: what the table says, as JSON.
//!
//! | path | answers |
//! |---|---|
//! | `/api/table` | what the table is |
//! | `/api/position/{position}` | one position: whether it is losing, the winning moves, what they leave |
//! | `/api/depth/{position}` | how many moves it takes to the end, if the winner hurries and the loser delays |
//! | `/api/value/{position}` | its Grundy value, and the moves to each smaller one |
//! | `/api/openings`, `/api/openings/{rows}x{columns}` | the winning first moves of rectangles |
//! | `/api/counts` | the losing positions of each area |
//!
//! `openapi.json` describes every field. A test makes it of the types of the answers, and of `tests/description.rs`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use chomp_table::{Partition, Position, Table, TableError};
use http::StatusCode;
use serde::Serialize;

use crate::answer::{JSON, json, text};
use crate::current::Current;
use crate::lookups::Lookups;
use crate::published::Published;
use crate::refusal::{Refusal, Texts, number};
use crate::values::CurrentValues;

/// The most rows and columns together: those of the largest box.
const SIDES_MAX: u32 = 32 + 250;
/// The most positions inside one whose depth is told: they take some milliseconds.
pub(crate) const INSIDE_MAX: u64 = 1 << 17;

/// A position, and the length of the game from it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Depth {
    /// The lengths of its rows from the poisoned corner outwards. None for the empty position.
    rows: Vec<u32>,
    /// The number of moves until the poison is taken, if the winner hurries and the loser delays. It is odd if the
    /// position is losing.
    depth: u32,
}

/// Answers the API's questions about positions and tables.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    current: Current,
    values: CurrentValues,
    lookups: Lookups,
    published: Arc<Published>,
}

impl Api {
    pub(crate) fn new(current: Current, published: Arc<Published>) -> Api {
        Api {
            current,
            values: CurrentValues::new(Arc::clone(&published)),
            lookups: Lookups::new(),
            published,
        }
    }

    pub(crate) fn table(&self) -> Result<Response, Refusal> {
        let facts = self.current.now()?.facts.clone();
        Ok(text(StatusCode::OK, JSON, facts))
    }

    pub(crate) async fn counts(State(api): State<Api>) -> Result<Response, Refusal> {
        Ok(json(&api.current.now()?.counts.so_far().await?))
    }

    pub(crate) async fn position(
        State(api): State<Api>,
        Texts([position]): Texts<1>,
    ) -> Result<Response, Refusal> {
        let position: Position = position.parse()?;
        api.ask(move |table| chomp_query::answer(table, &position))
            .await
    }

    pub(crate) async fn value(
        State(api): State<Api>,
        Texts([position]): Texts<1>,
    ) -> Result<Response, Refusal> {
        let position: Partition = position.parse()?;
        let values = api.values.clone();
        let asked = api.lookups.run(move || values.answer(&position));
        Ok(json(&asked.await??))
    }

    pub(crate) async fn depth(
        State(api): State<Api>,
        Texts([position]): Texts<1>,
    ) -> Result<Response, Refusal> {
        let position: Position = position.parse()?;
        let rows = position.rows().to_vec();
        let asked = api
            .lookups
            .run(move || chomp_query::depth(&position, INSIDE_MAX));
        let depth = asked.await?.map_err(|inside| {
            Refusal::Wrong(format!(
                "it has {inside} positions inside, and the depth is told up to {INSIDE_MAX}"
            ))
        })?;
        Ok(json(&Depth { rows, depth }))
    }

    pub(crate) async fn opening(
        State(api): State<Api>,
        Texts([board]): Texts<1>,
    ) -> Result<Response, Refusal> {
        let (rows, columns) = sides(&board)?;
        let open = api.current.now()?;
        let (bits, table_bits) = (rows + columns, open.table.manifest().bits);
        if bits <= table_bits {
            let question = move |table: &Table| chomp_query::opening(table, rows, columns);
            return api.ask(question).await;
        }
        let (list, _) = open.openings.list().await?;
        let found = chomp_query::of_board(&list, rows, columns);
        let beyond = || TableError::Beyond { bits, table_bits };
        Ok(json(&found.ok_or_else(|| api.refusal(&beyond()))?))
    }

    pub(crate) async fn openings(State(api): State<Api>) -> Result<Response, Refusal> {
        let (_, list) = api.current.now()?.openings.list().await?;
        Ok(text(StatusCode::OK, JSON, list))
    }

    /// Asks the table, on a thread that may wait for the disk.
    async fn ask<T: Serialize>(
        &self,
        question: impl FnOnce(&Table) -> Result<T, TableError> + Send + 'static,
    ) -> Result<Response, Refusal> {
        let open = self.current.now()?;
        let asked = self
            .lookups
            .run(move || question(&open.table).map(|answer| json(&answer)));
        asked.await?.map_err(|error| self.refusal(&error))
    }

    fn refusal(&self, error: &TableError) -> Refusal {
        self.published.damage_log.refusal(error)
    }
}

/// The sides of a board that is written as `8x10`.
fn sides(text: &str) -> Result<(u32, u32), Refusal> {
    let side = |text| number(text).filter(|&side| side > 0);
    let sides = text.split_once('x');
    let sides = sides.and_then(|(rows, columns)| side(rows).zip(side(columns)));
    let (rows, columns) = sides.ok_or_else(|| {
        Refusal::Wrong(format!(
            "\"{text}\" is no board: write rows x columns, as 8x10"
        ))
    })?;
    if rows.saturating_add(columns) > SIDES_MAX {
        return Err(Refusal::Wrong(format!(
            "rows and columns are more than {SIDES_MAX} together: neither a table nor a box has that"
        )));
    }
    Ok((rows, columns))
}
