//! A real coordinator with real workers, and peers of every other kind: what the tests of hostile
//! peers share.

#![allow(dead_code, reason = "each test file uses a part of this")]

pub(crate) mod client;
pub(crate) mod lies;
pub(crate) mod raw;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use chomp_access::Access;
use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::common::{end, program, send, start, wait};

/// How long a job of these tests may take.
const HANG: Duration = Duration::from_mins(2);
/// How often to look.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A coordinator, and the directory that it and its workers have to themselves.
#[derive(Debug)]
pub(crate) struct Cluster {
    directory: TempDir,
    coordinator: Child,
    bits: u32,
    pub(crate) access: Access,
}

impl Cluster {
    /// A coordinator for the table of `bits` bits, with more arguments. It listens without TLS, so that peers
    /// write the bytes of HTTP by hand.
    pub(crate) fn start(bits: u32, args: &[&str]) -> Cluster {
        let directory = tempfile::tempdir().unwrap();
        let table = directory.path().join("table");
        let mut command = program();
        command.env("HOME", directory.path());
        command.env_remove("XDG_STATE_HOME");
        command.args(["coordinator", "--no-tls", "--json"]);
        command.args(["--listen", "127.0.0.1:0", "--bits"]);
        command.arg(bits.to_string()).arg("--table").arg(&table);
        command.args(args);
        let log = File::create(directory.path().join("log")).unwrap();
        command.stdout(Stdio::null()).stderr(log);
        let mut coordinator = start(&mut command);
        let begin = Instant::now();
        let log = directory.path().join("log");
        while !fs::read_to_string(&log).unwrap().contains("listening on ") {
            let ended = coordinator.try_wait().unwrap();
            assert!(ended.is_none(), "{}", fs::read_to_string(&log).unwrap());
            assert!(begin.elapsed() < HANG, "the coordinator does not listen");
            std::thread::sleep(LOOK_EVERY);
        }
        let access = Access::read(&table.join("access.json")).unwrap();
        Cluster {
            directory,
            coordinator,
            bits,
            access,
        }
    }

    pub(crate) fn table(&self) -> PathBuf {
        self.directory.path().join("table")
    }

    /// The process id of the coordinator.
    pub(crate) fn id(&self) -> u32 {
        self.coordinator.id()
    }

    /// The address it listens on.
    pub(crate) fn address(&self) -> SocketAddr {
        let url = &self.access.coordinator;
        url.strip_prefix("http://").unwrap().parse().unwrap()
    }

    fn command(&self) -> Command {
        let mut command = program();
        command.env("HOME", self.directory.path());
        command.env_remove("XDG_STATE_HOME");
        command
    }

    /// A worker process with one thread and a credential of its own, which reaches the store through the coordinator if its name
    /// says so, and else by itself.
    pub(crate) fn worker(&self, name: &str) -> Child {
        self.worker_with(name, &self.credential(name))
    }

    /// The same with another participant's access file.
    pub(crate) fn worker_with(&self, name: &str, access: &Path) -> Child {
        let mut command = self.command();
        command.args(["worker", "--json", "--threads", "1", "--memory", "256MiB"]);
        command.args(["--name", name, "--access"]);
        command.arg(access);
        if name.ends_with("proxied") {
            command.args(["--store", "coordinator"]);
        }
        start(&mut command)
    }

    /// The access file of a participant of this name, who is made one if need be.
    pub(crate) fn credential(&self, name: &str) -> PathBuf {
        let file = self.directory.path().join(format!("{name}.access.json"));
        if !file.try_exists().unwrap() {
            self.change_access("add", name, Some(&file));
        }
        file
    }

    /// `chomp access`: what of it, for whom, and the file to write.
    pub(crate) fn change_access(&self, what: &str, name: &str, out: Option<&Path>) {
        let mut command = self.command();
        command.args(["access", what, name, "--table"]);
        command.arg(self.table());
        if let Some(out) = out {
            command.arg("--out").arg(out);
        }
        let changed = end(&mut command);
        assert_eq!(changed.code, Some(0), "{changed:?}");
    }

    /// What a participant of this name has to show.
    pub(crate) fn access_of(&self, name: &str) -> Access {
        Access::read(&self.credential(name)).unwrap()
    }

    /// What the coordinator has said so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap()
    }

    /// What `chomp status --json` says.
    pub(crate) fn status(&self) -> Value {
        let mut command = self.command();
        command.args(["status", "--json", "--access"]);
        end(command.arg(self.table().join("access.json"))).summary()
    }

    /// The most memory that the coordinator ever had.
    pub(crate) fn peak_bytes(&self) -> u64 {
        peak_bytes(self.coordinator.id())
    }

    /// A number of `/metrics`.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let token = self.access.token.as_ref().unwrap().secret();
        let request = format!(
            "GET /metrics HTTP/1.1\r\nhost: a\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\r\n"
        );
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        let value = page
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = value.unwrap_or_else(|| panic!("no {name} in {page}"));
        value.trim().parse().unwrap()
    }

    /// Waits until `condition` holds.
    pub(crate) fn wait_until(&mut self, what: &str, mut condition: impl FnMut(&Cluster) -> bool) {
        let begin = Instant::now();
        while !condition(self) {
            let ended = self.coordinator.try_wait().unwrap();
            assert!(ended.is_none(), "{what}: {}", self.log());
            assert!(
                begin.elapsed() < HANG,
                "not in time: {what}: {}",
                self.log()
            );
            std::thread::sleep(LOOK_EVERY);
        }
    }

    pub(crate) fn manifest_path(&self) -> PathBuf {
        self.table()
            .join(format!("table-{:02}/manifest.json", self.bits))
    }

    /// Waits until the table is published, and gives its manifest.
    pub(crate) fn published(&mut self) -> Value {
        self.wait_until("the table", |cluster| {
            cluster.manifest_path().try_exists().unwrap()
        });
        serde_json::from_slice(&fs::read(self.manifest_path()).unwrap()).unwrap()
    }

    /// Stops a coordinator that serves its table, and asserts that all went well.
    pub(crate) fn stop(mut self) -> String {
        send(self.coordinator.id(), Signal::SIGTERM);
        let code = self.coordinator.wait().unwrap().code();
        let log = self.log();
        assert_eq!(code, Some(0), "{log}");
        assert!(!log.contains("panicked"), "{log}");
        log
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // It has ended if the test went well.
        let _ = self.coordinator.kill();
        let _ = self.coordinator.wait();
    }
}

/// The most memory that a process ever had.
pub(crate) fn peak_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.unwrap().trim().strip_suffix(" kB").unwrap();
    kib.parse::<u64>().unwrap() << 10
}

/// Asserts that an honest worker came to the end of the job. Some of its results may have been of no use,
/// when what they drew on was withdrawn meanwhile.
pub(crate) fn assert_content(worker: Child) {
    let ended = wait(worker);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

/// Runs what a peer does on this thread.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(future)
}

/// Random numbers, the same for the same seed.
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}
