//! What the job does with calls that are dropped, and with more ranges than fit.

use std::task::{Context, Waker};

use chomp_table::RangeBits;
use chomp_table::head::layers;

use super::*;
use crate::plan::{HEAD_BITS_MAX, Settings};
use crate::ready;
use crate::storage::SimulatedStorage;
use crate::store::PART_RANGES_MAX;

fn range_bits() -> RangeBits {
    RangeBits::new(12).unwrap()
}

fn job() -> (Job, Handle) {
    let bits = 14;
    let storage = Arc::new(SimulatedStorage::new(0));
    let (store, _) = ready(Store::open(storage, range_bits(), bits)).unwrap();
    let (plan, _) = Plan::new(Settings::new(bits, range_bits()), &[], &[], 0).unwrap();
    let store = Arc::new(store);
    let audit = Arc::new(Audit::new(Arc::clone(&store), 0));
    let (job, handle, _) = Job::new(plan, store, audit, None);
    (job, handle)
}

/// Takes in all that was sent so far.
fn take_all(job: &mut Job) {
    while let Ok(command) = job.commands.try_recv() {
        if let Some(event) = job.take(command) {
            job.handle(event);
        }
    }
}

/// A call that waits for a task, once the job has heard of it.
fn poll<F: Future>(call: &mut std::pin::Pin<Box<F>>) -> std::task::Poll<F::Output> {
    call.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn calls_that_are_dropped_leave_nothing_behind() {
    let (mut job, handle) = job();
    let join = |threads| Event::Joined {
        worker: WorkerId(7),
        name: String::new(),
        threads,
    };
    job.handle(join(1));

    // The only task of the first layer is taken, so the others wait.
    let mut holder = Box::pin(handle.lease(WorkerId(7)));
    assert!(poll(&mut holder).is_pending());
    take_all(&mut job);
    for _ in 0..10 {
        let mut waiting = Box::pin(handle.lease(WorkerId(7)));
        assert!(poll(&mut waiting).is_pending());
        take_all(&mut job);
        assert_eq!(job.requests.len(), 1);
        drop(waiting);
        take_all(&mut job);
        assert_eq!(job.requests.len(), 0);
    }

    // A task that was given to a call that is dropped goes back at once.
    assert_eq!(job.plan.progress().leases, 1);
    drop(holder);
    take_all(&mut job);
    assert_eq!(job.plan.progress().leases, 0);

    // So does one for a call that was dropped before the job heard of it.
    let mut early = Box::pin(handle.lease(WorkerId(7)));
    assert!(poll(&mut early).is_pending());
    drop(early);
    take_all(&mut job);
    assert_eq!((job.plan.progress().leases, job.requests.len()), (0, 0));
}

/// A submission is of one layer, without repetition: so what a plan has committed at once is never
/// more than a part may hold.
#[test]
fn a_layer_fits_a_part() {
    let layers = layers(range_bits().get() + HEAD_BITS_MAX, range_bits());
    let most = layers.iter().map(Vec::len).max().unwrap();
    assert!(most <= PART_RANGES_MAX, "{most}");
}
