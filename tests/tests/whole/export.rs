//! `chomp export` as a process: what it writes, what it refuses, and what it leaves.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use crate::common::{change, chomp, copy, end, files, made_once, number, read_json, start};
use chomp_table::{Digest, Table};
use nix::sys::signal::Signal;
use tempfile::TempDir;

const BITS: u32 = 22;

/// A finished table, made once.
fn table() -> &'static Path {
    static TABLE: OnceLock<TempDir> = OnceLock::new();
    made_once(&TABLE, BITS)
}

/// `chomp export` of `table`, with these words on the command line.
fn export_of(table: &Path, out: &Path, flags: &str) -> Command {
    let mut command = chomp("export --table");
    command.arg(table).arg("--out").arg(out);
    command.args(flags.split_whitespace());
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
    let beside = read_json(&directory.path().join("words.npy.json"));
    assert_eq!(beside, summary);
    let both = ["words.npy", "words.npy.json"];
    assert_eq!(names(directory.path()), both);

    // A pipe gets the same bytes as a file.
    let piped = directory.path().join("piped");
    let mut to_stdout = export(Path::new("-"), "--format npy");
    let status = to_stdout.stdout(File::create(&piped).unwrap()).status();
    assert!(status.unwrap().success() && fs::read(&piped).unwrap() == bytes);

    let ended = end(&mut export(&out, "--format npy --both --force")).done();
    let digest = Digest::of(&fs::read(&out).unwrap()).to_string();
    for text in ["a table of 22 bits", &digest, "words.npy (npy, "] {
        assert!(ended.stdout.contains(text), "{ended:?}");
    }
}

#[test]
fn the_end_of_a_name_says_the_format() {
    let directory = tempfile::tempdir().unwrap();
    let written = |name: &str, flags: &str| {
        let out = directory.path().join(name);
        let ended = end(&mut export(&out, &format!("--bits 5 {flags}"))).done();
        (ended, fs::read(&out).unwrap())
    };
    let rows = "word,bits,area,rows\n2,2,1,1\n10,4,3,2+1\n20,5,5,2+2+1\n";
    assert_eq!(written("a.csv", "").1, rows.as_bytes());
    assert!(written("b.NPY", "").1.starts_with(b"\x93NUMPY"));
    assert!(written("b.parquet", "").1.starts_with(b"PAR1"));
    // One bitmap of 32 bits, for words with high bits of 0, and the mark of one without runs.
    let bitmap = b"\x01\0\0\0\0\0\0\0\0\0\0\0\x3a\x30";
    assert!(written("b.roaring", "").1.starts_with(bitmap));
    let (ended, words) = written("c.csv", "--format words");
    assert_eq!(words, b"word\n2\n10\n20\n");
    ended.says_nothing_of("c.csv gets");
    // The flag counts, and a name that says something else is told.
    let (ended, rows_again) = written("d.npy", "--format rows");
    assert_eq!(rows_again, rows.as_bytes());
    ended.says("d.npy gets the format rows");
    for name in ["e.json", "f", "-"] {
        let ended = end(&mut export(Path::new(name), ""));
        ended.refuses(2, &["does not say its format", "--format", ".csv"]);
    }
}

#[test]
fn stdout_gets_the_positions_alone() {
    let ended = end(&mut export(Path::new("-"), "--format rows --bits 5 --both")).done();
    let expected = "word,bits,area,rows\n2,2,1,1\n10,4,3,2+1\n20,5,5,2+2+1\n26,5,5,3+2\n";
    assert_eq!(ended.stdout, expected);
    assert!(ended.stderr.contains("stdout (rows, "), "{ended:?}");
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
    let values = "possible values: words, rows, npy";
    refused(&out, "--format xml", 2, &[values]);
    let stdout = Path::new("-");
    refused(
        stdout,
        "--format rows --json",
        2,
        &["--json prints to stdout"],
    );
    let nowhere = directory.path().join("none/out");
    refused(
        &nowhere,
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
    end(&mut export(&out, "--format words --bits 2 --force")).done();
    assert_eq!(fs::read(&out).unwrap(), b"word\n2\n");
    assert_eq!(names(directory.path()), ["out", "out.json"]);
}

#[test]
fn damage_is_named_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let damaged = directory.path().join("damaged");
    copy(Table::open(table()).unwrap().folder(), &damaged);
    let shard = damaged.join("shard-0000.zst");
    change(&shard, |bytes| bytes[1000] ^= 1);
    let results = directory.path().join("results");
    fs::create_dir(&results).unwrap();
    let fast = "chomp-fast --box 9x9";
    for format in ["rows", "npy --both", "parquet", "roaring", fast] {
        let out = results.join("out");
        let flags = format!("--format {format}");
        let ended = end(&mut export_of(&damaged, &out, &flags));
        ended.refuses(3, &[shard.to_str().unwrap(), "is damaged"]);
        assert_eq!(names(&results), [""; 0], "{format}");
    }
}

#[test]
fn a_signal_ends_it_and_leaves_nothing() {
    loop {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("out");
        // With 1 byte of memory it makes many passes, and is seldom done before the signal comes.
        let mut child = start(&mut export(&out, "--format npy --both --memory 1B"));
        if child.wait_until(|| !names(directory.path()).is_empty()) {
            child.send(Signal::SIGTERM);
        }
        let ended = child.wait();
        if ended.code != Some(0) {
            ended.refuses(75, &["the export was stopped"]);
            assert_eq!(names(directory.path()), [""; 0]);
            return;
        }
    }
}
