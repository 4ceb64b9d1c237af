//! Recounts everything that the plan keeps more than once. Looks at every range: for tests.

use std::collections::{BTreeMap, BTreeSet};

use chomp_table::Head;

use super::jury::Standing;
use super::messages::Work;
use super::slots::UnitState;
use super::units::priority;
use super::workers::Waiter;
use super::{LeaseId, Plan, SubmissionId, Unit, WorkerId};

impl Plan {
    /// Recounts all that the plan keeps more than once. Looks at every range.
    ///
    /// # Panics
    ///
    /// If the plan does not agree with itself.
    pub fn check_invariants(&self) {
        let known = |head| self.jury.known(Unit::Range(head)).unwrap();
        self.units.ranges.check(|head| known(head).count);
        self.units.shards.check();
        self.ready.check(self.all_units(), |unit| {
            self.is_open(unit).then(|| self.wish(unit))
        });
        self.check_states();
        self.check_leases();
        self.check_workers();
        self.check_pending();
        self.check_votes();
        self.check_requests();
        if self.publishing {
            // Whoever found a shard may be quarantined meanwhile, which comes too late.
            let is_complete = self.units.shards.is_complete();
            assert!(is_complete || self.is_in_doubt(), "published too early");
        }
        if self.units.shards.is_cut() {
            assert!(self.units.ranges.is_complete(), "cut too early");
        }
    }

