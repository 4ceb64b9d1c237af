//! What may happen in the world.

use super::disk::Write;
use super::world::{Finding, Merged, Process, Submission, TaskResult, World};
use crate::slots::Content;
use crate::tests::{shard_digest, summary, wrong};
use crate::{Event, LeaseId, Phase, RequestId, SubmissionId, Task, Unit, WorkerId};
use chomp_table::Head;

impl World {
    /// Something happens.
    pub(super) fn step(&mut self) {
        if self.plan.phase() != &Phase::Running && self.rng.once_in(4) {
            self.end_and_restart();
            return;
        }
        match self.rng.below(45) {
            0..=2 => self.join(),
            3..=10 => self.want(),
            11..=18 => self.hand_in(),
            19..=24 => self.end_write(),
            25 => {
                let fails = self.rng.once_in(10);
                self.arbitrated(fails);
            }
            26 => self.time_passes(),
            41..=43 => self.file_comes(),
            44 => self.lose_file(),
            27 => self.renew(),
            28 => self.give_back(),
            29 => self.fail(),
            30 => self.withdraw(),
            31 => self.notice_lost_answer(),
            32..=33 => self.send_again(),
            34 => self.leave(),
            35 => self.die(),
            36 => self.send_rubbish(),
            37 if self.rng.once_in(3) => self.restart(),
            38 => self.lie(),
            39 => self.lose_record(),
            40 if self.rng.once_in(6) => match self.disk.under_way.front() {
                Some(write) if !write.is_answered() => {}
                Some(_) => self.write_fails(),
                None => self.tell(Event::Shutdown),
            },
            _ => {}
        }
    }

    fn any_process(&mut self) -> Option<usize> {
        let index = self.rng.index(self.processes.len())?;
        (!self.processes[index].dead).then_some(index)
    }

    /// Some task that a worker is at, taken from it if `take`.
    fn any_task(&mut self, take: bool) -> Option<(WorkerId, Task, Finding)> {
        let index = self.any_process()?;
        let task = self.rng.index(self.processes[index].tasks.len())?;
        let process = &mut self.processes[index];
        let chosen = if take {
            process.tasks.swap_remove(task)
        } else {
            process.tasks[task].clone()
        };
        Some((process.id, chosen.0, chosen.1))
    }

    fn join(&mut self) {
        let threads = u32::try_from(self.rng.below(4)).unwrap();
        if let Some(index) = self.any_process().filter(|_| self.processes.len() >= 4) {
            self.join_as(self.processes[index].id, threads);
        } else if self.processes.len() < 8 {
            let id = self.new_worker();
            self.join_as(id, threads);
        }
    }

