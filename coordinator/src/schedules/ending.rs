//! How a world ends.

use chomp_plan::{Event, Phase};

use super::world::{Perils, World};
use crate::error::JobError;
use crate::server::StartError;

/// So many turns are enough for a job: one that does not end by then never will.
const TURNS_MAX: u32 = 5000;

/// After so many tasks in a row that could not be done a person ends the program.
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
        self.perils = Perils {
            lies: false,
            damage: false,
            chaos: false,
        };
        self.overtaken = None;
        self.bits = self.last_bits;
        // A crash that was to come comes now.
        if self.rng.once_in(2) {
            self.storage.crash_at(self.storage.calls());
        }
        self.crash();
        // One more, which often is in the publication: there is nobody else any more.
        if self.rng.once_in(3) {
            let call = self.storage.calls() + self.rng.below(400);
            self.storage.crash_at(call);
            self.run();
            self.crash();
        }
        match self.run() {
            End::Finished => {
                assert!(
                    !self.is_poisoned(),
                    "a table with a wrong content was published"
                );
                self.check_table();
                self.seen.published += 1;
            }
            End::NotStarted(error) => panic!("{error:?}"),
            End::Failed(error) => panic!("{error:?}"),
        }
    }

    /// The program runs once, with one worker at a time, until it ends.
    pub(super) fn run(&mut self) -> End {
        self.end();
        self.troubles = 0;
        if let Err(error) = self.start() {
            return End::NotStarted(error);
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
        let coordinator = self.coordinator.as_ref().expect("it was started");
        panic!(
            "the job does not go on: {:?}",
            coordinator.desk.plan.progress()
        );
    }

    /// A worker does a task.
    fn work(&mut self) {
        if let Some(held) = self.tasks.pop() {
            match self.do_task(&held) {
                Ok(outcome) => {
                    self.troubles = 0;
                    self.complete(outcome);
                }
                Err(trouble) => {
                    self.give_up(&held, &trouble);
                    self.troubles += 1;
                    // The storage does not do what it should, and a person sees it.
                    if self.troubles > TROUBLES_MAX {
                        self.tell(Event::Shutdown);
                    }
                }
            }
        } else {
            // The task that got lost on its way, if any, is free again then.
            self.now += 1000;
            self.tell(Event::Tick);
            self.want();
        }
    }
}
