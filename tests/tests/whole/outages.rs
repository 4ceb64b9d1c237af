//! What comes and goes: disks that fail or hang for a while, processes that stand still. A job waits, says for what, and
//! goes on by itself; or it ends with the cause.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::Signal;

use crate::common::cluster::{Cluster, free_port, wait_for};
use crate::common::faults::Faults;
use crate::common::{
    Ended, FINGERPRINT_26, end, files, fingerprint, folder, is_whole, ranges_done, run_in, send,
    start, wait, wait_until,
};

const BITS: u32 = 26;
const RANGE_BITS: u32 = 13;

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
    let cases = [
        // Of files: the sync of a folder is another matter.
        ("sync", "#1", Some(Errno::EIO)),
        ("write", "work/parts/", Some(Errno::EIO)),
        ("open", "work/parts/", Some(Errno::EMFILE)),
        ("link", "work/journal/", Some(Errno::ESTALE)),
        ("write", "work/journal/", None),
    ];
    std::thread::scope(|scope| {
        for (call, part, error) in cases {
            scope.spawn(move || {
                let (ended, rest) = run_through(call, part, error, Duration::from_secs(5));
                assert_eq!(fingerprint(&ended.summary()), FINGERPRINT_26, "{call}");
                assert_eq!(waits(&ended).len(), 2, "begun and over: {ended:?}");
                assert!(rest < Duration::from_secs(30), "{call}: {rest:?}");
            });
        }
    });
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
    assert_eq!(fingerprint(&ended.summary()), FINGERPRINT_26);
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
    assert_eq!(fingerprint(&summary), FINGERPRINT_26);
}

/// While others can be read, it is lost: its ranges are computed again, and a checkpoint is passed over.
#[test]
fn an_object_that_stays_unreadable_is_lost_and_no_more() {
    std::thread::scope(|scope| {
        for unreadable in ["work/parts/0000/", "work/checkpoints/"] {
            scope.spawn(move || {
                let table = folder();
                let mut child = start(&mut run_in(table.path(), BITS, RANGE_BITS));
                assert!(wait_until(&mut child, || ranges_done(table.path()) > 200));
                send(child.id(), Signal::SIGKILL);
                wait(child);
                let faults = Faults::new();
                faults.fail("read", unreadable, Errno::EIO);
                let summary = end(faults.reach(&mut run_in(table.path(), BITS, RANGE_BITS)));
                assert_eq!(fingerprint(&summary.summary()), FINGERPRINT_26);
            });
        }
    });
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
    assert_eq!(fingerprint(&ended.summary()), FINGERPRINT_26);
    drop(worker);
}

/// At once, by the first cause, and with no more words than that.
#[test]
fn what_lasts_ends_the_job_with_its_cause() {
    for (call, part, error, cause) in [
        ("link", "work/", Errno::EPERM, "has no hard links"),
        (
            "open",
            "work/parts/0009",
            Errno::EACCES,
            "Permission denied",
        ),
        (
            "open",
            "work/parts/0009",
            Errno::EROFS,
            "Read-only file system",
        ),
        ("write", "work/parts/0009", Errno::ENOSPC, "no space left"),
        ("write", "work/journal/", Errno::EDQUOT, "no space left"),
    ] {
        let table = folder();
        let faults = Faults::new();
        faults.fail(call, part, error);
        let begin = Instant::now();
        let ended = end(faults.reach(&mut run_in(table.path(), BITS, RANGE_BITS)));
        let key = part.trim_end_matches('/');
        ended.refuses(1, &[cause, key, table.path().to_str().unwrap()]);
        assert!(begin.elapsed() < Duration::from_secs(20), "{error}");
        assert!(!ended.stderr.contains("a task failed"), "{ended:?}");
        assert_eq!(waits(&ended), [""; 0], "{ended:?}");
        faults.end();
        let summary = end(&mut run_in(table.path(), BITS, RANGE_BITS)).summary();
        assert_eq!(fingerprint(&summary), FINGERPRINT_26);
    }
}

/// A terminal that is lost, and the warning of a batch system.
#[test]
fn signals_of_all_kinds_stop_a_run_in_good_order() {
    for signal in [Signal::SIGHUP, Signal::SIGUSR1] {
        let table = folder();
        let mut child = start(&mut run_in(table.path(), BITS, RANGE_BITS));
        assert!(wait_until(&mut child, || ranges_done(table.path()) > 100));
        send(child.id(), signal);
        let ended = wait(child);
        assert_eq!(ended.code, Some(75), "{ended:?}");
    }
}

/// As a machine leaves it whose disk lost its last write.
#[test]
fn the_last_segment_can_be_given_up_if_it_is_damaged() {
    let table = folder();
    let mut child = start(&mut run_in(table.path(), BITS, RANGE_BITS));
    assert!(wait_until(&mut child, || ranges_done(table.path()) > 100));
    send(child.id(), Signal::SIGKILL);
    wait(child);
    let segments = files(&table.path().join("work/journal"));
    let mut whole = segments.iter().filter(|file| is_whole(file));
    let last = whole.next_back().unwrap();
    let bytes = fs::read(last).unwrap();
    fs::write(last, &bytes[..bytes.len() / 2]).unwrap();
    let run = || run_in(table.path(), BITS, RANGE_BITS);
    let number = last.file_name().unwrap().to_str().unwrap();
    let number: u64 = number.parse().unwrap();
    let remedy = format!("--without-segment {number}");
    end(&mut run()).refuses(3, &["is damaged", &remedy]);
    // No other one is.
    for other in [number - 1, number + 1] {
        let mut command = run();
        command.args(["--without-segment", &other.to_string()]);
        end(&mut command).refuses(5, &["is not removed"]);
    }
    let mut command = run();
    command.args(["--without-segment", &number.to_string()]);
    let summary = end(&mut command).summary();
    assert_eq!(fingerprint(&summary), FINGERPRINT_26);
}

/// The access file and the secrets are in the directory, wherever the store is.
#[test]
fn coordinators_of_two_stores_do_not_share_a_directory() {
    let cluster = Cluster::new();
    let with_store = |port: u16, name: &str| {
        let mut command = cluster.coordinator_on(port, 20, 14);
        command.arg("--store").arg(cluster.home().join(name));
        command
    };
    let _first = cluster.start_coordinator(&mut with_store(cluster.port, "one"));
    let access = fs::read(cluster.access()).unwrap();
    let second = end(&mut with_store(free_port(), "other"));
    second.refuses(5, &["in use", "table/lock"]);
    assert_eq!(fs::read(cluster.access()).unwrap(), access);
}
