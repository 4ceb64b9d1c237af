//! The knowledge that survives a restart.

use super::*;

fn is_append(effect: &Effect) -> bool {
    matches!(effect, Effect::Append(_))
}

impl Tested {
    fn finders(&self, head: u64) -> Vec<u32> {
        let ledger = self.tools.journal.ledger();
        let mut found = ledger.done(u64::MAX);
        let (.., finders) = found.find(|(one, ..)| one.0 == head).unwrap();
        finders.participants().map(|of| of.0).collect()
    }
}

#[test]
fn who_is_out_is_so_after_a_restart() {
    let start = |storage: &_| started(storage, |_| {});
    let mut first = tested(|_| {});
    first.join(1);
    first.complete(1, &[0]);
    first.write_all();

    // The next coordinator knows who found what, and dies before it is checked.
    let mut second = start(&first.storage);
    second.revoke(1);
    second.rest();
    second.job.effects.retain(is_append);
    second.do_effect();

    let mut third = start(&first.storage);
    let reason = third.job.plan.out_reason(WorkerId::only(1));
    let text = reason.unwrap().to_string();
    assert!(text.contains("taken back the credential"), "{text}");
    assert_eq!(third.job.plan.progress().checks_waiting, 1);
    third.referee_finds(other(0));
    let ledger = third.tools.journal.ledger();
    assert_eq!(ledger.range(Head(0)), None, "the lie is kept");
    drop(ledger);

    // Nothing is left to do.
    let fourth = start(&first.storage);
    assert!(fourth.job.effects.is_empty());
    assert_eq!(fourth.job.plan.progress().checks_waiting, 0);
    assert!(fourth.job.plan.out_reason(WorkerId::only(1)).is_some());
}

#[test]
fn a_range_that_the_referee_finds_too_is_final() {
    let mut tested = tested(|_| {});
    tested.join(1);
    tested.complete(1, &[0]);
    tested.write_all();
    assert_eq!(tested.finders(0), [1]);
    tested.revoke(1);
    tested.referee_finds(placed(0));
    assert!(tested.finders(0).is_empty());
    assert_eq!(tested.job.plan.progress().checks_waiting, 0);
}

#[test]
fn a_lost_range_has_to_come_out_the_same_after_a_restart() {
    let mut first = tested(|_| {});
    first.join(1);
    first.complete(1, &[0]);
    first.write_all();
    let records = vec![(Head(0), placed(0).summary.digest)];
    first.job.handle(Event::Lost { records });
    first.write_all();
    assert_eq!(first.tools.journal.ledger().done_count(), 0);

    let mut second = started(&first.storage, |_| {});
    second.join(2);
    let mut verdict = second.hand_in_ranges(2, vec![other(0)]);
    assert_eq!(verdict.try_recv().unwrap(), Verdict::Noted);
    // Neither was right, and who found the lost one is known too.
    let mut right = placed(0);
    right.summary.digest = Digest::of(b"a third one");
    second.referee_finds(right);
    for liar in [1, 2] {
        let reason = second.job.plan.out_reason(WorkerId::only(liar));
        assert!(reason.is_some(), "{liar}");
    }
}

#[test]
fn a_check_that_is_owed_is_so_after_a_restart() {
    let two = |settings: &mut Settings| settings.replicas = 2;
    let mut first = tested(two);
    for worker in [1, 2] {
        first.join(worker);
        first.complete(worker, &[0]);
    }
    first.write_all();
    first.revoke(1);
    first.rest();
    first.job.effects.retain(is_append);
    first.do_effect();
    let second = started(&first.storage, two);
    assert_eq!(second.job.plan.progress().checks_waiting, 1);
}

#[test]
fn who_checks_a_range_is_its_finder() {
    let mut tested = tested(|_| {});
    tested.join(1);
    tested.join(2);
    tested.complete(1, &[0]);
    tested.write_all();
    tested.revoke(1);
    let task = std::iter::from_fn(|| tested.next_task(2)).last().unwrap();
    let check = Work::Evaluate {
        layer: 0,
        heads: vec![Head(0)],
        is_check: true,
    };
    assert_eq!(task.work, check);
    let result = UnitLocation::in_part(task.lease, vec![placed(0)]);
    let mut verdict = tested.hand_in(2, task.lease, result);
    assert_eq!(verdict.try_recv().unwrap(), Verdict::Accepted);
    tested.write_all();
    assert_eq!(tested.finders(0), [2]);
}