    fn all_units(&self) -> impl Iterator<Item = Unit> + '_ {
        let ranges = (0..self.units.ranges.count()).map(|head| Unit::Range(Head(head)));
        ranges.chain(self.units.shards.numbers().map(Unit::Shard))
    }

    fn check_requests(&self) {
        let mut queue = BTreeSet::new();
        for (&id, worker) in &self.workers {
            queue.extend(worker.requests.first().map(|&request| Waiter {
                is_busy: worker.is_busy(),
                request,
                worker: id,
            }));
        }
        assert_eq!(self.queue, queue);
        for (&request, &worker) in &self.requests {
            assert!(self.is_running(), "request {request} waits for nothing");
            if !self.may_begin(worker) {
                continue;
            }
            let others = self.present.len() - 1;
            let idle = !self.workers[&worker].is_busy();
            let most = |layer| self.task_units(layer);
            let wanted = self
                .ready
                .wanted_by(worker, others, idle, self.below(), most);
            assert!(wanted.is_none(), "request {request} waits in vain");
            let is_held_up = self.is_held_up(worker, others);
            assert!(!is_held_up, "request {request} waits for a slow worker");
        }
    }

    /// Whether a slow worker holds a unit that this one could compute, and nobody else was asked to. Whoever failed at
    /// the unit may wait until its lease ends.
    fn is_held_up(&self, worker: WorkerId, others: usize) -> bool {
        let leases = self.leases.values();
        let doubled: BTreeSet<LeaseId> = leases.filter_map(|lease| lease.speculates).collect();
        let mut slow = self.leases.iter().filter(|(id, lease)| {
            let is_second = lease.speculates.is_some();
            lease.speculate_at <= self.offered_until && !is_second && !doubled.contains(id)
        });
        slow.any(|(_, lease)| {
            lease.work.units().any(|unit| {
                let is_offered = self.is_open(unit) && priority(unit).0 < self.below();
                let attempts = self.ready.of(unit);
                let has_failed = attempts.is_some_and(|it| it.failed.contains(&worker.participant));
                let may = |wish| self.ready.may_speculate(worker, others, unit, wish);
                is_offered && !has_failed && may(self.wish(unit))
            })
        })
    }

    fn check_states(&self) {
        for unit in self.all_units() {
            if let UnitState::Committing(submission) = self.units.state(unit) {
                let pending = &self.pending[&submission];
                let mut next = pending.next.iter();
                assert!(pending.writing.contains(&unit) || next.any(|next| next.unit == unit));
            }
            let attempts = self.ready.of(unit);
            assert!(
                attempts.is_none()
                    || self.units.state(unit) == UnitState::Ready
                    || self.jury.is_reopened(unit),
                "{unit} is not open"
            );
            for (id, holder) in attempts.iter().flat_map(|attempts| &attempts.leases) {
                let lease = &self.leases[id];
                assert_eq!(lease.worker, *holder);
                assert!(lease.work.contains(unit));
            }
        }
        for &head in &self.condemned {
            let state = self.units.state(Unit::Range(head));
            assert!(matches!(state, UnitState::Committing(_)));
        }
    }

    fn check_leases(&self) {
        for (id, lease) in &self.leases {
            let is_open = |unit: &Unit| {
                let attempts = self.ready.of(*unit);
                attempts
                    .is_some_and(|attempts| attempts.leases.iter().any(|(lease, _)| lease == id))
            };
            let open_units = lease.work.units().filter(is_open).count();
            assert_eq!(lease.open_units, open_units);
            assert!(lease.open_units > 0, "a lease on nothing");
            self.check_merge(&lease.work);
        }
        let deadlines = self
            .leases
            .iter()
            .map(|(&id, lease)| (lease.deadline, id))
            .collect();
        assert_eq!(self.deadlines, deadlines);
        for (speculate_at, id) in &self.unspeculated {
            assert_eq!(self.leases[id].speculate_at, *speculate_at);
        }
    }

    /// A shard is written as long as nobody has, and then the first file is read.
    fn check_merge(&self, work: &Work) {
        if let Work::Merge { shard, written, .. } = work
            && self.is_running()
        {
            assert_eq!(*written, self.jury.file(Unit::Shard(*shard)));
        }
    }

    fn check_workers(&self) {
        let threads: u64 = self
            .workers
            .values()
            .map(|worker| u64::from(worker.threads))
            .sum();
        assert_eq!(self.threads, threads);
        let is_there = |worker| self.workers.contains_key(&worker);
        self.ready.fresh.check(is_there);
        let heard = |(&id, worker): (&_, &super::Worker)| (worker.heard, id);
        let silences: BTreeSet<_> = self.workers.iter().map(heard).collect();
        assert_eq!(self.silences, silences);
        assert!(
            self.workers
                .keys()
                .all(|&id| self.quarantine_reason(id).is_none())
        );
        let mut present = BTreeMap::new();
        for id in self.workers.keys() {
            *present.entry(id.participant).or_insert(0) += 1;
        }
        assert_eq!(self.present, present);
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
            let writes = !pending.writing.is_empty();
            assert!(
                writes || pending.writes_awaited > 0 || pending.votes > 0,
                "submission {id} waits for nothing"
            );
            assert!(writes || pending.waiters.is_empty());
            assert!(writes || pending.next.is_empty());
            let next = pending.next.iter().map(|agreed| &agreed.unit);
            for &unit in pending.writing.iter().chain(next) {
                let is_gone = matches!(unit, Unit::Shard(_)) && !self.units.contains(unit);
                let state = (!is_gone).then(|| self.units.state(unit));
                let is_shard = matches!(unit, Unit::Shard(_));
                assert!(
                    is_shard || state == Some(UnitState::Committing(id)),
                    "{unit}"
                );
            }
            for &waiter in &pending.waiters {
                *waits.entry(waiter).or_default() += 1;
            }
            let votes = self.jury.voted().flat_map(|unit| self.jury.votes(unit));
            let votes = votes.filter(|vote| vote.submission == id);
            assert_eq!(votes.count(), pending.votes);
        }
        for (id, pending) in &self.pending {
            assert_eq!(pending.writes_awaited, waits.remove(id).unwrap_or(0));
        }
        assert!(waits.is_empty(), "answered but awaited: {waits:?}");
    }

    fn check_votes(&self) {
        self.jury.check();
        for unit in self.jury.voted() {
            assert!(!self.is_faulty(), "{unit} waits for votes after a fault");
            for vote in self.jury.votes(unit) {
                assert!(!self.quarantined.contains_key(&vote.worker.participant));
            }
            let is_disputed = self.jury.standing(unit) == Standing::Disputed;
            assert!(!is_disputed || self.arbitrations.contains(unit), "{unit}");
            if let Standing::Settled(_) = self.jury.standing(unit) {
                assert!(self.arbitrations.contains(unit), "{unit} is settled");
            }
        }
        let agreed = self.jury.voted().filter(|&unit| {
            let is_agreed = self.jury.standing(unit) == Standing::Agreed;
            is_agreed && !self.arbitrations.contains(unit)
        });
        let agreed: BTreeSet<Unit> = agreed.collect();
        let awaited: BTreeSet<Unit> = self.awaited.since.keys().copied().collect();
        assert!(agreed.is_subset(&awaited), "{agreed:?} of {awaited:?}");
        for &unit in &awaited {
            assert!(!self.arbitrations.contains(unit));
            assert!(
                agreed.contains(&unit) || self.jury.is_reopened(unit),
                "{unit}"
            );
        }
        if self.is_running() {
            for unit in self.jury.reopened() {
                let is_cared_for = awaited.contains(&unit)
                    || self.arbitrations.contains(unit)
                    || self.units.state(unit) != UnitState::Committed;
                assert!(is_cared_for, "nobody cares for {unit}");
            }
        }
    }
}
