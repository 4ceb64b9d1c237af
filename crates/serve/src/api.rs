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
//! `openapi.json` describes every field.

use std::cell::Cell;
use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use chomp_query::Losing;
use chomp_table::format::describe;
use chomp_table::position::PositionError;
use chomp_table::{Partition, Position, Table, TableError, Word};
use http::StatusCode;
use serde::Serialize;

use crate::answer::{JSON, busy, json, problem, text};
use crate::current::{Current, Now, OpenTable};
use crate::damage_log::{DamageLog, damaged};
use crate::door::AnswerCost;
use crate::lookups::{Lookups, NotDone};
use crate::net::Caller;
use crate::openings::NoList;
use crate::values::{CurrentValues, NoValue};

/// The longest text of a position: 63 rows of two digits each and a comma take 188 bytes, a word 66; 120 rows of a cell 239.
const TEXT_BYTES_MAX: usize = 256;
/// The most rows and columns together: those of the largest box.
const SIDES_MAX: u32 = 32 + 250;
/// The most positions inside one whose depth is told: they take some milliseconds.
const INSIDE_MAX: u64 = 1 << 17;
/// The cost charged for every depth: the most that one can cost.
const DEPTH_COST: AnswerCost = AnswerCost(20);

/// Answers the API's questions about positions and tables.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    current: Current,
    values: CurrentValues,
    lookups: Lookups,
    damage_log: DamageLog,
}

/// A text in a path, decoded; or why it is none.
pub(crate) type Text = Result<Path<String>, PathRejection>;

/// Why a question is not answered.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("the path is not UTF-8")]
    NotText,
    #[error("no position takes more than {TEXT_BYTES_MAX} characters")]
    TooLong,
    #[error(transparent)]
    Position(#[from] PositionError),
    #[error("\"{0}\" is no board: write rows x columns, as 8x10")]
    Board(String),
    #[error(
        "rows and columns are more than {SIDES_MAX} together: neither a table nor a box has that"
    )]
    TooLarge,
    #[error("it has {0} positions inside, and the depth is told up to {INSIDE_MAX}")]
    Deep(u64),
    #[error("there is no finished table yet")]
    NoTable,
    /// The log has said why.
    #[error("the table cannot be opened")]
    Broken,
    #[error(transparent)]
    Table(Arc<TableError>),
    #[error(transparent)]
    Value(#[from] NoValue),
    #[error(transparent)]
    NotDone(#[from] NotDone),
    #[error("the list of openings is being worked out: try again soon")]
    Soon,
}

impl Api {
    pub(crate) fn new(current: Current, values: CurrentValues, damage_log: DamageLog) -> Api {
        Api {
            current,
            values,
            lookups: Lookups::new(),
            damage_log,
        }
    }

    pub(crate) fn table(&self) -> Response {
        let table = self.open().map(|open| open.facts.table.clone());
        self.respond(table.map(|table| text(StatusCode::OK, JSON, table)))
    }

    pub(crate) fn counts(&self) -> Response {
        let counts = self.open().and_then(|open| Ok(open.counts.so_far()?));
        self.respond(counts.map(|counts| json(StatusCode::OK, &counts)))
    }

    pub(crate) async fn position(
        State(api): State<Api>,
        caller: Caller,
        position: Text,
    ) -> Response {
        let answer = async {
            let position: Position = short(position)?.parse()?;
            api.ask(&caller, move |table| chomp_query::answer(table, &position))
                .await
        };
        api.respond(answer.await)
    }

    /// The values of all that moves leave are looked up, each of which costs as much as a question.
    pub(crate) async fn value(State(api): State<Api>, caller: Caller, position: Text) -> Response {
        let answer = async {
            let position: Partition = short(position)?.parse()?;
            let (values, cost) = (api.values.clone(), AnswerCost(position.area()));
            let asked = api
                .lookups
                .run(caller.address, move || values.answer(&position));
            let mut response = json(StatusCode::OK, &asked.await??);
            response.extensions_mut().insert(cost);
            Ok(response)
        };
        api.respond(answer.await)
    }

    pub(crate) async fn depth(State(api): State<Api>, caller: Caller, position: Text) -> Response {
        #[derive(Serialize)]
        struct Depth<'a> {
            rows: &'a [u32],
            depth: u32,
        }
        let answer = async {
            let position: Position = short(position)?.parse()?;
            let asked = api.lookups.run(caller.address, move || {
                let depth = chomp_query::depth(&position, INSIDE_MAX).map_err(Refusal::Deep)?;
                let rows = position.rows();
                Ok::<_, Refusal>(json(StatusCode::OK, &Depth { rows, depth }))
            });
            let mut response = asked.await??;
            response.extensions_mut().insert(DEPTH_COST);
            Ok(response)
        };
        api.respond(answer.await)
    }

    pub(crate) async fn opening(State(api): State<Api>, caller: Caller, board: Text) -> Response {
        let answer = async {
            let (rows, columns) = sides(&short(board)?)?;
            let open = api.open()?;
            let (bits, table_bits) = (rows + columns, open.table.manifest().bits);
            if bits > table_bits {
                let (list, _) = open.openings.list().await?;
                let beyond = TableError::Beyond { bits, table_bits };
                let found = chomp_query::of_board(&list, rows, columns);
                return Ok(json(
                    StatusCode::OK,
                    &found.ok_or_else(|| Arc::new(beyond))?,
                ));
            }
            api.ask(&caller, move |table| {
                chomp_query::opening(table, rows, columns)
            })
            .await
        };
        api.respond(answer.await)
    }

    pub(crate) async fn openings(State(api): State<Api>) -> Response {
        let list = async { Ok(api.open()?.openings.list().await?) };
        let list = list.await;
        api.respond(list.map(|(_, list)| text(StatusCode::OK, JSON, list)))
    }

    /// The table that answers, or why none does.
    fn open(&self) -> Result<Arc<OpenTable>, Refusal> {
        match self.current.now() {
            Now::Open(open) => Ok(open),
            Now::Nothing => Err(Refusal::NoTable),
            Now::Broken => Err(Refusal::Broken),
        }
    }

    /// Asks the table, on a thread that may wait for the disk. The parts of the table that are read
    /// for it are its cost, but for the one that every question may read.
    async fn ask<T: Serialize>(
        &self,
        caller: &Caller,
        question: impl FnOnce(&Metered<'_>) -> Result<T, TableError> + Send + 'static,
    ) -> Result<Response, Refusal> {
        let open = self.open()?;
        let asked = self.lookups.run(caller.address, move || {
            let table = Metered {
                table: &open.table,
                read: Cell::default(),
            };
            let answer = question(&table)?;
            let mut response = json(StatusCode::OK, &answer);
            let cost = AnswerCost(table.read.get().saturating_sub(1));
            response.extensions_mut().insert(cost);
            Ok(response)
        });
        Ok(asked.await?.map_err(Arc::new)?)
    }

    fn respond(&self, answer: Result<Response, Refusal>) -> Response {
        let refusal = match answer {
            Ok(response) => return response,
            Err(refusal) => refusal,
        };
        let what = refusal.to_string();
        match refusal {
            Refusal::NotText
            | Refusal::Position(_)
            | Refusal::Board(_)
            | Refusal::TooLarge
            | Refusal::Deep(_)
            | Refusal::Value(NoValue::Table(TableError::BeyondTiles { .. })) => {
                problem(StatusCode::BAD_REQUEST, &what)
            }
            Refusal::TooLong => problem(StatusCode::URI_TOO_LONG, &what),
            Refusal::Table(error) if matches!(*error, TableError::Beyond { .. }) => {
                problem(StatusCode::BAD_REQUEST, &what)
            }
            Refusal::Table(error) => self.damage_log.broken(&describe(&*error)),
            Refusal::Value(NoValue::Table(error)) => self.damage_log.broken(&describe(&error)),
            Refusal::Value(NoValue::Published(error)) => self.values.failed(&error),
            Refusal::Broken => damaged(),
            Refusal::Value(NoValue::NoTable) | Refusal::NoTable | Refusal::Soon => busy(&what, 10),
            Refusal::NotDone(NotDone::Full) => busy(&what, 1),
            Refusal::NotDone(NotDone::Lost) => problem(StatusCode::INTERNAL_SERVER_ERROR, &what),
        }
    }
}

/// A table of which it is counted how many of its parts a question reads.
#[derive(Debug)]
struct Metered<'a> {
    table: &'a Table,
    read: Cell<u32>,
}

