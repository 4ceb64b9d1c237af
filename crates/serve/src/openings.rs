//! The winning first moves of all rectangles that are known: worked out once for a table, when somebody asks.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chomp_query::{Opening, with_boxes};
use chomp_table::Table;
use chomp_table::format::describe;

use crate::answer::line;
use crate::once::Once;
use crate::published::Published;
use crate::refusal::Refusal;

/// How long a request waits for the list. It takes as long as it takes to read a part of the table
/// for each of some ten thousand moves.
const PATIENCE: Duration = Duration::from_secs(20);

/// The list, and the same as JSON.
type OpeningList = (Arc<Vec<Opening>>, Bytes);

/// The list, once it is there.
#[derive(Debug)]
pub(crate) struct Openings {
    table: Arc<Table>,
    /// Where the table is, and files of boxes may be.
    published: Arc<Published>,
    list: Once<OpeningList>,
}

impl Openings {
    pub(crate) fn new(table: Arc<Table>, published: Arc<Published>) -> Openings {
        Openings {
            table,
            published,
            list: Once::new(),
        }
    }

    pub(crate) async fn list(&self) -> Result<OpeningList, Refusal> {
        let (table, published) = (Arc::clone(&self.table), Arc::clone(&self.published));
        let list = self
            .list
            .ask(PATIENCE, move || work_out(&table, &published));
        let soon = "the list of openings is being worked out: try again soon";
        list.await?.ok_or(Refusal::NotNow(soon, 10))
    }
}

fn work_out(table: &Table, published: &Published) -> Result<Option<OpeningList>, Refusal> {
    let damage_log = &published.damage_log;
    let openings = chomp_query::openings(table).map_err(|error| damage_log.refusal(&error))?;
    let all = with_boxes(openings.clone(), &published.directory).unwrap_or_else(|error| {
        // Without the boxes, the list has the openings of the table alone.
        damage_log.log(&describe(&error));
        openings
    });
    let text = line(&all).into();
    Ok(Some((all.into(), text)))
}
