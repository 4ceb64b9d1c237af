//! Refusals of the program: exit codes, what the messages name, what goes to which stream, and that
//! nothing is spoiled by them.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::common::{
    FINGERPRINT_20, change, chomp, digests, end, exists, files, finished, number, run, run_in,
};
use chomp_table::Digest;
use serde_json::Value;

#[test]
fn other_range_bits() {
    let directory = tempfile::tempdir().unwrap();
    let table = directory.path();
    end(run_in(table, 16, 12).arg("--keep-parts")).summary();
    let before = digests(table);
    for bits in [14, 16] {
        let ended = end(&mut run_in(table, bits, 13));
        let asked = "13 range bits were asked for";
        ended.refuses(5, &["12 range bits", asked, "leave them out"]);
    }
    assert_eq!(digests(table), before);
    // Left out, they are the table's. When the parts are gone, nothing depends on them.
    let summary = end(&mut run(table, 18)).summary();
    assert_eq!(number(&summary, "ranges_evaluated"), (1 << 6) - (1 << 4));
    let summary = end(&mut run_in(table, 20, 13)).made(FINGERPRINT_20);
    assert_eq!(number(&summary, "ranges_evaluated"), 1 << 7);
}

/// Changes the format version of a file of the journal, which has it at byte 8, and its digest at its end.
fn set_version(file: &Path, by: i32) -> u32 {
    let mut set = 0;
    change(file, |bytes| {
        let version = u32::from_le_bytes(bytes[8..12].try_into().unwrap());
        set = version.wrapping_add_signed(by);
        bytes[8..12].copy_from_slice(&set.to_le_bytes());
        let length = bytes.len() - 32;
        let digest = Digest::of(&bytes[..length]);
        bytes[length..].copy_from_slice(&digest.0);
    });
    set
}

#[test]
fn working_files_of_another_version() {
    // Only of a table whose parts are removed is there a checkpoint, and it is all that is read.
    for (folder, flags, by) in [
        ("work/journal", &["--keep-parts"][..], 1),
        ("work/journal", &["--keep-parts"], -1),
        ("work/checkpoints", &[], 1),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let table = directory.path();
        end(run_in(table, 14, 12).args(flags)).summary();
        fs::remove_dir_all(table.join("table-14")).unwrap();
        let file = files(&table.join(folder)).pop().unwrap();
        let version = format!("version {}", set_version(&file, by));
        let before = digests(&table.join("work"));
        let name = file.strip_prefix(table).unwrap().to_str().unwrap();
        let refused = [name, &version, "the version that began it"];
        end(&mut run(table, 14)).refuses(5, &refused);
        assert_eq!(digests(&table.join("work")), before);
    }
}

#[test]
fn a_newer_manifest() {
    let directory = finished(14);
    let file = directory.path().join("table-14/manifest.json");
    let manifest = fs::read_to_string(&file).unwrap();
    let newer = manifest.replacen("\"format\": 2,", "\"format\": 3, \"new\": [],", 1);
    assert_ne!(manifest, newer);
    fs::write(&file, newer).unwrap();
    for bits in [14, 16] {
        let ended = end(&mut run(directory.path(), bits));
        let path = file.to_str().unwrap();
        ended.refuses(5, &[path, "format 3", "use a newer chomp"]);
    }
}

#[test]
fn a_directory_that_cannot_be_one() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "not a table").unwrap();
    for table in [file.clone(), file.join("table"), file.join("a/b/c")] {
        let ended = end(&mut run(&table, 14));
        ended.refuses(1, &["cannot ", file.to_str().unwrap()]);
    }
    assert_eq!(fs::read(&file).unwrap(), b"not a table");

    // The system's, where nobody may make anything.
    let ended = end(&mut run(Path::new("/proc/table"), 14));
    ended.refuses(1, &["cannot create the directory /proc/table"]);
    // In the way of the working files.
    let table = directory.path().join("table");
    fs::create_dir(&table).unwrap();
    fs::write(table.join("work"), "").unwrap();
    let ended = end(&mut run(&table, 14));
    ended.refuses(1, &[table.to_str().unwrap(), "work"]);
}

