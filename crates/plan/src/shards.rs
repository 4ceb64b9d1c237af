//! The shards: how the table is cut into files when all its ranges are committed.

use chomp_table::Head;

use super::ranges::RangeStates;
use super::slots::{Slot, UnitState};

#[derive(Clone, Copy, Debug)]
struct ShardState {
    slot: Slot,
    /// The range in which it begins.
    head: Head,
    /// The stored words of that range that come before.
    skip: u64,
    /// How often its file was found to be something else than was said.
    losses: u32,
}

impl ShardState {
    fn new(head: Head, skip: u64) -> ShardState {
        ShardState {
            slot: Slot::new(UnitState::Ready),
            head,
            skip,
            losses: 0,
        }
    }
}

/// The shards of the table; none before it is cut.
#[derive(Debug, Default)]
pub(super) struct ShardStates {
    all: Vec<ShardState>,
    /// Those that are committed.
    pub(super) done: u64,
    /// How often they were forgotten: what was begun before that is of no more use.
    pub(super) generation: u32,
}

impl ShardStates {
    /// Cuts the table, of which all ranges are committed. Each shard has `words` stored words, in the order of ranges,
    /// and the last shard has the rest; there is at least one.
    pub(super) fn cut(&mut self, ranges: &RangeStates, stored: impl Fn(Head) -> u64, words: u64) {
        self.done = 0;
        let words = words.max(1);
        self.all = vec![ShardState::new(Head(0), 0)];
        let (mut before, mut next) = (0u64, words);
        for head in (0..ranges.count()).map(Head) {
            let after = before.saturating_add(stored(head));
            while next < after {
                let skip = next - before;
                self.all.push(ShardState::new(head, skip));
                next = next.saturating_add(words);
            }
            before = after;
        }
    }

    /// Forgets all shards.
    pub(super) fn clear(&mut self) {
        self.all.clear();
        self.done = 0;
        self.generation += 1;
    }

    pub(super) fn is_cut(&self) -> bool {
        !self.all.is_empty()
    }

    /// Whether all shards are there and committed.
    pub(super) fn is_complete(&self) -> bool {
        self.is_cut() && self.done == self.count()
    }

    pub(super) fn count(&self) -> u64 {
        self.all.len() as u64
    }

    pub(super) fn numbers(&self) -> impl DoubleEndedIterator<Item = u32> + use<> {
        0..u32::try_from(self.all.len()).expect("a shard has 4,194,304 words, a table at most 2^51")
    }

    pub(super) fn contains(&self, number: u32) -> bool {
        (number as usize) < self.all.len()
    }

    /// Where a shard begins: the range, and the stored words of it that come before.
    pub(super) fn start(&self, number: u32) -> (Head, u64) {
        let shard = &self.all[number as usize];
        (shard.head, shard.skip)
    }

    /// Counts that the file of a shard is something else than was said. Returns how often it was.
    pub(super) fn count_loss(&mut self, number: u32) -> u32 {
        let losses = &mut self.all[number as usize].losses;
        *losses += 1;
        *losses
    }

    pub(super) fn slot(&self, number: u32) -> &Slot {
        &self.all[number as usize].slot
    }

    pub(super) fn slot_mut(&mut self, number: u32) -> &mut Slot {
        &mut self.all[number as usize].slot
    }

    /// Notes that a shard is durable.
    pub(super) fn commit(&mut self, number: u32) {
        self.slot_mut(number).state = UnitState::Committed;
        self.done += 1;
    }

    /// Notes that the content of a shard is wrong, if it is durable.
    pub(super) fn reopen(&mut self, number: u32) {
        let state = &mut self.slot_mut(number).state;
        if *state == UnitState::Committed {
            *state = UnitState::Ready;
            self.done -= 1;
        }
    }

    #[cfg(any(test, feature = "testing"))]
    pub(super) fn check(&self) {
        let is_done = |shard: &&ShardState| shard.slot.state == UnitState::Committed;
        assert_eq!(self.done, self.all.iter().filter(is_done).count() as u64);
        assert!(
            self.all
                .iter()
                .all(|shard| shard.slot.state != UnitState::Blocked)
        );
    }
}
