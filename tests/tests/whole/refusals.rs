//! Refusals of the program: exit codes, what the messages name, what goes to which stream, and that
//! nothing is spoiled by them.

use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::{
    Ended, FINGERPRINT_20, FINGERPRINT_24, chomp, digests, end, exists, files, fingerprint,
    finished, hasten, ledger, number, pause, ranges_done, run, run_in, send, start, wait,
    wait_until,
};
use chomp_table::Digest;
use nix::sys::signal::Signal;
use serde_json::Value;

/// Longer than the time in which a program in haste writes four lines of progress.
const LINES_AND_MORE: Duration = Duration::from_millis(4200);

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

#[test]
fn a_table_in_use() {
    let directory = tempfile::tempdir().unwrap();
    let table = directory.path();
    let mut first = start(&mut run_in(table, 24, 12));
    assert!(wait_until(&mut first, || exists(&table.join("work/parts"))));
    // It holds its lock while it sleeps, however slow this machine is.
    pause(first.id());
    let before = files(table);
    let owner = format!("in use by process {}, chomp", first.id());
    let found = status(table, &[]);
    assert!(found.stdout.contains(&owner), "{found:?}");
    for _ in 0..3 {
        let lock = table.join("lock");
        let second = end(&mut run(table, 24));
        second.refuses(5, &["in use", lock.to_str().unwrap()]);
    }
    assert_eq!(files(table), before);
    send(first.id(), Signal::SIGCONT);
    let summary = wait(first).made(FINGERPRINT_24);
    assert_eq!(number(&summary, "ranges_evaluated"), 1 << 12);
}

/// The journal keeps the time of each run.
#[test]
fn how_far_a_job_is_that_nobody_works_on() {
    let directory = tempfile::tempdir().unwrap();
    let table = directory.path();
    let mut first = start(&mut run_in(table, 24, 12));
    assert!(wait_until(&mut first, || ranges_done(table) > 0));
    pause(first.id());
    sleep(Duration::from_millis(1100));
    send(first.id(), Signal::SIGCONT);
    let is_noted = || ledger(table).is_some_and(|ledger| ledger.seconds_worked(24) > 0);
    assert!(wait_until(&mut first, is_noted));
    send(first.id(), Signal::SIGTERM);
    wait(first).refuses(75, &["stopped early"]);
    let text = status(table, &[]).stdout;
    let told = text.contains(" % of 24 bits done in ") && text.contains(" left\n");
    assert!(told, "{text}");
    let job = status(table, &["--json"]).summary()["job"].take();
    let is_right = job["done"].as_f64().unwrap() > 0.0 && number(&job, "size") == 24;
    assert!(is_right, "{job}");
    let before = number(&job, "seconds");
    assert!(before >= 1);
    let summary = end(&mut run(table, 24)).summary();
    let [one, all] = ["seconds", "seconds_of_all_runs"].map(|name| summary[name].as_f64().unwrap());
    let noted = Duration::from_secs(before).as_secs_f64();
    // Sums of seconds are rounded.
    assert!((-1e-6..1.0).contains(&(all - one - noted)), "{summary}");
    assert_eq!(fingerprint(&summary), FINGERPRINT_24);
}

fn status(table: &Path, flags: &[&str]) -> Ended {
    end(chomp("status").args(flags).arg("--table").arg(table))
}

/// Raises the format version of a file of the journal, which has it at byte 8, its length at byte 12,
/// and its digest at its end.
fn make_newer(file: &Path) -> u32 {
    let mut bytes = fs::read(file).unwrap();
    let version = u32::from_le_bytes(bytes[8..12].try_into().unwrap()) + 1;
    bytes[8..12].copy_from_slice(&version.to_le_bytes());
    let length = bytes.len() - 32;
    let digest = Digest::of(&bytes[..length]);
    bytes[length..].copy_from_slice(&digest.0);
    fs::write(file, bytes).unwrap();
    version
}

#[test]
fn newer_working_files() {
    // Only of a table whose parts are removed is there a checkpoint, and it is all that is read.
    for (folder, flags) in [
        ("work/journal", &["--keep-parts"][..]),
        ("work/checkpoints", &[]),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let table = directory.path();
        end(run_in(table, 14, 12).args(flags)).summary();
        fs::remove_dir_all(table.join("table-14")).unwrap();
        let file = files(&table.join(folder)).pop().unwrap();
        let version = make_newer(&file);
        let name = file.strip_prefix(table).unwrap().to_str().unwrap();
        let ended = end(&mut run(table, 14));
        ended.refuses(
            5,
            &[
                name,
                &format!("version {version}"),
                "the version that began it",
            ],
        );
        assert!(!exists(&table.join("table-14")));
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
fn wrong_usage() {
    for wrong in [
        "",
        "walk",
        "run",
        "run --bits",
        "run --bits 1",
        "run --bits 65",
        "run --bits twenty",
        "run --bits 20 --range-bits 11",
        "run --bits 20 --range-bits 33",
        "run --bits 20 --threads 0",
        "run --bits 20 --memory lots",
        "run --bits 20 --fast",
        "run --bits 20 table",
    ] {
        let directory = tempfile::tempdir().unwrap();
        end(chomp(wrong).current_dir(directory.path())).refuses(2, &["--help"]);
        assert_eq!(files(directory.path()).len(), 0, "{wrong}");
    }
    for (wrong, rule) in [
        ("run --bits 20 --threads 0", "at least 1 is wanted, as 4"),
        ("run --bits 20 --memory 4.8.15", "as 8GiB or 500MB"),
        (
            "serve --http 7172:localhost",
            "as 0.0.0.0:7171 or localhost",
        ),
        ("serve --http 65536", "as 0.0.0.0:7171 or localhost"),
    ] {
        end(&mut chomp(wrong)).refuses(2, &[rule]);
    }
    let help = end(&mut chomp("--help"));
    assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""));
    assert!(help.stdout.contains("Exit codes"));
}

