//! How a world ends.

use super::expected::{Objects, published_objects, range_bits};
use super::world::{Outcome, Perils, World, store_error};
use crate::job::JobError;
use crate::plan::{Event, Phase, RequestId, StopReason, WorkerId};
use crate::publish::PublishError;
use crate::server::StartError;
use crate::storage::Key;
use crate::store::StoreError;

/// How often a person starts a job again: for each damaged object, and a few times more.
const STARTS_MAX: u32 = 60;

/// How one start of the program ended.
#[derive(Debug)]
pub(super) enum End {
    Finished,
    Failed(JobError),
    NotStarted(StartError),
}

impl World {
    /// Nothing bad happens any more: the job ends with the right table, or for the lie that is in it.
    pub(super) fn calm_down(&mut self) {
        self.perils = Perils {
            lies: false,
            damage: false,
            chaos: false,
        };
        self.overtaken = None;
        self.bits = self.last_bits;
        // A crash that was to come comes now.
        if self.chance.once_in(2) {
            self.storage.crash_at(self.storage.calls());
        }
        self.crash();
        // One more, which often is in the publication: there is nobody else any more.
        if self.chance.once_in(3) {
            let call = self.storage.calls() + self.chance.below(120);
            self.storage.crash_at(call);
            self.run();
            self.crash();
        }
        for _ in 0..STARTS_MAX {
            match self.run() {
                End::Finished => {
                    assert!(!self.poisoned, "a table with a wrong content was published");
                    self.check_table();
                    self.seen.published += 1;
                    return;
                }
                End::NotStarted(StartError::Store(error)) if self.repair(&error) => {}
                End::Failed(error) if store_error(&error).is_some_and(|it| self.repair(it)) => {}
                End::NotStarted(error) => {
                    let disagrees =
                        matches!(error, StartError::Store(StoreError::Disagrees { .. }));
                    assert!(self.lied && disagrees, "{error:?}");
                    self.poisoned = true;
                    break;
                }
                End::Failed(error) => {
                    let found = matches!(
                        error,
                        JobError::Publish(PublishError::Asymmetric { .. })
                            | JobError::Stopped(StopReason::Wrong { .. })
                    );
                    assert!(self.poisoned && found, "{error:?}");
                    break;
                }
            }
        }
        assert!(self.poisoned, "the job does not end");
        self.seen.poisoned += 1;
        let manifest = self.expected.published(self.bits).keys();
        let manifest = manifest.filter(|key| key.as_str().ends_with("manifest.json"));
        let is_published = manifest
            .clone()
            .any(|key| self.storage.objects().contains_key(key));
        assert!(!is_published || self.damaged, "a lie was published");
    }

    /// The program runs once, with one worker, until it ends.
    pub(super) fn run(&mut self) -> End {
        self.end();
        if let Err(error) = self.start() {
            return End::NotStarted(error);
        }
        loop {
            let coordinator = self.coordinator.as_mut().expect("it was started");
            if !coordinator.under_way.is_empty() {
                self.write(0);
                continue;
            }
            match coordinator.plan.phase().clone() {
                Phase::Running => self.work(),
                Phase::Finished => {
                    assert!(coordinator.manifest.is_some());
                    return End::Finished;
                }
                Phase::Stopped(reason) => {
                    let fault = coordinator.fault.take();
                    return End::Failed(fault.unwrap_or(JobError::Stopped(reason)));
                }
            }
        }
    }

    /// The worker does a task.
    fn work(&mut self) {
        if let Some((worker, task)) = self.tasks.pop() {
            self.fetch(&task.heads);
            let records = task
                .heads
                .iter()
                .map(|&head| self.expected.record(head).clone());
            let records = records.collect();
            self.submit(Outcome {
                worker,
                lease: task.lease,
                records,
            });
        } else {
            // The task that got lost on its way, if any, is free again then.
            self.now += 1000;
            self.tell(Event::Tick);
            let id = self.new_id();
            let worker = WorkerId(id);
            self.join(worker);
            self.tell(Event::Wanted {
                request: RequestId(id),
                worker,
            });
        }
    }

    /// The table is the one of an undisturbed run.
    pub(super) fn check_table(&self) {
        let objects = self.storage.objects();
        let mut published: Objects = published_objects(&objects, self.bits);
        let right = self.expected.published(self.bits);
        if self.lied {
            // An attempt at a larger, wrong table may have left a shard beyond the last one.
            published.retain(|key, _| right.contains_key(key));
        }
        assert!(
            published == *right,
            "the published table is not the right one"
        );
        let coordinator = self.coordinator.as_ref().expect("it has just finished");
        let progress = coordinator.plan.progress();
        assert_eq!(progress.ranges_done, range_bits().heads(self.bits));
        assert_eq!(self.checkpoints(), [], "nothing is left to go on with");
        let seals = Key::new(&format!("work/seals/{:02}", self.bits)).unwrap();
        let seals = objects.keys().filter(|key| key.is_in(&seals)).count();
        assert_eq!(seals, progress.layers as usize);
    }
}
