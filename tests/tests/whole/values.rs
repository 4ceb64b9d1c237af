//! Tables of Grundy values as processes have them: checked, asked, exported, served and fetched. What they say is what
//! the definition says, and a wrong value is named.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::common::cluster::{Process, at_home, free_port, serve_tables, wait_for};
use crate::common::http;
use crate::common::{Ended, change, chomp, digests, end, number, read_json, run};
use crate::grundy::value;
use chomp_table::partition::count;
use chomp_table::{Digest, Partition};
use chomp_testing::values::{SMALL, areas, publish};
use serde_json::{Value, json};
use tempfile::TempDir;

const TILES: u32 = 42;

/// The values of all positions of at most [`TILES`] tiles.
fn right() -> &'static [Vec<u8>] {
    static RIGHT: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    RIGHT.get_or_init(|| areas(TILES))
}

/// A directory with the table of `tiles` tiles, and its folder.
fn table(tiles: u32) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let folder = publish(directory.path(), SMALL, &right()[..=tiles as usize]);
    (directory, folder)
}

fn of(command: &str, table: &str, flags: &str) -> Command {
    chomp(&format!("{command} --table {table} {flags}"))
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn done(command: &mut Command) -> Ended {
    end(command).done()
}

#[test]
fn tables_are_checked_and_what_is_wrong_is_named() {
    let (directory, folder) = table(TILES);
    let listed = digests(&folder);
    let verify = |flags: &str| end(&mut of("verify", path(&folder), &format!("--json {flags}")));
    for (level, more) in [("quick", ""), ("sample", "--sample 500"), ("full", "")] {
        let report = verify(&format!("--level {level} {more} --threads 2")).summary();
        assert_eq!(report["result"], "passed");
        let positions: u64 = (1..=TILES).map(count).sum();
        assert_eq!(number(&report["table"], "positions"), positions);
        let name = format!("verify-values-042-{level}.json");
        assert_eq!(read_json(&directory.path().join(name)), report);
    }
    assert_eq!(digests(&folder), listed, "the folder is as it was");
    let refused = |flags: &str, texts: &[&str]| {
        let ended = verify(flags).exits(3);
        let report: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(report["result"], "damaged");
        for text in texts {
            ended.says(text);
        }
    };
    for file in ["manifest.json", "SHA256SUMS", "shard-0030.zst"] {
        let at = fs::read(folder.join(file)).unwrap().len() / 2;
        let flip = || change(&folder.join(file), |bytes| bytes[at] ^= 4);
        flip();
        refused("", &[file]);
        flip();
    }
    // One wrong value, with right digests.
    let mut wrong = right().to_vec();
    let position: Partition = "35,3,2,1,1".parse().unwrap();
    let ranks = [&position, &position.mirror()].map(Partition::rank);
    let [rank, mirror] = ranks.map(|rank| usize::try_from(rank).unwrap());
    let value = wrong[42][rank];
    let other = value ^ 1;
    (wrong[42][rank], wrong[42][mirror]) = (other, other);
    publish(directory.path(), SMALL, &wrong);
    let name = format!("the position {} ", position.representative());
    let said = format!("has the value {other} in the table");
    refused("--level full", &[&name, &said, &format!("it is {value};")]);
}

#[test]
fn positions_have_the_values_of_the_definition() {
    let (directory, folder) = table(16);
    let mut known = HashMap::new();
    for text in ["1", "2,1", "4x4", "0b110100", "7,3,3,1"] {
        let answer = end(&mut of("query", path(&folder), &format!("--json {text}"))).summary();
        let position: Partition = text.parse().unwrap();
        let right = value(&position, &mut known);
        assert_eq!(number(&answer, "value"), u64::from(right), "{text}");
        let mut by_value = vec![Vec::new(); usize::from(right)];
        for (cell, left) in position.moves() {
            let value = value(&left, &mut known);
            if value < right {
                by_value[usize::from(value)].push([cell.row, cell.column]);
            }
        }
        assert_eq!(answer["moves_by_value"], json!(by_value), "{text}");
    }
    let said = |flags: &str| done(&mut of("query", path(&folder), flags)).stdout;
    assert_eq!(
        said("2,1 2x2"),
        "2,1 has the value 0: it is losing, no move wins\n\
         2x2 has the value 2: it is winning, with moves to\n  0   (2,2)\n  1   (1,2) (2,1)\n"
    );
    assert_eq!(
        said("--no-moves 2,1+2x2 2x2"),
        "2,1 + 2x2 has the value 2\n2x2 has the value 2\n"
    );
    let too_large = "the position has 17 tiles, and the table covers those of 1 to 16";
    let other_kind = "is a table of Grundy values, and this takes one of losing positions";
    for (flags, code, text) in [
        ("query 17", 5, too_large),
        ("query 40x4", 5, "the position has more than 120 tiles"),
        ("query 1,2", 2, "rows are listed longest first"),
        ("openings 2x3", 2, other_kind),
    ] {
        let (command, flags) = flags.split_once(' ').unwrap();
        end(&mut of(command, path(&folder), flags)).refuses(code, &[text]);
    }
    // Beside a table of losing positions it is asked by its own folder.
    end(&mut run(directory.path(), 20)).summary();
    let both = done(&mut of("query", path(directory.path()), "2x2")).stdout;
    assert_eq!(both, "2x2 is winning, with (2,2)\n");
    assert!(said("2x2").contains("has the value 2"));
}

/// Which positions an export has.
type Keeps<'a> = &'a dyn Fn(&Partition) -> bool;

#[test]
fn values_are_exported() {
    let (directory, folder) = table(20);
    let out = directory.path().join("out");
    let export = |flags: &str| {
        let mut command = of("export", path(&folder), flags);
        command.args(["--force", "--out", path(&out)]);
        command
    };
    // The lines of some positions, straight from the values.
    let lines = |takes: &dyn Fn(&Partition) -> bool| {
        let mut lines = "tiles,rank,rows,value\n".to_owned();
        for tiles in 1..=20 {
            for rank in 0..count(tiles) {
                let position = Partition::at(tiles, rank);
                if takes(&position) {
                    let value = right()[tiles as usize][usize::try_from(rank).unwrap()];
                    let rows = position.to_string().replace(',', "+");
                    writeln!(lines, "{tiles},{rank},{rows},{value}").unwrap();
                }
            }
        }
        lines
    };
    let sides = |position: &Partition| (position.rows().len(), position.rows()[0]);
    let inside = move |position: &Partition| {
        let (rows, columns) = sides(position);
        rows <= 4 && columns <= 5
    };
    let cases: [(&str, Keeps); 5] = [
        ("", &Partition::is_representative),
        ("--both", &|_| true),
        ("--area 7-9", &|position| {
            (7..=9).contains(&position.area()) && position.is_representative()
        }),
        ("--box 4x5", &|position| {
            inside(position) && (position.is_representative() || !inside(&position.mirror()))
        }),
        ("--bits 8 --both", &|position| {
            let (rows, columns) = sides(position);
            rows + columns as usize <= 8
        }),
    ];
    for (flags, takes) in cases {
        let summary = end(&mut export(&format!("--json --format rows {flags}"))).summary();
        let expected = lines(takes);
        let found = fs::read_to_string(&out).unwrap();
        assert!(found == expected, "{flags}");
        let lines = expected.lines().count() as u64;
        assert_eq!(number(&summary, "positions") + 1, lines);
        assert_eq!(summary["sha256"], Digest::of(found.as_bytes()).to_string());
        assert_eq!(summary["tiles"], 20);
        assert!(summary["bits"].is_null());
    }
    let of_21 = "a table of the values of 21 tiles";
    for (flags, text) in [
        ("--format words", "is for losing positions"),
        ("--format rows --area 21", of_21),
        ("--format npy --memory 600B", "with --memory"),
    ] {
        end(&mut export(flags)).refuses(2, &[text]);
    }
}

#[test]
fn tables_are_served_asked_and_fetched() {
    let (directory, folder) = table(22);
    let home = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut serve = at_home(serve_tables(directory.path(), port), home.path());
    let mut serve = Process::start(serve.arg("--json"), home.path());
    wait_for("the server", || serve.printed().ends_with('\n'));
    let served: Value = serde_json::from_str(&serve.printed()).unwrap();
    assert_eq!(served["tiles"], 22);
    assert!(served["bits"].is_null());
    let get = |path: &str| http::get(port, path, &[]);
    let list = get("/");
    assert_eq!(list.text(), "[{\"tiles\":22,\"path\":\"/values-022/\"}]\n");
    let answer = get("/api/value/5,4,2,1");
    let expected = done(&mut of("query", path(&folder), "--json 5,4,2,1")).stdout;
    let expected: Value = serde_json::from_str(&expected).unwrap();
    assert_eq!(answer.json(), expected);

    let url = format!("http://127.0.0.1:{port}/values-022");
    let told = done(&mut at_home(of("query", &url, "--no-moves 4"), home.path())).stdout;
    assert_eq!(told, "4 has the value 3\n");
    let mut download = chomp(&format!("download --json --from {url} --out"));
    let summary = end(download.arg(home.path())).summary();
    assert_eq!(number(&summary, "tiles"), 22);
    assert_eq!(digests(&home.path().join("values-022")), digests(&folder));
    // A shard that is damaged on the server's disk is not sent.
    let shard = folder.join("shard-0021.zst");
    change(&shard, |bytes| bytes[40] ^= 1);
    let file = get("/values-022/shard-0021.zst");
    assert_eq!(file.status, 500);
    // The table of the most tiles answers, as long as it is there: the server looks for changes each second.
    let of_row = |expected: Option<u64>| {
        let status = if expected.is_some() { 200 } else { 400 };
        wait_for("the answer of another table", || {
            get("/api/value/23").status == status
        });
        let answer = get("/api/value/23");
        let found = serde_json::from_slice::<Value>(&answer.body).ok();
        assert_eq!(found.and_then(|found| found["value"].as_u64()), expected);
    };
    of_row(None);
    let more = publish(directory.path(), SMALL, &right()[..=23]);
    of_row(Some(22));
    fs::rename(more, directory.path().join("elsewhere")).unwrap();
    of_row(None);
    serve.end();
}
