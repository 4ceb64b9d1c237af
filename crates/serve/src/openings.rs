//! The winning first moves of all rectangles that are known: worked out once for a table, when somebody asks.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use chomp_query::{Opening, with_boxes};
use chomp_table::format::describe;
use chomp_table::{Table, TableError};
use tokio::sync::watch;

use crate::damage_log::DamageLog;

/// How long a request waits for the list. It takes as long as it takes to read a part of the table
/// for each of some ten thousand moves.
const PATIENCE: Duration = Duration::from_secs(20);

/// The list, once it is there.
#[derive(Debug)]
pub(crate) struct Openings {
    table: Arc<Table>,
    /// Where the table is, and files of boxes may be.
    directory: PathBuf,
    damage_log: DamageLog,
    begun: Arc<AtomicBool>,
    list: Arc<watch::Sender<OpeningList>>,
}

/// The list, or why it is not there.
#[derive(Clone, Debug, Default)]
enum OpeningList {
    #[default]
    Missing,
    /// Why it cannot be had this time.
    Failed(Arc<TableError>),
    Known(Arc<Vec<Opening>>, Bytes),
}

/// Why there is no list.
#[derive(Debug)]
pub(crate) enum NoList {
    /// It is being worked out.
    Soon,
    /// A part of the table cannot be used.
    Table(Arc<TableError>),
}

impl Openings {
    pub(crate) fn new(table: Arc<Table>, directory: PathBuf, damage_log: DamageLog) -> Openings {
        Openings {
            table,
            directory,
            damage_log,
            begun: Arc::default(),
            list: Arc::new(watch::Sender::default()),
        }
    }

    /// The list, and the same as JSON. The first who asks has it worked out, and all others wait for the same.
    pub(crate) async fn list(&self) -> Result<(Arc<Vec<Opening>>, Bytes), NoList> {
        let mut list = self.list.subscribe();
        if !self.begun.swap(true, Ordering::AcqRel) {
            self.list.send_replace(OpeningList::Missing);
            self.begin();
        }
        let there = list.wait_for(|list| !matches!(list, OpeningList::Missing));
        match tokio::time::timeout(PATIENCE, there).await {
            Ok(Ok(there)) => match &*there {
                OpeningList::Known(list, json) => Ok((Arc::clone(list), json.clone())),
                OpeningList::Failed(error) => Err(NoList::Table(Arc::clone(error))),
                OpeningList::Missing => unreachable!("it was waited for"),
            },
            _ => Err(NoList::Soon),
        }
    }

    /// Works it out, on a thread that may wait for the disk. What fails is tried again for the next
    /// who asks.
    fn begin(&self) {
        let (table, begun) = (Arc::clone(&self.table), Arc::clone(&self.begun));
        let list = Arc::clone(&self.list);
        let (directory, damage_log) = (self.directory.clone(), self.damage_log.clone());
        tokio::task::spawn_blocking(move || {
            let mut again = Again {
                begun: &begun,
                needed: true,
            };
            match chomp_query::openings(&*table) {
                Ok(mut openings) => {
                    match with_boxes(openings.clone(), &directory) {
                        Ok(more) => openings = more,
                        // Without the boxes, the list has the openings of the table alone.
                        Err(error) => drop(damage_log.log(&describe(&error))),
                    }
                    let mut text = serde_json::to_vec(&openings).expect("numbers become JSON");
                    text.push(b'\n');
                    list.send_replace(OpeningList::Known(openings.into(), text.into()));
                    again.needed = false;
                }
                Err(error) => {
                    list.send_replace(OpeningList::Failed(Arc::new(error)));
                }
            }
        });
    }
}

/// Lets the work begin again when dropped, if that is needed: also after a panic.
struct Again<'a> {
    begun: &'a AtomicBool,
    needed: bool,
}

impl Drop for Again<'_> {
    fn drop(&mut self) {
        self.begun.store(!self.needed, Ordering::Release);
    }
}
