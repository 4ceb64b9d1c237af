//! What a coordinator knows of the one before.

use chomp_access::Participants;
use chomp_plan::{ParticipantId, SubmissionId, Unit};

use super::*;
use crate::arbiter::Arbitrated;

#[test]
fn who_was_found_out_is_so_after_a_restart() {
    let start = |storage: &_, list: &List| started(storage, list, |_| {});
    let is_append = |errand: &Errand| matches!(errand, Errand::Append(_));
    let none = List::default();
    let mut first = tested(|_| {});
    first.join(1);
    first.complete(1, 1, &[0]);
    first.write_all();

    // The next coordinator knows who found what, and dies before it has computed it.
    let mut second = start(&first.storage, &none);
    let participant = ParticipantId(1);
    second
        .desk
        .handle(second.now, Event::Revoked { participant });
    second.rest();
    second.desk.errands.retain(is_append);
    second.do_errand();

    let mut third = start(&first.storage, &none);
    let misdeed = third.desk.plan.misdeed(WorkerId::only(1));
    let text = misdeed.unwrap().to_string();
    assert!(text.contains("taken back the credential"), "{text}");
    third.write_all();
    {
        let ledger = third.tools.journal.ledger();
        let (_, place, finders) = ledger.found(1).next().unwrap();
        assert_ne!(place.digest, placed(0).summary.digest, "the lie is kept");
        assert_eq!(finders.iter().len(), 0);
    }

    // Nothing is left to do, and whoever has a new credential is trusted again.
    let mut renewed = Participants::default();
    renewed.add("ann").unwrap();
    renewed.renew("ann").unwrap();
    let fourth = start(&first.storage, &List::new(renewed));
    assert!(fourth.desk.errands.is_empty());
    assert_eq!(fourth.desk.plan.misdeed(WorkerId::only(1)), None);
}

#[test]
fn what_the_coordinator_finds_too_is_nobodys_any_more() {
    let mut tested = tested(|_| {});
    tested.join(1);
    let (worker, lease) = (WorkerId::only(1), LeaseId(1));
    let head = Head(0);
    let right = tested
        .tools
        .arbiter
        .decide(SubmissionId(99), Unit::Range(head));
    let Arbitrated::Range { placed, .. } = ready(right).unwrap() else {
        panic!("a range is none");
    };
    let (layer, heads) = (0, vec![head]);
    let work = Work::Evaluate { layer, heads };
    tested.desk.plan.pretend_leased(worker, lease, work);
    let (reply, _verdict) = oneshot::channel();
    let handed = Handed::Ranges(vec![placed]);
    tested
        .desk
        .complete(tested.now, worker, lease, handed, reply);
    tested.write_all();
    let finders = |tested: &Tested| {
        let ledger = tested.tools.journal.ledger();
        let (_, _, finders) = ledger.found(1).next().unwrap();
        finders.iter().collect::<Vec<_>>()
    };
    assert_eq!(finders(&tested), [1]);
    let participant = ParticipantId(1);
    let revoked = Event::Revoked { participant };
    tested.desk.handle(tested.now, revoked);
    tested.write_all();
    assert!(finders(&tested).is_empty());
}
