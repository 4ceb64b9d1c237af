//! Recounts everything that the plan keeps more than once. Looks at every range: for tests.

use std::collections::{BTreeMap, BTreeSet};

use chomp_table::Head;

use super::ranges::State;
use super::{Plan, SubmissionId};

impl Plan {
    /// Panics unless the plan agrees with itself.
    pub(super) fn check_invariants(&self) {
        self.ranges.check();
        self.board
            .check(&self.ranges, |head| self.audits.contains(head));
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
        let under_way = self.audits.under_way;
        assert!(under_way.is_none_or(|head| self.audits.contains(head)));
        for (&request, &worker) in &self.requests {
            assert!(self.is_running(), "request {request} waits for nothing");
            let others = self.workers.len() - 1;
            let wanted = self.board.wanted_by(worker, others).next();
            assert_eq!(wanted, None, "request {request} waits in vain");
        }
    }

    fn check_states(&self) {
        for head in (0..self.ranges.count()).map(Head) {
            if let State::Committing(submission) = self.ranges.state(head) {
                let pending = &self.pending[&submission];
                assert!(pending.writing && pending.own.contains(&head));
            }
            let copies = self.board.of(head);
            for (id, holder) in copies.iter().flat_map(|copies| &copies.leases) {
                let lease = &self.leases[id];
                assert_eq!(lease.worker, *holder);
                assert!(lease.heads.contains(&head));
            }
            for vote in copies.iter().flat_map(|copies| &copies.votes) {
                assert!(!self.outcasts.contains_key(&vote.worker));
            }
        }
    }

    fn check_leases(&self) {
        for (id, lease) in &self.leases {
            assert!(lease.heads.is_sorted_by(|a, b| a < b));
            let left = |head: &&Head| {
                let copies = self.board.of(**head);
                copies.is_some_and(|copies| copies.leases.contains_key(id))
            };
            assert_eq!(lease.left, lease.heads.iter().filter(left).count());
            assert!(lease.left > 0, "a lease on nothing");
        }
        let deadlines = self
            .leases
            .iter()
            .map(|(&id, lease)| (lease.deadline, id))
            .collect();
        assert_eq!(self.deadlines, deadlines);
        let by_age: Vec<_> = self.leases.values().map(|lease| lease.since).collect();
        assert!(by_age.is_sorted());
    }

    fn check_workers(&self) {
        let threads: u64 = self
            .workers
            .values()
            .map(|worker| u64::from(worker.threads))
            .sum();
        assert_eq!(self.threads, threads);
        let heard = |(&id, worker): (&_, &super::Worker)| (worker.heard, id);
        let silences: BTreeSet<_> = self.workers.iter().map(heard).collect();
        assert_eq!(self.silences, silences);
        assert!(
            self.workers
                .keys()
                .all(|id| !self.outcasts.contains_key(id))
        );
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
