//! A store in a bucket.

use std::path::PathBuf;
use std::process::Command;

use chomp_table::Table;
use nix::sys::signal::Signal;

use super::relay::{Relay, Way};
use super::through_the_coordinator;
use crate::common::cluster::{Cluster, Process, wait_for};
use crate::common::{Ended, FINGERPRINT_24, FINGERPRINT_26, end, fingerprint, number, program};
use chomp_testing::needs;

/// The bucket that the server has.
const BUCKET: &str = "s3://chomp-test";

/// A folder in the bucket of the server, for one test.
pub(crate) struct Bucket {
    /// Host and port of the server.
    pub(crate) address: String,
    /// Where coordinators and workers find it.
    pub(crate) url: String,
    pub(crate) cluster: Cluster,
    pub(crate) store: String,
    /// Of its table.
    pub(crate) bits: &'static str,
    pub(crate) range_bits: &'static str,
}

impl Bucket {
    /// None if there is no server.
    pub(crate) fn new() -> Option<Bucket> {
        let url = std::env::var("CHOMP_TEST_S3");
        let url = url.map_err(|_| "CHOMP_TEST_S3 names no S3-compatible server".to_owned());
        let url = needs::found("S3", url)?;
        let address = url.trim_end_matches('/').replace("http://", "");
        let cluster = Cluster::new();
        // The home of a test is named by chance.
        let name = cluster.home().file_name().unwrap().to_string_lossy();
        Some(Bucket {
            url: format!("http://{address}"),
            address,
            bits: "24",
            range_bits: "12",
            store: format!("{BUCKET}/{}/table", name.trim_start_matches('.')),
            cluster,
        })
    }

    /// A coordinator on this store with a directory of its own.
    pub(crate) fn coordinator(&self, directory: &str, port: u16) -> Command {
        let mut command = self.cluster.program();
        command.args([
            "coordinator",
            "--json",
            "--bits",
            self.bits,
            "--range-bits",
            self.range_bits,
        ]);
        command.args(["--listen", &format!("127.0.0.1:{port}")]);
        command.args(["--store", &self.store, "--table"]);
        command.arg(self.directory(directory));
        with_credentials(&mut command, &self.url);
        command
    }

    pub(crate) fn directory(&self, name: &str) -> PathBuf {
        self.cluster.home().join(name)
    }

    /// A worker for the coordinator with this directory.
    pub(crate) fn worker(&self, directory: &str) -> Command {
        let mut command = self.cluster.program();
        command.args(["worker", "--json", "--threads", "1", "--memory", "256MiB"]);
        command.args(["--patience", "1", "--access"]);
        command.arg(self.directory(directory).join("access.json"));
        with_credentials(&mut command, &self.url);
        command
    }

    pub(crate) fn start(&self, command: &mut Command) -> Process {
        self.cluster.start(command)
    }

    /// `chomp run` on this store, whose server is at `url`.
    fn run_at(&self, url: &str, more: &[&str]) -> Command {
        self.run_on(&self.store, url, more)
    }

    fn run_on(&self, store: &str, url: &str, more: &[&str]) -> Command {
        let mut command = self.cluster.program();
        command.args([
            "run",
            "--json",
            "--bits",
            self.bits,
            "--range-bits",
            self.range_bits,
        ]);
        command.args(["--threads", "1", "--memory", "512MiB", "--store", store]);
        command.arg("--table").arg(self.cluster.table()).args(more);
        with_credentials(&mut command, url);
        command
    }
}

/// Names the server, and who asks.
fn with_credentials(command: &mut Command, url: &str) {
    for (name, value) in [
        ("AWS_ENDPOINT_URL", url),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        ("AWS_REGION", "us-east-1"),
    ] {
        command.env(name, value);
    }
}

