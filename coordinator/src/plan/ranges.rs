//! What the plan knows of each range: where it stands, and whether it may be computed.
//!
//! A range is blocked until all its sources are committed. To find out when that is, a blocked
//! range watches one uncommitted source at a time: when that is committed it looks for another,
//! the one of the highest layer, and without one it is ready. So each range looks at its sources a
//! few times in all.
//!
//! About 112 bytes a range: 7 MB for the 65,536 ranges of 16 head bits.

use chomp_table::head::layers;
use chomp_table::sources::sources;
use chomp_table::{Digest, Head, RangeBits, RangeSummary};

use crate::forecast::Work;

use super::messages::{PlanError, Settings, SubmissionId};

/// What is in a range: the number of its losing positions, and the digest.
pub(super) type Content = (u64, Digest);

/// The most bits of a head: a million ranges, 117 MB.
pub const HEAD_BITS_MAX: u32 = 20;

/// Where a range stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Some of its sources are not committed.
    Blocked,
    /// It may be computed.
    Ready,
    /// It is being written.
    Committing(SubmissionId),
    /// It is durable.
    Committed,
}

/// How an attempt is lost, as far as its range is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    Expired,
    Failed,
}

#[derive(Clone, Debug)]
struct Slot {
    /// The content: of a committed range; otherwise the one that is expected, if any is.
    known: Option<Content>,
    state: State,
    expiries: u32,
    failures: u32,
    /// The blocked ranges that watch this one.
    watchers: Vec<Head>,
}

