//! Workers in their nodes, each in a place of the network.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chomp_access::{Access, Token};
use chomp_kernel::Isa;
use chomp_worker::{Config, End, ExecutionMode, Report, StoreChoice, WorkerError, run_with};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::histories::node::Node;
use crate::histories::store::{Health, Patient, View};
use crate::histories::wire::{Packet, StreamId, WorkerEnd};
use crate::histories::world::{World, shard_size};

/// The most calls that a worker makes in a second in which no result of it is of use, but for those that read objects.
const CALLS_WITHOUT_USE_MAX: u32 = 50;

/// A place for workers.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    /// The faults of the way from here to the store.
    pub(crate) health: Arc<Mutex<Health>>,
    pub(crate) worker: Option<Worker>,
    pub(crate) finished: bool,
    calls: RecentCalls,
}

/// The calls of a worker in one second, since a result of it was last of use.
#[derive(Debug, Default)]
struct RecentCalls {
    second: u64,
    count: u32,
}

/// A worker in its node.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) node: Node,
    number: u64,
    run: JoinHandle<Result<Report, WorkerError>>,
    /// Packets that came while it was paused.
    inbox: Vec<Packet>,
}

impl Worker {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

impl World {
    pub(crate) fn step_workers(&mut self) {
        let now = self.history.now;
        for slot in &mut self.slots {
            let Some(worker) = slot.worker.as_mut().filter(|worker| !worker.node.paused) else {
                continue;
            };
            for packet in worker.inbox.drain(..) {
                self.wire.deliver_down(packet.stream, packet.payload);
            }
            worker.node.step(now);
            if worker.run.is_finished() {
                let report = worker.node.runtime().block_on(&mut worker.run);
                let report = report.expect("a worker does not panic");
                let report = report.unwrap_or_else(|error| panic!("a worker gave up: {error:?}"));
                assert_eq!(report.end, End::Finished, "nobody told it to stop");
                let number = worker.number;
                self.history.log(format_args!("worker {number} finished"));
                self.wire.silence(number);
                slot.finished = true;
                slot.worker = None;
            }
        }
    }

    /// A worker makes a call. One that gets nowhere makes few.
    pub(crate) fn count_call(&mut self, stream: StreamId) {
        let second = self.history.now / 1000;
        if let Some(RecentCalls { second: of, count }) = self.calls_on(stream) {
            if *of != second {
                (*of, *count) = (second, 0);
            }
            *count += 1;
            assert!(
                *count <= CALLS_WITHOUT_USE_MAX,
                "{count} calls in a second without a result of use"
            );
        }
    }

    /// A result of a worker was of use.
    pub(crate) fn forget_calls(&mut self, stream: StreamId) {
        if let Some(calls) = self.calls_on(stream) {
            calls.count = 0;
        }
    }

    fn calls_on(&mut self, stream: StreamId) -> Option<&mut RecentCalls> {
        let of = self.wire.worker_of(stream)?;
        let is_its = |slot: &&mut Slot| slot.worker.as_ref().is_some_and(|it| it.number == of);
        self.slots
            .iter_mut()
            .find(is_its)
            .map(|slot| &mut slot.calls)
    }

    /// Gives a packet to the worker that waits for it; a pause holds up all of its node.
    pub(crate) fn deliver_down(&mut self, packet: Packet) {
        let of = self.wire.worker_of(packet.stream);
        let slots = self.slots.iter_mut();
        let mut workers = slots.filter_map(|slot| slot.worker.as_mut());
        match workers.find(|worker| worker.node.paused && Some(worker.number) == of) {
            Some(worker) => worker.inbox.push(packet),
            None => self.wire.deliver_down(packet.stream, packet.payload),
        }
    }

    pub(crate) fn start_worker(&mut self, slot: usize) {
        let number = self.number();
        let rate = self.history.rng.u64(900..=1100);
        let node = Node::new(self.history.now, rate);
        let (way, store) = if self.history.rng.bool() {
            let health = Arc::clone(&self.slots[slot].health);
            let (store, slowest) = (self.store.clone(), self.plot.slowest);
            let view = View::new(store, slowest, health, self.history.rng.u64(..));
            ("directly", StoreChoice::Shared(Arc::new(Patient(view))))
        } else {
            ("through the coordinator", StoreChoice::Coordinator)
        };
        let config = Config {
            access: Access {
                coordinator: "http://coordinator".to_owned(),
                ca: None,
                token: Some(Token::new(number.to_string())),
            },
            name: format!("worker {number}"),
            threads: NonZeroUsize::new(self.history.one_of(&[1, 2])).unwrap(),
            memory_bytes: 1 << 30,
            isa: Isa::detect(),
            patience: Some(Duration::from_hours(1)),
            execution: ExecutionMode::Inline,
            seed: Some(self.history.rng.u64(..)),
            store: Some(store),
            shard_size: shard_size(),
            drain: CancellationToken::new(),
        };
        let end = WorkerEnd {
            wire: self.wire.clone(),
            slot,
            number,
        };
        self.history.log(format_args!(
            "worker {number} starts in {slot}, {rate}, {way}"
        ));
        let run = run_with(config, Arc::new(end), CancellationToken::new());
        let run = node.runtime().spawn(run);
        self.slots[slot].worker = Some(Worker {
            node,
            number,
            run,
            inbox: Vec::new(),
        });
    }

    /// The worker in a place dies. Unless it is `loud`, nobody hears of it.
    pub(crate) fn kill_worker(&mut self, slot: usize, loud: bool) {
        if let Some(worker) = self.slots[slot].worker.take() {
            // The messages of its tasks would depend on the order in which they end.
            self.wire.silence(worker.number);
            let what = format_args!("{} told {loud}", worker.number);
            self.count("crashed workers", what);
            if loud {
                self.break_streams(Some(slot), None);
            }
        }
    }
}
