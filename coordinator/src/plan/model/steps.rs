//! What may happen in the world.

use super::world::{Outcome, Process, Submission, World};
use crate::plan::tests::{summary, wrong};
use crate::plan::{Event, LeaseId, Phase, RequestId, SubmissionId, Task, WorkerId};

/// The right result of a task.
pub(super) fn outcome(worker: WorkerId, task: &Task) -> Outcome {
    let ranges = task.heads.iter().map(|head| summary(head.0)).collect();
    Outcome {
        worker,
        lease: task.lease,
        ranges,
    }
}

impl World {
    /// Something happens.
    pub(super) fn step(&mut self) {
        if self.plan.phase() != &Phase::Running && self.chance.once_in(4) {
            self.end_and_restart();
            return;
        }
        match self.chance.below(40) {
            0..=2 => self.join(),
            3..=10 => self.want(),
            11..=18 => self.hand_in(),
            19..=24 => self.end_write(),
            25 => {
                let fails = self.chance.once_in(10);
                self.evaluated(fails);
            }
            26 => self.time_passes(),
            27 => self.renew(),
            28 => self.give_back(),
            29 => self.fail(),
            30 => self.withdraw(),
            31 => self.notice_lost_answer(),
            32..=33 => self.send_again(),
            34 => self.leave(),
            35 => self.die(),
            36 => self.send_rubbish(),
            37 if self.chance.once_in(3) => self.restart(),
            38 => self.lie(),
            39 if self.chance.once_in(6) => match self.chance.index(self.disk.under_way.len()) {
                Some(index) => self.write_fails(index),
                None => self.tell(Event::Shutdown),
            },
            _ => {}
        }
    }

    fn any_process(&mut self) -> Option<usize> {
        let index = self.chance.index(self.processes.len())?;
        (!self.processes[index].dead).then_some(index)
    }

    /// Some task that a worker is at, taken from it if `take`.
    fn any_task(&mut self, take: bool) -> Option<(WorkerId, Task)> {
        let index = self.any_process()?;
        let task = self.chance.index(self.processes[index].tasks.len())?;
        let process = &mut self.processes[index];
        let chosen = if take {
            process.tasks.swap_remove(task)
        } else {
            process.tasks[task].clone()
        };
        Some((process.id, chosen))
    }

    fn join(&mut self) {
        let threads = u32::try_from(self.chance.below(4)).unwrap();
        if let Some(index) = self.any_process().filter(|_| self.processes.len() >= 4) {
            self.join_as(self.processes[index].id, threads);
        } else if self.processes.len() < 8 {
            let id = WorkerId(self.new_id());
            self.join_as(id, threads);
        }
    }

    /// A worker joins, or joins again.
    pub(super) fn join_as(&mut self, id: WorkerId, threads: u32) {
        if self.process(id).is_none() && self.plan.misdeed(id).is_none() {
            self.processes.push(Process {
                id,
                dead: false,
                tasks: Vec::new(),
            });
        }
        self.tell(Event::Joined {
            worker: id,
            name: format!("w{id}"),
            threads,
        });
    }

    pub(super) fn want(&mut self) {
        let joined = self.any_process().map(|index| self.processes[index].id);
        self.want_for(joined.unwrap_or(WorkerId(u64::MAX)));
    }

    pub(super) fn want_for(&mut self, worker: WorkerId) {
        let request = RequestId(self.new_id());
        self.requests.insert(request, worker);
        self.tell(Event::Wanted { request, worker });
    }

    fn hand_in(&mut self) {
        if let Some((worker, task)) = self.any_task(true) {
            let mut outcome = outcome(worker, &task);
            self.outcomes.push(outcome.clone());
            if self.chance.once_in(8) {
                outcome.ranges = self.chance.some(&outcome.ranges);
            }
            // The answer may be lost, or the worker may just be slow: it stays in `outcomes`.
            if !outcome.ranges.is_empty() && !self.chance.once_in(6) {
                self.submit(outcome, true);
            }
        }
    }

    pub(super) fn submit(&mut self, outcome: Outcome, good: bool) {
        let Outcome {
            worker,
            lease,
            ranges,
        } = outcome;
        let submission = SubmissionId(self.new_id());
        let entry = Submission {
            ranges: ranges.clone(),
            good,
            own: false,
            written: false,
        };
        self.submissions.insert(submission, entry);
        self.tell(Event::Submitted {
            submission,
            worker,
            lease,
            ranges,
        });
    }

