//! How a world ends.

use std::collections::BTreeSet;

use chomp_plan::{Event, Phase, StopReason, Unit, Work, WorkerId};
use chomp_store::part::PartBuilder;

use super::coordinator::TaskResult;
use super::state::{Perils, World};
use crate::error::JobError;
use crate::server::StartError;
use crate::tools::WorkerResult;

/// The most turns of a job: one that does not end by then never will.
const TURNS_MAX: u32 = 5000;
/// The most starts of a job that gives up.
const STARTS_MAX: u32 = 40;
/// The tasks that may fail in a row before a person ends the program.
const TROUBLES_MAX: u32 = 40;

/// How one start of the program ended.
#[derive(Debug)]
pub(super) enum End {
    Finished,
    Failed(JobError),
    NotStarted(StartError),
}

impl World {
    /// Nothing bad happens any more: the job ends with the right table, whatever lies are in it.
    pub(super) fn calm_down(&mut self) {
        self.perils = Perils::default();
        self.overtaken = None;
        self.storage.crash_at(u64::MAX);
        let is_smaller = self.settings.size < self.last_bits;
        if self.storage.has_crashed() || is_smaller || self.rng.once_in(2) {
            self.crash();
        }
        self.settings.size = self.last_bits;
        // One more, which often is in the publication: there is nobody else any more.
        if self.rng.once_in(3) {
            let call = self.storage.calls() + self.rng.below(400);
            self.harm.troubled = true;
            self.storage.crash_at(call);
            self.run();
            self.crash();
        }
        self.storage.set_fault(None);
        self.storage.set_bytes_max(u64::MAX);
        for _ in 0..STARTS_MAX {
            match self.run() {
                End::Finished => {
                    assert_eq!(self.wrong_ranges(), [], "a wrong table was published");
                    self.check_table();
                    self.count("published");
                    return;
                }
                // The watch has seen that this is allowed.
                End::Failed(JobError::Stopped(
                    StopReason::GaveUp { .. } | StopReason::Lost { .. },
                )) => self.end(),
                End::NotStarted(error) => panic!("{error:?}"),
                End::Failed(error) => panic!("{error:?}"),
            }
        }
        panic!("the job gives up each time");
    }

    /// The program runs once, with few workers, until it ends. If it runs already it goes on.
    pub(super) fn run(&mut self) -> End {
        self.troubles = 0;
        if self.phase() != Some(Phase::Running) {
            self.end();
            if let Err(error) = self.start() {
                return End::NotStarted(error);
            }
        }
        for _ in 0..TURNS_MAX {
            let coordinator = self.coordinator.as_mut().expect("it was started");
            if !coordinator.under_way.is_empty() {
                self.end_effect(0);
                continue;
            }
            match coordinator.desk.plan.phase().clone() {
                Phase::Running => self.work(),
                Phase::Finished => {
                    assert!(coordinator.desk.published.is_some());
                    return End::Finished;
                }
                Phase::Stopped(reason) => {
                    let fault = coordinator.desk.fault.take();
                    return End::Failed(fault.unwrap_or(JobError::Stopped(reason)));
                }
            }
        }
        let progress = self.coordinator.as_ref().map(|it| it.desk.plan.progress());
        panic!("the job does not go on: {progress:?}");
    }

    /// A worker does a task, or asks for one; if none may, somebody joins, or time passes.
    fn work(&mut self) {
        let coordinator = self.coordinator.as_ref().expect("it was started");
        let waits = coordinator.requests.iter().map(|(_, worker, _)| *worker);
        // Who was forgotten learns it when it asks once more.
        let waits = waits.filter(|worker| coordinator.desk.plan.is_there(*worker));
        let waits: BTreeSet<WorkerId> = waits.collect();
        let alive = self.processes.iter().filter(|process| !process.is_dead);
        let participants: BTreeSet<_> = alive.clone().map(|it| it.id.participant).collect();
        let idle = alive.map(|it| it.id).find(|id| !waits.contains(id));
        let mut alive = self.processes.iter_mut().filter(|it| !it.is_dead);
        if let Some((worker, task)) = alive.find_map(|it| Some((it.id, it.tasks.pop()?))) {
            match self.do_task(worker, &task) {
                Ok(outcome) => {
                    self.troubles = 0;
                    self.complete(outcome);
                }
                Err(trouble) => {
                    self.give_up(worker, &task, &trouble);
                    self.troubles += 1;
                    // The storage does not do what it should, and a person sees it.
                    if self.troubles > TROUBLES_MAX {
                        self.tell(Event::Shutdown);
                    }
                }
            }
        } else if participants.len() < self.settings.replicas as usize {
            let id = self.new_participant();
            self.join_as(id, 1);
        } else if let Some(worker) = idle {
            self.want_for(worker);
        } else {
            // All is in the hands of workers that died, or never got the answer.
            let next = coordinator.desk.next_deadline().expect("workers are there");
            self.now = self.now.max(next.0);
            self.tick();
        }
    }

    /// The first content of some range is wrong, and then the right one comes.
    pub(super) fn lie_first(&mut self) {
        let has_harm = !self.harm.lies.is_empty() || self.harm.damaged || self.harm.troubled;
        if has_harm || self.phase() != Some(Phase::Running) {
            return;
        }
        self.perils = Perils::default();
        for id in self.processes.iter().map(|it| it.id).collect::<Vec<_>>() {
            self.tell(Event::Left { worker: id });
        }
        self.processes.clear();
        self.end_effects();
        // One after the other is given the same ranges: the first is too slow.
        let (liar, honest) = (self.new_participant(), self.new_participant());
        let Some(theirs) = self.first_task(liar) else {
            return;
        };
        self.now += self.settings.lease_ms;
        self.tick();
        let Some(ours) = self.first_task(honest) else {
            return;
        };
        let (Work::Evaluate { heads, .. }, true) = (&ours.work, ours.work == theirs.work) else {
            return;
        };
        let unit = Unit::Range(heads[0]);
        self.harm.lies.insert(unit);
        self.harm.liars.insert(liar.participant);
        let mut builder = PartBuilder::default();
        let (summary, record) = self.expected.lie(heads[0]);
        builder.push(*summary, record);
        let lie = TaskResult {
            worker: liar,
            lease: theirs.lease,
            result: WorkerResult::Ranges(builder.finish().1),
        };
        self.join_as(liar, 1);
        self.complete(lie);
        for _ in 0..self.rng.below(3) {
            if self.begun() > 0 {
                self.end_effect(0);
            }
        }
        self.join_as(honest, 1);
        let Ok(truth) = self.do_task(honest, &ours) else {
            return;
        };
        self.complete(truth);
        self.end_effects();
        let plan = &self.coordinator.as_ref().expect("it runs").desk.plan;
        assert!(plan.quarantine_reason(liar).is_some(), "nobody wondered");
        assert_eq!(plan.quarantine_reason(honest), None);
        self.count("lies told first");
    }

    fn end_effects(&mut self) {
        while self.begun() > 0 {
            self.end_effect(0);
        }
    }

    /// The task that a worker gets when it has just joined, if any.
    fn first_task(&mut self, worker: WorkerId) -> Option<chomp_plan::Task> {
        self.join_as(worker, 1);
        self.want_for(worker);
        self.process(worker)?.tasks.pop()
    }
}
