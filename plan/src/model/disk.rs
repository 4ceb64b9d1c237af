//! What is really durable: the journal, and the entries on their way into it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use chomp_table::head::layers;
use chomp_table::rng::{Rng, mix};
use chomp_table::sources::sources;
use chomp_table::{Digest, Head, RangeBits, RangeSummary};

use crate::slots::Content;
use crate::tests::summary;
use crate::{Found, ParticipantId, Past, Settings, SubmissionId, Unit};

/// A write that the plan asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Write {
    Commit {
        submission: SubmissionId,
        units: Vec<(Unit, Content)>,
        finders: Vec<BTreeSet<ParticipantId>>,
        /// What is said of the file, if it is of a shard.
        file: Option<Digest>,
    },
    Confirm {
        head: Head,
        finders: BTreeSet<ParticipantId>,
    },
    FoundOut {
        participant: ParticipantId,
        reason: String,
    },
    Withdraw {
        heads: Vec<Head>,
    },
    Lose {
        head: Head,
    },
    /// Only the files of these shards are looked at.
    Publish {
        unread: Vec<u32>,
    },
}

impl Write {
    /// Whether the plan is told what came of it.
    pub(super) fn is_answered(&self) -> bool {
        matches!(self, Write::Commit { .. } | Write::Publish { .. })
    }
}

#[derive(Debug)]
pub(super) struct Disk {
    range_bits: RangeBits,
    shard_words: u64,
    pub(super) layers: Vec<Vec<Head>>,
    pub(super) ranges: BTreeMap<Head, RangeSummary>,
    /// What was in those whose loss was noted.
    expected: BTreeMap<Head, RangeSummary>,
    pub(super) shards: BTreeMap<u32, Digest>,
    /// What is said of the file of each shard, and what is in it. The words in a file stand for the whole file.
    pub(super) said: BTreeMap<u32, Digest>,
    pub(super) files: BTreeMap<u32, Digest>,
    /// Who found what is done and is not found out, and how many had to find it.
    finders: BTreeMap<Unit, (BTreeSet<ParticipantId>, u32)>,
    replicas: u32,
    outcasts: BTreeMap<ParticipantId, String>,
    /// The done ranges whose records cannot be read any more.
    pub(super) lost: BTreeSet<Head>,
    /// Those that were withdrawn some time.
    pub(super) withdrawn: BTreeSet<Head>,
    /// The shards that another worker than the writer has read, or that the coordinator has written, since it started.
    pub(super) read: BTreeSet<u32>,
    pub(super) published: bool,
    /// In the order in which they were asked for; they take effect in that order.
    pub(super) under_way: VecDeque<Write>,
}

impl Disk {
    pub(super) fn new(settings: &Settings) -> Disk {
        Disk {
            range_bits: settings.range_bits,
            shard_words: settings.shard_words,
            layers: layers(settings.size, settings.range_bits),
            ranges: BTreeMap::new(),
            expected: BTreeMap::new(),
            shards: BTreeMap::new(),
            said: BTreeMap::new(),
            files: BTreeMap::new(),
            finders: BTreeMap::new(),
            replicas: settings.replicas,
            outcasts: BTreeMap::new(),
            lost: BTreeSet::new(),
            withdrawn: BTreeSet::new(),
            read: BTreeSet::new(),
            published: false,
            under_way: VecDeque::new(),
        }
    }

    fn is_being_withdrawn(&self, head: Head) -> bool {
        let withdraws = |write: &Write| match write {
            Write::Withdraw { heads } => heads.contains(&head),
            Write::Lose { head: lost } => *lost == head,
            _ => false,
        };
        self.under_way.iter().any(withdraws)
    }

    /// Whether the unit is done, and stays so.
    pub(super) fn holds(&self, unit: Unit) -> bool {
        match unit {
            Unit::Range(head) => self.ranges.contains_key(&head) && !self.is_being_withdrawn(head),
            Unit::Shard(number) => {
                let withdraws =
                    |write: &Write| matches!(write, Write::Withdraw { .. } | Write::Lose { .. });
                self.shards.contains_key(&number) && !self.under_way.iter().any(withdraws)
            }
        }
    }

    pub(super) fn is_being_written(&self, unit: Unit) -> bool {
        self.under_way.iter().any(|write| match write {
            Write::Commit { units, .. } => units.iter().any(|&(other, _)| other == unit),
            _ => false,
        })
    }

