//! A coordinator in memory with a small job, which fails as a script tells it to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use chomp_access::{Access, Token};
use chomp_kernel::{Isa, evaluate_heads};
use chomp_proto::v1::{self, task};
use chomp_store::merge::{Merger, ShardBounds};
use chomp_store::objects::SimulatedStorage;
use chomp_store::part::{PartBuilder, read_record};
use chomp_store::{
    Entry, Finders, Journal, Key, PartName, PlacedRange, ShardSummary, Storage, published,
};
use chomp_table::manifest::folder_name;
use chomp_table::shard::ShardSize;
use chomp_table::{Head, Range, RangeBits, head, range};
use futures_util::FutureExt;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::transport::{BoxError, Connector, Transport};
use crate::{Config, End, ExecutionMode, Report, WorkerError, run_with};

pub(super) const BITS: u32 = 16;
pub(super) const SECRET: &str = "open-sesame";
/// Three shards.
pub(super) const SHARD: ShardSize = ShardSize {
    frame_words: 16,
    shard_words: 100,
};

/// How a call is treated.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// It is answered.
    Go,
    /// It fails before anything is done.
    Fail(Status),
    /// All is done, but the answer gets lost.
    Lose(Status),
    /// It is never answered.
    Hang,
    /// All is done after this delay.
    Slow(Duration),
}

/// The answer that a lying coordinator gives in place of the true one.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lie {
    Job(fn(&mut v1::JoinReply)),
    Task(fn(&mut v1::Task)),
}

type Script = Box<dyn FnMut(&str, &mut State) -> Act + Send>;

/// The coordinator. Clones are the same.
#[derive(Clone)]
pub(super) struct Fake {
    state: Arc<Mutex<State>>,
    script: Arc<Mutex<Script>>,
    pub(super) changed: Arc<Notify>,
}

/// The work of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Leased {
    Ranges(Vec<Head>),
    Shard(u32),
    File(u32),
}

pub(super) struct State {
    pub(super) range_bits: RangeBits,
    pub(super) lease_ms: u64,
    pub(super) task_heads: usize,
    /// The shards that were read once they were written.
    pub(super) read: BTreeSet<u32>,
    /// Those of them whose file has other words than the ranges, as the worker says.
    pub(super) forged: BTreeSet<u32>,
    pub(super) known: BTreeSet<u64>,
    pub(super) storage: Arc<SimulatedStorage>,
    pub(super) journal: Arc<Journal>,
    /// Where the store is said to be.
    pub(super) location: String,
    pub(super) leases: BTreeMap<u64, Leased>,
    pub(super) next_lease: u64,
    /// All calls that came in, and when, in milliseconds since the start.
    pub(super) log: Vec<(u128, String)>,
    pub(super) joins: Vec<v1::JoinRequest>,
    pub(super) renewals: Vec<(u128, v1::RenewRequest)>,
    pub(super) returned: Vec<String>,
    pub(super) reported: Vec<(Head, String)>,
    /// The records that were asked for before all ranges were done, as often as they were.
    pub(super) fetched: Vec<String>,
    pub(super) left: bool,
    pub(super) authorized: bool,
    pub(super) lie: Option<Lie>,
    /// The bytes by which answers about objects overstate their length.
    pub(super) more_bytes: u64,
    pub(super) start: Instant,
}

impl fmt::Debug for Fake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fake")
    }
}

/// The output of a future that waits for nothing, as those of a simulated storage.
pub(super) fn now<T>(future: impl Future<Output = T>) -> T {
    let future = tokio::task::unconstrained(future);
    future.now_or_never().expect("it waits for nothing")
}

/// The entry for ranges in this part, which one participant found.
pub(super) fn done(part: PartName, ranges: Vec<PlacedRange>) -> Entry {
    Entry::Done {
        part,
        replicas: 1,
        finders: Finders::default(),
        ranges,
    }
}

fn begin(table: u64, range_bits: RangeBits) -> (Arc<SimulatedStorage>, Arc<Journal>) {
    let storage = Arc::new(SimulatedStorage::new(0));
    let journal = now(Journal::open(storage.clone(), range_bits, BITS, 1, table)).unwrap();
    (storage, Arc::new(journal))
}

