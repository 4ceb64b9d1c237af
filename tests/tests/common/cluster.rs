//! A coordinator and its workers as processes of a test: they have a home of their own, write what
//! they say to files in it, and none of them outlives the test.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use chomp_access::Access;
pub(crate) use chomp_testing::waiting::wait_for;
use serde_json::Value;
use tempfile::TempDir;

use super::http::{Response, bearer, get, get_encrypted};
pub(crate) use super::process::Process;
use super::{chomp, end, exists, folder, hasten_limits, ranges_done, read_json};

/// Makes the ports of a test different from each other.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A table to be built, the home of those who build it, and where its coordinator listens.
#[derive(Debug)]
pub(crate) struct Cluster {
    home: TempDir,
    pub(crate) port: u16,
    /// Whether calls and pages are without TLS.
    clear: bool,
}

impl Cluster {
    pub(crate) fn new() -> Cluster {
        Cluster::on(free_port())
    }

    pub(crate) fn on(port: u16) -> Cluster {
        Cluster {
            home: folder(),
            port,
            clear: false,
        }
    }

    /// One whose coordinators listen without TLS, for what stands between them and their clients.
    pub(crate) fn in_the_clear() -> Cluster {
        let clear = true;
        Cluster {
            clear,
            ..Cluster::new()
        }
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn table(&self) -> PathBuf {
        self.home().join("table")
    }

    pub(crate) fn access(&self) -> PathBuf {
        self.table().join("access.json")
    }

    pub(crate) fn url(&self) -> String {
        let scheme = if self.clear { "http" } else { "https" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    /// The token that opens all calls.
    pub(crate) fn token(&self) -> String {
        self.field("token").expect("a token")
    }

    /// The text of a field of the access file, if it has one.
    fn field(&self, name: &str) -> Option<String> {
        Some(read_json(&self.access())[name].as_str()?.to_owned())
    }

    /// Asks the coordinator for `path`; `headers` are whole lines.
    pub(crate) fn get(&self, path: &str, headers: &[&str]) -> Response {
        self.get_on(self.port, path, headers)
    }

    /// Asks the coordinator on another of its ports.
    pub(crate) fn get_on(&self, port: u16, path: &str, headers: &[&str]) -> Response {
        match self.field("ca") {
            Some(ca) => get_encrypted(port, &ca, path, headers),
            None => get(port, path, headers),
        }
    }

    /// The program with this command line, for somebody who lives in the home of the cluster.
    pub(crate) fn chomp(&self, line: &str) -> Command {
        at_home(chomp(line), self.home())
    }

    /// A coordinator of the table of `bits` bits, with ranges of 2^`range_bits` words.
    pub(crate) fn coordinator(&self, bits: u32, range_bits: u32) -> Command {
        self.coordinator_on(self.port, bits, range_bits)
    }

    /// A coordinator that listens on `port`.
    pub(crate) fn coordinator_on(&self, port: u16, bits: u32, range_bits: u32) -> Command {
        let mut command = self.chomp("coordinator --json");
        command.args(format!("--bits {bits} --range-bits {range_bits}").split(' '));
        command.args(["--listen", &format!("127.0.0.1:{port}")]);
        command.arg("--table").arg(self.table());
        if self.clear {
            command.arg("--no-tls");
        }
        command
    }

    /// A worker with one thread, which needs the access file of a coordinator.
    pub(crate) fn worker(&self, name: &str) -> Command {
        self.worker_with(name, &self.access())
    }

    /// A worker with one thread and the access file of a participant. One whose name ends with `proxied` has no way to
    /// the store of its own.
    pub(crate) fn worker_with(&self, name: &str, access: &Path) -> Command {
        let mut command = self.chomp("worker --json --threads 1 --memory 256MiB --access");
        command.arg(access).args(["--name", name]);
        if name.ends_with("proxied") {
            command.args(["--store", "coordinator"]);
        }
        command
    }

    /// The access file of a participant of this name, who is made one if need be.
    pub(crate) fn credential(&self, name: &str) -> PathBuf {
        let file = self.home().join(format!("{name}.access.json"));
        if !exists(&file) {
            self.change_access("add", name, Some(&file));
        }
        file
    }

    /// The content of a participant's access file, with its token.
    pub(crate) fn access_of(&self, name: &str) -> Access {
        Access::read(&self.credential(name)).unwrap()
    }

    /// `chomp access`: what of it, for whom, and the file to write.
    pub(crate) fn change_access(&self, what: &str, name: &str, out: Option<&Path>) {
        let mut command = self.chomp(&format!("access {what} {name} --table"));
        command.arg(self.table());
        if let Some(out) = out {
            command.arg("--out").arg(out);
        }
        end(&mut command).done();
    }

    pub(crate) fn start(&self, command: &mut Command) -> Process {
        Process::start(command, self.home())
    }

    /// Starts a coordinator, and waits until it listens.
    pub(crate) fn start_coordinator(&self, command: &mut Command) -> Process {
        let mut coordinator = self.start(command);
        coordinator.wait_to_say("listening on ");
        coordinator
    }

    /// Starts a coordinator that ends when the table is there, and waits until it listens.
    pub(crate) fn begin(&self, bits: u32, range_bits: u32) -> Process {
        self.start_coordinator(self.coordinator(bits, range_bits).arg("--exit-when-done"))
    }

    /// Starts a worker with the owner's access file.
    pub(crate) fn join(&self, name: &str) -> Process {
        self.start(&mut self.worker(name))
    }

    /// Waits until the journal has more than `least` ranges.
    pub(crate) fn wait_for_ranges(&self, least: u64) {
        wait_for("some ranges", || ranges_done(&self.table()) > least);
    }

    /// The output of `chomp status --json`.
    pub(crate) fn status(&self) -> Value {
        end(self.chomp("status --json --access").arg(self.access())).summary()
    }

    /// A number of `/metrics`.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let page = self.get("/metrics", &[&bearer(&self.token())]).text();
        let mut lines = page.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = value.unwrap_or_else(|| panic!("no {name} in {page}"));
        value.trim().parse().unwrap()
    }
}

/// Gives a command another home directory.
pub(crate) fn at_home(mut command: Command, home: &Path) -> Command {
    command
        .env("HOME", home)
        .env("XDG_STATE_HOME", home.join("state"));
    command
}

/// How many times as short as usual leases are where workers are killed all the time, and the patience with servers
/// that are not there.
pub(crate) const HASTE: u32 = 30;
/// How long a lease lasts then.
pub(crate) const HASTY_LEASE: Duration = Duration::from_secs(1);

/// A port that nobody listens on. It is none of those that the system gives to connections: a
/// coordinator that starts again finds it free.
pub(crate) fn free_port() -> u16 {
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let chosen = std::process::id().wrapping_mul(31) + number;
        let port = u16::try_from(10_000 + chosen % 20_000).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A server of tables.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) port: u16,
}

impl Server {
    /// Serves the tables in a directory, with these words more on the command line and with limits of connections
    /// divided by `haste`, and waits until it listens.
    pub(crate) fn start(haste: u32, table: &Path, home: &Path, more: &str) -> Server {
        let port = free_port();
        let mut command = at_home(serve_tables(table, port), home);
        hasten_limits(command.args(more.split_whitespace()), haste);
        let mut process = Process::start(&mut command, home);
        process.wait_to_say("serving http://");
        Server { process, port }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

/// `chomp serve` for the tables in a directory.
pub(crate) fn serve_tables(table: &Path, port: u16) -> Command {
    let mut command = chomp(&format!("serve --http 127.0.0.1:{port} --table"));
    command.arg(table);
    command
}

/// Waits until somebody listens there.
pub(crate) fn wait_to_answer(port: u16) {
    wait_for("a server that listens", || {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
}
