//! The faults that end a job, and who may write what.

use chomp_store::{Entry, Finders};

use super::*;
use crate::effects::{Audit, SegmentContent, publish_table};

/// A job in whose journal all ranges are done.
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
    let entries = (0..range_bits().head_count(BITS)).map(done).collect();
    ready(first.tools.journal.append(entries)).unwrap();
    started(&first.storage, |_| ())
}

#[test]
fn why_an_effect_failed_is_told() {
    let tested = complete();
    for (_, row, _) in tested.tools.journal.ledger().done(u64::MAX) {
        tested.storage.overwrite(&row.part().key(), "part");
    }
    let outcome = ready(publish_table(&tested.tools));
    let is_told = matches!(outcome, (Err(_), Some(JobError::Publish(_))));
    assert!(is_told, "{outcome:?}");
}

/// Nothing is settled without the referee. Once the job is over, it does not matter how the referee ends.
#[test]
fn a_job_ends_if_the_referee_cannot_go_on() {
    for is_over in [false, true] {
        let mut tested = tested(|_| ());
        tested.job.on_referee_ended(Ok(()));
        assert!(tested.job.fault.is_none());
        if is_over {
            tested.job.handle(Event::Shutdown);
        }
        tested.job.on_referee_ended(Err(WorkerError::Rng));
        let outcome = tested.job.outcome();
        let has_failed = matches!(outcome, JobOutcome::Failed(JobError::Referee(_)));
        assert_eq!(has_failed, !is_over, "{outcome:?}");
    }
}

/// Of many reports few are audited at a time, and none of a record that the journal does not have.
#[test]
fn audits_are_bounded() {
    let mut tested = complete();
    tested.join(7);
    let worker = WorkerId::only(7);
    let report = |tested: &mut Tested, records: &[(Head, Digest, LeaseId)]| {
        let (responder, mut audit) = oneshot::channel();
        let begun = tested.job.report(worker, records, responder);
        begun.map(|()| audit.try_recv().ok())
    };
    // Another content, or the same in another place.
    let digest = placed(1).summary.digest;
    for other in [
        (Head(1), Digest::of(b"another"), LeaseId(1)),
        (Head(1), digest, LeaseId(2)),
    ] {
        let outdated = Audit {
            outdated: vec![Head(1)],
            ..Audit::default()
        };
        assert_eq!(report(&mut tested, &[other]), Ok(Some(outdated)));
        assert!(tested.job.effects.is_empty());
    }
    let records = [(Head(0), placed(0).summary.digest, LeaseId(1))];
    for _ in 0..AUDITS_MAX {
        assert_eq!(report(&mut tested, &records), Ok(None));
        let audit = tested.job.effects.pop();
        let is_of_one = matches!(&audit, Some(Effect::Audit { records, .. }) if records.len() == 1);
        assert!(is_of_one, "{audit:?}");
    }
    // So many at a time: of the next one nothing is said.
    assert_eq!(report(&mut tested, &records), Ok(Some(Audit::default())));
    assert!(tested.job.effects.is_empty());
    let (responder, _) = oneshot::channel();
    tested.job.on_audited(worker, Audit::default(), responder);
    assert_eq!(report(&mut tested, &records), Ok(None));
    assert!(!tested.job.effects.is_empty());
    let (responder, _) = oneshot::channel();
    let stranger = tested.job.report(WorkerId::only(8), &[], responder);
    assert_eq!(stranger, Err(Refusal::NotJoined));
}

/// What an audit has found lost may have been computed again during the audit.
#[test]
fn an_audit_loses_only_what_is_still_there() {
    let mut tested = complete();
    tested.join(7);
    let row = *tested.tools.journal.ledger().range(Head(0)).unwrap();
    for (lease, is_done) in [(2, true), (1, false)] {
        let audit = Audit {
            lost: vec![(Head(0), RangeRow { lease, ..row })],
            ..Audit::default()
        };
        let (responder, _answer) = oneshot::channel();
        tested.job.audits += 1;
        tested.job.on_audited(WorkerId::only(7), audit, responder);
        tested.write_all();
        let range = tested.tools.journal.ledger().range(Head(0)).copied();
        assert_eq!(range.is_some(), is_done);
    }
}

/// The status says of a worker how many records it alone cannot read.
#[test]
fn one_that_cannot_read_what_others_can_is_named() {
    let mut tested = tested(|_| ());
    tested.join(7);
    for (heads, count) in [(&[0][..], 1), (&[0, 2], 3)] {
        let audit = Audit {
            in_order: heads.iter().copied().map(Head).collect(),
            ..Audit::default()
        };
        let (responder, mut answer) = oneshot::channel();
        tested.job.audits += 1;
        tested.job.on_audited(WorkerId::only(7), audit, responder);
        assert!(!answer.try_recv().unwrap().in_order.is_empty());
        assert_eq!(tested.job.status().workers[0].unreadable, count);
    }
}

/// A larger table that was begun may have read a range that is wrong.
#[test]
fn ranges_of_a_larger_table_are_withdrawn_too() {
    let mut tested = complete();
    let beyond = Head(range_bits().head_count(BITS));
    let done = Entry::Done {
        part: PartName {
            layer: beyond.layer(),
            lease: 1,
        },
        replicas: 1,
        finders: Finders::default(),
        ranges: vec![placed(beyond.0)],
    };
    ready(tested.tools.journal.append(vec![done])).unwrap();
    tested.join(7);
    tested.referee_finds(other(0));
    let ledger = tested.tools.journal.ledger();
    assert_eq!((ledger.range(Head(0)), ledger.range(beyond)), (None, None));
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
    tested.complete(7, &heads[..1]);
    tested.write_all();
    let lost = placed(heads[0]).summary;
    let records = vec![(lost.head, lost.digest)];
    tested.job.handle(Event::Lost { records });
    tested.write_all();
    tested.join(8);
    tested.complete(8, &heads);
    tested.rest();
    let Some(Effect::Append(SegmentContent { entries, .. })) = tested.job.effects.pop() else {
        panic!("both are found");
    };
    let finders = |entry: &Entry| match entry {
        Entry::Done { finders, .. } => finders.participants().map(|of| of.0).collect(),
        other => panic!("{other:?}"),
    };
    let finders: Vec<Vec<u32>> = entries.iter().map(finders).collect();
    assert_eq!(finders, [vec![7, 8], vec![8]]);
}

#[tokio::test(start_paused = true)]
async fn the_end_is_told_and_time_goes_on() {
    let (mut job, handle, progress) = job();
    job.start_effects();
    assert!(!progress.has_changed().unwrap());
    handle.send(|job| job.handle(Event::Shutdown)).unwrap();
    take_all(&mut job);
    job.start_effects();
    let told = progress.borrow().phase.clone();
    assert_eq!(told, Phase::Stopped(StopReason::Shutdown));
    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!(job.time(), Millis(5000));
}
