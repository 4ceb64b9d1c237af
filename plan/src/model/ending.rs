//! How a world ends.

use super::world::{Finding, Outcome, World};
use crate::tests::{summary, wrong};
use crate::units::Content;
use crate::{LeaseId, Phase, Unit, WorkerId};
use chomp_table::Head;

impl World {
    /// The coordinator of a stopped or finished job goes, sometimes in good order.
    pub(super) fn end_and_restart(&mut self) {
        if self.chance.once_in(2) {
            self.end_writes();
            self.arbitrated(false);
            self.read();
            self.end_writes();
            assert!(self.submissions.is_empty(), "a result is not settled");
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
        } else if self.arbitration.is_some() {
            self.arbitrated(false);
        } else if self.reading.is_some() {
            self.read();
        } else if let Some(index) = self
            .processes
            .iter()
            .position(|process| !process.dead && !process.tasks.is_empty())
        {
            let process = &mut self.processes[index];
            let (task, finding) = process.tasks.pop().unwrap();
            let outcome = Outcome {
                worker: process.id,
                lease: task.lease,
                finding,
            };
            self.submit(outcome, true);
        } else if alive.count() < self.settings.replicas as usize {
            let id = WorkerId(self.new_id());
            self.join_as(id, 1);
        } else if let Some(worker) = idle.map(|process| process.id) {
            self.want_for(worker);
        } else {
            // All is in the hands of workers that died, or never got the answer.
            self.now = self.plan.next_deadline().expect("workers are there").0;
            self.tick();
        }
    }

    fn check_end(&mut self) {
        self.end_writes();
        assert!(self.requests.is_empty() && self.submissions.is_empty());
        assert!(self.disk.published);
        let heads = self.settings.range_bits.heads(self.settings.bits);
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
            assert!(right || lied, "shard {number} is wrong");
        }
        let progress = self.plan.progress();
        assert_eq!(progress.ranges_done, heads);
        assert_eq!(progress.losing, count);
        assert_eq!(progress.shards_done, self.disk.shard_count());
    }

    /// The first content of some range is wrong, and then the right one comes.
    pub(super) fn lie_first(&mut self) {
        while *self.plan.phase() != Phase::Running || self.arbitration.is_some() {
            if *self.plan.phase() == Phase::Finished {
                return;
            }
            self.restart();
        }
        let open = self.plan.progress().layer as usize;
        let heads = self.disk.layers.get(open).into_iter().flatten().copied();
        let mut unknown = heads.filter(|&head| {
            let unit = Unit::Range(head);
            let known = self.disk.holds(unit) || self.disk.is_being_written(unit);
            !known && !self.disk.withdrawn.contains(&head) && !self.lies.contains(&unit)
        });
        let Some(head) = unknown.next_back() else {
            return;
        };
        if !self.lies.is_empty() || !self.disk.lost.is_empty() {
            return;
        }
        let unit = Unit::Range(head);
        let (liar, honest) = (WorkerId(self.new_id()), WorkerId(self.new_id()));
        for (worker, range) in [(liar, wrong(head.0)), (honest, summary(head.0))] {
            self.join_as(worker, 1);
            self.lies.insert(unit);
            self.liars.insert(liar);
            let outcome = Outcome {
                worker,
                lease: LeaseId(u64::MAX),
                finding: Finding::Units(vec![(unit, Content::of_range(range))]),
            };
            self.submit(outcome, true);
            for _ in 0..self.chance.below(3) {
                self.write_ends();
            }
        }
        // What is being written is not looked at before that has ended.
        self.end_writes();
        let arbitrated = self.arbitration.as_ref().map(|(unit, _)| *unit);
        assert_eq!(arbitrated, Some(unit), "nobody wondered");
        self.arbitrated(false);
        assert!(self.plan.misdeed(liar).is_some());
        assert_eq!(self.plan.misdeed(honest), None);
        self.calm_down();
        assert_eq!(self.disk.ranges[&head], summary(head.0), "the lie was kept");
    }
}
