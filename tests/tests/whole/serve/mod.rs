//! `chomp serve` and `chomp run --http` as real processes: what they answer, what they refuse, what
//! they never show, and how they end.

mod hostile;
mod job;
mod life;
mod proxied;

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::cluster::{Process, free_port, wait_for};
use crate::common::http::{Response, get};
use crate::common::{end, hasten, program, run, run_in};
use serde_json::Value;
use tempfile::TempDir;

/// The bits of the small table.
const BITS: u32 = 16;

/// A table that is served.
struct Served {
    home: TempDir,
    process: Process,
    port: u16,
}

impl Served {
    /// The table of [`BITS`] bits, with its working files beside it, for any number of questions.
    fn start() -> Served {
        let home = tempfile::tempdir().unwrap();
        let table = home.path().join("table");
        end(run_in(&table, BITS, 12).arg("--keep-parts")).summary();
        Served::of(home, &["--rate", "0"])
    }

    /// The table in `home`, with more arguments.
    fn of(home: TempDir, args: &[&str]) -> Served {
        Served::in_haste(1, home, args)
    }

    /// The table in `home`, with more arguments and with limits of connections divided by `haste`.
    fn in_haste(haste: u32, home: TempDir, args: &[&str]) -> Served {
        let port = free_port();
        let mut command = serve(&home.path().join("table"), port);
        let process = Process::start(hasten(command.args(args), haste), home.path());
        let mut served = Served {
            home,
            process,
            port,
        };
        served.wait_to_serve();
        served
    }

    fn wait_to_serve(&mut self) {
        wait_for("a server", || {
            let ended = self.process.ended();
            assert!(ended.is_none(), "{ended:?}");
            self.process.said().contains("serving http://")
        });
    }

    fn table(&self) -> PathBuf {
        self.home.path().join("table")
    }

    fn get(&self, path: &str) -> Response {
        get(self.port, path, &[])
    }

    /// The answer of the API, which must have status 200.
    fn api(&self, path: &str) -> Value {
        let response = self.get(&format!("/api/{path}"));
        assert_eq!(response.status, 200, "{path}: {response:?}");
        serde_json::from_slice(&response.body).unwrap()
    }

    /// Stops it, and asserts that it ended well and said nothing of trouble.
    fn stop(self) {
        self.process.send(nix::sys::signal::Signal::SIGTERM);
        let ended = self.process.wait();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        for trouble in ["panicked", "error", "ERROR"] {
            assert!(!ended.stderr.contains(trouble), "{ended:?}");
        }
    }
}

fn serve(table: &Path, port: u16) -> Command {
    let mut command = program();
    command.args(["serve", "--http", &format!("127.0.0.1:{port}")]);
    command.arg("--table").arg(table);
    command
}

/// A table that is served can be downloaded, and asked from afar.
#[test]
fn other_commands_find_what_they_need() {
    let served = Served::start();
    let url = format!("http://127.0.0.1:{}", served.port);
    let copy = served.home.path().join("copy");
    let mut download = program();
    download.args(["download", "--json", "--from", &url, "--out"]);
    let summary = end(download.arg(&copy)).summary();
    assert_eq!(summary["fingerprint"], served.api("table")["fingerprint"]);
    let asked = end(program().args(["query", "--json", "--table", &url, "7x8"])).summary();
    assert_eq!(
        asked["winning_moves"],
        served.api("position/7x8")["winning_moves"]
    );
    let [here, there] = [served.table().display().to_string(), url].map(|table| {
        let mut export = program();
        export.args([
            "export", "--format", "rows", "--out", "-", "--table", &table,
        ]);
        end(&mut export).stdout
    });
    assert!(here.lines().count() > 100 && here == there);
    served.stop();
}

