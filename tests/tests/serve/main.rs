//! `chomp serve` and `chomp run --http` as real processes: what they answer, what they refuse, what
//! they never show, and how they end.

#[path = "../common/mod.rs"]
mod common;
mod hostile;
mod job;
mod life;
mod paths;

use std::path::{Path, PathBuf};
use std::process::Command;

use chomp_table::{Position, Word, definition};
use common::cluster::{Process, free_port, wait_for};
use common::http::{Response, get};
use common::random::Random;
use common::{end, program, run, run_in};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The bits of the small table: the definition knows all of it.
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
        let port = free_port();
        let mut command = serve(&home.path().join("table"), port);
        let process = Process::start(command.args(args), home.path());
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

    /// What the API says.
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

fn error(response: &Response) -> String {
    let said: Value = serde_json::from_slice(&response.body).unwrap();
    said["error"].as_str().unwrap().to_owned()
}

#[test]
fn positions_and_boards_are_answered_as_by_definition() {
    let served = Served::start();
    let losing = definition::losing(BITS);
    let mut random = Random::new();
    for _ in 0..300 {
        let word = Word::new(random.below(losing.len()) as u64 * 2);
        let position = Position::from(word);
        let answer = served.api(&format!("position/{position}"));
        assert_eq!(answer["rows"], json!(position.rows()));
        assert_eq!(answer["losing"], losing[definition::index_of(word)]);
        let mut winning: Vec<(u32, u32)> = word
            .moves()
            .filter(|&(_, next)| losing[definition::index_of(next)])
            .map(|(cell, _)| (cell.row, cell.column))
            .collect();
        winning.sort_unstable();
        assert_eq!(answer["winning_moves"], json!(winning), "{position}");
    }
    let board = served.api("openings/4x7");
    let whole = served.api("position/4x7");
    assert_eq!(board["moves"], whole["winning_moves"]);
    let boards = served.api("openings");
    assert!(boards.as_array().unwrap().contains(&board));
    let table = served.api("table");
    let losing = losing.iter().filter(|losing| **losing).count();
    assert_eq!(
        (&table["bits"], &table["losing"]),
        (&json!(BITS), &json!(losing))
    );
    let mut counts = Value::Null;
    wait_for("the counts", || {
        counts = served.api("counts");
        counts["losing_by_area"].is_array()
    });
    let counted = counts["losing_by_area"].as_array().unwrap().iter();
    assert_eq!(
        counted.map(|count| count.as_u64().unwrap()).sum::<u64>(),
        losing as u64
    );
    assert_eq!(served.api("status")["phase"], "finished");

    for (path, status, reason) in [
        ("/api/position/9x8", 400, "17 bits"),
        ("/api/position/1,2", 400, "longest first"),
        (
            "/api/position/99999999999999999999999x1",
            400,
            "not a position",
        ),
        ("/api/openings/9x8", 400, "17 bits"),
        ("/api/nothing", 404, "nothing here"),
    ] {
        let response = served.get(path);
        assert_eq!(response.status, status, "{path}");
        assert!(error(&response).contains(reason), "{path}: {response:?}");
    }
    served.stop();
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