    fn send_again(&mut self) {
        if let Some(index) = self.chance.index(self.outcomes.len()) {
            let mut outcome = self.outcomes[index].clone();
            if self.chance.once_in(4) {
                outcome.worker = WorkerId(self.new_id());
            }
            if self.chance.once_in(2) {
                self.join_as(outcome.worker, 1);
            }
            if self.chance.once_in(4) {
                outcome.ranges.reverse();
            }
            self.submit(outcome, true);
        }
    }

    pub(super) fn end_write(&mut self) {
        if let Some(index) = self.chance.index(self.disk.under_way.len()) {
            self.write_ends(index);
        }
    }

    fn time_passes(&mut self) {
        self.now += self.chance.below(120);
        if !self.chance.once_in(4) {
            self.tick();
        }
    }

    pub(super) fn tick(&mut self) {
        let leases = u32::try_from(self.plan.progress().leases).unwrap();
        self.losses += leases;
        self.tell(Event::Tick);
        let overdue = self
            .plan
            .next_deadline()
            .filter(|deadline| deadline.0 <= self.now);
        assert_eq!(overdue, None, "an expired lease stands");
    }

    fn renew(&mut self) {
        if let Some((worker, task)) = self.any_task(false) {
            self.tell(Event::Renewed {
                worker,
                lease: task.lease,
            });
        }
    }

    fn give_back(&mut self) {
        if let Some((worker, task)) = self.any_task(true) {
            self.tell(Event::Returned {
                worker,
                lease: task.lease,
            });
        }
    }

    fn fail(&mut self) {
        if let Some((worker, task)) = self.any_task(true) {
            self.losses += 1;
            let reason = "no memory".to_owned();
            self.tell(Event::Failed {
                worker,
                lease: task.lease,
                reason,
            });
        }
    }

    fn withdraw(&mut self) {
        let requests: Vec<RequestId> = self.requests.keys().copied().collect();
        if let Some(index) = self.chance.index(requests.len()) {
            self.requests.remove(&requests[index]);
            self.tell(Event::Withdrawn {
                request: requests[index],
            });
        }
    }

    fn notice_lost_answer(&mut self) {
        if let Some((worker, lease)) = self.lost_answers.pop() {
            self.tell(Event::Returned { worker, lease });
        }
    }

    /// A worker leaves, or its death is noticed.
    fn leave(&mut self) {
        if let Some(index) = self.chance.index(self.processes.len()) {
            let process = self.processes.swap_remove(index);
            self.outcomes
                .extend(process.tasks.iter().map(|task| outcome(process.id, task)));
            self.requests.retain(|_, worker| *worker != process.id);
            self.tell(Event::Left { worker: process.id });
        }
    }

    fn die(&mut self) {
        if let Some(index) = self.any_process() {
            self.processes[index].dead = true;
            self.processes[index].tasks.clear();
        }
    }

    fn send_rubbish(&mut self) {
        let held = self.any_task(true);
        let ranges = match self.chance.below(4) {
            0 => vec![],
            1 => vec![summary(0), summary(1)],
            2 => vec![summary(64 << self.chance.below(58))],
            _ => vec![summary(1), summary(1)],
        };
        self.losses += 1;
        let (worker, lease) = match held {
            Some((worker, task)) => (worker, task.lease),
            None => (WorkerId(u64::MAX), LeaseId(0)),
        };
        self.submit(
            Outcome {
                worker,
                lease,
                ranges,
            },
            false,
        );
    }

    /// A worker hands in a task with one wrong range, about which nobody has lied before.
    fn lie(&mut self) {
        let Some((worker, task)) = self.any_task(true) else {
            return;
        };
        let mut outcome = outcome(worker, &task);
        let index = self.chance.index(outcome.ranges.len()).unwrap();
        let head = task.heads[index];
        if self.lies.insert(head) {
            self.liars.insert(worker);
            outcome.ranges[index] = wrong(head.0);
        }
        if self.chance.once_in(4) {
            // A spot check finds it.
            self.liars.insert(worker);
            let lease = task.lease;
            self.tell(Event::Refuted {
                worker,
                lease,
                head,
            });
        } else {
            self.submit(outcome, true);
        }
    }
}