/// `chomp verify` needs the files of a table: it downloads them, and says so.
#[test]
fn a_table_elsewhere_is_checked_and_served_here() {
    let served = Served::start();
    let url = format!("http://127.0.0.1:{}", served.port);
    let here = tempfile::tempdir().unwrap();
    let mut verify = program();
    verify.args(["verify", "--table", &url]);
    let ended = end(verify.current_dir(here.path()));
    let said = format!("the table at {url} is downloaded to chomp-table first");
    assert!(ended.stderr.contains(&said), "{ended:?}");
    assert!(ended.stdout.contains("passed all checks"), "{ended:?}");
    let table = here.path().join("chomp-table");
    assert!(
        table
            .join(format!("verify-{BITS}-quick.json"))
            .try_exists()
            .unwrap()
    );

    let manifest = format!("table-{BITS}/manifest.json");
    let port = free_port();
    let mut again = serve(Path::new(&url), port);
    let again = Process::start(again.current_dir(here.path()), here.path());
    wait_for("the copy", || {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    let copy = get(port, &format!("/{manifest}"), &[]).body;
    assert_eq!(copy, std::fs::read(table.join(manifest)).unwrap());
    drop(again);
    served.stop();
}

#[test]
fn what_cannot_be_served_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let table = home.path().join("table");
    let nothing = end(&mut serve(&table, free_port()));
    nothing.refuses(1, &["no published table", "chomp run"]);

    end(&mut run(&table, 14)).summary();
    let folder = table.join("table-14");
    let one = end(&mut serve(&folder, free_port()));
    one.refuses(2, &["the folder of one table"]);

    let served = Served::of(home, &[]);
    let taken = end(&mut serve(&served.table(), served.port));
    taken.refuses(1, &["cannot listen on", "--http"]);

    let manifest = folder.join("manifest.json");
    let bytes = std::fs::read(&manifest).unwrap();
    std::fs::write(&manifest, &bytes[..bytes.len() / 2]).unwrap();
    let damaged = end(&mut serve(&served.table(), free_port()));
    damaged.refuses(3, &["manifest.json", "damaged"]);
}

#[test]
fn it_may_be_there_before_the_first_table() {
    let home = tempfile::tempdir().unwrap();
    let (table, port) = (home.path().join("table"), free_port());
    std::fs::create_dir(&table).unwrap();
    let mut command = program();
    command.args(["serve", "--http", &format!("localhost:{port}")]);
    command.arg("--table").arg(&table);
    let process = Process::start(&mut command, home.path());
    wait_for("the server", || {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    assert_eq!(get(port, "/healthz", &[]).status, 200);
    assert_eq!(get(port, "/readyz", &[]).status, 503);
    end(&mut run(&table, 14)).summary();
    wait_for("the table", || {
        get(port, "/api/position/3x3", &[]).status == 200
    });
    assert_eq!(get(port, "/readyz", &[]).status, 200);
    process.send(nix::sys::signal::Signal::SIGTERM);
    let ended = process.wait();
    assert!(ended.stderr.contains("which has no table yet"), "{ended:?}");
}

#[test]
fn where_it_listens_is_told_at_once() {
    let home = tempfile::tempdir().unwrap();
    end(&mut run(&home.path().join("table"), 14)).summary();
    let mut command = serve(&home.path().join("table"), 0);
    let process = Process::start(command.arg("--json"), home.path());
    let mut told = String::new();
    wait_for("a line", || {
        told = process.printed();
        told.ends_with('\n')
    });
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["bits"], 14);
    let url = told["url"].as_str().unwrap();
    let port = url.rsplit(':').next().unwrap().trim_end_matches('/');
    assert_eq!(get(port.parse().unwrap(), "/api/table", &[]).status, 200);
    process.send(nix::sys::signal::Signal::SIGINT);
    let ended = process.wait();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let last = ended.stderr.lines().last().unwrap();
    assert_eq!(last, "{\"event\":\"finished\"}");
}

#[test]
fn each_address_has_its_rate() {
    let home = tempfile::tempdir().unwrap();
    end(&mut run(&home.path().join("table"), 14)).summary();
    let served = Served::of(home, &["--rate", "5"]);
    let mut answers = (0..100).map(|_| served.get("/api/position/3,1"));
    let refused = answers.find(|response| response.status != 200).unwrap();
    assert_eq!(
        (refused.status, refused.header("retry-after")),
        (429, Some("1"))
    );
    wait_for("a token", || served.get("/api/table").status == 200);
    served.stop();
}
