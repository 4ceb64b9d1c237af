//! A store in a bucket whose server has troubles: coordinator and workers make the right table all the same, or say
//! what is to be done, and nothing that was acknowledged is lost.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use chomp_testing::effort;
use nix::sys::signal::Signal;
use serde_json::Value;

use super::bucket::{Bucket, PATIENT, SOON};
use super::faulty_proxy::{CREDENTIALS, FaultyProxy, NEW_KEY, OLD_KEY, Way};
use crate::common::cluster::{Process, wait_for};
use crate::common::{Ended, FINGERPRINT_24};

/// A user without a key is told where to get one.
const POD: &str = "";
/// The seconds for which a server is gone, unless `CHOMP_OUTAGE` says: longer than all is repeated at short intervals,
/// and shorter than anybody waits.
const OUTAGE: f64 = 2.0;
/// A number of ranges that is far from all.
const SOME: u64 = 1 << 4;

/// A job whose way to the server is a proxy.
struct Job {
    bucket: Bucket,
    proxy: FaultyProxy,
}

impl Job {
    /// None if there is no server.
    fn new(way: Way) -> Option<Job> {
        let mut bucket = Bucket::new()?;
        let proxy = FaultyProxy::start(&bucket.address, way);
        bucket.url.clone_from(&proxy.url);
        (bucket.bits, bucket.range_bits) = (24, 16);
        Some(Job { bucket, proxy })
    }

    /// A coordinator with this key, always the same one.
    fn coordinator(&self, key: &str) -> Process {
        let mut command = self.bucket.coordinator("table", self.bucket.cluster.port);
        self.identify(&mut command, key);
        self.bucket.cluster.start_coordinator(&mut command)
    }

    /// Workers with these keys and this patience.
    fn workers<const N: usize>(&self, keys: [&str; N], patience: u32) -> [Process; N] {
        keys.map(|key| {
            let mut command = self.bucket.worker("table", patience);
            self.identify(&mut command, key);
            self.bucket.start(&mut command)
        })
    }

    /// Starts a coordinator on a store in which so many ranges were acknowledged.
    fn go_on(&self, done: u64) -> Process {
        let coordinator = self.coordinator(NEW_KEY);
        let found = self.ranges_done();
        assert!(found > 0 && found >= done, "{found} of {done} are there");
        coordinator
    }

    fn identify(&self, command: &mut Command, key: &str) {
        if key != POD {
            command.env("AWS_ACCESS_KEY_ID", key);
            return;
        }
        let token = self.bucket.directory("token");
        fs::write(&token, "a token").unwrap();
        let place = format!("{}{CREDENTIALS}", self.proxy.url);
        for key in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
            command.env_remove(key);
        }
        command.env("AWS_CONTAINER_CREDENTIALS_FULL_URI", place);
        command.env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token);
    }

    fn ranges_done(&self) -> u64 {
        self.bucket.cluster.metric("chomp_ranges_done")
    }

    /// Waits until `more` ranges are acknowledged beside those of now; returns how many there are then.
    fn wait_for_more(&self, more: u64) -> u64 {
        let (before, mut done) = (self.ranges_done(), 0);
        wait_for("more ranges", || {
            done = self.ranges_done();
            done >= before + more
        });
        done
    }
}

/// The job is done; what its workers left behind.
fn is_done(coordinator: Process, workers: [Process; 2]) -> [Ended; 2] {
    let ended = workers.map(|worker| worker.wait().done());
    coordinator.stop().made(FINGERPRINT_24);
    ended
}

/// The coordinator is killed half-way.
#[test]
fn a_server_that_fails_now_and_then() {
    let Some(job) = Job::new(Way::Failing) else {
        return;
    };
    let coordinator = job.coordinator(NEW_KEY);
    let workers = job.workers([NEW_KEY; 2], SOON);
    let done = job.wait_for_more(SOME);
    assert_eq!(coordinator.kill().code, None);
    for worker in workers {
        worker.wait().exits(4);
    }
    let coordinator = job.go_on(done);
    let workers = job.workers([NEW_KEY; 2], PATIENT);
    for worker in is_done(coordinator, workers) {
        worker.says_nothing_of("through the coordinator");
    }
    let counts = job.proxy.counts();
    let least = counts.failed_before.min(counts.failed_after);
    assert!(least > 10, "{counts:?}");
}

