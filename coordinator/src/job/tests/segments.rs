//! When a segment of the journal begins, and what is in it.

use chomp_store::Entry;

use super::*;

#[test]
fn a_segment_ends_with_the_ranges_that_fill_it() {
    let mut tested = tested(|settings| {
        (settings.task_positions_min, settings.task_positions_max) = (0, 1);
    });
    tested.join(7);
    tested.complete(7, 1, &[0]);
    tested.do_effect();
    let taken = some_taken(&mut tested);
    tested.rest();
    tested.complete(7, 2, &taken[..1]);
    tested.complete(7, 3, &taken[1..4]);
    for _ in 0..14 {
        tested.desk.note(Entry::Pruned);
    }
    let entries = |tested: &mut Tested| {
        tested.rest();
        match &tested.desk.effects[0] {
            Effect::Append(batch) => batch.entries.len(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(entries(&mut tested), 1);
    tested.do_effect();
    // The three ranges of one submission are one entry.
    assert_eq!(entries(&mut tested), 1 + 13);
    tested.do_effect();
    assert_eq!(entries(&mut tested), 1);
}

/// Nobody waits for what a worker hands in that has something else to do.
#[test]
fn a_segment_waits_for_more_unless_somebody_is_idle() {
    let mut tested = tested(|settings| {
        (settings.task_positions_min, settings.task_positions_max) = (0, 1);
    });
    tested.join(7);
    tested.complete(7, 1, &[0]);
    tested.do_effect();
    let taken = some_taken(&mut tested);
    tested.complete(7, 1, &taken[2..3]);
    tested.do_effect();
    let mut second = tested.complete(7, 2, &taken[..1]);
    assert!(tested.desk.effects.is_empty());
    let at = tested.desk.next_deadline().unwrap();
    assert!(tested.now < at);
    tested.now = at;
    tested.desk.handle(at, Event::Tick);
    tested.do_effect();
    assert_eq!(second.try_recv().unwrap(), Verdict::Accepted);

    let mut third = tested.complete(7, 3, &taken[1..2]);
    assert!(tested.desk.effects.is_empty());
    tested.join(8);
    assert!(tested.next_task(8).is_none());
    tested.do_effect();
    assert_eq!(third.try_recv().unwrap(), Verdict::Accepted);
}