impl State {
    pub(super) fn count(&self, call: &str) -> usize {
        self.log.iter().filter(|(_, name)| name == call).count()
    }

    fn heads(&self) -> u64 {
        self.range_bits.head_count(BITS)
    }

    pub(super) fn is_range_done(&self, head: Head) -> bool {
        self.journal.ledger().range(head).is_some()
    }

    pub(super) fn are_ranges_done(&self) -> bool {
        self.journal.ledger().done(self.heads()).count() as u64 == self.heads()
    }

    fn shards(&self) -> u32 {
        let ledger = self.journal.ledger();
        let stored: u64 = ledger
            .done(self.heads())
            .map(|(_, row, _)| row.stored)
            .sum();
        u32::try_from(stored.div_ceil(SHARD.shard_words as u64)).unwrap()
    }

    pub(super) fn are_shards_done(&self) -> bool {
        let done = self.journal.ledger().shards(BITS).count();
        self.are_ranges_done() && done == self.shards() as usize
    }

    pub(super) fn is_done(&self) -> bool {
        self.are_shards_done() && self.read.len() == self.shards() as usize
    }

    /// Something that is not done and not leased: ranges of the first layer that is not done, or a shard
    /// once all ranges are done, which is read once all are.
    pub(super) fn task(&mut self) -> Option<v1::Task> {
        let leased: Vec<Leased> = self.leases.values().cloned().collect();
        let (leased_as, work) = if self.are_ranges_done() {
            let are_written = self.are_shards_done();
            let ledger = self.journal.ledger();
            let written = ledger.shards(BITS).map(|(summary, _)| summary.number);
            let (kind, done): (fn(u32) -> Leased, BTreeSet<u32>) = if are_written {
                (Leased::File, self.read.clone())
            } else {
                (Leased::Shard, written.collect())
            };
            let is_open = |&shard: &u32| !done.contains(&shard) && !leased.contains(&kind(shard));
            let shard = (0..self.shards()).find(is_open)?;
            let said = |summary: &ShardSummary| v1::Written {
                json: summary.to_json(),
            };
            let written = ledger.shard(BITS, shard).filter(|_| are_written).map(said);
            let (head, skip) = self.start(shard);
            let merge = v1::Merge {
                shard,
                head: head.0,
                skip,
                written,
            };
            (kind(shard), task::Work::Merge(merge))
        } else {
            self.evaluation(&leased)?
        };
        let lease = self.next_lease;
        self.next_lease += 1;
        self.leases.insert(lease, leased_as);
        Some(v1::Task {
            lease,
            attempt: 1,
            journal: self.journal.ledger().next_segment,
            work: Some(work),
        })
    }

    fn evaluation(&self, leased: &[Leased]) -> Option<(Leased, task::Work)> {
        let is_leased = |head: &Head| {
            let holds =
                |leased: &Leased| matches!(leased, Leased::Ranges(heads) if heads.contains(head));
            leased.iter().any(holds)
        };
        let layers = head::layers(BITS, self.range_bits).into_iter().zip(0..);
        let is_open = |head: &Head| !self.is_range_done(*head);
        let (mut heads, layer) = { layers }.find(|(layer, _)| layer.iter().any(is_open))?;
        heads.retain(|head| is_open(head) && !is_leased(head));
        heads.truncate(self.task_heads);
        if heads.is_empty() {
            return None;
        }
        let evaluate = v1::Evaluate {
            layer,
            heads: heads.iter().map(|head| head.0).collect(),
            is_check: false,
        };
        Some((Leased::Ranges(heads), task::Work::Evaluate(evaluate)))
    }

    fn start(&self, shard: u32) -> (Head, u64) {
        let mut skip = u64::from(shard) * SHARD.shard_words as u64;
        for (head, row, _) in self.journal.ledger().done(self.heads()) {
            if skip < row.stored {
                return (head, skip);
            }
            skip -= row.stored;
        }
        (Head(0), 0)
    }