#[test]
fn wrong_usage_makes_nothing() {
    for (wrong, rule) in [
        ("", "Usage"),
        ("run --bits 65 --table new", "--help"),
        (
            "run --bits 20 --memory 4.8.15 --table new",
            "as 8GiB or 500MB",
        ),
        (
            "run --bits 12 --table s3://bucket/tables",
            "is no path on this machine",
        ),
        (
            "download --from http://127.0.0.1:1 --out s3://bucket/tables",
            "is no path on this machine",
        ),
        (
            "export --format words --out s3://bucket/words.csv",
            "is no path on this machine",
        ),
        (
            "query 2,1 --table ftp://example.org/",
            "no table is read from ftp://",
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        end(chomp(wrong).current_dir(directory.path())).refuses(2, &[rule]);
        assert_eq!(files(directory.path()).len(), 0, "{wrong}");
    }
    let help = end(&mut chomp("--help")).done();
    assert!(help.stdout.contains("Exit codes") && help.stderr.is_empty());
    let directory = tempfile::tempdir().unwrap();
    let address = format!("file://{}", directory.path().display());
    end(&mut chomp(&format!("run --bits 12 --table {address}"))).done();
    let said = end(&mut chomp(&format!("query --table {address} 2,1"))).stdout;
    assert_eq!(said, "2,1 is losing: no move wins\n");
}

/// A list of them would take all memory: refused before anything is written.
#[test]
fn too_many_ranges() {
    let directory = tempfile::tempdir().unwrap();
    let ended = end(&mut run_in(directory.path(), 52, 12));
    ended.refuses(5, &["52 bits with 12 range bits", "too many ranges"]);
    assert!(!exists(&directory.path().join("work")));
    let ended = end(&mut run_in(directory.path(), 33, 12));
    ended.refuses(5, &["use at least 13 range bits"]);
    end(&mut run_in(directory.path(), 20, 13)).made(FINGERPRINT_20);
}

#[test]
fn the_environment_mirrors_the_flags() {
    let directory = tempfile::tempdir().unwrap();
    let table = directory.path().join("from the environment");
    let variables = [
        ("CHOMP_RUN_BITS", "20"),
        ("CHOMP_TABLE", table.to_str().unwrap()),
        ("CHOMP_RUN_THREADS", "1"),
        ("CHOMP_RUN_RANGE_BITS", "13"),
        ("CHOMP_RUN_MEMORY", "1GiB"),
        ("CHOMP_RUN_KEEP_PARTS", "true"),
        ("CHOMP_RUN_JSON", "true"),
    ];
    let begin = || {
        let mut command = chomp("run");
        command.envs(variables);
        command
    };
    let summary = end(&mut begin()).made(FINGERPRINT_20);
    assert_eq!(number(&summary, "ranges_evaluated"), 1 << 7);
    assert!(exists(&table.join("table-20/manifest.json")));
    assert!(exists(&table.join("work/parts")));

    // A flag wins.
    let summary = end(begin().args(["--bits", "14"])).summary();
    assert_eq!(number(&summary, "bits"), 14);

    for json in ["1", "0", "false"] {
        let ended = end(begin().env("CHOMP_RUN_JSON", json)).done();
        let is_json = ended.stdout.starts_with('{');
        assert_eq!(is_json, json == "1", "{json}: {ended:?}");
    }
    end(begin().env("CHOMP_RUN_MEMORY", "much")).refuses(2, &["much"]);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let directory = finished(14);
    let table = directory.path().to_str().unwrap();
    // The side of a pipe whose other side is closed.
    let nobody = || Stdio::from(std::io::pipe().unwrap().1);
    for json in ["", "--json"] {
        for line in ["--help", &format!("run --bits 14 --table {table} {json}")] {
            let ended = end(chomp(line).stdout(nobody())).done();
            ended.says_nothing_of("error");
        }
    }
    // Nor is it one when nobody reads the messages: the table is what counts.
    let mut command = chomp(&format!("run --bits 20 --table {table} --json"));
    end(command.stderr(nobody())).made(FINGERPRINT_20);
}

#[test]
fn one_json_object_on_stdout_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let ended = end(&mut run_in(directory.path(), 20, 12));
        let summary = ended.summary();
        assert_eq!(ended.stdout.matches('\n').count(), 1);
        assert!(ended.stdout.ends_with("}\n"));
        let events = events(&ended.stderr);
        assert_eq!(events.first().unwrap()["event"], "started");
        assert_eq!(events.last().unwrap()["event"], "finished");
        for name in ["bits", "positions", "losing", "stored", "ranges_evaluated"] {
            number(&summary, name);
        }
        assert!(summary["losing_by_bits"].is_array() && summary["seconds"].is_number());
        let folder = directory.path().join("table-20");
        assert_eq!(summary["table"], folder.to_str().unwrap());
    }
    let table = directory.path().to_str().unwrap();
    let text = end(&mut chomp(&format!("run --bits 20 --table {table}")));
    assert_eq!((text.code, text.stderr.as_str()), (Some(0), ""));
    for expected in ["losing", "fingerprint", FINGERPRINT_20, "table-20"] {
        assert!(text.stdout.contains(expected), "{text:?}");
    }
    let refused = end(run_in(directory.path(), 28, 16).args(["--memory", "1MiB"])).exits(2);
    let events = events(&refused.stderr);
    assert_eq!(events.last().unwrap()["event"], "failed");
}

/// The events on stderr, one JSON object a line.
fn events(stderr: &str) -> Vec<Value> {
    let line = |line: &str| -> Value {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{stderr}"));
        assert!(event["event"].is_string(), "{line}");
        event
    };
    stderr.lines().map(line).collect()
}

/// No error repeats the password of an address, whichever command is given it.
#[test]
fn no_error_repeats_a_password() {
    let directory = tempfile::tempdir().unwrap();
    for url in [
        "http://ann:secret@127.0.0.1:1",
        "https://ann:a/secret@127.0.0.1:1/x",
        "s3://ann:secret@bucket/x",
        "ftp://ann:secret@host",
    ] {
        for line in [
            "status --coordinator URL",
            "status --table URL --json",
            "worker --coordinator URL --json",
            "access show --coordinator URL",
            "download --from URL --out x",
            "download --from http://localhost:1 --out URL",
            "query --table URL 3x4",
            "openings --table URL",
            "verify --table URL",
            "serve --table URL",
            "export --table URL --format csv --out x",
            "certify 3x4 --table URL --out x",
            "site --table URL --out x",
            "run --bits 14 --table URL",
            "run --bits 14 --store URL",
            "run --bits 14 --http URL",
            "coordinator --bits 14 --store URL --journal x",
            "grundy --tiles 5 --table URL",
            "box 3x4 --scratch URL",
        ] {
            let mut command = chomp(&line.replace("URL", url));
            let ended = end(command.current_dir(directory.path()));
            assert_ne!(ended.code, Some(0), "{ended:?}");
            ended.says_nothing_of("secret");
            assert_eq!(ended.stdout, "", "{ended:?}");
        }
    }
}