#[derive(Debug)]
pub(super) struct Ranges {
    range_bits: RangeBits,
    /// The heads of each layer, ascending.
    layers: Vec<Vec<Head>>,
    /// For each layer, its ranges that are not committed.
    missing: Vec<usize>,
    /// The same when the plan was made.
    missing_at_start: Vec<usize>,
    /// The lowest layer of which ranges are missing; the number of layers if none are.
    open: usize,
    slots: Vec<Slot>,
    done: u64,
    resumed: u64,
    losing: u64,
    work: Work,
    work_total: u64,
    work_done: u64,
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
        let missing: Vec<usize> = layers.iter().map(Vec::len).collect();
        let work = Work::new(settings.bits, settings.range_bits);
        let of_layers = work.ranges.iter().zip(&missing);
        let work_total = of_layers.map(|(each, &count)| each * count as u64).sum();
        let slot = Slot {
            known: None,
            state: State::Blocked,
            expiries: 0,
            failures: 0,
            watchers: Vec::new(),
        };
        let mut ranges = Ranges {
            range_bits: settings.range_bits,
            layers,
            missing_at_start: Vec::new(),
            missing,
            open: 0,
            slots: vec![slot; count],
            done: 0,
            resumed: 0,
            losing: 0,
            work,
            work_total,
            work_done: 0,
        };
        for summary in done {
            if ranges.learn(*summary)? && ranges.state(summary.head) != State::Committed {
                ranges.count_committed(summary.head);
            }
        }
        for summary in expected {
            ranges.learn(*summary)?;
        }
        ranges.resumed = ranges.done;
        ranges.missing_at_start.clone_from(&ranges.missing);
        for head in (0..count as u64).map(Head) {
            ranges.unblock(head);
        }
        Ok(ranges)
    }

    /// The ranges of a job of which nothing is left to do and nothing needs to be known.
    pub(super) fn all_done(settings: &Settings, losing: u64) -> Result<Ranges, PlanError> {
        let mut ranges = Ranges::new(settings, &[], &[])?;
        for slot in &mut ranges.slots {
            slot.state = State::Committed;
            slot.watchers = Vec::new();
        }
        ranges.missing.fill(0);
        ranges.open = ranges.layers.len();
        (ranges.done, ranges.resumed) = (ranges.count(), ranges.count());
        ranges.work_done = ranges.work_total;
        ranges.losing = losing;
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
        self.slot_mut(summary.head).known = Some(content(summary));
    }

    /// The content of the range, as far as it is known.
    pub(super) fn known(&self, head: Head) -> Option<Content> {
        self.slot(head).known
    }

    /// Whether another content of this range is known.
    pub(super) fn differs(&self, summary: RangeSummary) -> bool {
        self.known(summary.head)
            .is_some_and(|known| known != content(summary))
    }

    /// Notes that a range, whose content is known, is durable. Gives the ranges that are ready now.
    pub(super) fn commit(&mut self, head: Head) -> Vec<Head> {
        self.count_committed(head);
        let mut ready = std::mem::take(&mut self.slot_mut(head).watchers);
        ready.retain(|&watcher| self.unblock(watcher));
        ready
    }

    fn count_committed(&mut self, head: Head) {
        let slot = self.slot_mut(head);
        let (count, _) = slot
            .known
            .expect("the content is known before it is written");
        slot.state = State::Committed;
        let layer = head.layer() as usize;
        self.missing[layer] -= 1;
        self.work_done += self.work.ranges[layer];
        self.done += 1;
        self.losing = self.losing.saturating_add(count);
        while self.missing.get(self.open) == Some(&0) {
            self.open += 1;
        }
    }

    /// Makes a blocked range ready, or has it watch another source; says which.
    fn unblock(&mut self, head: Head) -> bool {
        if self.state(head) != State::Blocked {
            return false;
        }
        // Nothing is ready before half the head is committed, and that is quickly asked.
        let half = Head(head.0 / 2);
        let blocker = if !head.is_empty() && self.state(half) != State::Committed {
            Some(half)
        } else {
            let sources = sources(head, self.range_bits).into_iter();
            let missing = sources.filter(|&source| self.state(source) != State::Committed);
            missing.max_by_key(|source| source.layer())
        };
        match blocker {
            Some(blocker) => self.slot_mut(blocker).watchers.push(head),
            None => self.set_state(head, State::Ready),
        }
        blocker.is_none()
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
        let slot = self.slot(head);
        slot.expiries.saturating_add(slot.failures)
    }

    /// Counts one more lost attempt, and gives the number of those lost in the same way.
    pub(super) fn lose(&mut self, head: Head, how: Lost) -> u32 {
        let slot = self.slot_mut(head);
        let count = match how {
            Lost::Expired => &mut slot.expiries,
            Lost::Failed => &mut slot.failures,
        };
        *count = count.saturating_add(1);
        *count
    }

    /// Whether all sources of the range are committed.
    pub(super) fn is_ready(&self, head: Head) -> bool {
        let mut sources = sources(head, self.range_bits).into_iter();
        sources.all(|source| self.state(source) == State::Committed)
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

    /// How many ranges of the layer were missing when the plan was made.
    pub(super) fn missing_at_start(&self, layer: u32) -> usize {
        self.missing_at_start[layer as usize]
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

    /// For each layer, how many ranges it has, and how many of them are committed.
    pub(super) fn of_layers(&self) -> impl Iterator<Item = (u64, u64)> {
        let layers = self.layers.iter().zip(&self.missing);
        layers.map(|(heads, &missing)| (heads.len() as u64, (heads.len() - missing) as u64))
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

    /// The work of all ranges, of those that are committed, and of the publication.
    pub(super) fn work(&self) -> (u64, u64, u64) {
        (self.work_total, self.work_done, self.work.publication)
    }

    fn slot(&self, head: Head) -> &Slot {
        &self.slots[index(head)]
    }

    fn slot_mut(&mut self, head: Head) -> &mut Slot {
        &mut self.slots[index(head)]
    }

    /// Recounts everything that is kept more than once.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let mut watching = self
            .slots
            .iter()
            .flat_map(|slot| &slot.watchers)
            .collect::<Vec<_>>();
        watching.sort_unstable();
        let heads = || (0..self.count()).map(Head);
        let blocked = heads().filter(|&head| self.state(head) == State::Blocked);
        assert!(
            watching.into_iter().copied().eq(blocked),
            "each watches one"
        );
        for head in heads() {
            let ready = self.is_ready(head);
            let state = self.state(head);
            // What is on disk may be there without its sources: somebody removed them.
            assert!(ready || matches!(state, State::Blocked | State::Committed));
            assert!(
                !ready || state != State::Blocked,
                "{head} could be computed"
            );
        }
        let committed = |head: &&Head| self.state(**head) == State::Committed;
        for (heads, &missing) in self.layers.iter().zip(&self.missing) {
            assert_eq!(
                heads.iter().filter(committed).count() + missing,
                heads.len()
            );
        }
        let lowest = self.missing.iter().position(|&missing| missing > 0);
        assert_eq!(self.open, lowest.unwrap_or(self.layers.len()));
        let work_of = |head: &Head| self.work.ranges[head.layer() as usize];
        let work = self.layers.iter().flatten().filter(committed).map(work_of);
        assert_eq!(self.work_done, work.sum::<u64>());
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

/// The content that a summary tells.
pub(super) fn content(summary: RangeSummary) -> Content {
    (summary.count, summary.digest)
}

/// Where a head is kept: heads of a table are the numbers from 0.
fn index(head: Head) -> usize {
    usize::try_from(head.0).expect("a head of the table, of at most HEAD_BITS_MAX bits")
}

fn as_u32(layers: usize) -> u32 {
    u32::try_from(layers).expect("at most 211 layers, with HEAD_BITS_MAX head bits")
}
