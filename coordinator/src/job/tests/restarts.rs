//! The knowledge that survives a restart.

use chomp_plan::{Rejection, SubmissionId, Unit};

use super::*;

fn is_append(effect: &Effect) -> bool {
    matches!(effect, Effect::Append(_))
}

#[test]
fn who_was_quarantined_is_so_after_a_restart() {
    let start = |storage: &_| started(storage, |_| {});
    let mut first = tested(|_| {});
    first.join(1);
    first.complete(1, 1, &[0]);
    first.write_all();

    // The next coordinator knows who found what, and dies before it has computed it.
    let mut second = start(&first.storage);
    second.revoke(1);
    second.rest();
    second.desk.effects.retain(is_append);
    second.do_effect();

    let mut third = start(&first.storage);
    let quarantine = third.desk.plan.quarantine_reason(WorkerId::only(1));
    let text = quarantine.unwrap().to_string();
    assert!(text.contains("taken back the credential"), "{text}");
    third.write_all();
    {
        let ledger = third.tools.journal.ledger();
        let (_, place, finders) = ledger.found(1).next().unwrap();
        assert_ne!(place.digest, placed(0).summary.digest, "the lie is kept");
        assert_eq!(finders.iter().len(), 0);
    }

    // Nothing is left to do.
    let fourth = start(&first.storage);
    assert!(fourth.desk.effects.is_empty());
    assert!(
        fourth
            .desk
            .plan
            .quarantine_reason(WorkerId::only(1))
            .is_some()
    );
}

#[test]
fn what_the_coordinator_finds_too_is_nobodys_any_more() {
    let mut tested = tested(|_| {});
    tested.join(1);
    let head = Head(0);
    let right = tested
        .tools
        .decide(SubmissionId(99), Unit::Range(head), None);
    let WorkerResult::Ranges(ranges) = ready(right).unwrap().result else {
        panic!("a range is none");
    };
    tested.hand_in_ranges(1, 1, ranges);
    tested.write_all();
    let finders = |tested: &Tested| {
        let ledger = tested.tools.journal.ledger();
        let (_, _, finders) = ledger.found(1).next().unwrap();
        finders.iter().collect::<Vec<_>>()
    };
    assert_eq!(finders(&tested), [1]);
    tested.revoke(1);
    tested.write_all();
    assert!(finders(&tested).is_empty());
}

#[test]
fn what_was_lost_has_to_come_out_the_same_after_a_restart() {
    let mut first = tested(|_| {});
    first.join(1);
    first.complete(1, 1, &[0]);
    first.write_all();
    let (worker, head) = (WorkerId::only(1), Head(0));
    let digest = placed(0).summary.digest;
    let lost = Event::Lost {
        worker,
        head,
        digest,
    };
    first.desk.handle(first.now, lost);
    first.write_all();
    assert!(first.tools.journal.ledger().is_empty());

    let mut second = started(&first.storage, |_| {});
    second.join(2);
    let mut other = placed(0);
    other.summary.digest = Digest::of(b"another");
    let lease = second.tools.journal.epoch() << 32;
    let mut verdict = second.hand_in_ranges(2, lease, vec![other]);
    assert_eq!(verdict.try_recv().unwrap(), Verdict::Noted);
    // Neither was right, and who found what was lost is known too.
    second.write_all();
    for liar in [1, 2] {
        assert!(
            second
                .desk
                .plan
                .quarantine_reason(WorkerId::only(liar))
                .is_some()
        );
    }
}

#[test]
fn how_many_were_needed_is_known_after_a_restart() {
    let two = |settings: &mut Settings| settings.replicas = 2;
    let mut first = tested(two);
    for worker in [1, 2] {
        first.join(worker);
        first.complete(worker, worker.into(), &[0]);
    }
    first.write_all();
    first.revoke(1);
    first.rest();
    first.desk.effects.retain(is_append);
    first.do_effect();
    let second = started(&first.storage, two);
    assert_eq!(second.desk.plan.progress().arbitrations, 1);
}

#[test]
fn who_confirms_a_range_is_its_finder() {
    let mut tested = tested(|_| {});
    tested.join(1);
    tested.join(2);
    for head in [0, 1] {
        tested.complete(1, 1 + head, &[head]);
        tested.write_all();
    }
    // It is there to find again what nobody has found any more.
    tested.next_task(2).unwrap();
    tested.revoke(1);
    let task = tested.next_task(2).unwrap();
    let (layer, heads) = (0, vec![Head(0)]);
    assert_eq!(task.work, Work::Evaluate { layer, heads });
    let result = WorkerResult::Ranges(vec![placed(0)]);
    let mut verdict = tested.hand_in(2, task.lease, result);
    assert_eq!(verdict.try_recv().unwrap(), Verdict::Accepted);
    tested.write_all();
    let ledger = tested.tools.journal.ledger();
    let finders = ledger.found(2).map(|(_, _, finders)| finders.iter().last());
    assert!(finders.eq([Some(2), Some(chomp_store::QUARANTINED)]));
}

/// Results of leases from before a withdrawal may follow from what was wrong.
#[test]
fn leases_from_before_a_withdrawal_count_no_more() {
    let first = started(&tested(|_| ()).storage, |_| ());
    let heads = vec![Head(1)];
    let withdrawn = chomp_store::Entry::Withdrawn { heads };
    ready(first.tools.journal.append(vec![withdrawn])).unwrap();
    let mut second = started(&first.storage, |_| ());
    second.join(1);
    let epoch = second.tools.journal.epoch();
    assert!(epoch > 1);
    let result = WorkerResult::Ranges(vec![placed(0)]);
    let mut verdict = second.hand_in(1, LeaseId((epoch - 1) << 32), result);
    let reason = Rejection::Stale;
    assert_eq!(verdict.try_recv().unwrap(), Verdict::Rejected { reason });
}
