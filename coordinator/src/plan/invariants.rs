//! Recounts everything that the plan keeps more than once. Looks at every range: for tests.

use std::collections::{BTreeMap, BTreeSet};

use chomp_table::Head;

use super::ranges::State;
use super::{Phase, Plan, SubmissionId};

impl Plan {
    /// Panics unless the plan agrees with itself.
    pub(super) fn check_invariants(&self) {
        self.ranges.check();
        self.check_states();
        self.check_leases();
        self.check_workers();
        self.check_pending();
        assert!(!(self.sealing && self.publishing));
        if self.publishing {
            assert_eq!(
                self.layers_sealed,
                self.ranges.layers(),
                "published before all seals"
            );
        }
        let may_wait = self.phase == Phase::Running && self.free.is_empty();
        assert!(
            self.requests.is_empty() || may_wait,
            "a request waits for nothing"
        );
    }

    fn check_states(&self) {
        let open = self.ranges.open();
        let mut free = BTreeSet::new();
        for head in (0..self.ranges.count()).map(Head) {
            match self.ranges.state(head) {
                State::Waiting if head.layer() == open => {
                    free.insert(head);
                }
                State::Waiting => assert!(head.layer() > open),
                State::Leased(lease) => {
                    assert_eq!(head.layer(), open);
                    assert!(self.leases[&lease].heads.contains(&head));
                }
                State::Committing(submission) => {
                    assert_eq!(head.layer(), open);
                    let pending = &self.pending[&submission];
                    assert!(pending.writing && pending.own.contains(&head));
                }
                State::Committed => {}
            }
        }
        assert_eq!(self.free, free);
    }

    fn check_leases(&self) {
        for (&id, lease) in &self.leases {
            assert!(lease.heads.is_sorted_by(|a, b| a < b));
            let left = |head: &&Head| self.ranges.state(**head) == State::Leased(id);
            assert_eq!(lease.left, lease.heads.iter().filter(left).count());
            assert!(lease.left > 0, "a lease on nothing");
        }
        let deadlines = self
            .leases
            .iter()
            .map(|(&id, lease)| (lease.deadline, id))
            .collect();
        assert_eq!(self.deadlines, deadlines);
    }

    fn check_workers(&self) {
        let threads: u64 = self
            .workers
            .values()
            .map(|worker| u64::from(worker.threads))
            .sum();
        assert_eq!(self.threads, threads);
        let leases = self
            .workers
            .iter()
            .flat_map(|(&id, worker)| worker.leases.iter().map(move |&lease| (lease, id)));
        let held = self
            .leases
            .iter()
            .map(|(&id, lease)| (id, lease.worker))
            .collect();
        assert_eq!(leases.collect::<BTreeMap<_, _>>(), held);
        let requests = self
            .workers
            .iter()
            .flat_map(|(&id, worker)| worker.requests.iter().map(move |&request| (request, id)));
        assert_eq!(requests.collect::<BTreeMap<_, _>>(), self.requests);
    }

    fn check_pending(&self) {
        let mut waits: BTreeMap<SubmissionId, usize> = BTreeMap::new();
        for (&id, pending) in &self.pending {
            assert!(
                pending.writing || pending.waits > 0,
                "submission {id} waits for nothing"
            );
            assert!(pending.writing || pending.waiters.is_empty());
            for &head in &pending.own {
                let state = self.ranges.state(head);
                assert_eq!(pending.writing, state == State::Committing(id), "{head}");
            }
            for &waiter in &pending.waiters {
                *waits.entry(waiter).or_default() += 1;
            }
        }
        for (id, pending) in &self.pending {
            assert_eq!(pending.waits, waits.remove(id).unwrap_or(0));
        }
        assert!(waits.is_empty(), "settled but waiting: {waits:?}");
    }
}