    /// As a coordinator that was started anew: it knows no workers and no leases.
    pub(super) fn restart(&mut self) {
        self.known.clear();
        self.leases.clear();
        self.next_lease = 1_000 * (1 + self.next_lease / 1_000);
    }

    /// Goes on with the same ranges and shards as another table, in another store.
    pub(super) fn move_table(&mut self) {
        self.restart();
        let table = self.journal.ledger().table + 1;
        let (storage, journal) = begin(table, self.range_bits);
        for (key, bytes) in self.storage.objects() {
            if PartName::of(&key).is_some() || key.as_str().starts_with("table-") {
                now(storage.create(&key, bytes)).unwrap();
            }
        }
        for (head, row, _) in self.journal.ledger().done(u64::MAX) {
            let done = done(row.part(), vec![row.placed(head)]);
            now(journal.append(vec![done])).unwrap();
        }
        for (summary, _) in self.journal.ledger().shards(BITS) {
            let (bits, finders) = (BITS, Finders::default());
            let entry = Entry::Shard {
                bits,
                finders,
                summary: summary.clone(),
            };
            now(journal.append(vec![entry])).unwrap();
        }
        (self.storage, self.journal) = (storage, journal);
    }

    /// Has these ranges done before the worker comes, each in a part of its own.
    pub(super) fn add_done(&mut self, are_done: impl Fn(Head) -> bool) {
        for (head, range) in truth(self.range_bits) {
            if !are_done(head) {
                continue;
            }
            let (summary, record) = range::encode(&range, self.range_bits);
            let mut part = PartBuilder::default();
            part.push(summary, &record);
            let (bytes, ranges) = part.finish();
            let part = PartName {
                layer: head.layer(),
                lease: 0xaaaa_0000_0000 + head.0,
            };
            now(self.storage.create(&part.key(), bytes)).unwrap();
            now(self.journal.append(vec![done(part, ranges)])).unwrap();
        }
    }

    /// The part with the record of a range that is done.
    pub(super) fn part(&self, head: Head) -> Key {
        self.journal.ledger().range(head).unwrap().part().key()
    }

    /// Whether the record of a range that is done is in order.
    pub(super) fn is_whole(&self, head: Head) -> bool {
        let row = *self.journal.ledger().range(head).unwrap();
        let record = now(read_record(&*self.storage, head, &row)).ok();
        let range = record.and_then(|record| range::decode(&record, self.range_bits).ok());
        range.is_some_and(|range| {
            let (summary, _) = range::encode(&range, self.range_bits);
            (summary.head, summary.count, summary.stored) == (head, row.count, row.stored)
        })
    }

    /// The last checkpoint.
    pub(super) fn checkpoint(&self) -> u64 {
        let keys = self.storage.objects().into_keys();
        let numbers = keys.filter_map(|key| {
            let number = key.as_str().strip_prefix("work/checkpoints/")?;
            number.parse().ok()
        });
        numbers.max().unwrap_or(0)
    }
}

