//! Parts that come through the coordinator: their records fill them, and those that nobody has use for go.

use chomp_plan::Rejection;
use chomp_store::{Entry, Finders, ShardSummary};
use chomp_table::fingerprint::Leaf;

use super::*;

/// The bytes of a part with the first range.
const BYTES: u64 = 76;

impl Tested {
    /// Worker 7 gets the first range.
    fn begin(&mut self) -> (LeaseId, PartName) {
        self.begin_as(7)
    }

    fn begin_as(&mut self, worker: u32) -> (LeaseId, PartName) {
        self.join(worker);
        let task = self.next_task(worker).unwrap();
        let (layer, lease) = (0, task.lease.0);
        (task.lease, PartName { layer, lease })
    }

    fn announce(&mut self, worker: u32, name: PartName, bytes: u64) -> PutGuard {
        let (worker, target) = (WorkerId::only(worker), PutTarget::Part(name));
        self.job.authorize_put(worker, target, bytes).unwrap()
    }

    fn put(&mut self, worker: u32, name: PartName) {
        let _transfer = self.announce(worker, name, BYTES);
        self.storage.overwrite(&name.key(), "a part");
    }

    fn is_there(&self, name: PartName) -> bool {
        self.storage.objects().contains_key(&name.key())
    }

    /// Lets enough time pass for a search for orphans, and does its effects.
    fn search(&mut self) {
        self.job.now = self.job.now.plus(9_000);
        self.write_all();
    }
}

#[test]
fn the_records_of_a_part_fill_it() {
    for (announced, is_taken) in [
        (&[BYTES][..], true),
        (&[BYTES, BYTES], true),
        (&[BYTES + 1], false),
        (&[BYTES - 1], false),
        // Which of them got into the store, nobody knows.
        (&[BYTES + 1, BYTES], false),
    ] {
        let mut tested = tested(|_| ());
        let (lease, name) = tested.begin();
        for &bytes in announced {
            tested.announce(7, name, bytes);
        }
        let mut verdict = tested.hand_in(7, lease, UnitLocation::in_part(lease, vec![placed(0)]));
        tested.write_all();
        let taken = tested.tools.journal.ledger().range(Head(0)).is_some();
        assert_eq!(taken, is_taken, "{announced:?}");
        match verdict.try_recv().unwrap() {
            Verdict::Accepted => assert!(is_taken),
            Verdict::Rejected {
                reason: Rejection::Unfilled { .. },
            } => assert!(!is_taken),
            other => panic!("{other:?}"),
        }
        assert!(!tested.job.plan.holds(WorkerId::only(7), lease));
    }
}

#[test]
fn parts_that_nobody_has_use_for_are_removed() {
    let worker = WorkerId::only(7);
    for how in 0..4 {
        let mut tested = tested(|_| ());
        let (lease, name) = tested.begin();
        tested.put(7, name);
        tested.search();
        assert!(tested.is_there(name), "its lease stands");
        let event = match how {
            0 | 1 => Event::Returned {
                worker,
                lease,
                failure: (how == 1).then(String::new),
            },
            2 => Event::Left { worker },
            _ => Event::Revoked {
                participant: worker.participant,
            },
        };
        tested.job.handle(event);
        tested.search();
        assert!(!tested.is_there(name), "{how}");
        // A result in it is rejected now.
        tested.join(7);
        let result = UnitLocation::in_part(lease, vec![placed(0)]);
        let verdict = tested.hand_in(7, lease, result).try_recv();
        let Ok(Verdict::Rejected { reason }) = verdict else {
            panic!("{verdict:?}");
        };
        assert!(how == 3 || reason == Rejection::NoLease { lease });
        assert!(
            tested
                .job
                .next_deadline()
                .is_none_or(|at| at > tested.job.now)
        );
    }
}

#[test]
fn parts_that_are_or_may_be_named_stay() {
    let worker = WorkerId::only(7);
    let result = |lease| UnitLocation::in_part(lease, vec![placed(0)]);
    let search_often = |tested: &mut Tested| (0..3).for_each(|_| tested.search());

    let mut done = tested(|_| ());
    let (lease, name) = done.begin();
    done.put(7, name);
    let mut verdict = done.hand_in(7, lease, result(lease));
    search_often(&mut done);
    assert_eq!(verdict.try_recv().unwrap(), Verdict::Accepted);
    assert!(done.is_there(name));

    // A result that waits for another one. The part of that is not needed.
    let mut noted = tested(|settings| settings.replicas = 2);
    let (lease, name) = noted.begin();
    let (second, other) = noted.begin_as(8);
    noted.put(7, name);
    noted.put(8, other);
    let mut verdict = noted.hand_in(7, lease, result(lease));
    assert_eq!(verdict.try_recv().unwrap(), Verdict::Noted);
    noted.search();
    noted.search();
    assert!(noted.is_there(name) && noted.is_there(other));
    noted.hand_in(8, second, result(second));
    search_often(&mut noted);
    assert!(noted.is_there(name) && !noted.is_there(other));

    // One that may still be written when its lease has ended goes when it cannot any more.
    let mut slow = tested(|_| ());
    let (lease, name) = slow.begin();
    let transfer = slow.announce(7, name, BYTES);
    let returned = Event::Returned {
        worker,
        lease,
        failure: None,
    };
    slow.job.handle(returned);
    search_often(&mut slow);
    slow.storage.overwrite(&name.key(), "a part");
    drop(transfer);
    search_often(&mut slow);
    assert!(!slow.is_there(name));

    // After a write that failed nobody knows whether the journal names it.
    let mut failed = tested(|_| ());
    let (lease, name) = failed.begin();
    failed.put(7, name);
    let _verdict = failed.hand_in(7, lease, result(lease));
    failed.fail_next(Moment::After);
    search_often(&mut failed);
    assert!(failed.job.fault.is_some() && failed.is_there(name));
    assert!(
        failed
            .job
            .next_deadline()
            .is_none_or(|at| at > failed.job.now)
    );
}

/// The parts of ranges that are merged go while others are merged, a 32nd of them at a time, unless they are to stay.
#[test]
fn parts_of_merged_ranges_go() {
    let ranges = range_bits().head_count(BITS);
    let merged = |number: u64| ShardSummary {
        number: number.try_into().unwrap(),
        shard: None,
        leaf: Leaf::default(),
        sums: Vec::new(),
    };
    let durable = |number: u64| Entry::Shard {
        bits: BITS,
        finders: Finders::default(),
        summary: merged(number),
    };
    // Each range has one word to store, and so has each shard.
    let from = ranges - ranges / 32;
    for keeps_parts in [false, true] {
        let first = faults::complete();
        let shards = (from..ranges).map(durable).collect();
        ready(first.tools.journal.append(shards)).unwrap();
        let change = |settings: &mut Settings| {
            (settings.shard_words, settings.keep_parts) = (1, keeps_parts);
        };
        let mut tested = started(&first.storage, change);
        tested.join(0);
        let task = tested.next_task(0).unwrap();
        let result = UnitLocation::in_file(Box::new(merged(from - 1)), false);
        let mut verdict = tested.hand_in(0, task.lease, result);
        tested.rest();
        tested.do_effect();
        assert_eq!(verdict.try_recv(), Ok(Verdict::Accepted));
        let removed = tested.job.effects.iter().find_map(|effect| match effect {
            Effect::RemoveMerged { ranges } => Some(ranges.clone()),
            _ => None,
        });
        assert_eq!(removed, (!keeps_parts).then_some(Head(from)..Head(ranges)));
    }
}
