//! What is really durable, and the writes under way.

use std::collections::BTreeMap;

use chomp_table::head::layers;
use chomp_table::sources::sources;
use chomp_table::{Head, RangeBits};

use crate::chance::Chance;
use crate::plan::{Settings, SubmissionId};
use chomp_table::RangeSummary;

/// A write that the plan asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Write {
    Commit {
        submission: SubmissionId,
        ranges: Vec<RangeSummary>,
    },
    Seal {
        layer: u32,
    },
    Publish,
}

#[derive(Debug)]
pub(super) struct Disk {
    range_bits: RangeBits,
    pub(super) layers: Vec<Vec<Head>>,
    pub(super) ranges: BTreeMap<Head, RangeSummary>,
    /// What the seals say.
    pub(super) sealed: BTreeMap<Head, RangeSummary>,
    pub(super) seals: u32,
    pub(super) published: bool,
    pub(super) under_way: Vec<Write>,
}

impl Disk {
    pub(super) fn new(settings: &Settings) -> Disk {
        Disk {
            range_bits: settings.range_bits,
            layers: layers(settings.bits, settings.range_bits),
            ranges: BTreeMap::new(),
            sealed: BTreeMap::new(),
            seals: 0,
            published: false,
            under_way: Vec::new(),
        }
    }

    pub(super) fn holds(&self, head: Head) -> bool {
        self.ranges.contains_key(&head)
    }

    pub(super) fn is_being_written(&self, head: Head) -> bool {
        self.under_way.iter().any(|write| match write {
            Write::Commit { ranges, .. } => ranges.iter().any(|range| range.head == head),
            Write::Seal { .. } | Write::Publish => false,
        })
    }

    /// A range may be evaluated when all its sources are durable.
    pub(super) fn check_may_be_evaluated(&self, head: Head) {
        for source in sources(head, self.range_bits) {
            assert!(
                self.holds(source),
                "range {head} before its source {source}"
            );
        }
    }

    /// Ranges may be computed, and written, once: after all their sources are durable.
    pub(super) fn check_may_be_made(&self, layer: u32, heads: &[Head]) {
        assert!(!heads.is_empty());
        for &head in heads {
            assert_eq!(head.layer(), layer);
            assert!(!self.holds(head), "range {head} is durable already");
            assert!(
                !self.is_being_written(head),
                "range {head} is being written already"
            );
            self.check_may_be_evaluated(head);
        }
    }

    pub(super) fn begin_commit(
        &mut self,
        submission: SubmissionId,
        layer: u32,
        ranges: Vec<RangeSummary>,
    ) {
        let heads: Vec<Head> = ranges.iter().map(|range| range.head).collect();
        self.check_may_be_made(layer, &heads);
        self.under_way.push(Write::Commit { submission, ranges });
    }

    pub(super) fn begin_seal(&mut self, layer: u32, ranges: &[RangeSummary]) {
        assert_eq!(layer, self.seals, "seals are made in order");
        let right: Vec<RangeSummary> = self.layers[layer as usize]
            .iter()
            .map(|head| self.ranges[head])
            .collect();
        assert_eq!(ranges, right);
        self.begin_alone(Write::Seal { layer });
    }

    pub(super) fn begin_publish(&mut self) {
        assert_eq!(
            self.seals as usize,
            self.layers.len(),
            "published before the last seal"
        );
        assert!(self.layers.iter().flatten().all(|&head| self.holds(head)));
        self.begin_alone(Write::Publish);
    }

    fn begin_alone(&mut self, write: Write) {
        let is_commit = |write: &Write| matches!(write, Write::Commit { .. });
        assert!(
            self.under_way.iter().all(is_commit),
            "{write:?} beside another"
        );
        self.under_way.push(write);
    }

    /// A write takes effect.
    pub(super) fn perform(&mut self, write: &Write) {
        match write {
            Write::Commit { ranges, .. } => {
                for range in ranges {
                    assert_eq!(self.ranges.insert(range.head, *range), None);
                }
            }
            Write::Seal { layer } => {
                self.seals = layer + 1;
                for head in &self.layers[*layer as usize] {
                    self.sealed.insert(*head, self.ranges[head]);
                }
            }
            Write::Publish => self.published = true,
        }
    }

    /// The power goes: each write under way has taken effect or not.
    pub(super) fn crash(&mut self, chance: &mut Chance) {
        for write in std::mem::take(&mut self.under_way) {
            if chance.once_in(2) {
                self.perform(&write);
            }
        }
    }

    /// What a store would find: the durable ranges, and what the seals say.
    pub(super) fn read(&self, chance: &mut Chance) -> (Vec<RangeSummary>, Vec<RangeSummary>) {
        let only_lost = chance.once_in(2);
        let sealed = self.sealed.values();
        let expected = sealed.filter(|range| !only_lost || !self.holds(range.head));
        let expected = expected.copied().collect();
        (self.ranges.values().copied().collect(), expected)
    }

    /// What a person does when a range of `layer` is wrong: all that may follow from it goes.
    pub(super) fn remove_from(&mut self, layer: u32) {
        self.under_way.clear();
        self.ranges.retain(|head, _| head.layer() < layer);
        self.sealed.clear();
        self.seals = 0;
    }
}
