//! How a world ends.

use super::steps::outcome;
use super::world::{Outcome, Process, World};
use crate::plan::tests::{summary, wrong};
use crate::plan::{Event, LeaseId, Phase, StopReason, WorkerId};
use chomp_table::RangeSummary;

impl World {
    /// The coordinator of a stopped or finished job goes, sometimes in good order.
    pub(super) fn end_and_restart(&mut self) {
        if self.chance.once_in(2) {
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
        for _ in 0..1000 {
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
        if !self.disk.under_way.is_empty() {
            self.end_write();
        } else if let Some(index) = self
            .processes
            .iter()
            .position(|process| !process.dead && !process.tasks.is_empty())
        {
            let process = &mut self.processes[index];
            let task = process.tasks.pop().unwrap();
            let outcome = outcome(process.id, &task);
            self.submit(outcome, true);
        } else if self.processes.iter().all(|process| process.dead) {
            let id = WorkerId(self.new_id());
            self.processes.push(Process {
                id,
                dead: false,
                tasks: Vec::new(),
            });
            self.tell(Event::Joined {
                worker: id,
                threads: 1,
            });
        } else if self.requests.is_empty() {
            self.want();
        } else {
            // All is in the hands of workers that died, or never got the answer.
            self.now = self.plan.next_deadline().expect("someone holds a lease").0;
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
        let right: Vec<RangeSummary> = (0..heads).map(summary).collect();
        assert!(self.disk.ranges.values().eq(&right), "the table is wrong");
        let progress = self.plan.progress();
        assert_eq!(progress.ranges_done, heads);
        assert_eq!(
            progress.losing,
            right.iter().map(|range| range.count).sum::<u64>()
        );
    }

    /// The first content of some range is wrong: the right one is not taken any more.
    pub(super) fn lie_first(&mut self) {
        while *self.plan.phase() != Phase::Running {
            if *self.plan.phase() == Phase::Finished {
                return;
            }
            self.restart();
        }
        let open = self.plan.progress().layer as usize;
        let heads = self.disk.layers.get(open).into_iter().flatten().copied();
        let mut unknown =
            heads.filter(|&head| !self.disk.holds(head) && !self.disk.is_being_written(head));
        // What a seal says of a range is known even if the range is lost.
        let Some(head) = unknown
            .next_back()
            .filter(|_| open >= self.disk.seals as usize)
        else {
            return;
        };
        self.lied = true;
        let (worker, lease) = (WorkerId(self.new_id()), LeaseId(u64::MAX));
        self.submit(
            Outcome {
                worker,
                lease,
                ranges: vec![wrong(head.0)],
            },
            true,
        );
        for _ in 0..self.chance.below(3) {
            self.end_write();
        }
        let worker = WorkerId(self.new_id());
        self.submit(
            Outcome {
                worker,
                lease,
                ranges: vec![summary(head.0)],
            },
            false,
        );
        assert_eq!(
            self.stopped,
            Some(StopReason::Disagreement { head, worker })
        );
        while !self.disk.under_way.is_empty() {
            self.end_write();
        }
        assert!(self.requests.is_empty() && self.submissions.is_empty());
        self.want();
        assert!(self.requests.is_empty(), "the request is refused");
    }
}
