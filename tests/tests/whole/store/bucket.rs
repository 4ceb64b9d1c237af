//! A store in a bucket.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use chomp_table::Table;

use super::through_the_coordinator;
use crate::common::cluster::{Cluster, Process, wait_for};
use crate::common::{Ended, FINGERPRINT_24, FINGERPRINT_26, chomp, end, exists, number};
use chomp_testing::needs;

/// The bucket that the server has.
const BUCKET: &str = "s3://chomp-test";
/// How long workers try to reach a coordinator, in seconds; and those who are to end when it is gone.
pub(crate) const PATIENT: u32 = 60;
pub(crate) const SOON: u32 = 5;

/// A folder in the bucket of the server, for one test.
pub(crate) struct Bucket {
    /// Host and port of the server.
    pub(crate) address: String,
    /// Where coordinators and workers find it.
    pub(crate) url: String,
    pub(crate) cluster: Cluster,
    pub(crate) store: String,
    /// Of its table.
    pub(crate) bits: u32,
    pub(crate) range_bits: u32,
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
            // A job that is not over before somebody looks.
            bits: 24,
            range_bits: 12,
            store: format!("{BUCKET}/{}/table", name.trim_start_matches('.')),
            cluster,
        })
    }

    fn size(&self) -> String {
        format!("--bits {} --range-bits {}", self.bits, self.range_bits)
    }

    /// A coordinator on this store with a directory of its own.
    pub(crate) fn coordinator(&self, directory: &str, port: u16) -> Command {
        let place = format!("--listen 127.0.0.1:{port} --store {}", self.store);
        let line = format!("coordinator --json {} {place} --table", self.size());
        let mut command = self.cluster.chomp(&line);
        command.arg(self.directory(directory));
        with_credentials(&mut command, &self.url);
        command
    }

    pub(crate) fn directory(&self, name: &str) -> PathBuf {
        self.cluster.home().join(name)
    }

    /// The access file of the coordinator with this directory.
    fn access(&self, directory: &str) -> PathBuf {
        self.directory(directory).join("access.json")
    }

    /// Has the cluster ask the coordinator with this directory, which listens on its port.
    fn know(&self, directory: &str) {
        fs::create_dir_all(self.cluster.table()).unwrap();
        fs::copy(self.access(directory), self.cluster.access()).unwrap();
    }

    /// A worker for the coordinator with this directory.
    pub(crate) fn worker(&self, directory: &str, patience: u32) -> Command {
        let mut command = self.cluster.worker_with("worker", &self.access(directory));
        command.args(["--patience", &patience.to_string()]);
        with_credentials(&mut command, &self.url);
        command
    }

    pub(crate) fn start(&self, command: &mut Command) -> Process {
        self.cluster.start(command)
    }

    /// `chomp run` on this store.
    fn run(&self) -> Command {
        let means = format!("--threads 1 --memory 512MiB --store {}", self.store);
        let line = format!("run --json {} {means} --table", self.size());
        let mut command = self.cluster.chomp(&line);
        command.arg(self.cluster.table());
        with_credentials(&mut command, &self.url);
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
    let Some(bucket) = Bucket::new() else { return };
    let mut first = bucket.coordinator("first", bucket.cluster.port);
    let first = bucket.cluster.start_coordinator(&mut first);
    bucket.know("first");
    let worker = bucket.start(&mut bucket.worker("first", SOON));
    wait_for("some ranges", || {
        bucket.cluster.metric("chomp_ranges_done") > 1 << 8
    });
    assert_eq!(first.kill().code, None);
    worker.wait().exits(4);

    let mut second = bucket.coordinator("second", bucket.cluster.port);
    let second = bucket.cluster.start_coordinator(&mut second);
    bucket.know("second");
    let mut through = bucket.worker("second", PATIENT);
    let mut workers = vec![bucket.start(through.args(["--store", "coordinator"]))];
    let mut passed = [0, 0];
    wait_for("bytes through the coordinator", || {
        passed = through_the_coordinator(&bucket.cluster);
        passed.iter().all(|&bytes| bytes > 0)
    });
    workers.extend((0..2).map(|_| bucket.start(&mut bucket.worker("second", PATIENT))));
    for worker in workers {
        worker.wait().done();
    }
    let summary = second.stop().made(FINGERPRINT_24);
    let table = format!("{}/table-24", bucket.store);
    assert_eq!(summary["table"], table);

    let out = bucket.directory("out");
    let mut download = chomp(&format!("download --json --from {} --out", bucket.store));
    with_credentials(download.arg(&out), &bucket.url);
    end(&mut download).made(FINGERPRINT_24);
    Table::open(&out).unwrap().verify_bytes().unwrap();
    for place in [&bucket.store, &table] {
        let mut query = chomp(&format!("query --table {place} 8x10"));
        with_credentials(&mut query, &bucket.url);
        let said = end(&mut query).done().stdout;
        assert_eq!(said, "8x10 is winning, with (4,9) (5,6)\n");
    }
    // The finished table is found.
    let summary = end(&mut bucket.run()).summary();
    assert_eq!(number(&summary, "ranges_evaluated"), 0);
}

/// The ranges come back from the shards in the bucket.
#[test]
fn a_published_table_is_extended_by_a_cluster() {
    let Some(bucket) = Bucket::new() else { return };
    end(&mut bucket.run()).summary();
    let bucket = Bucket { bits: 26, ..bucket };
    let mut coordinator = bucket.coordinator("larger", 0);
    let coordinator = bucket.cluster.start_coordinator(&mut coordinator);
    let workers = [0; 3].map(|_| bucket.start(&mut bucket.worker("larger", PATIENT)));
    for worker in workers {
        worker.wait().done();
    }
    let ended = coordinator.stop();
    ended.made(FINGERPRINT_26);
    let said = "the ranges of the table of 24 bits are restored from its shards";
    ended.says(said);
}

#[test]
fn of_two_coordinators_one_goes_on() {
    let Some(bucket) = Bucket::new() else { return };
    let names = ["one", "other"];
    let mut coordinators = names.map(|name| {
        let mut command = bucket.coordinator(name, 0);
        (name, bucket.start(command.arg("--exit-when-done")))
    });
    // One that was overtaken before it listened has no access file. No work is done before both had a chance.
    let has_access = |name: &str| exists(&bucket.access(name));
    wait_for("access files or an end", || {
        let mut all = coordinators.iter_mut();
        all.all(|(name, coordinator)| has_access(name) || coordinator.ended().is_some())
    });
    let start = |name| bucket.start(&mut bucket.worker(name, PATIENT));
    let workers = names.map(|name| has_access(name).then(|| start(name)));
    let ended: Vec<Ended> = coordinators.into_iter().map(|(_, it)| it.wait()).collect();
    let (won, lost) = match ended.iter().position(|ended| ended.code == Some(0)) {
        Some(won) => (&ended[won], &ended[1 - won]),
        None => panic!("{ended:?}"),
    };
    won.made(FINGERPRINT_24);
    lost.refuses(5, &["taken over by another coordinator"]);
    drop(workers);
}