impl Fake {
    pub(super) fn new(script: impl FnMut(&str, &mut State) -> Act + Send + 'static) -> Fake {
        let range_bits = RangeBits::new(12).unwrap();
        let (storage, journal) = begin(77, range_bits);
        let state = State {
            range_bits,
            lease_ms: 30_000,
            task_heads: 2,
            read: BTreeSet::new(),
            forged: BTreeSet::new(),
            known: BTreeSet::new(),
            storage,
            journal,
            location: String::new(),
            leases: BTreeMap::new(),
            next_lease: 0,
            log: Vec::new(),
            joins: Vec::new(),
            renewals: Vec::new(),
            returned: Vec::new(),
            reported: Vec::new(),
            fetched: Vec::new(),
            left: false,
            authorized: true,
            lie: None,
            more_bytes: 0,
            start: Instant::now(),
        };
        Fake {
            state: Arc::new(Mutex::new(state)),
            script: Arc::new(Mutex::new(Box::new(script))),
            changed: Arc::default(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Logs a call and asks the script how to treat it; waits or fails here if the script says so.
    pub(super) async fn enter(&self, call: &str) -> Result<Act, Status> {
        let act = {
            let mut state = self.state();
            let at = state.start.elapsed().as_millis();
            state.log.push((at, call.to_owned()));
            self.script.lock()(call, &mut state)
        };
        match act {
            Act::Fail(status) => Err(status),
            Act::Hang => std::future::pending().await,
            Act::Slow(time) => {
                sleep(time).await;
                Ok(Act::Go)
            }
            act => Ok(act),
        }
    }

    /// Has a worker join, and waits for its end.
    pub(super) async fn run(&self, config: Config) -> Result<Report, WorkerError> {
        run_with(config, Arc::new(self.clone()), CancellationToken::new()).await
    }

    /// Has a worker do the whole job, right in every record and shard.
    pub(super) async fn is_done_by(&self, config: Config) -> Report {
        let report = self.run(config).await.unwrap();
        assert_eq!(report.end, End::Finished);
        self.assert_done();
        report
    }

    /// Asserts that no record was asked for twice before all ranges were done; returns how many were.
    pub(super) fn assert_fetched_once(&self) -> usize {
        let fetched = &self.state().fetched;
        let once = fetched.iter().collect::<BTreeSet<_>>().len();
        assert_eq!(once, fetched.len(), "{fetched:?}");
        once
    }

    /// Asserts that all is as it would be if the job had been done without any failure.
    pub(super) fn assert_done(&self) {
        let state = self.state();
        assert!(state.authorized, "a call without the token");
        let ledger = state.journal.ledger();
        let ranges = truth(state.range_bits);
        for (head, range) in &ranges {
            let (summary, record) = range::encode(range, state.range_bits);
            let row = ledger.range(*head).expect("it is done");
            assert_eq!(row.summary(*head), summary);
            let (start, length) = (row.offset as usize, row.length as usize);
            let part = &state.storage.objects()[&state.part(*head)];
            assert_eq!(part[start..start + length], record);
        }
        let found: Vec<ShardSummary> = ledger
            .shards(BITS)
            .map(|(summary, _)| summary.clone())
            .collect();
        let expected = (0..state.shards()).map(|shard| {
            let (head, skip) = state.start(shard);
            let words = SHARD.shard_words as u64;
            let span = ShardBounds::new(&ledger, BITS, words, (shard, head, skip)).unwrap();
            let mut filling = Merger::new(BITS, state.range_bits, SHARD, span);
            while let Some(head) = filling.next_head() {
                let (_, record) = range::encode(&ranges[&head], state.range_bits);
                let (range, stored) =
                    range::decode_trusting_stored(&record, state.range_bits).unwrap();
                filling.push(head, &range.losing, stored).unwrap();
            }
            let (summary, bytes) = filling.finish().unwrap();
            let key =
                published::key(&folder_name(BITS), &summary.shard.as_ref().unwrap().name).unwrap();
            assert_eq!(state.storage.objects()[&key], bytes.unwrap());
            summary
        });
        assert_eq!(found, expected.collect::<Vec<_>>());
        assert!(found.len() > 2, "there are several shards");
    }
}

/// The ranges of the whole table.
pub(super) fn truth(range_bits: RangeBits) -> BTreeMap<Head, Range> {
    let heads = head::layers(BITS, range_bits).concat();
    evaluate_heads(heads, range_bits, Isa::Portable)
}

pub(super) fn config(seed: u64) -> Config {
    Config {
        access: Access {
            coordinator: "http://fake".to_owned(),
            ca: None,
            token: Some(Token::new(SECRET.to_owned())),
        },
        name: "tester".to_owned(),
        threads: NonZeroUsize::new(2).unwrap(),
        memory_bytes: 1 << 30,
        isa: Isa::Portable,
        patience: None,
        store: None,
        shard_size: SHARD,
        execution: ExecutionMode::Inline,
        seed: Some(seed),
        drain: CancellationToken::new(),
    }
}

#[tonic::async_trait]
impl Connector for Fake {
    async fn connect(&self) -> Result<Transport, BoxError> {
        self.enter("connect").await?;
        let fake = self.clone();
        let service = tower::service_fn(move |request| {
            let fake = fake.clone();
            async move { fake.handle(request).await }
        });
        Ok(Transport::new(service))
    }
}