#[test]
fn a_coordinator_with_an_empty_directory_goes_on_where_the_last_one_was() {
    // Not over before somebody looks.
    let Some(bucket) = Bucket::new().map(|bucket| Bucket {
        bits: "24",
        range_bits: "12",
        ..bucket
    }) else {
        return;
    };
    let first = bucket
        .cluster
        .start_coordinator(&mut bucket.coordinator("first", 0));
    let worker = bucket.start(&mut bucket.worker("first"));
    let mut status = program();
    status.args(["status", "--json", "--access"]);
    status.arg(bucket.directory("first").join("access.json"));
    wait_for("some ranges", || {
        number(&end(&mut status).summary(), "ranges_done") > 1 << 8
    });
    assert_eq!(first.kill().code, None);
    assert_eq!(worker.wait().code, Some(4));

    let mut second = bucket.coordinator("second", bucket.cluster.port);
    let second = bucket.cluster.start_coordinator(&mut second);
    let mut through = bucket.worker("second");
    let mut workers = vec![bucket.start(through.args(["--store", "coordinator"]))];
    let access = bucket.directory("second").join("access.json");
    std::fs::create_dir_all(bucket.cluster.table()).unwrap();
    std::fs::copy(access, bucket.cluster.access()).unwrap();
    let mut passed = [0, 0];
    wait_for("bytes through the coordinator", || {
        passed = through_the_coordinator(&bucket.cluster);
        passed.iter().all(|&bytes| bytes > 0)
    });
    workers.extend((0..2).map(|_| bucket.start(&mut bucket.worker("second"))));
    for worker in workers {
        let ended = worker.wait();
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    second.send(Signal::SIGTERM);
    let summary = second.wait().summary();
    assert_eq!(fingerprint(&summary), FINGERPRINT_24);
    let table = format!("{}/table-24", bucket.store);
    assert_eq!(summary["table"], table);

    let out = bucket.directory("out");
    let mut download = program();
    download.args(["download", "--json", "--from", &bucket.store, "--out"]);
    with_credentials(download.arg(&out), &bucket.url);
    assert_eq!(fingerprint(&end(&mut download).summary()), FINGERPRINT_24);
    Table::open(&out).unwrap().verify_bytes().unwrap();
    for place in [&bucket.store, &table] {
        let mut query = program();
        query.args(["query", "--table", place, "8x10"]);
        with_credentials(&mut query, &bucket.url);
        let said = end(&mut query);
        assert_eq!(
            said.stdout, "8x10 is winning, with (4,9) (5,6)\n",
            "{said:?}"
        );
    }
    // The finished table is found.
    let summary = end(&mut bucket.run_at(&bucket.url, &[])).summary();
    assert_eq!(number(&summary, "ranges_evaluated"), 0);
}

/// The ranges come back from the shards in the bucket.
#[test]
fn a_published_table_is_extended_by_a_cluster() {
    let Some(bucket) = Bucket::new() else { return };
    end(&mut bucket.run_at(&bucket.url, &[])).summary();
    let bucket = Bucket {
        bits: "26",
        ..bucket
    };
    let mut coordinator = bucket.coordinator("larger", 0);
    let coordinator = coordinator.arg("--exit-when-done");
    let coordinator = bucket.cluster.start_coordinator(coordinator);
    let workers = [0; 3].map(|_| bucket.start(&mut bucket.worker("larger")));
    let ended = coordinator.wait();
    assert_eq!(fingerprint(&ended.summary()), FINGERPRINT_26);
    let said = "the ranges of the table of 24 bits are restored from its shards";
    assert!(ended.stderr.contains(said), "{ended:?}");
    for worker in workers {
        let ended = worker.wait();
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
}

#[test]
fn of_two_coordinators_one_goes_on() {
    let Some(bucket) = Bucket::new() else { return };
    let names = ["one", "other"];
    let mut coordinators = names.map(|name| {
        let mut command = bucket.coordinator(name, 0);
        (name, bucket.start(command.arg("--exit-when-done")))
    });
    let workers = coordinators.each_mut().map(|(name, coordinator)| {
        let access = bucket.directory(name).join("access.json");
        let exists = || access.try_exists().unwrap();
        // One that was overtaken before it listened has none.
        wait_for("an access file or an end", || {
            exists() || coordinator.ended().is_some()
        });
        exists().then(|| bucket.start(&mut bucket.worker(name)))
    });
    let ended: Vec<Ended> = coordinators.into_iter().map(|(_, it)| it.wait()).collect();
    let (winners, losers): (Vec<&Ended>, Vec<&Ended>) =
        ended.iter().partition(|ended| ended.code == Some(0));
    let [winner] = winners[..] else {
        panic!("{ended:?}")
    };
    assert_eq!(fingerprint(&winner.summary()), FINGERPRINT_24);
    losers[0].refuses(5, &["taken over by another coordinator"]);
    drop(workers);
}

#[test]
fn a_server_that_will_not_do_is_refused() {
    let Some(bucket) = Bucket::new() else { return };
    let refused = Relay::start(&bucket.address, Way::Refused);
    let ended = end(&mut bucket.run_at(&refused.url, &[]));
    ended.refuses(5, &[&bucket.store, "403"]);

    let nowhere = "s3://chomp-no-such-bucket/table";
    let ended = end(&mut bucket.run_on(nowhere, &bucket.url, &[]));
    ended.refuses(5, &[nowhere, "the bucket does not exist"]);
}

/// One that overwrites what is there, though told not to, always or only if two creations come at the same time: somebody
/// in between takes the condition away, which a server that checks signatures does not let pass.
#[test]
fn a_server_that_overwrites_is_refused() {
    let Some(bucket) = Bucket::new() else { return };
    let forged = end(bucket
        .run_at(&bucket.url, &[])
        .env("AWS_SECRET_ACCESS_KEY", "wrong"));
    let takes_any = match forged.code {
        Some(0) => Ok(()),
        _ => Err("this server checks signatures".to_owned()),
    };
    if needs::found("OVERWRITING", takes_any).is_none() {
        return;
    }
    let bucket = Bucket::new().expect("the same server");
    let worse = Relay::start(&bucket.address, Way::Racing);
    for way in [Way::Racing, Way::Unconditional] {
        worse.set(way);
        let ended = end(&mut bucket.run_at(&worse.url, &[]));
        ended.refuses(5, &[&bucket.store, "only if absent", "--journal"]);
    }
    let journal = bucket.directory("journal");
    let with_journal = &["--journal", journal.to_str().unwrap()];
    let summary = end(&mut bucket.run_at(&worse.url, with_journal)).summary();
    assert_eq!(fingerprint(&summary), FINGERPRINT_24);
}
