//! `chomp export` as a process: what it writes, what it refuses, and what it leaves.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use crate::common::{end, files, made_once, number, program, start, wait};
use chomp_table::{Digest, Table};
use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

const BITS: u32 = 22;

/// A finished table, made once.
fn table() -> &'static Path {
    static TABLE: OnceLock<TempDir> = OnceLock::new();
    made_once(&TABLE, BITS)
}

/// `chomp export` of `table`, with these words on the command line.
fn export_of(table: &Path, out: &Path, flags: &str) -> Command {
    let mut command = program();
    command.arg("export").arg("--table").arg(table);
    command.arg("--out").arg(out).args(flags.split_whitespace());
    command
}

fn export(out: &Path, flags: &str) -> Command {
    export_of(table(), out, flags)
}

fn names(folder: &Path) -> Vec<String> {
    let files = files(folder).into_iter();
    let names = files.map(|file| file.file_name().unwrap().to_str().unwrap().to_owned());
    names.collect()
}

#[test]
fn the_summary_tells_what_was_written() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("words.npy");
    let ended = end(&mut export(&out, "--format npy --json"));
    let summary = ended.summary();
    let bytes = fs::read(&out).unwrap();
    let table = Table::open(table()).unwrap();
    assert_eq!(number(&summary, "positions"), table.manifest().stored);
    assert_eq!(number(&summary, "bits"), u64::from(BITS));
    assert_eq!(number(&summary, "bytes"), bytes.len() as u64);
    assert_eq!(summary["sha256"], Digest::of(&bytes).to_string());
    assert_eq!(summary["format"], "npy");
    assert_eq!(summary["out"], out.to_str().unwrap());
    let fingerprint = table.manifest().fingerprint.to_string();
    assert_eq!(summary["fingerprint"], fingerprint);
    let beside = fs::read(directory.path().join("words.npy.json")).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&beside).unwrap(), summary);
    let events: Vec<Value> = ended
        .stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(events[0]["command"], "export");
    assert_eq!(events.last().unwrap()["event"], "finished");
    let both = ["words.npy", "words.npy.json"];
    assert_eq!(names(directory.path()), both);

    // A pipe gets the same bytes as a file.
    let mut piped = std::process::Command::new("sh");
    piped.args([
        "-c",
        "\"$0\" export --format npy --table \"$1\" --out - | cat > \"$2\"",
    ]);
    let program = program();
    piped.arg(program.get_program()).arg(crate::export::table());
    let other = directory.path().join("piped");
    end(piped.arg(&other));
    assert_eq!(fs::read(&other).unwrap(), bytes);
    let nowhere = end(&mut export(Path::new("/dev/null"), "--format npy --json")).summary();
    assert_eq!(nowhere["sha256"], summary["sha256"]);

    let ended = end(&mut export(&out, "--format npy --both --force"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let digest = Digest::of(&fs::read(&out).unwrap()).to_string();
    for text in ["a table of 22 bits", &digest, "words.npy (npy, "] {
        assert!(ended.stdout.contains(text), "{ended:?}");
    }
}

#[test]
fn stdout_gets_the_positions_alone() {
    let ended = end(&mut export(Path::new("-"), "--format rows --bits 5 --both"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let expected =
        "word,bits,area,rows\n2,2,1,\"1\"\n10,4,3,\"2,1\"\n20,5,5,\"2,2,1\"\n26,5,5,\"3,2\"\n";
    assert_eq!(ended.stdout, expected);
    assert!(ended.stderr.contains("stdout (rows, "), "{ended:?}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let mut child = start(&mut export(Path::new("-"), "--format rows --both"));
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert_eq!(line, "word,bits,area,rows\n");
    drop(lines);
    let ended = wait(child);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.stderr, "");
}

#[test]
fn what_cannot_be_is_refused_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let refused = |out: &Path, flags: &str, code, texts: &[&str]| {
        end(&mut export(out, flags)).refuses(code, texts);
        assert_eq!(names(directory.path()), [""; 0], "{flags}");
    };
    let beyond = |flags: &str, bits: &str| {
        let needs = format!("needs a table of {bits} bits, and there is one of 22");
        refused(&out, &format!("--format words {flags}"), 2, &[&needs]);
    };
    beyond("--bits 23", "23");
    beyond("--box 12x11", "23");
    beyond("--area 3-22", "23");
    refused(&out, "--format chomp-fast", 2, &["--box 16x16"]);
    refused(
        &out,
        "--format xml",
        2,
        &["possible values: words, rows, npy"],
    );
    refused(
        Path::new("-"),
        "--format rows --json",
        2,
        &["--json prints to stdout"],
    );
    refused(
        &directory.path().join("none/out"),
        "--format words",
        1,
        &["cannot create a file in", "none"],
    );
    let nothing = directory.path().join("nothing");
    let ended = end(&mut export_of(&nothing, &out, "--format words"));
    ended.refuses(1, &["has no published table"]);
}

#[test]
fn a_file_that_is_there_stays() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    fs::write(&out, "mine").unwrap();
    let path = out.to_str().unwrap();
    let ended = end(&mut export(&out, "--format words"));
    ended.refuses(5, &[path, "is there already", "--force"]);
    assert_eq!(fs::read(&out).unwrap(), b"mine");
    let ended = end(&mut export(&out, "--format words --bits 2 --force"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(fs::read(&out).unwrap(), b"word\n2\n");
    assert_eq!(names(directory.path()), ["out", "out.json"]);
}

#[test]
fn damage_is_named_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let damaged = directory.path().join("damaged");
    fs::create_dir(&damaged).unwrap();
    let folder = Table::open(table()).unwrap().folder().to_owned();
    for file in files(&folder) {
        fs::copy(&file, damaged.join(file.file_name().unwrap())).unwrap();
    }
    let shard = damaged.join("shard-0000.zst");
    let mut bytes = fs::read(&shard).unwrap();
    bytes[1000] ^= 1;
    fs::write(&shard, bytes).unwrap();
    let results = directory.path().join("results");
    fs::create_dir(&results).unwrap();
    for format in [
        "rows",
        "npy --both",
        "parquet",
        "roaring",
        "chomp-fast --box 9x9",
    ] {
        let out = results.join("out");
        let ended = end(&mut export_of(
            &damaged,
            &out,
            &format!("--format {format}"),
        ));
        ended.refuses(3, &[shard.to_str().unwrap(), "is damaged"]);
        assert_eq!(names(&results), [""; 0], "{format}");
    }
}

#[test]
fn a_signal_ends_it_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    // With 1 byte of memory it makes many passes, and is not done before the signal comes.
    let mut child = start(&mut export(&out, "--format npy --both --memory 1B"));
    let begun = crate::common::wait_until(&mut child, || !names(directory.path()).is_empty());
    assert!(begun);
    crate::common::send(child.id(), Signal::SIGTERM);
    wait(child).refuses(75, &["the export was stopped"]);
    assert_eq!(names(directory.path()), [""; 0]);
}
