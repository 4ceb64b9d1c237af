//! The index: where the record of each committed range is. It lives in memory only, and is made
//! anew from the parts at each start.

use std::collections::{BTreeMap, BTreeSet};

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
pub(super) struct Index {
    places: BTreeMap<Head, Place>,
    /// All parts, those too whose ranges are read from others.
    parts: BTreeSet<Key>,
}

impl Index {
    pub(super) fn get(&self, head: Head) -> Option<&Place> {
        self.places.get(&head)
    }

    /// Checks that what `key` says of a range is what is known of it, if anything.
    pub(super) fn agrees(&self, range: &RangeSummary, key: &Key) -> Result<(), StoreError> {
        match self.places.get(&range.head) {
            Some(place) if place.entry.summary != *range => Err(StoreError::Disagrees {
                head: range.head,
                key: key.clone(),
                other: place.key.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// All parts.
    pub(super) fn parts(&self) -> BTreeSet<Key> {
        self.parts.clone()
    }

    /// The largest head.
    pub(super) fn last(&self) -> Option<Head> {
        self.places.last_key_value().map(|(&head, _)| head)
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Index::default();
    }

    /// Adds the ranges of a part; the first part that has a range is the one that it is read from.
    pub(super) fn add(&mut self, key: &Key, entries: Vec<Entry>) {
        self.parts.insert(key.clone());
        for entry in entries {
            let key = || key.clone();
            self.places
                .entry(entry.summary.head)
                .or_insert_with(|| Place { key: key(), entry });
        }
    }

    /// The least replicas of the ranges with heads below `end`.
    pub(super) fn replicas(&self, end: u64) -> Option<u32> {
        let places = self.places.range(..Head(end));
        places.map(|(_, place)| place.entry.replicas).min()
    }

    /// The ranges with heads below `end`, ascending.
    pub(super) fn below(&self, end: u64) -> impl Iterator<Item = RangeSummary> {
        let places = self.places.range(..Head(end));
        places.map(|(_, place)| place.entry.summary)
    }
}
