//! The faults that end a job, and who may write what.

use chomp_plan::{SubmissionId, Unit};
use chomp_store::{Entry, Finders};

use super::*;
use crate::effects::SegmentContent;

/// A desk in whose journal all ranges are done.
pub(super) fn complete() -> Tested {
    let first = tested(|_| ());
    let done = |head| Entry::Done {
        part: PartName {
            layer: Head(head).layer(),
            lease: 1,
        },
        replicas: 1,
        finders: Finders::default(),
        ranges: vec![placed(head)],
    };
    let entries = (0..range_bits().heads(BITS)).map(done).collect();
    ready(first.tools.journal.append(entries)).unwrap();
    started(&first.storage, |_| ())
}

/// The parts that coordinators write have names of their own.
#[test]
fn what_a_coordinator_decides_is_named_by_its_epoch() {
    let first = tested(|_| ());
    let second = started(&first.storage, |_| ());
    let epoch = second.tools.journal.epoch();
    assert!(epoch > 0);
    let unit = Unit::Range(Head(0));
    let decided = ready(second.tools.decide(SubmissionId(5), unit, None)).unwrap();
    assert_eq!(decided.lease, epoch * (1 << 32) + (1 << 31) + 5);
}

fn fault(done: EffectResult) -> Option<JobError> {
    match done {
        EffectResult::Other { fault, .. } => fault,
        done => panic!("{done:?}"),
    }
}

#[test]
fn why_an_effect_failed_is_told() {
    let tested = complete();
    for (_, place) in tested.tools.journal.ledger().done(u64::MAX) {
        tested.storage.overwrite(&place.part().key(), "part");
    }
    let fault = fault(ready(Effect::Publish.perform(&tested.tools)));
    assert!(matches!(fault, Some(JobError::Publish(_))), "{fault:?}");
    let none = self::tested(|_| ());
    let (submission, unit) = (SubmissionId(1), Unit::Range(Head(5)));
    let said = None;
    let effect = Effect::Arbitrate {
        submission,
        unit,
        said,
    };
    let fault = self::fault(ready(effect.perform(&none.tools)));
    assert!(matches!(fault, Some(JobError::Arbiter(_))), "{fault:?}");
}

/// The coordinator cannot decide what two say of a range: that is why the job ends. What fails
/// without need is no reason.
#[test]
fn a_job_ends_for_what_it_needs() {
    let mut tested = tested(|_| ());
    let fault = || Some(JobError::Stopped(StopReason::Shutdown));
    let done = EffectResult::Other {
        events: vec![],
        fault: fault(),
    };
    tested.desk.end_effect(tested.now, done);
    assert!(tested.desk.fault.is_none());
    let (unit, reason) = (Unit::Range(Head(0)), "no memory".to_owned());
    tested.join(7);
    tested.complete(7, 1, &[0]);
    tested.do_effect();
    tested.revoke(7);
    let done = EffectResult::Other {
        events: vec![Event::ArbitrationFailed { unit, reason }],
        fault: fault(),
    };
    tested.desk.end_effect(tested.now, done);
    assert!(tested.desk.fault.is_some());
}

/// The journal names the finders of each range of a result apart.
#[test]
fn each_range_has_its_own_finders() {
    let (mut tested, taken) = with_taken();
    let pair = |&one: &u64| {
        let alike = |&&next: &&u64| next > one && Head(next).layer() == Head(one).layer();
        taken.iter().find(alike).map(|&next| [one, next])
    };
    let heads = taken.iter().find_map(pair).unwrap();
    tested.complete(7, 11, &heads[..1]);
    tested.write_all();
    let lost = placed(heads[0]).summary;
    let lost = Event::Lost {
        worker: WorkerId::only(7),
        head: lost.head,
        digest: lost.digest,
    };
    tested.desk.handle(tested.now, lost);
    tested.write_all();
    tested.join(8);
    tested.complete(8, 12, &heads);
    tested.rest();
    let Some(Effect::Append(SegmentContent { entries, .. })) = tested.desk.effects.pop() else {
        panic!("both are settled");
    };
    let finders = |entry: &Entry| match entry {
        Entry::Done { finders, .. } => finders.iter().collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let finders: Vec<_> = entries.iter().map(finders).collect();
    assert_eq!(finders, [vec![7, 8], vec![8]]);
}

#[tokio::test(start_paused = true)]
async fn the_end_is_told_and_time_goes_on() {
    let (mut job, handle, progress) = job();
    job.after();
    assert!(!progress.has_changed().unwrap());
    handle.tell(Event::Shutdown).unwrap();
    take_all(&mut job);
    job.after();
    let told = progress.borrow().phase.clone();
    assert_eq!(told, Phase::Stopped(StopReason::Shutdown));
    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!(job.now(), Millis(5000));
}