    pub(super) fn content(&self, unit: Unit) -> Option<Content> {
        match unit {
            Unit::Range(head) => self
                .ranges
                .get(&head)
                .map(|&range| Content::of_range(range)),
            Unit::Shard(number) => self
                .shards
                .get(&number)
                .map(|&digest| Content::of_shard(digest)),
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        let mut heads = self.layers.iter().flatten();
        heads.all(|&head| self.holds(Unit::Range(head)))
    }

    /// Whether too few of those that found this unit are not found out.
    pub(super) fn is_doubted(&self, unit: Unit) -> bool {
        let Some((finders, needed)) = self.finders.get(&unit) else {
            return false;
        };
        let is_found_out = |finder: &ParticipantId| {
            let finds_out = |write: &Write| matches!(write, Write::FoundOut { participant, .. } if participant == finder);
            self.under_way.iter().any(finds_out)
        };
        let trusted = finders.iter().filter(|finder| !is_found_out(finder));
        trusted.count() < *needed as usize
    }

    /// What a unit draws on.
    pub(super) fn sources(&self, unit: Unit) -> Vec<Head> {
        match unit {
            Unit::Range(head) => sources(head, self.range_bits),
            Unit::Shard(_) => self.layers.iter().flatten().copied().collect(),
        }
    }

    /// A unit may be computed when all that it draws on is durable.
    pub(super) fn check_may_be_computed(&self, unit: Unit) {
        for source in self.sources(unit) {
            assert!(
                self.holds(Unit::Range(source)),
                "{unit} before its source {source}"
            );
        }
    }

    /// Units may be computed and written once.
    pub(super) fn check_is_missing(&self, unit: Unit) {
        assert!(!self.holds(unit), "{unit} is durable already");
        let withdrawn = matches!(unit, Unit::Range(head) if self.is_being_withdrawn(head));
        // A shard of an earlier cut may still be on its way; its withdrawal is behind it.
        let is_shard = matches!(unit, Unit::Shard(_));
        assert!(
            withdrawn || is_shard || !self.is_being_written(unit),
            "{unit} is being written already"
        );
    }

    /// What an honest worker finds, if it draws on what is done now: the right content if all sources are
    /// right. Else the records that are lost.
    pub(super) fn compute(&self, unit: Unit) -> Result<Content, Vec<(Head, Digest)>> {
        let sources = self.sources(unit);
        let lost: Vec<_> = sources
            .iter()
            .filter(|source| self.lost.contains(source) || !self.ranges.contains_key(source))
            .map(|source| {
                (
                    *source,
                    self.ranges
                        .get(source)
                        .map_or(Digest([0; 32]), |range| range.digest),
                )
            })
            .collect();
        if !lost.is_empty() {
            return Err(lost);
        }
        Ok(match unit {
            Unit::Range(head) => {
                let mut range = summary(head.0);
                if !sources.iter().all(|source| self.is_right(*source)) {
                    // What follows from a wrong source is wrong, each time in the same way.
                    let sum = sources.iter().fold(head.0, |sum, source| {
                        mix(sum ^ u64::from(self.ranges[source].digest.0[9]))
                    });
                    range.digest.0[9] ^= 1;
                    range.digest.0[16..24].copy_from_slice(&sum.to_le_bytes());
                }
                Content::of_range(range)
            }
            Unit::Shard(number) => Content::of_shard(self.shard(number)),
        })
    }

    fn is_right(&self, head: Head) -> bool {
        self.ranges[&head] == summary(head.0)
    }

    fn shard(&self, number: u32) -> Digest {
        let mut digest = [9; 32];
        digest[..4].copy_from_slice(&number.to_le_bytes());
        let all = self.ranges.values();
        let sum = all.fold(0, |sum, range| {
            mix(sum ^ u64::from(range.digest.0[9]) ^ u64::from(range.digest.0[0]))
        });
        digest[8..16].copy_from_slice(&sum.to_le_bytes());
        Digest(digest)
    }

    /// The number of shards.
    pub(super) fn shard_count(&self) -> u64 {
        let stored: u64 = self.ranges.values().map(|range| range.stored).sum();
        stored.div_ceil(self.shard_words).max(1)
    }

    /// A shard begins so many stored words after the one before, word by word.
    pub(super) fn check_shard(&self, number: u32, head: Head, skip: u64) {
        assert!(u64::from(number) < self.shard_count());
        let before: u64 = self
            .ranges
            .range(..head)
            .map(|(_, range)| range.stored)
            .sum();
        assert_eq!(before + skip, u64::from(number) * self.shard_words);
        assert!(number == 0 || skip < self.ranges[&head].stored);
    }

    pub(super) fn begin_commit(
        &mut self,
        submission: SubmissionId,
        units: Vec<(Unit, Content)>,
        finders: Vec<BTreeSet<ParticipantId>>,
        file: Option<Digest>,
    ) {
        assert!(!units.is_empty());
        for (&(unit, content), finders) in units.iter().zip(&finders) {
            // A wrong shard is written over, and each that the coordinator merges.
            let is_other = self.content(unit) != Some(content) || finders.is_empty();
            if !(matches!(unit, Unit::Shard(_)) && is_other) {
                self.check_is_missing(unit);
            }
            for source in self.sources(unit) {
                // A content that was settled before its source was lost is written all the same.
                assert!(self.holds(Unit::Range(source)) || self.is_or_was_withdrawn(source));
            }
        }
        self.under_way.push_back(Write::Commit {
            submission,
            units,
            finders,
            file,
        });
    }

    fn is_or_was_withdrawn(&self, head: Head) -> bool {
        self.withdrawn.contains(&head) || self.is_being_withdrawn(head)
    }

    pub(super) fn begin_publish(&mut self, unread: Vec<u32>) {
        assert!(self.is_complete());
        let shards = self.shard_count();
        assert!((0..u32::try_from(shards).unwrap()).all(|number| self.holds(Unit::Shard(number))));
        assert_eq!(self.shards.len() as u64, shards);
        assert!(unread.iter().all(|number| self.shards.contains_key(number)));
        let is_read = |number: &u32| self.read.contains(number) || unread.contains(number);
        assert!(self.shards.keys().all(is_read), "published unread");
        let publishes = |write: &Write| matches!(write, Write::Publish { .. });
        assert!(!self.under_way.iter().any(publishes));
        self.under_way.push_back(Write::Publish { unread });
    }

    /// A write takes effect.
    pub(super) fn perform(&mut self, write: &Write) {
        match write {
            Write::Commit {
                units,
                finders,
                file,
                ..
            } => {
                for (&(unit, content), finders) in units.iter().zip(finders) {
                    self.note_finders(unit, finders);
                    match unit {
                        Unit::Range(head) => {
                            self.lost.remove(&head);
                            self.expected.remove(&head);
                            self.ranges.insert(head, content.summary(head));
                        }
                        Unit::Shard(number) => {
                            self.shards.insert(number, content.digest);
                            self.said.extend(file.map(|file| (number, file)));
                        }
                    }
                }
            }
            Write::Confirm { head, finders } => {
                self.note_finders(Unit::Range(*head), finders);
            }
            Write::FoundOut {
                participant,
                reason,
            } => {
                for (finders, _) in self.finders.values_mut() {
                    finders.remove(participant);
                }
                self.outcasts.insert(*participant, reason.clone());
            }
            Write::Lose { head } => {
                self.forget_shards();
                self.withdrawn.insert(*head);
                self.lost.remove(head);
                self.expected.extend(self.ranges.remove_entry(head));
            }
            Write::Withdraw { heads } => {
                self.forget_shards();
                for head in heads {
                    self.expected.remove(head);
                    self.finders.remove(&Unit::Range(*head));
                    self.withdrawn.insert(*head);
                    self.lost.remove(head);
                    self.ranges.remove(head);
                }
            }
            Write::Publish { .. } => self.published = true,
        }
    }

    fn forget_shards(&mut self) {
        self.shards.clear();
        self.said.clear();
        let is_range = |unit: &Unit| matches!(unit, Unit::Range(_));
        self.finders.retain(|unit, _| is_range(unit));
    }

    /// If the coordinator computed a unit, nobody else has to.
    fn note_finders(&mut self, unit: Unit, finders: &BTreeSet<ParticipantId>) {
        let before = self.finders.get(&unit).map(|(_, needed)| *needed);
        let needed = before.unwrap_or(self.replicas);
        let needed = if finders.is_empty() { 0 } else { needed };
        self.finders.insert(unit, (finders.clone(), needed));
    }

    /// Whether the file of a shard is what is said of it.
    pub(super) fn is_whole(&self, number: u32) -> bool {
        self.files.get(&number) == self.said.get(&number)
    }

    /// What the next coordinator is told.
    pub(super) fn past(&self) -> Past {
        let found = self.finders.iter().map(|(&unit, (finders, needed))| {
            let finders = finders.iter().copied().collect();
            let needed = *needed;
            (unit, Found { finders, needed })
        });
        let outcasts = self.outcasts.iter();
        Past {
            ranges: self.ranges.values().copied().collect(),
            lost: self.expected.values().copied().collect(),
            shards: self
                .shards
                .iter()
                .map(|(&n, &digest)| (n, digest))
                .collect(),
            found: found.collect(),
            outcasts: outcasts
                .map(|(&one, reason)| (one, reason.clone()))
                .collect(),
        }
    }

    /// The power goes: the first of the writes under way have taken effect.
    pub(super) fn crash(&mut self, rng: &mut Rng) {
        let count = rng.below(self.under_way.len() as u64 + 1);
        for write in std::mem::take(&mut self.under_way)
            .iter()
            .take(usize::try_from(count).unwrap())
        {
            self.perform(write);
        }
    }
}