#[test]
fn a_server_that_is_gone_for_a_while_is_waited_for() {
    let Some(job) = Job::new(Way::Open) else {
        return;
    };
    let mut coordinator = job.coordinator(NEW_KEY);
    let mut workers = job.workers([NEW_KEY; 2], PATIENT);
    job.wait_for_more(SOME);
    job.proxy.set(Way::Gone);
    let outage = std::env::var("CHOMP_OUTAGE");
    let usual = OUTAGE * effort().clamp(1.0, 4.0);
    let outage = outage.map_or(usual, |seconds| seconds.parse().unwrap());
    thread::sleep(Duration::from_secs_f64(outage));
    for process in [&mut coordinator].into_iter().chain(&mut workers) {
        assert!(process.ended().is_none(), "{:?}", process.ended());
    }
    job.proxy.set(Way::Open);
    is_done(coordinator, workers);
}

/// Of temporary credentials that were put into the environment.
#[test]
fn credentials_that_expire_half_way() {
    // The status that Amazon gives. The job has more parts.
    let (parts, status) = (64, 400);
    let Some(job) = Job::new(Way::Expires { parts, status }) else {
        return;
    };
    let coordinator = job.coordinator(OLD_KEY);
    let workers = job.workers([OLD_KEY; 2], SOON);
    let texts = [
        &job.bucket.store,
        "the credentials have expired",
        "AWS_SESSION_TOKEN",
        "run the same command again",
        "<Code>ExpiredToken</Code>",
    ];
    let ended = coordinator.wait();
    ended.refuses(5, &texts);
    let events = ended.stderr.lines().map(serde_json::from_str::<Value>);
    let done = events.filter_map(|event| event.unwrap()["ranges_done"].as_u64());
    let done = done.max().expect("it said how far it was");
    for worker in workers {
        // Whether the coordinator can still tell it depends on who asks when.
        let ended = worker.wait();
        let was_told = ["has stopped the job", "the credentials have expired"];
        let was_told = was_told.iter().all(|text| ended.stderr.contains(text));
        let code = if was_told { 1 } else { 4 };
        assert_eq!(ended.code, Some(code), "{ended:?}");
    }

    let coordinator = job.go_on(done);
    // And the workers': then the coordinator does for them what is done in the store.
    let (parts, status) = (2, 403);
    job.proxy.set(Way::Expires { parts, status });
    let texts = ["through the coordinator", "the credentials have expired"];
    let [old] = job.workers([OLD_KEY], PATIENT);
    wait_for("credentials that have expired", || {
        texts.iter().all(|text| old.said().contains(text))
    });
    // It stands still until somebody else has done something.
    old.pause();
    let [new] = job.workers([NEW_KEY], PATIENT);
    job.wait_for_more(1);
    old.send(Signal::SIGCONT);
    let [old, new] = is_done(coordinator, [old, new]);
    for text in texts {
        old.says(text);
        new.says_nothing_of(text);
    }
}

/// Of a pod, which gets new ones while the old ones are still good.
#[test]
fn credentials_that_are_renewed_in_time() {
    // Fewer than half of these parts are under way when there are new credentials.
    let (parts, status) = (32, 400);
    let Some(job) = Job::new(Way::Expires { parts, status }) else {
        return;
    };
    let coordinator = job.coordinator(POD);
    let workers = job.workers([POD; 2], PATIENT);
    is_done(coordinator, workers);
    let counts = job.proxy.counts();
    assert!(counts.expired == 0 && counts.renewed > 10, "{counts:?}");
}
