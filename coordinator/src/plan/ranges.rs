//! What the plan knows of each range, and which layer is open.
//!
//! About 80 bytes a range: 5 MB for the 65,536 ranges of 16 head bits.

use chomp_table::Head;
use chomp_table::head::layers;

use super::messages::{LeaseId, PlanError, Settings, SubmissionId};
use chomp_table::{Digest, RangeSummary};

/// The most bits of a head: a million ranges, 84 MB.
pub const HEAD_BITS_MAX: u32 = 20;

/// Where a range stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nobody works on it. Only ranges of the open layer are offered.
    Waiting,
    /// A worker computes it.
    Leased(LeaseId),
    /// It is being written.
    Committing(SubmissionId),
    /// It is durable.
    Committed,
}

#[derive(Clone, Debug)]
struct Slot {
    /// The content: of a committed range; otherwise the one that is expected, if any is.
    known: Option<(u64, Digest)>,
    state: State,
    /// The attempts lost.
    lost: u32,
}

#[derive(Debug)]
pub(super) struct Ranges {
    /// The heads of each layer, ascending.
    layers: Vec<Vec<Head>>,
    /// For each layer, its ranges that are not committed.
    missing: Vec<usize>,
    /// The lowest layer of which ranges are missing; the number of layers if none are.
    open: usize,
    slots: Vec<Slot>,
    done: u64,
    resumed: u64,
    losing: u64,
}

impl Ranges {
    pub(super) fn new(
        settings: &Settings,
        done: &[RangeSummary],
        expected: &[RangeSummary],
    ) -> Result<Ranges, PlanError> {
        settings.check()?;
        let layers = layers(settings.bits, settings.range_bits);
        let count: usize = layers.iter().map(Vec::len).sum();
        let missing = layers.iter().map(Vec::len).collect();
        let slots = vec![
            Slot {
                known: None,
                state: State::Waiting,
                lost: 0
            };
            count
        ];
        let mut ranges = Ranges {
            layers,
            missing,
            open: 0,
            slots,
            done: 0,
            resumed: 0,
            losing: 0,
        };
        for summary in done {
            if ranges.learn(*summary)? && ranges.state(summary.head) != State::Committed {
                ranges.commit(summary.head);
            }
        }
        for summary in expected {
            ranges.learn(*summary)?;
        }
        ranges.resumed = ranges.done;
        ranges.open_next();
        Ok(ranges)
    }

    /// Takes in what is known of a range; false if it is beyond this table.
    fn learn(&mut self, summary: RangeSummary) -> Result<bool, PlanError> {
        if !self.contains(summary.head) {
            return Ok(false);
        }
        if self.differs(summary) {
            return Err(PlanError::Disagreement { head: summary.head });
        }
        self.claim(summary);
        Ok(true)
    }

    /// Keeps the content of a range as the known one.
    pub(super) fn claim(&mut self, summary: RangeSummary) {
        self.slot_mut(summary.head).known = Some((summary.count, summary.digest));
    }

    /// Whether another content of this range is known.
    pub(super) fn differs(&self, summary: RangeSummary) -> bool {
        self.slot(summary.head)
            .known
            .is_some_and(|known| known != (summary.count, summary.digest))
    }

    /// Notes that a range, whose content is known, is durable.
    pub(super) fn commit(&mut self, head: Head) {
        let slot = self.slot_mut(head);
        let (count, _) = slot
            .known
            .expect("the content is known before it is written");
        slot.state = State::Committed;
        self.missing[head.layer() as usize] -= 1;
        self.done += 1;
        self.losing = self.losing.saturating_add(count);
    }

    /// Moves on to the lowest layer that is not complete; says whether that is another one now.
    pub(super) fn open_next(&mut self) -> bool {
        let before = self.open;
        while self.missing.get(self.open) == Some(&0) {
            self.open += 1;
        }
        self.open != before
    }

    pub(super) fn contains(&self, head: Head) -> bool {
        head.0 < self.count()
    }

    pub(super) fn state(&self, head: Head) -> State {
        self.slot(head).state
    }

    pub(super) fn set_state(&mut self, head: Head, state: State) {
        self.slot_mut(head).state = state;
    }

    /// How many attempts to compute this range were lost.
    pub(super) fn lost(&self, head: Head) -> u32 {
        self.slot(head).lost
    }

    /// Counts one more lost attempt, and gives the number.
    pub(super) fn lose(&mut self, head: Head) -> u32 {
        let lost = &mut self.slot_mut(head).lost;
        *lost = lost.saturating_add(1);
        *lost
    }

    /// The open layer: all below are complete. The number of layers if all are.
    pub(super) fn open(&self) -> u32 {
        as_u32(self.open)
    }

    /// The number of layers.
    pub(super) fn layers(&self) -> u32 {
        as_u32(self.layers.len())
    }

    pub(super) fn is_complete(&self, layer: u32) -> bool {
        self.missing[layer as usize] == 0
    }

    /// The heads of the open layer; none if all are complete.
    pub(super) fn open_heads(&self) -> &[Head] {
        self.layers.get(self.open).map_or(&[], Vec::as_slice)
    }

    /// How many ranges of the open layer are not committed.
    pub(super) fn open_missing(&self) -> usize {
        self.missing.get(self.open).copied().unwrap_or(0)
    }

    /// The ranges of a complete layer, ascending.
    pub(super) fn summaries(&self, layer: u32) -> Vec<RangeSummary> {
        let heads = self.layers[layer as usize].iter();
        let summary = |&head: &Head| {
            let (count, digest) = self.slot(head).known.expect("the layer is complete");
            RangeSummary {
                head,
                count,
                digest,
            }
        };
        heads.map(summary).collect()
    }

    pub(super) fn count(&self) -> u64 {
        self.slots.len() as u64
    }

    pub(super) fn done(&self) -> u64 {
        self.done
    }

    pub(super) fn resumed(&self) -> u64 {
        self.resumed
    }

    pub(super) fn losing(&self) -> u64 {
        self.losing
    }

    fn slot(&self, head: Head) -> &Slot {
        &self.slots[index(head)]
    }

    fn slot_mut(&mut self, head: Head) -> &mut Slot {
        &mut self.slots[index(head)]
    }

    /// Recounts everything that is kept as a number.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let committed = |head: &&Head| self.state(**head) == State::Committed;
        for (heads, &missing) in self.layers.iter().zip(&self.missing) {
            assert_eq!(
                heads.iter().filter(committed).count() + missing,
                heads.len()
            );
        }
        let lowest = self.missing.iter().position(|&missing| missing > 0);
        assert_eq!(self.open, lowest.unwrap_or(self.layers.len()));
        let done: Vec<&Head> = self.layers.iter().flatten().filter(committed).collect();
        assert_eq!(self.done, done.len() as u64);
        assert_eq!(
            self.losing,
            done.iter()
                .map(|&&head| self.slot(head).known.unwrap().0)
                .sum::<u64>()
        );
    }
}

/// Where a head is kept: heads of a table are the numbers from 0.
fn index(head: Head) -> usize {
    usize::try_from(head.0).expect("a head of the table, of at most HEAD_BITS_MAX bits")
}

fn as_u32(layers: usize) -> u32 {
    u32::try_from(layers).expect("at most 211 layers, with HEAD_BITS_MAX head bits")
}
