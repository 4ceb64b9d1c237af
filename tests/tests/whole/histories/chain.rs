//! The journal as it is in the store, read behind everybody's back.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use chomp_store::objects::{Key, SimulatedStorage};
use chomp_store::{Follower, Ledger, ShardSummary};
use chomp_table::{Digest, Head};

/// Something that is known when it is in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fact {
    /// A range has the record with this digest.
    Range(Head, Digest),
    /// A shard has the summary with this digest.
    Shard(u32, Digest),
}

impl Fact {
    pub(crate) fn of_shard(merged: &ShardSummary) -> Fact {
        Fact::Shard(merged.number, merged.words_digest())
    }
}

/// The facts in the segments of the journal that were read.
#[derive(Debug)]
pub(crate) struct Chain {
    bits: u32,
    /// The segments alone, whose reading nobody notices.
    copy: Arc<SimulatedStorage>,
    follower: Option<Follower>,
    now: BTreeSet<Fact>,
    ever: BTreeSet<Fact>,
    /// How many ranges were withdrawn.
    pub(crate) withdrawn: u64,
}

impl Chain {
    pub(crate) fn new(bits: u32) -> Chain {
        Chain {
            bits,
            copy: Arc::new(SimulatedStorage::new(0)),
            follower: None,
            now: BTreeSet::new(),
            ever: BTreeSet::new(),
            withdrawn: 0,
        }
    }

    /// The state that the journal adds up to, once a segment was read.
    pub(crate) fn ledger(&self) -> Option<&Ledger> {
        self.follower.as_ref().map(Follower::ledger)
    }

    /// The number of the next segment.
    pub(crate) fn next(&self) -> u64 {
        self.ledger().map_or(0, |ledger| ledger.next_segment)
    }

    /// Reads on to the end. All segments must follow from each other.
    pub(crate) fn read(&mut self, objects: &BTreeMap<Key, bytes::Bytes>) {
        loop {
            let next = self.next();
            let key = Key::new(&format!("work/journal/{next:010}")).expect("a key");
            let Some(bytes) = objects.get(&key) else {
                break;
            };
            self.copy.overwrite(&key, bytes.clone());
            let read = match &mut self.follower {
                None => at_once(Follower::open(self.copy.clone(), None))
                    .map(|follower| self.follower = Some(follower)),
                Some(follower) => at_once(follower.catch_up(next + 1)),
            };
            read.expect("a segment follows from the one before");
            self.take();
        }
        let is_segment = |key: &&Key| key.as_str().starts_with("work/journal/");
        let segments = objects.keys().filter(is_segment).count() as u64;
        assert_eq!(segments, self.next(), "segments without those before");
    }

    fn take(&mut self) {
        let ledger = self.follower.as_ref().map(Follower::ledger);
        let ledger = ledger.expect("a segment was read");
        let ranges = ledger.done(u64::MAX);
        let ranges = ranges.map(|(head, row, _)| Fact::Range(head, row.digest));
        let shards = ledger
            .shards(self.bits)
            .map(|(shard, _)| Fact::of_shard(shard));
        let now = ranges.chain(shards).collect();
        let gone = self.now.difference(&now);
        let gone = gone.filter(|fact| matches!(fact, Fact::Range(..)));
        self.withdrawn += gone.count() as u64;
        self.ever.extend(&now);
        self.now = now;
    }

    /// The facts that hold.
    pub(crate) fn now(&self) -> &BTreeSet<Fact> {
        &self.now
    }

    /// Whether a segment says so, whatever the later ones say.
    pub(crate) fn knows(&self, fact: &Fact) -> bool {
        self.ever.contains(fact)
    }
}

/// The result of a future that never waits, as those of a simulated storage.
pub(crate) fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("a simulated storage answers at once"),
    }
}
