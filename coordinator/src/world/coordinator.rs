//! A coordinator without a runtime: the desk of a job, whose effects are done when it is told to.

use std::sync::Arc;

use chomp_plan::{Action, Event, LeaseId, Millis, RequestId, Settings, Verdict, WorkerId};
use chomp_store::Journal;
use chomp_store::objects::SimulatedStorage;
use chomp_table::Head;
use chomp_table::shard::ShardSize;
use tokio::sync::oneshot;

use super::watch::Watch;
use crate::effects::{Effect, EffectResult};
use crate::job::{Desk, DeskJob, Reply};
use crate::ready;
use crate::server::{StartError, begin};
use crate::testing::{nobody, range_bits};
use crate::tools::{Tools, WorkerResult};

/// A result on its way, or one that may be sent again.
#[derive(Clone, Debug)]
pub(super) struct TaskResult {
    pub(super) worker: WorkerId,
    pub(super) lease: LeaseId,
    pub(super) result: WorkerResult,
}

/// An answer to a worker.
#[derive(Debug)]
pub(super) enum Heard {
    Answer(WorkerId, Reply),
    /// The verdict on a result of these ranges.
    Settled(Vec<Head>, Verdict),
}

#[derive(Debug)]
pub(super) struct Coordinator {
    pub(super) desk: Desk,
    pub(super) tools: Arc<Tools>,
    pub(super) watch: Watch,
    /// The effects that were begun; they end in any order.
    pub(super) under_way: Vec<Effect>,
    /// Those whose answer has not come.
    pub(super) requests: Vec<(RequestId, WorkerId, oneshot::Receiver<Reply>)>,
    results: Vec<(Vec<Head>, oneshot::Receiver<Verdict>)>,
    request_count: u64,
}

impl Coordinator {
    /// Starts on what is in the storage.
    pub(super) fn start(
        storage: &Arc<SimulatedStorage>,
        settings: Settings,
        random: u64,
    ) -> Result<Coordinator, StartError> {
        let bits = settings.size;
        let opening = Journal::open(storage.clone(), range_bits(), bits, random, 0x7ab1e);
        let journal = Arc::new(ready(opening)?);
        let size = shard_size(&settings);
        let subject = DeskJob {
            participants: nobody(),
            bits,
            replicas: settings.replicas,
        };
        let (plan, first) = begin(settings.clone(), &journal)?;
        let tools = Tools::new(storage.clone(), &journal, bits, size);
        let watch = Watch::new(settings, &journal, &plan);
        let mut coordinator = Coordinator {
            desk: Desk::new(plan, journal, subject),
            tools,
            watch,
            under_way: Vec::new(),
            requests: Vec::new(),
            results: Vec::new(),
            request_count: 0,
        };
        coordinator.desk.told.push((Event::Tick, first.clone()));
        coordinator.desk.perform(Millis(0), first);
        assert!(coordinator.heard().is_empty(), "nobody has asked");
        Ok(coordinator)
    }

    pub(super) fn handle(&mut self, now: u64, event: Event) {
        self.desk.handle(Millis(now), event);
    }

    pub(super) fn want(&mut self, now: u64, worker: WorkerId) {
        self.request_count += 1;
        let (reply, answer) = oneshot::channel();
        let request = RequestId(self.request_count);
        self.requests.push((request, worker, answer));
        self.desk.lease(Millis(now), request, worker, reply);
    }

    pub(super) fn complete(&mut self, now: u64, outcome: TaskResult) {
        let TaskResult {
            worker,
            lease,
            result,
        } = outcome;
        let heads = match &result {
            WorkerResult::Ranges(ranges) => {
                ranges.iter().map(|placed| placed.summary.head).collect()
            }
            WorkerResult::Merged(_) => Vec::new(),
        };
        let (reply, verdict) = oneshot::channel();
        self.results.push((heads, verdict));
        let now = Millis(now);
        self.desk.complete(now, worker, lease, result, reply);
    }

    /// One of the effects under way is done, well or not; tells whether it was a segment of the
    /// journal that was written.
    pub(super) fn end_effect(&mut self, now: u64, index: usize) -> bool {
        let effect = self.under_way.remove(index);
        let done = ready(effect.perform(&self.tools));
        let well = matches!(
            done,
            EffectResult::Appended {
                written: Ok(()),
                ..
            }
        );
        self.desk.end_effect(Millis(now), done);
        well
    }

    /// The plan's events since the last time, and the actions after each.
    pub(super) fn told(&mut self) -> Vec<(Event, Vec<Action>)> {
        std::mem::take(&mut self.desk.told)
    }

    /// The answers to workers since the last time.
    pub(super) fn heard(&mut self) -> Vec<Heard> {
        self.under_way.append(&mut self.desk.effects);
        let mut heard = Vec::new();
        self.requests
            .retain_mut(|(_, worker, answer)| match answer.try_recv() {
                Ok(reply) => {
                    heard.push(Heard::Answer(*worker, reply));
                    false
                }
                Err(oneshot::error::TryRecvError::Empty) => true,
                // Its worker has left.
                Err(oneshot::error::TryRecvError::Closed) => false,
            });
        self.results
            .retain_mut(|(heads, verdict)| match verdict.try_recv() {
                Ok(verdict) => {
                    heard.push(Heard::Settled(std::mem::take(heads), verdict));
                    false
                }
                Err(oneshot::error::TryRecvError::Empty) => true,
                Err(oneshot::error::TryRecvError::Closed) => panic!("a result without a verdict"),
            });
        heard
    }
}

pub(super) fn shard_size(settings: &Settings) -> ShardSize {
    ShardSize {
        shard_words: usize::try_from(settings.shard_words).unwrap(),
        ..ShardSize::PUBLISHED
    }
}
