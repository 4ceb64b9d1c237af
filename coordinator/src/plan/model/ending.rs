//! How a world ends.

use super::steps::outcome;
use super::world::{Outcome, World};
use crate::plan::tests::{summary, wrong};
use crate::plan::{LeaseId, Phase, StopReason, WorkerId};
use chomp_table::Head;

impl World {
    /// The coordinator of a stopped or finished job goes, sometimes in good order.
    pub(super) fn end_and_restart(&mut self) {
        if self.chance.once_in(2) {
            while !self.disk.under_way.is_empty() {
                self.write_ends(0);
            }
            self.evaluated(false);
            while !self.disk.under_way.is_empty() {
                self.write_ends(0);
            }
            assert!(self.submissions.is_empty(), "a result is not settled");
            self.now += 100;
            self.tick();
            assert!(self.plan.is_quiet());
        }
        self.restart();
    }

    /// Nothing bad happens any more: the job has to end, and well.
    pub(super) fn calm_down(&mut self) {
        for _ in 0..10_000 {
            match self.plan.phase() {
                Phase::Finished => {
                    self.check_end();
                    return;
                }
                Phase::Stopped(StopReason::Wrong { layer, .. }) => {
                    let layer = *layer;
                    self.end_and_restart();
                    self.disk.remove_from(layer);
                    self.restart();
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
            self.end_write();
        } else if self.evaluation.is_some() {
            self.evaluated(false);
        } else if let Some(index) = self
            .processes
            .iter()
            .position(|process| !process.dead && !process.tasks.is_empty())
        {
            let process = &mut self.processes[index];
            let task = process.tasks.pop().unwrap();
            let outcome = outcome(process.id, &task);
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
        while !self.disk.under_way.is_empty() {
            self.write_ends(0);
        }
        assert!(self.requests.is_empty() && self.submissions.is_empty());
        assert!(self.disk.published);
        let heads = self.settings.range_bits.heads(self.settings.bits);
        let mut count = 0;
        for head in (0..heads).map(Head) {
            let range = self.disk.ranges[&head];
            count += range.count;
            let lied = self.lies.contains(&head) && self.settings.replicas == 1;
            assert!(range == summary(head.0) || lied, "range {head} is wrong");
        }
        let progress = self.plan.progress();
        assert_eq!(progress.ranges_done, heads);
        assert_eq!(progress.losing, count);
    }

    /// The first content of some range is wrong, and then the right one comes.
    pub(super) fn lie_first(&mut self) {
        while *self.plan.phase() != Phase::Running || self.evaluation.is_some() {
            if *self.plan.phase() == Phase::Finished {
                return;
            }
            self.restart();
        }
        let open = self.plan.progress().layer as usize;
        let heads = self.disk.layers.get(open).into_iter().flatten().copied();
        let mut unknown = heads.filter(|head| {
            let known = self.disk.holds(*head) || self.disk.is_being_written(*head);
            !known && !self.disk.sealed.contains_key(head) && !self.lies.contains(head)
        });
        let Some(head) = unknown.next_back() else {
            return;
        };
        let (liar, honest) = (WorkerId(self.new_id()), WorkerId(self.new_id()));
        for (worker, range) in [(liar, wrong(head.0)), (honest, summary(head.0))] {
            self.join_as(worker, 1);
            self.lies.insert(head);
            self.liars.insert(liar);
            let outcome = Outcome {
                worker,
                lease: LeaseId(u64::MAX),
                ranges: vec![range],
            };
            self.submit(outcome, true);
            for _ in 0..self.chance.below(3) {
                self.end_write();
            }
        }
        assert_eq!(self.evaluation, Some(head), "nobody wondered");
        self.evaluated(false);
        if self.settings.replicas == 1 {
            let layer = head.layer();
            assert_eq!(self.stopped, Some(StopReason::Wrong { head, layer }));
        } else {
            assert!(self.plan.misdeed(liar).is_some());
        }
        assert_eq!(self.plan.misdeed(honest), None);
    }
}
