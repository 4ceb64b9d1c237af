//! `chomp serve` and `chomp run --http` as real processes: what they answer, what they refuse, what
//! they never show, and how they end.

mod hostile;
mod job;
mod life;
mod proxied;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::cluster::{Process, Server, free_port, serve_tables, wait_for, wait_to_answer};
use crate::common::http::{Response, ask, get};
use crate::common::{change, chomp, end, exists, folder, run};
use tempfile::TempDir;

/// The bits of the small table.
const BITS: u32 = 16;

/// A table that is served.
struct Served {
    home: TempDir,
    server: Server,
}

/// A home with the finished table of `bits` bits in the folder `table`.
fn home(bits: u32) -> TempDir {
    let home = folder();
    end(&mut run(&home.path().join("table"), bits)).summary();
    home
}

impl Served {
    /// The table in `home`, with these words more on the command line.
    fn of(home: TempDir, more: &str) -> Served {
        Served::in_haste(1, home, more)
    }

    /// The table in `home`, with limits of connections divided by `haste`.
    fn in_haste(haste: u32, home: TempDir, more: &str) -> Served {
        let table = home.path().join("table");
        let server = Server::start(haste, &table, home.path(), more);
        Served { home, server }
    }

    fn table(&self) -> PathBuf {
        self.home.path().join("table")
    }

    fn get(&self, path: &str) -> Response {
        get(self.server.port, path, &[])
    }

    /// Stops it, and asserts that it ended well and said nothing of trouble.
    fn stop(self) {
        let ended = self.server.process.stop().done();
        for trouble in ["panicked", "error", "ERROR"] {
            ended.says_nothing_of(trouble);
        }
    }
}

/// `chomp serve` for the tables in a directory, at a socket file.
fn serve_at(socket: &Path, table: &Path) -> Command {
    let mut command = chomp("serve --http");
    command.arg(format!("unix:{}", socket.display()));
    command.arg("--table").arg(table);
    command
}

/// Starts a server at a socket file, and waits until it listens.
fn start_at(socket: &Path, home: &Path) -> Process {
    let mut process = Process::start(&mut serve_at(socket, &home.join("table")), home);
    process.wait_to_say("serving unix:");
    process
}

/// A table that is served is asked, exported and checked from afar, and served again. What needs its files downloads
/// them, and says so.
#[test]
fn other_commands_find_what_they_need() {
    let served = Served::of(home(BITS), "");
    let url = served.server.url();
    let asked = end(&mut chomp(&format!("query --json --table {url} 7x8"))).summary();
    let told = get(served.server.port, "/api/position/7x8", &[]).json();
    assert_eq!(asked["winning_moves"], told["winning_moves"]);
    let [here, there] = [served.table(), (&url).into()].map(|table| {
        let mut export = chomp("export --format rows --out - --table");
        end(export.arg(table)).stdout
    });
    assert!(here.lines().count() > 100 && here == there);

    let elsewhere = folder();
    let mut verify = chomp(&format!("verify --table {url}"));
    let ended = end(verify.current_dir(elsewhere.path())).done();
    ended.says(&format!(
        "the table at {url} is downloaded to chomp-table first"
    ));
    let table = elsewhere.path().join("chomp-table");
    assert!(exists(&table.join(format!("verify-{BITS}-quick.json"))));
    let port = free_port();
    let mut again = serve_tables(Path::new(&url), port);
    let again = Process::start(again.current_dir(elsewhere.path()), elsewhere.path());
    wait_to_answer(port);
    let manifest = format!("table-{BITS}/manifest.json");
    let copy = get(port, &format!("/{manifest}"), &[]).body;
    assert_eq!(copy, fs::read(table.join(manifest)).unwrap());
    drop(again);
    served.stop();
}

#[test]
fn what_cannot_be_served_is_refused() {
    let start = |table: &Path, port| end(&mut serve_tables(table, port));
    let home = home(14);
    let table = home.path().join("table");
    let nothing = start(&home.path().join("none"), free_port());
    nothing.refuses(1, &["no published table", "chomp run"]);
    let folder = table.join("table-14");
    start(&folder, free_port()).refuses(2, &["the folder of one table"]);
    let served = Served::of(home, "");
    let taken = start(&table, served.server.port);
    taken.refuses(1, &["cannot listen on", "--http"]);
    change(&folder.join("manifest.json"), |bytes| {
        bytes.truncate(bytes.len() / 2);
    });
    start(&table, free_port()).refuses(3, &["manifest.json", "damaged"]);
}

#[test]
fn it_may_be_there_before_the_first_table() {
    let home = folder();
    let (table, port) = (home.path().join("table"), free_port());
    fs::create_dir(&table).unwrap();
    let mut command = chomp(&format!("serve --http localhost:{port} --table"));
    let process = Process::start(command.arg(&table), home.path());
    wait_to_answer(port);
    assert_eq!(get(port, "/healthz", &[]).status, 200);
    for path in ["/readyz", "/api/table", "/api/position/20x20"] {
        assert_eq!(get(port, path, &[]).status, 503, "{path}");
    }
    assert_eq!(get(port, "/api/position/3x3", &[]).status, 200);
    end(&mut run(&table, 14)).summary();
    wait_for("the table", || get(port, "/api/table", &[]).status == 200);
    assert_eq!(get(port, "/readyz", &[]).status, 200);
    let ended = process.stop();
    ended.says("which has no table yet");
}

/// A socket file is for its user and group alone. One server has it, and removes it at its end; what a killed one has
/// left is replaced, and what is not ours is not.
#[test]
fn a_socket_file_belongs_to_one_server() {
    let home = home(14);
    let (table, socket) = (home.path().join("table"), home.path().join("http.sock"));
    let answers = || {
        let stream = UnixStream::connect(&socket).unwrap();
        ask(stream, "/api/position/3x4", &[]).status == 200
    };
    let refused = || {
        let refused = end(&mut serve_at(&socket, &table));
        refused.refuses(1, &["cannot listen on unix:", "http.sock", "--http"]);
    };
    let server = start_at(&socket, home.path());
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o660);
    assert!(answers());
    refused();
    assert!(answers());
    server.kill();
    assert!(exists(&socket));
    let server = start_at(&socket, home.path());
    assert!(answers());
    server.stop().done();
    assert!(!exists(&socket));

    let other = UnixListener::bind(&socket).unwrap();
    refused();
    UnixStream::connect(&socket).unwrap();
    drop(other);
    fs::remove_file(&socket).unwrap();
    fs::write(&socket, "precious").unwrap();
    refused();
    assert_eq!(fs::read_to_string(&socket).unwrap(), "precious");
}