/// Wherever a directory or a file is wanted: nothing is made, and what was meant is named.
#[test]
fn an_address_is_no_path() {
    for line in [
        "run --bits 12 --table s3://bucket/tables",
        "grundy --tiles 8 --table http://example.org/",
        "coordinator --bits 12 --table gs://bucket",
        "run --bits 12 --store s3://b/t --journal az://bucket",
        "download --from http://127.0.0.1:1 --out s3://bucket/tables",
        "box --rows 3 --columns 3 --scratch ftp://example.org/",
        "export --format words --out s3://bucket/words.csv",
        "verify --report s3://bucket/report.json",
        "access list --table s3://bucket/tables",
    ] {
        let directory = tempfile::tempdir().unwrap();
        let ended = end(chomp(line).current_dir(directory.path()));
        let said = [
            "://",
            "is no path on this machine",
            "--store",
            "chomp download",
        ];
        ended.refuses(2, &said);
        assert_eq!(files(directory.path()).len(), 0, "{line}");
    }
    for command in [
        "query 2,1",
        "openings",
        "verify",
        "export --format words --out -",
        "serve",
        "status",
    ] {
        let ended = end(chomp(command).args(["--table", "ftp://example.org/"]));
        ended.refuses(2, &["no table is read from ftp://", "s3://"]);
    }
    let directory = tempfile::tempdir().unwrap();
    let address = format!("file://{}", directory.path().display());
    let mut run = chomp(&format!("run --json --bits 12 --table {address}"));
    assert_eq!(number(&end(&mut run).summary(), "bits"), 12);
    let mut query = chomp(&format!("query --table {address} 2,1"));
    assert_eq!(end(&mut query).stdout, "2,1 is losing: no move wins\n");
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
fn too_little_memory() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = run_in(directory.path(), 20, 12);
    let refused = ["1 MiB of memory", "give at least 306MiB", "2 threads"];
    end(command.args(["--memory", "1MiB"])).refuses(2, &refused);
    assert!(!exists(&directory.path().join("work")));
    end(&mut run(directory.path(), 20)).made(FINGERPRINT_20);
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
    let empty = end(begin().env("CHOMP_RUN_JSON", ""));
    empty.refuses(2, &["true or false, as CHOMP_RUN_JSON=true"]);
    for (name, value) in [
        ("CHOMP_RUN_BITS", "1"),
        ("CHOMP_RUN_THREADS", "none"),
        ("CHOMP_RUN_RANGE_BITS", "5"),
        ("CHOMP_RUN_MEMORY", "much"),
        ("CHOMP_RUN_JSON", "perhaps"),
    ] {
        end(begin().env(name, value)).refuses(2, &[value]);
    }
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

#[test]
fn with_json_what_happens_is_told_as_events() {
    let directory = tempfile::tempdir().unwrap();
    let table = directory.path().join("table");
    let log = directory.path().join("log");
    let told_to = File::create(&log).unwrap();
    let mut child = start(run_in(&table, 30, 15).stderr(told_to));
    let stderr = || fs::read_to_string(&log).unwrap();
    let is_told = |name: &str| stderr().contains(&format!("{{\"event\":\"{name}\""));
    let there = wait_until(&mut child, || is_told("layer") && is_told("progress"));
    if there {
        send(child.id(), Signal::SIGTERM);
    }
    let ended = wait(child);
    let stderr = stderr();
    let told = events(&stderr);
    let named = |name: &str| told.iter().find(|event| event["event"] == name);
    assert_eq!(named("started").unwrap()["command"], "run");
    if there && ended.code == Some(75) {
        let done = named("progress").unwrap()["done"].as_f64().unwrap();
        assert!((0.0..1.0).contains(&done), "{stderr}");
        assert!(named("interrupted").is_some());
        assert_eq!(ended.stdout, "");
    }
    let fresh = tempfile::tempdir().unwrap();
    let refused = end(run_in(fresh.path(), 28, 16).args(["--memory", "1MiB"]));
    let told = events(&refused.stderr);
    let last = told.last().unwrap();
    assert_eq!(last["event"], "failed");
    assert!(last["error"].as_str().unwrap().contains("memory"), "{last}");
}

/// A process that sleeps has nothing to do, but time goes on for it: a slow run for little work.
#[test]
fn progress_is_plain_lines_on_stderr() {
    let directory = tempfile::tempdir().unwrap();
    let table = directory.path();
    let mut command = chomp("run --bits 24 --range-bits 12 --table");
    let began = Instant::now();
    let mut child = start(hasten(command.arg(table), 10));
    assert!(wait_until(&mut child, || exists(&table.join("work/parts"))));
    pause(child.id());
    let sleeps = Instant::now();
    sleep(LINES_AND_MORE);
    let asleep = sleeps.elapsed();
    send(child.id(), Signal::SIGCONT);

    let ended = wait(child);
    let rest = usize::try_from(began.elapsed().saturating_sub(asleep).as_secs()).unwrap();
    assert!(ended.stdout.contains(FINGERPRINT_24), "{ended:?}");
    let lines: Vec<&str> = ended.stderr.lines().collect();
    // One for the time that it slept, and at most one a second for the rest.
    assert!((1..=2 + rest).contains(&lines.len()), "{lines:?}");
    for line in lines {
        assert!(line.starts_with("24 bits, "), "{line:?}");
        assert!(line.contains(" % "), "{line:?}");
        assert!(!line.contains(char::is_control), "{line:?}");
    }
}
