//! What comes and goes: disks that fail or hang for a while, processes that stand still. A job waits, says for what, and
//! goes on by itself; or it ends with the cause.

use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::Signal;

use crate::common::cluster::{Cluster, wait_for};
use crate::common::faults::Faults;
use crate::common::{
    Ended, FINGERPRINT_28, end, fingerprint, folder, ranges_done, run_in, send, start, wait,
    wait_until,
};

const BITS: u32 = 28;
const RANGE_BITS: u32 = 14;

/// A run whose calls fail so for a while, from when some ranges are done.
fn run_through(call: &str, part: &str, error: Option<Errno>, lasts: Duration) -> (Ended, Duration) {
    let table = folder();
    let faults = Faults::new();
    let mut command = run_in(table.path(), BITS, RANGE_BITS);
    let mut child = start(faults.reach(&mut command));
    assert!(wait_until(&mut child, || ranges_done(table.path()) > 100));
    match error {
        Some(error) => faults.fail(call, part, error),
        None => faults.hang(call, part),
    }
    sleep(lasts);
    faults.end();
    let over = Instant::now();
    (wait(child), over.elapsed())
}

/// The lines about what is waited for.
fn waits(ended: &Ended) -> Vec<&str> {
    let lines = ended.stderr.lines();
    lines
        .filter(|line| line.contains("waiting for") || line.contains("the wait for"))
        .collect()
}

#[test]
fn a_disk_that_fails_for_a_while_is_waited_for() {
    for (call, part, error) in [
        ("sync", "work/parts/", Some(Errno::EIO)),
        ("write", "work/parts/", Some(Errno::EIO)),
        ("open", "work/parts/", Some(Errno::EMFILE)),
        ("link", "work/journal/", Some(Errno::ESTALE)),
        ("write", "work/journal/", None),
    ] {
        // Of files: the sync of a folder is another matter.
        let part = if call == "sync" { "#1" } else { part };
        let (ended, rest) = run_through(call, part, error, Duration::from_secs(6));
        assert_eq!(fingerprint(&ended.summary()), FINGERPRINT_28, "{call}");
        let told = waits(&ended);
        assert_eq!(told.len(), 2, "begun and over: {ended:?}");
        assert!(rest < Duration::from_secs(30), "{call}: {rest:?}");
    }
}

/// Shorter than people care for.
#[test]
fn a_hiccup_is_not_told() {
    let (ended, _) = run_through(
        "read",
        "work/parts/",
        Some(Errno::EIO),
        Duration::from_millis(300),
    );
    assert_eq!(fingerprint(&ended.summary()), FINGERPRINT_28);
    assert_eq!(waits(&ended), [""; 0], "{ended:?}");
}

/// Nobody knows what the disk has then, and nothing is acknowledged any more.
#[test]
fn a_folder_that_is_not_synced_ends_the_process() {
    let table = folder();
    let faults = Faults::new();
    let mut child = start(faults.reach(&mut run_in(table.path(), BITS, RANGE_BITS)));
    assert!(wait_until(&mut child, || ranges_done(table.path()) > 100));
    faults.fail("sync", "work/journal$", Errno::EIO);
    let ended = wait(child);
    ended.refuses(1, &["a sync failed", "run again"]);
    faults.end();
    let summary = end(&mut run_in(table.path(), BITS, RANGE_BITS)).summary();
    assert_eq!(fingerprint(&summary), FINGERPRINT_28);
}

/// While others can be read, it is lost: its ranges are computed again, and a checkpoint is passed over.
#[test]
fn an_object_that_stays_unreadable_is_lost_and_no_more() {
    let table = folder();
    let mut child = start(&mut run_in(table.path(), BITS, RANGE_BITS));
    assert!(wait_until(&mut child, || ranges_done(table.path()) > 200));
    send(child.id(), Signal::SIGKILL);
    wait(child);
    for unreadable in ["work/parts/0000/", "work/checkpoints/"] {
        let faults = Faults::new();
        faults.fail("read", unreadable, Errno::EIO);
        let mut child = start(faults.reach(&mut run_in(table.path(), BITS, RANGE_BITS)));
        let before = ranges_done(table.path());
        let goes_on = wait_until(&mut child, || ranges_done(table.path()) > before + 10);
        assert!(goes_on, "{unreadable}: {:?}", wait(child));
        send(child.id(), Signal::SIGKILL);
        wait(child);
    }
    let summary = end(&mut run_in(table.path(), BITS, RANGE_BITS)).summary();
    assert_eq!(fingerprint(&summary), FINGERPRINT_28);
}

/// The coordinator puts it for them.
#[test]
fn workers_that_go_through_a_coordinator_wait_for_its_disk() {
    let cluster = Cluster::new();
    let faults = Faults::new();
    let mut command = cluster.coordinator(BITS, RANGE_BITS);
    let command = faults.reach(command.arg("--exit-when-done"));
    let coordinator = cluster.start_coordinator(command);
    let worker = cluster.start(cluster.worker("far").args(["--store", "coordinator"]));
    wait_for("some ranges", || ranges_done(&cluster.table()) > 50);
    faults.fail("sync", "#1", Errno::EIO);
    wait_for("the coordinator is not ready", || {
        cluster.get("/readyz", &[]).status == 503
    });
    faults.end();
    let ended = coordinator.wait();
    assert_eq!(fingerprint(&ended.summary()), FINGERPRINT_28);
    drop(worker);
}
