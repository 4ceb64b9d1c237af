//! The ways to the data: a directory that workers share, the coordinator, and a bucket of an
//! S3-compatible server.
//!
//! The tests with a bucket need such a server, whose URL is in `CHOMP_TEST_S3`, as `.ci/s3` starts one.
//! Without it there is nothing to test, unless `CHOMP_REQUIRE_S3=1`.

mod bucket;
mod faulty_proxy;
mod troubles;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::common::cluster::{Cluster, at_home, wait_for};
use crate::common::{
    FINGERPRINT_20, FINGERPRINT_24, FINGERPRINT_26, FINGERPRINT_28, copy, end, files, folder,
    ranges_done,
};
use chomp_testing::needs;
use nix::sys::signal::Signal;

/// The bytes of objects that went through the coordinator, to workers and from them.
fn through_the_coordinator(cluster: &Cluster) -> [u64; 2] {
    ["chomp_fetched_bytes_total", "chomp_submitted_bytes_total"].map(|name| cluster.metric(name))
}

#[test]
fn workers_read_and_write_the_store_themselves_or_through_the_coordinator() {
    let cluster = Cluster::new();
    let coordinator = cluster.start_coordinator(&mut cluster.coordinator(26, 12));
    // One that shares the directory.
    let near = cluster.join("near");
    cluster.wait_for_ranges(100);
    let ended = near.stop().exits(75);
    ended.says_nothing_of("through the coordinator");
    assert_eq!(through_the_coordinator(&cluster), [0, 0]);
    // One that is told to, and one that is told of a store of somebody else.
    let told = cluster.join("proxied");
    let elsewhere = cluster.home().join("elsewhere");
    let mut lost = cluster.worker("lost");
    let lost = cluster.start(lost.arg("--store").arg(&elsewhere));
    wait_for("bytes both ways", || {
        let passed = through_the_coordinator(&cluster);
        passed.iter().all(|&bytes| bytes > 0)
    });
    told.wait().done();
    let lost = lost.wait().done();
    lost.says(elsewhere.to_str().unwrap());
    assert_eq!(files(&elsewhere).len(), 0);
    coordinator.stop().made(FINGERPRINT_26);
}

/// A coordinator names the directory of another job of the same table, to which its worker may write.
#[test]
fn the_directory_of_another_coordinator_is_left_alone() {
    let [hostile, other] = [Cluster::new(), Cluster::new()];
    let [own, named] = ["own", "named"].map(|name| hostile.home().join(name));
    let theirs = other.home().join("store");
    let start = |cluster: &Cluster, store: &Path| {
        let mut command = cluster.coordinator(20, 12);
        cluster.start_coordinator(command.arg("--exit-when-done").arg("--store").arg(store))
    };
    drop(start(&hostile, &own));
    copy(&own, &theirs);
    drop(start(&other, &theirs));
    symlink(&own, &named).unwrap();
    let coordinator = start(&hostile, &named);
    // For that coordinator its lock is where it was.
    fs::remove_file(theirs.join("lock")).unwrap();
    fs::hard_link(own.join("lock"), theirs.join("lock")).unwrap();
    fs::remove_file(&named).unwrap();
    symlink(&theirs, &named).unwrap();
    let before = files(&theirs);
    let mut worker = hostile.join("worker");
    worker.wait_until(|| files(&theirs) != before);
    assert_eq!(files(&theirs), before);
    let worker = worker.wait().done();
    worker.says("its journal is not that of the coordinator");
    coordinator.wait().made(FINGERPRINT_20);
}

/// Users of no account, and their group.
const OWNER: u32 = 65_501;
const GROUP: u32 = 65_500;

/// Whose files are for themselves alone, unless their group may write to the directory.
#[test]
fn people_of_one_group_share_a_directory() {
    let is_root = nix::unistd::geteuid().is_root().then_some(());
    let is_root = is_root.ok_or_else(|| "only root starts processes of others".to_owned());
    if needs::found("USERS", is_root).is_none() {
        return;
    }
    let (cluster, store, programs) = (Cluster::new(), folder(), folder());
    let everybody = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode));
    everybody(programs.path(), 0o755).unwrap();
    let program = programs.path().join("chomp");
    fs::copy(crate::common::PROGRAM, &program).unwrap();
    chown(store.path(), Some(OWNER), Some(GROUP)).unwrap();
    everybody(store.path(), 0o2770).unwrap();
    chown(cluster.home(), Some(OWNER), Some(GROUP)).unwrap();
    everybody(cluster.home(), 0o711).unwrap();
    let as_user = |user: u32, plain: &Command| {
        let mut command = Command::new("sh");
        command.args(["-c", "umask 077; exec \"$@\"", "sh"]);
        command.arg(&program).args(plain.get_args());
        command.uid(user).gid(GROUP);
        at_home(command, cluster.home())
    };
    let mut plain = cluster.coordinator(28, 14);
    plain.arg("--store").arg(store.path());
    let coordinator = cluster.start_coordinator(&mut as_user(OWNER, &plain));
    for (user, code) in [(OWNER + 1, 75), (OWNER + 2, 0)] {
        let access = cluster.home().join(user.to_string());
        fs::copy(cluster.access(), &access).unwrap();
        chown(&access, Some(user), Some(GROUP)).unwrap();
        let plain = cluster.worker_with(&user.to_string(), &access);
        let before = ranges_done(store.path());
        let worker = cluster.start(&mut as_user(user, &plain));
        wait_for("some ranges", || ranges_done(store.path()) > before + 50);
        if code == 75 {
            worker.send(Signal::SIGTERM);
        }
        let ended = worker.wait();
        assert_eq!(ended.code, Some(code), "{ended:?}");
        ended.says_nothing_of("through the coordinator");
    }
    coordinator.stop().made(FINGERPRINT_28);
}

/// The journal alone in a local directory.
#[test]
fn a_journal_of_its_own() {
    let cluster = Cluster::new();
    let (store, journal) = (cluster.home().join("store"), cluster.home().join("journal"));
    let mut command = cluster.coordinator(24, 12);
    command.arg("--store").arg(&store);
    command.arg("--journal").arg(&journal);
    let coordinator = cluster.start_coordinator(&mut command);
    cluster.join("worker").wait().done();
    coordinator.stop().made(FINGERPRINT_24);
    assert!(!files(&journal).is_empty());
    assert!(files(&store.join("work/journal")).is_empty());
    assert_eq!(files(&store.join("table-24")).len(), 3);
    let mut verify = cluster.chomp("verify --level full --table");
    end(verify.arg(&store)).done();
}
