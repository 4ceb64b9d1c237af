//! How a world ends.

use std::collections::BTreeSet;

use super::world::{Finding, TaskResult, World};
use crate::slots::Content;
use crate::tests::{summary, wrong};
use crate::{Event, ParticipantId, Phase, Task, Unit, Work, WorkerId};
use chomp_table::Head;

impl World {
    /// The coordinator of a stopped or finished job goes, sometimes in good order.
    pub(super) fn end_and_restart(&mut self) {
        if self.rng.once_in(2) {
            self.end_writes();
            while !self.arbitrations.is_empty() {
                self.arbitrated(false);
            }
            self.end_writes();
            let answered = self.submissions.values().all(|result| result.noted);
            assert!(answered, "a result is not settled");
            self.now += 100;
            self.tick();
            assert!(self.plan.is_quiet());
        }
        self.restart();
    }

    fn end_writes(&mut self) {
        while !self.disk.under_way.is_empty() {
            self.write_ends();
        }
    }

    /// Nothing bad happens any more: the job has to end, and well.
    pub(super) fn calm_down(&mut self) {
        for _ in 0..10_000 {
            match self.plan.phase() {
                Phase::Finished => {
                    self.check_end();
                    return;
                }
                Phase::Stopped(_) => self.end_and_restart(),
                Phase::Running => self.calm_step(),
            }
        }
        panic!("the job does not end: {:?}", self.plan);
    }

    fn calm_step(&mut self) {
        let waits = |world: &World, id| world.requests.values().any(|&worker| worker == id);
        let alive = self.processes.iter().filter(|process| !process.dead);
        let idle = alive.clone().find(|process| !waits(self, process.id));
        if !self.disk.under_way.is_empty() {
            self.write_ends();
        } else if !self.arbitrations.is_empty() {
            self.arbitrated(false);
        } else if let Some(index) = self
            .processes
            .iter()
            .position(|process| !process.dead && !process.tasks.is_empty())
        {
            let process = &mut self.processes[index];
            let (task, finding) = process.tasks.pop().unwrap();
            let outcome = TaskResult {
                worker: process.id,
                lease: task.lease,
                finding,
            };
            self.submit(outcome, true);
        } else if alive
            .map(|process| process.id.participant)
            .collect::<BTreeSet<_>>()
            .len()
            < self.settings.replicas as usize
        {
            let id = self.new_participant();
            self.join_as(id, 1);
        } else if let Some(worker) = idle.map(|process| process.id) {
            self.want_for(worker);
        } else {
            // All is in the hands of workers that died, or never got the answer.
            let next = self.plan.next_deadline().expect("workers are there");
            self.now = self.now.max(next.0);
            self.tick();
        }
    }

    fn check_end(&mut self) {
        self.end_writes();
        assert!(self.requests.is_empty() && self.submissions.is_empty());
        assert!(self.disk.published);
        let heads = self.settings.range_bits.heads(self.settings.size);
        let mut count = 0;
        for head in (0..heads).map(Head) {
            let range = self.disk.ranges[&head];
            count += range.count;
            // Whatever is wrong was a lie, or follows from one that nobody found.
            let unit = Unit::Range(head);
            let is_right = |head: Head| self.disk.ranges[&head] == summary(head.0);
            let lied = self.lies.contains(&unit);
            let follows = !self.disk.sources(unit).into_iter().all(is_right);
            let excused =
                self.settings.replicas == 1 && lied || self.lie_got_in && (lied || follows);
            assert!(is_right(head) || excused, "range {head} is wrong");
        }
        for (&number, digest) in &self.disk.shards {
            let unit = Unit::Shard(number);
            let lied = self.lies.contains(&unit) && self.settings.replicas == 1;
            let lost = self.disk.compute(unit);
            let right = lost.is_err() || lost == Ok(Content::of_shard(*digest));
            // It is not looked at again what becomes of a file.
            let file = self.disk.files.get(&number);
            let is_whole = file.is_none_or(|file| file == digest);
            assert!((right && is_whole) || lied, "shard {number} is wrong");
        }
        let progress = self.plan.progress();
        assert_eq!(progress.ranges_done, heads);
        assert_eq!(progress.losing, count);
        assert_eq!(progress.shards_done, self.disk.shard_count());
    }

    /// The first content of some range is wrong, and then the right one comes.
    pub(super) fn lie_first(&mut self) {
        loop {
            match self.plan.phase() {
                Phase::Finished => return,
                Phase::Stopped(_) => self.restart(),
                Phase::Running if !self.arbitrations.is_empty() => self.arbitrated(false),
                Phase::Running => break,
            }
        }
        if !self.lies.is_empty() || !self.disk.lost.is_empty() || !self.disk.withdrawn.is_empty() {
            return;
        }
        for id in self
            .processes
            .iter()
            .map(|process| process.id)
            .collect::<Vec<_>>()
        {
            self.requests.retain(|_, worker| *worker != id);
            self.tell(Event::Left { worker: id });
            self.evict(id);
        }
        self.end_writes();
        let (liar, honest) = (self.new_participant(), self.new_participant());
        // One after the other is given the same range: the first is too slow.
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
        let head = heads[0];
        let unit = Unit::Range(head);
        let both = [
            (liar, theirs.lease, wrong(head.0)),
            (honest, ours.lease, summary(head.0)),
        ];
        for (worker, lease, range) in both {
            self.join_as(worker, 1);
            self.lies.insert(unit);
            self.liars.insert(liar.participant);
            let outcome = TaskResult {
                worker,
                lease,
                finding: Finding::Units(vec![(unit, Content::of_range(range))]),
            };
            self.submit(outcome, true);
            for _ in 0..self.rng.below(3) {
                self.write_ends();
            }
        }
        // What is being written is not looked at before that has ended.
        self.end_writes();
        assert!(self.arbitrations.contains_key(&unit), "nobody wondered");
        while !self.arbitrations.is_empty() {
            self.arbitrated(false);
        }
        assert!(self.plan.quarantine_reason(liar).is_some());
        assert_eq!(self.plan.quarantine_reason(honest), None);
        self.calm_down();
        assert_eq!(self.disk.ranges[&head], summary(head.0), "the lie was kept");
    }

    /// What a worker is given that has just joined, if anything.
    fn first_task(&mut self, worker: WorkerId) -> Option<Task> {
        self.join_as(worker, 1);
        self.want_for(worker);
        let process = self.process(worker)?;
        process.tasks.pop().map(|(task, _)| task)
    }

    /// A worker of a new participant, or of one that has others.
    pub(super) fn new_worker(&mut self) -> WorkerId {
        let known = self.rng.index(self.processes.len());
        match known.filter(|_| self.rng.once_in(3)) {
            Some(index) => {
                let ParticipantId(participant) = self.processes[index].id.participant;
                WorkerId::new(participant, self.new_id())
            }
            None => self.new_participant(),
        }
    }

    /// The first worker of a new participant.
    pub(super) fn new_participant(&mut self) -> WorkerId {
        WorkerId::only(u32::try_from(self.new_id()).unwrap())
    }

    pub(super) fn new_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }
}
