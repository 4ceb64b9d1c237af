//! A real coordinator with real workers, and peers of every other kind: what the tests of hostile
//! peers share.

#![allow(dead_code, reason = "each test file uses a part of this")]

pub(crate) mod client;
pub(crate) mod lies;
pub(crate) mod raw;

use std::net::SocketAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::common::cluster::{Cluster, Process, wait_for};
use crate::common::{exists, hasten, hasten_limits, read_json};

/// A job with its coordinator, which listens without TLS, so that peers write the bytes of HTTP by hand.
#[derive(Debug)]
pub(crate) struct Job {
    coordinator: Process,
    cluster: Cluster,
    bits: u32,
}

impl Deref for Job {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl Job {
    /// A job for the table of `bits` bits in ranges of 2^`range_bits` words; the coordinator gets more arguments.
    pub(crate) fn start(bits: u32, range_bits: u32, args: &[&str]) -> Job {
        Job::start_with(bits, range_bits, args, |command| command)
    }

    /// A job whose leases are divided by `haste`.
    pub(crate) fn start_in_haste(haste: u32, bits: u32, range_bits: u32, args: &[&str]) -> Job {
        Job::start_with(bits, range_bits, args, |command| hasten(command, haste))
    }

    /// A job whose limits of connections are divided by `haste`.
    pub(crate) fn start_with_hasty_limits(
        haste: u32,
        bits: u32,
        range_bits: u32,
        args: &[&str],
    ) -> Job {
        Job::start_with(bits, range_bits, args, |command| {
            hasten_limits(command, haste)
        })
    }

    /// A job that has so many of 1,000 ranges checked, whose leases are divided by `haste`.
    pub(crate) fn start_with_checks(per_1000: u32, haste: u32, bits: u32, range_bits: u32) -> Job {
        Job::start_with(bits, range_bits, &[], |command| {
            command.env("CHOMP_TEST_CHECKS_PER_1000", per_1000.to_string());
            hasten(command, haste)
        })
    }

    fn start_with(
        bits: u32,
        range_bits: u32,
        args: &[&str],
        change: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Job {
        let cluster = Cluster::in_the_clear();
        let mut command = cluster.coordinator(bits, range_bits);
        let coordinator = cluster.start_coordinator(change(command.args(args)));
        Job {
            coordinator,
            cluster,
            bits,
        }
    }

    /// The address of the coordinator.
    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// Starts a worker with a credential of its own.
    pub(crate) fn start_worker(&self, name: &str) -> Process {
        self.start_worker_with(name, &self.credential(name))
    }

    /// Starts a worker with this access file.
    pub(crate) fn start_worker_with(&self, name: &str, access: &Path) -> Process {
        self.cluster.start(&mut self.worker_with(name, access))
    }

    /// The coordinator's standard error so far.
    pub(crate) fn log(&self) -> String {
        self.coordinator.said()
    }

    /// The most memory that the coordinator ever had.
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.coordinator.peak_bytes()
    }

    /// Waits until `condition` holds, while the coordinator is there.
    pub(crate) fn wait_until(&mut self, what: &str, mut condition: impl FnMut(&Cluster) -> bool) {
        wait_for(what, || {
            let ended = self.coordinator.ended();
            assert!(ended.is_none(), "{what}: {ended:?}");
            condition(&self.cluster)
        });
    }

    pub(crate) fn manifest_path(&self) -> PathBuf {
        let name = format!("table-{:02}/manifest.json", self.bits);
        self.table().join(name)
    }

    /// Waits until the table is published, and gives its manifest.
    pub(crate) fn published(&mut self) -> Value {
        let path = self.manifest_path();
        self.wait_until("the table", |_| exists(&path));
        read_json(&path)
    }

    /// Stops a coordinator that serves its table, and asserts that all went well. Returns what it said.
    pub(crate) fn stop(self) -> String {
        let ended = self.coordinator.stop().done();
        ended.says_nothing_of("panicked");
        ended.stderr
    }
}

/// Asserts that an honest worker came to the end of the job. Some of its results may have been of no use,
/// when what they drew on was withdrawn meanwhile.
pub(crate) fn assert_content(worker: Process) {
    worker.wait().done();
}

/// Asserts that the coordinator blamed no worker whose name says that it is honest.
pub(crate) fn assert_nobody_honest_was_blamed(log: &str) {
    let blamed = |line: &str| line.contains("WARN") && line.contains("honest-");
    assert!(!log.lines().any(blamed), "somebody honest was: {log}");
}

/// Runs what a peer does on this thread.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(future)
}