impl Losing for Metered<'_> {
    fn are_losing(&self, words: &[Word]) -> Result<Vec<bool>, TableError> {
        self.table.are_losing_metered(words, &self.read)
    }

    fn bits(&self) -> u32 {
        self.table.manifest().bits
    }
}

impl From<Arc<TableError>> for Refusal {
    fn from(error: Arc<TableError>) -> Refusal {
        Refusal::Table(error)
    }
}

impl From<NoList> for Refusal {
    fn from(error: NoList) -> Refusal {
        match error {
            NoList::Soon => Refusal::Soon,
            NoList::Table(error) => Refusal::Table(error),
        }
    }
}

/// A text of a length that makes sense.
fn short(text: Text) -> Result<String, Refusal> {
    let Path(text) = text.map_err(|_| Refusal::NotText)?;
    if text.len() > TEXT_BYTES_MAX {
        return Err(Refusal::TooLong);
    }
    Ok(text)
}

/// The sides of a board that is written as `8x10`.
fn sides(text: &str) -> Result<(u32, u32), Refusal> {
    let number = |digits: &str| {
        let all_digits = digits.bytes().all(|digit| digit.is_ascii_digit());
        let number = digits.parse().ok();
        number.filter(|&number: &u32| all_digits && number > 0)
    };
    let sides = text.split_once('x');
    let sides = sides.and_then(|(rows, columns)| number(rows).zip(number(columns)));
    let (rows, columns) = sides.ok_or_else(|| Refusal::Board(text.to_owned()))?;
    if rows.saturating_add(columns) > SIDES_MAX {
        return Err(Refusal::TooLarge);
    }
    Ok((rows, columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boards_are_two_numbers() {
        assert_eq!(sides("8x10").unwrap(), (8, 10));
        assert_eq!(sides("1x63").unwrap(), (1, 63));
        for wrong in [
            "",
            "x",
            "8",
            "8x",
            "x8",
            "0x8",
            "8x0",
            "8x8x8",
            "+8x8",
            "8X8",
            " 8x8",
            "8x-1",
            "4294967296x1",
            "240x43",
            "4294967295x4294967295",
        ] {
            assert!(sides(wrong).is_err(), "{wrong}");
        }
    }
}
