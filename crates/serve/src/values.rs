//! The table of values that answers: the finished one of the most tiles. Each question looks whether there is a newer
//! one.

use std::sync::{Arc, Mutex, PoisonError};

use axum::response::Response;
use chomp_table::reader::{TableKind, TableName};
use chomp_table::values::Values;
use chomp_table::{Partition, TableError};

use crate::damage_log::damaged;
use crate::published::{Published, PublishedError, Stamp};

/// The table that was opened last, which changes when there is another.
#[derive(Clone, Debug)]
pub(crate) struct CurrentValues {
    published: Arc<Published>,
    open: Arc<Mutex<Option<Open>>>,
}

/// A table that was opened, and what its folder was then.
type Open = (TableName, Stamp, Arc<Values>);

/// Why no value is told.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoValue {
    /// There is no table.
    #[error("there is no finished table of values yet")]
    NoTable,
    /// The log has said why.
    #[error(transparent)]
    Published(#[from] PublishedError),
    #[error(transparent)]
    Table(#[from] TableError),
}

impl CurrentValues {
    pub(crate) fn new(published: Arc<Published>) -> CurrentValues {
        CurrentValues {
            published,
            open: Arc::default(),
        }
    }

    /// The table's answer about a position. This reads from the disk.
    pub(crate) fn answer(&self, position: &Partition) -> Result<chomp_query::ValueAnswer, NoValue> {
        let table = self.table()?;
        let answers = chomp_query::value_answers(&table, std::slice::from_ref(position));
        Ok(answers?.pop().expect("one answer for one position"))
    }

    /// A table that cannot be looked at.
    pub(crate) fn failed(&self, error: &PublishedError) -> Response {
        self.published.log(error);
        damaged()
    }

    fn table(&self) -> Result<Arc<Values>, NoValue> {
        let folders = self.published.folders()?.into_iter().rev();
        for name in folders.filter(|name| name.kind() == TableKind::Values) {
            let Some(stamp) = self.published.stamp(name)? else {
                continue;
            };
            // It is put in whole, whoever panicked, and opened by one at a time.
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((opened, at, table)) = &*open
                && (*opened, *at) == (name, stamp)
            {
                return Ok(Arc::clone(table));
            }
            let folder = self.published.directory().join(name.folder());
            let table = Arc::new(Values::open(&folder)?);
            *open = Some((name, stamp, Arc::clone(&table)));
            return Ok(table);
        }
        Err(NoValue::NoTable)
    }
}