    /// A worker joins, or joins again.
    pub(super) fn join_as(&mut self, id: WorkerId, threads: u32) {
        if self.process(id).is_none() && self.plan.quarantine_reason(id).is_none() {
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
        self.want_for(joined.unwrap_or(WorkerId::only(u32::MAX)));
    }

    pub(super) fn want_for(&mut self, worker: WorkerId) {
        let request = RequestId(self.new_id());
        self.requests.insert(request, worker);
        self.tell(Event::Wanted { request, worker });
    }

    fn hand_in(&mut self) {
        let Some((worker, task, finding)) = self.any_task(true) else {
            return;
        };
        let lease = task.lease;
        let mut outcome = TaskResult {
            worker,
            lease,
            finding,
        };
        self.outcomes.push(outcome.clone());
        if self.rng.once_in(8)
            && let Finding::Units(units) = &mut outcome.finding
        {
            *units = self.rng.some(units);
            if units.is_empty() {
                return;
            }
        }
        // The answer may be lost, or the worker may just be slow: it stays in `outcomes`.
        if self.rng.once_in(6) {
            self.begin_put(&outcome);
        } else {
            self.submit(outcome, true);
        }
    }

    pub(super) fn submit(&mut self, outcome: TaskResult, good: bool) {
        let TaskResult {
            worker,
            lease,
            finding,
        } = outcome;
        let submission = SubmissionId(self.new_id());
        let mut entry = Submission {
            good,
            participant: Some(worker.participant),
            leased: self.given.get(&lease) == Some(&worker),
            ..Submission::default()
        };
        let event = match finding {
            Finding::Lost(lost) => {
                for (head, digest) in lost {
                    self.tell(Event::Lost {
                        worker,
                        head,
                        digest,
                    });
                }
                return self.tell(Event::Returned { worker, lease });
            }
            Finding::Unreadable => {
                self.losses += 1;
                let reason = "something else".to_owned();
                return self.tell(Event::Failed {
                    worker,
                    lease,
                    reason,
                });
            }
            Finding::Shard(merged) => {
                let (shard, digest) = (merged.number, merged.content.digest);
                // It has written what it speaks of.
                let is_other = |late: &(_, u32, _)| (late.0, late.1) != (worker, shard);
                self.late_files.retain(is_other);
                if !merged.is_read && self.plan.may_write(worker, shard) {
                    self.disk.files.insert(shard, merged.file);
                }
                entry.units = vec![(Unit::Shard(shard), merged.content)];
                entry.merged = Some(merged);
                Event::Merged {
                    submission,
                    worker,
                    lease,
                    shard,
                    digest,
                }
            }
            Finding::Units(units) => {
                let range = |&(unit, content): &(Unit, Content)| match unit {
                    Unit::Range(head) => content.summary(head),
                    Unit::Shard(_) => panic!("a shard is another finding"),
                };
                let ranges = units.iter().map(range).collect();
                entry.units = units;
                Event::Evaluated {
                    submission,
                    worker,
                    lease,
                    ranges,
                }
            }
        };
        self.submissions.insert(submission, entry);
        self.tell(event);
    }

    /// A worker begins to write a file, if that is what it has to do.
    fn begin_put(&mut self, outcome: &TaskResult) {
        if let Finding::Shard(merged) = outcome.finding
            && !merged.is_read
            && self.plan.may_write(outcome.worker, merged.number)
        {
            self.late_files
                .push((outcome.worker, merged.number, merged.file));
        }
    }

    /// A file of a shard is written at last.
    fn file_comes(&mut self) {
        let next = self.rng.index(self.late_files.len());
        let file = next.map(|next| self.late_files.swap_remove(next));
        self.disk
            .files
            .extend(file.map(|(_, number, file)| (number, file)));
    }

    /// The disk loses the file of a shard.
    fn lose_file(&mut self) {
        let numbers: Vec<u32> = self.disk.files.keys().copied().collect();
        if let Some(index) = self.rng.index(numbers.len()) {
            self.disk.files.remove(&numbers[index]);
        }
    }

    fn send_again(&mut self) {
        if let Some(index) = self.rng.index(self.outcomes.len()) {
            let mut outcome = self.outcomes[index].clone();
            if self.rng.once_in(4) {
                outcome.worker = self.new_worker();
            }
            if self.rng.once_in(2) {
                self.join_as(outcome.worker, 1);
            }
            if self.rng.once_in(4)
                && let Finding::Units(units) = &mut outcome.finding
            {
                units.reverse();
            }
            self.submit(outcome, true);
        }
    }

    pub(super) fn end_write(&mut self) {
        self.write_ends();
    }

    fn time_passes(&mut self) {
        self.now += self.rng.below(120);
        if !self.rng.once_in(4) {
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
        if let Some((worker, task, _)) = self.any_task(false) {
            self.tell(Event::Renewed {
                worker,
                leases: vec![task.lease],
            });
        }
    }

    fn give_back(&mut self) {
        if let Some((worker, task, _)) = self.any_task(true) {
            self.tell(Event::Returned {
                worker,
                lease: task.lease,
            });
        }
    }

    fn fail(&mut self) {
        if let Some((worker, task, _)) = self.any_task(true) {
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
        if let Some(index) = self.rng.index(requests.len()) {
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
        if let Some(index) = self.rng.index(self.processes.len()) {
            let process = self.processes.swap_remove(index);
            let worker = process.id;
            self.keep_outcomes(process);
            self.requests.retain(|_, other| *other != worker);
            self.tell(Event::Left { worker });
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
        let ranges = match self.rng.below(4) {
            0 => vec![],
            1 => vec![0, 1],
            2 => vec![64 << self.rng.below(58)],
            _ => vec![1, 1],
        };
        let unit = |&head: &u64| (Unit::Range(Head(head)), Content::of_range(summary(head)));
        let mut finding = Finding::Units(ranges.iter().map(unit).collect());
        if self.rng.once_in(5) {
            let file = shard_digest(1 << 30);
            finding = Finding::Shard(Merged {
                number: 1 << 30,
                content: Content::of_shard(file),
                file,
                is_read: false,
            });
        }
        self.losses += 1;
        let (worker, lease) = match held {
            Some((worker, task, _)) => (worker, task.lease),
            None => (WorkerId::only(u32::MAX), LeaseId(0)),
        };
        self.submit(
            TaskResult {
                worker,
                lease,
                finding,
            },
            false,
        );
    }

    /// A worker hands in a task with one wrong unit, about which nobody has lied before. Or it calls a file wrong
    /// that is right, or writes a wrong one.
    fn lie(&mut self) {
        let Some((worker, task, mut finding)) = self.any_task(true) else {
            return;
        };
        match &mut finding {
            Finding::Shard(merged) if merged.is_read && self.rng.once_in(3) => {
                finding = Finding::Unreadable;
            }
            Finding::Shard(merged) => {
                if self.lies.insert(Unit::Shard(merged.number)) {
                    self.liars.insert(worker.participant);
                    let wrong = shard_digest(1 << 31);
                    let what = self.rng.below(3);
                    if what > 0 && !merged.is_read {
                        merged.file = wrong;
                    }
                    if what < 2 || merged.is_read {
                        merged.content = Content::of_shard(wrong);
                    }
                }
            }
            Finding::Units(units) => {
                let index = self.rng.index(units.len()).unwrap();
                let (unit, content) = &mut units[index];
                if let Unit::Range(head) = *unit
                    && self.lies.insert(*unit)
                {
                    self.liars.insert(worker.participant);
                    *content = Content::of_range(wrong(head.0));
                }
            }
            Finding::Lost(_) | Finding::Unreadable => {}
        }
        let lease = task.lease;
        let outcome = TaskResult {
            worker,
            lease,
            finding,
        };
        if self.rng.once_in(3) {
            self.begin_put(&outcome);
            self.outcomes.push(outcome);
        } else {
            self.submit(outcome, true);
        }
    }

    /// The disk loses a record; or somebody says so of one that was never there.
    fn lose_record(&mut self) {
        let heads: Vec<Head> = self.disk.ranges.keys().copied().collect();
        let Some(index) = self.rng.index(heads.len()) else {
            return;
        };
        let head = heads[index];
        self.disk.lost.insert(head);
        if self.rng.once_in(2) {
            let mut digest = self.disk.ranges[&head].digest;
            if self.rng.once_in(3) {
                digest = wrong(head.0).digest;
            }
            let worker = WorkerId::only(u32::MAX);
            self.tell(Event::Lost {
                worker,
                head,
                digest,
            });
        }
    }

    /// The first write ends well: it takes effect, and the plan is told.
    pub(super) fn write_ends(&mut self) {
        let Some(write) = self.disk.under_way.pop_front() else {
            return;
        };
        if let Write::Publish { unread } = &write {
            while !self.late_files.is_empty() {
                self.file_comes();
            }
            if self.rng.once_in(4) {
                self.lose_file();
            }
            let lost = |number: &u32| !self.disk.is_whole(*number);
            let shards: Vec<u32> = unread.iter().copied().filter(lost).collect();
            if !shards.is_empty() {
                return self.tell(Event::ShardsLost { shards });
            }
            if let Some(contradiction) = self.contradiction() {
                return self.tell(contradiction);
            }
        }
        self.disk.perform(&write);
        match write {
            Write::Commit { submission, .. } => self.tell(Event::Committed { submission }),
            Write::Publish { .. } => self.tell(Event::Published),
            _ => {}
        }
    }

    /// The table contradicts itself, and the coordinator finds out why; or cannot read a record for that.
    fn contradiction(&mut self) -> Option<Event> {
        let heads: Vec<Head> = self.disk.ranges.keys().copied().collect();
        let is_wrong = |head: &Head| {
            let unit = Unit::Range(*head);
            let found = self.disk.compute(unit);
            found.is_ok_and(|found| self.disk.content(unit) != Some(found))
        };
        let wrong = heads.iter().copied().find(is_wrong);
        let lost = heads.into_iter().find(|head| self.disk.lost.contains(head));
        let reason = "words without their mirror images".to_owned();
        if let Some(head) = lost.filter(|_| self.rng.once_in(2)) {
            let lost = Some(self.disk.ranges[&head].digest);
            return Some(Event::Unpublished { head, lost, reason });
        }
        let (head, lost) = (wrong.filter(|_| self.rng.once_in(2))?, None);
        Some(Event::Unpublished { head, lost, reason })
    }

    /// A write fails. It may have taken effect all the same.
    pub(super) fn write_fails(&mut self) {
        let Some(write) = self.disk.under_way.pop_front() else {
            return;
        };
        if self.rng.once_in(2) {
            self.disk.perform(&write);
        }
        let reason = "disk full".to_owned();
        match write {
            Write::Commit { submission, .. } => {
                self.tell(Event::CommitFailed { submission, reason });
            }
            Write::Publish { .. } => self.tell(Event::PublishFailed { reason }),
            // What fails is told with the next commit.
            _ => return,
        }
        assert!(self.stopped.is_some(), "a failed write stops the job");
    }
}
