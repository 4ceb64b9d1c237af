//! The index: where the record of each committed range is. It lives in memory only, and is made
//! anew from the parts at each start.

use std::collections::BTreeMap;

use chomp_table::Head;

use super::StoreError;
use super::part::Entry;
use crate::storage::Key;
use chomp_table::RangeSummary;

#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The part.
    pub(super) key: Key,
    pub(super) entry: Entry,
}

#[derive(Debug, Default)]
pub(super) struct Index(BTreeMap<Head, Place>);

impl Index {
    pub(super) fn get(&self, head: Head) -> Option<&Place> {
        self.0.get(&head)
    }

    /// Checks that what `key` says of a range is what is known of it, if anything.
    pub(super) fn agrees(&self, range: &RangeSummary, key: &Key) -> Result<(), StoreError> {
        match self.0.get(&range.head) {
            Some(place) if place.entry.summary != *range => Err(StoreError::Disagrees {
                head: range.head,
                key: key.clone(),
                other: place.key.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// Adds the ranges of a part; the first part that has a range is the one that it is read from.
    pub(super) fn add(&mut self, key: &Key, entries: Vec<Entry>) {
        for entry in entries {
            let key = || key.clone();
            self.0
                .entry(entry.summary.head)
                .or_insert_with(|| Place { key: key(), entry });
        }
    }

    /// The least replicas of the ranges with heads below `end`.
    pub(super) fn replicas(&self, end: u64) -> Option<u32> {
        let places = self.0.range(..Head(end));
        places.map(|(_, place)| place.entry.replicas).min()
    }

    /// The ranges with heads below `end`, ascending.
    pub(super) fn below(&self, end: u64) -> impl Iterator<Item = RangeSummary> {
        let places = self.0.range(..Head(end));
        places.map(|(_, place)| place.entry.summary)
    }
}
