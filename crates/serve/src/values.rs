//! The table of values that answers: the finished one of the most tiles. Each question looks whether there is a newer
//! one.

use std::sync::Arc;

use chomp_query::ValueAnswer;
use chomp_table::Partition;
use chomp_table::reader::{TableKind, TableName};
use chomp_table::values::Values;
use parking_lot::Mutex;

use crate::published::{Published, Stamp};
use crate::refusal::Refusal;

/// The table that was opened last, which changes when there is another.
#[derive(Clone, Debug)]
pub(crate) struct CurrentValues {
    published: Arc<Published>,
    open: Arc<Mutex<Option<Open>>>,
}

/// A table that was opened, and what its folder was then.
type Open = (TableName, Stamp, Arc<Values>);

impl CurrentValues {
    pub(crate) fn new(published: Arc<Published>) -> CurrentValues {
        CurrentValues {
            published,
            open: Arc::default(),
        }
    }

    /// The table's answer about a position. This reads from the disk.
    pub(crate) fn answer(&self, position: &Partition) -> Result<ValueAnswer, Refusal> {
        let table = self.table()?;
        let answers = chomp_query::value_answers(&table, std::slice::from_ref(position));
        let mut answers = answers.map_err(|error| self.published.damage_log.refusal(&error))?;
        Ok(answers.pop().expect("one answer for one position"))
    }

    fn table(&self) -> Result<Arc<Values>, Refusal> {
        let folders = self.published.folders()?.into_iter().rev();
        for name in folders.filter(|name| name.kind() == TableKind::Values) {
            let Some(stamp) = self.published.stamp(name)? else {
                continue;
            };
            // It is put in whole, whoever panicked, and opened by one at a time.
            let mut open = self.open.lock();
            if let Some((opened, at, table)) = &*open
                && (*opened, *at) == (name, stamp)
            {
                return Ok(Arc::clone(table));
            }
            let opened = Values::open(&self.published.directory.join(name.folder()));
            let opened = opened.map_err(|error| self.published.damage_log.refusal(&error));
            let table = Arc::new(opened?);
            *open = Some((name, stamp, Arc::clone(&table)));
            return Ok(table);
        }
        let what = "there is no finished table of values yet";
        Err(Refusal::NotNow(what, 10))
    }
}
