//! The contents of the ranges in the store. Only wrong ones are kept: all others are right.

use std::collections::{BTreeMap, BTreeSet};

use chomp_plan::{AgreedUnit, SubmissionId, Unit};
use chomp_table::rng::mix;
use chomp_table::sources::sources;
use chomp_table::{Digest, Head, RangeBits};

/// The digest of what is right.
const RIGHT: Digest = Digest([0; 32]);

#[derive(Debug, Default)]
pub(crate) struct Store {
    /// The committed ranges that are wrong.
    wrong: BTreeSet<Head>,
    /// The wrong ranges of results, whether they are committed or not.
    handed_in: BTreeMap<SubmissionId, BTreeSet<Head>>,
}

impl Store {
    /// The digest of a result for a range: true to the sources in the store, or a lie about them.
    pub(crate) fn tell(
        &mut self,
        submission: SubmissionId,
        head: Head,
        range_bits: RangeBits,
        is_lie: bool,
    ) -> Digest {
        let mut digest = RIGHT;
        if !self.wrong.is_empty() {
            let mut wrong = sources(head, range_bits);
            wrong.retain(|source| self.wrong.contains(source));
            let sum = wrong.iter().fold(0, |sum, head| mix(sum ^ head.0) | 1);
            digest.0[..8].copy_from_slice(&u64::to_le_bytes(sum));
        }
        digest.0[31] ^= u8::from(is_lie);
        if digest != RIGHT {
            self.handed_in.entry(submission).or_default().insert(head);
        }
        digest
    }

    pub(crate) fn commit(&mut self, submission: SubmissionId, units: &[AgreedUnit]) {
        let wrong = self.handed_in.get(&submission);
        for unit in units {
            match unit.unit {
                Unit::Range(head) if wrong.is_some_and(|wrong| wrong.contains(&head)) => {
                    self.wrong.insert(head);
                }
                Unit::Range(head) => {
                    self.wrong.remove(&head);
                }
                Unit::Shard(_) => {}
            }
        }
    }

    pub(crate) fn withdraw(&mut self, heads: &[Head]) {
        for head in heads {
            self.wrong.remove(head);
        }
    }

    pub(crate) fn is_wrong(&self) -> bool {
        !self.wrong.is_empty()
    }
}
