//! `chomp verify`: what is right passes at every level, what is not is named with its place and exit
//! code 3, and the marking of all positions goes on where it was stopped or killed.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::random::Random;
use crate::common::{
    Ended, FINGERPRINT_30, change, chomp, end, exists, files, finished, number, read_json, start,
};
use chomp_table::shard::ShardSize;
use chomp_table::{Digest, Table, Word};
use chomp_testing::needs;
use chomp_testing::tables::publish_words;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

const BITS: u32 = 30;
/// The windows of 30 bits.
const WINDOWS: u64 = 16;

/// Somebody who checks the table, and keeps what is done in a folder in it.
fn checker(table: &Path, line: &str) -> Command {
    let mut command = chomp(line);
    command.env("XDG_STATE_HOME", table.join("state"));
    command
}

fn verify(table: &Path, level: &str) -> Command {
    let mut command = checker(table, &format!("verify --json --threads 2 --level {level}"));
    command.arg("--table").arg(table);
    command
}

fn flip(path: &Path, at: usize, bit: usize) {
    change(path, |bytes| bytes[at] ^= 1 << bit);
}

#[test]
fn a_random_bit_of_a_table_is_found_and_named() {
    let mut random = Random::new();
    let directory = finished(BITS);
    let (table, folder) = (directory.path(), directory.path().join("table-30"));
    let listed = files(&folder);
    let summary = end(&mut verify(table, "quick")).summary();
    let written = table.join("verify-30-quick.json");
    assert_eq!(read_json(&written), summary);
    assert_eq!(summary["result"], "passed");
    assert_eq!(summary["table"]["fingerprint"], FINGERPRINT_30);
    let linear = "d82e0472d012698c4955229d073960b610a80e5f7c1bc7759056b7165b0ca3e3";
    assert_eq!(summary["table"]["linear_sha256"], linear);
    assert_eq!(number(&summary["table"], "losing"), 3_893_679);
    let sums = fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
    let shard = &summary["table"]["shards"][0];
    assert!(sums.contains(shard["sha256"].as_str().unwrap()));
    assert!(sums.starts_with(summary["table"]["manifest_sha256"].as_str().unwrap()));
    assert_eq!(files(&folder), listed, "the folder is as it was");

    for name in ["SHA256SUMS", "manifest.json", "shard-0000.zst"] {
        let path = folder.join(name);
        let length = fs::read(&path).unwrap().len();
        for _ in 0..8 {
            let (at, bit) = (random.below(length), random.below(8));
            flip(&path, at, bit);
            let ended = end(&mut verify(table, "quick"));
            // Of the two lists that disagree either may be wrong.
            let place = ["manifest.json", name][usize::from(name.starts_with("shard"))];
            let said = damaged(&ended, &[place]);
            assert_eq!(said, read_json(&written), "{name}, byte {at}, bit {bit}");
            flip(&path, at, bit);
        }
    }
    let shard = folder.join("shard-0000.zst");
    let middle = fs::read(&shard).unwrap().len() / 2;
    flip(&shard, middle, 3);
    let ended = end(&mut verify(table, "full"));
    let said = ["shard-0000.zst is damaged", "instead of", "its frame "];
    damaged(&ended, &said);
    flip(&shard, middle, 3);
}

/// The report of a table that is not as it should be, for which the message gives these reasons.
fn damaged(ended: &Ended, texts: &[&str]) -> Value {
    assert_eq!(ended.code, Some(3), "{ended:?}");
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(report["result"], "damaged");
    let damage = report["damage"].as_str().unwrap();
    for text in texts {
        ended.says(text);
        assert!(damage.contains(text), "no {text:?} in {ended:?}");
    }
    let checks = report["checks"].as_array().unwrap();
    assert_eq!(checks.last().unwrap()["passed"], false);
    report
}

#[test]
fn what_cannot_be_done_is_refused() {
    let directory = finished(20);
    let table = directory.path();
    let inside = table.join("table-20/report.json");
    let report = |to: &Path| end(verify(table, "quick").arg("--report").arg(to));
    report(&inside).refuses(2, &["report.json", "is in the folder of the table"]);
    let nowhere = report(&table.join("none/report.json"));
    nowhere.refuses(1, &["the report needs a place", "--report FILE"]);
    let ended = end(verify(table, "full").args(["--memory", "1MiB"]));
    ended.refuses(2, &["are too few: give at least"]);
    let ended = end(&mut verify(&table.join("table-21"), "quick"));
    ended.refuses(1, &["has no published table"]);
    // A sample that would not be drawn.
    for (level, flag) in [
        ("quick", "--sample"),
        ("full", "--sample"),
        ("quick", "--seed"),
    ] {
        let ended = end(verify(table, level).args([flag, "10"]));
        ended.refuses(2, &[level, "no random positions", "--level sample"]);
    }
    assert_eq!(files(&table.join("table-20")).len(), 3);
    // Nobody has to keep a report, nor what is done so far: all is checked all the same.
    assert_eq!(report(Path::new("-")).summary()["result"], "passed");
    let mut homeless = verify(table, "full");
    let ended = end(homeless.env_remove("XDG_STATE_HOME").env_remove("HOME"));
    ended.summary();
    ended.says("is not kept");

    // For people there are lines.
    let mut command = checker(table, "verify --level full --table");
    let ended = end(command.arg(table.join("table-20"))).done();
    let passed = "passed all checks of the level full";
    for part in [passed, "agree with marking", "verify-20-full.json"] {
        assert!(ended.stdout.contains(part), "{ended:?}");
    }
}

/// A table of 22 bits without one of its words, with right digests, counts and fingerprints, so that none of these
/// shows it; and that word.
fn hidden_lie() -> (TempDir, u64) {
    let directory = finished(22);
    let table = Table::open(directory.path()).unwrap();
    let mut words: Vec<u64> = table.words().flat_map(Result::unwrap).collect();
    // Of 22 bits, outside all boxes of which the counts are known, and many cells.
    let hidden = |word: &u64| {
        let position = Word::new(*word);
        position.bits() == 22 && word.count_ones() == 5 && position.area() > 22
    };
    let place = words.iter().rposition(hidden).unwrap();
    let removed = words.remove(place);
    let forged = tempfile::tempdir().unwrap();
    publish_words(forged.path(), 22, ShardSize::PUBLISHED, &words);
    (forged, removed)
}

/// The marking of all positions finds a wrong table whatever its digests say, also where no fingerprint is published.
#[test]
fn a_table_that_lies_with_right_digests_is_found() {
    let (forged, removed) = hidden_lie();
    end(&mut verify(forged.path(), "quick")).summary();
    let missing = format!("(word {removed}, shard-0000.zst");
    let ended = end(&mut verify(forged.path(), "full"));
    damaged(&ended, &[&missing, "is not listed, but none of its "]);
}

/// A table that is known to be wrong is checked to the end, so that its wrong positions are named.
#[test]
fn a_wrong_position_of_a_known_size_is_named() {
    let directory = finished(24);
    let table = Table::open(directory.path()).unwrap();
    let words: Vec<u64> = table.words().flat_map(Result::unwrap).collect();
    // Of 24 bits, with many cells, and none that the counts of others know.
    let hidden = |word: &u64| {
        let position = Word::new(*word);
        position.bits() == 24 && word.count_ones() == 5 && position.area() > 24
    };
    let place = words.iter().rposition(hidden).unwrap();
    let forged = tempfile::tempdir().unwrap();
    let others = [&words[..place], &words[place + 1..]].concat();
    publish_words(forged.path(), 24, ShardSize::PUBLISHED, &others);
    let known = "the published one is";
    let ended = end(&mut verify(forged.path(), "quick"));
    damaged(&ended, &[known]);
    let ended = end(&mut verify(forged.path(), "full"));
    let missing = format!("(word {}, shard-0000.zst", words[place]);
    let report = damaged(&ended, &[&missing, "is not listed, but none of its "]);
    ended.says(known);
    let failed = report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["passed"] == false);
    assert!(failed.map(|check| &check["check"]).eq(["known", "full"]));
    // A few random positions may all agree. The table is not the known one all the same.
    let ended = end(verify(forged.path(), "sample").args(["--sample", "10"]));
    assert_eq!(ended.code, Some(3), "{ended:?}");
    ended.says(known);
}

/// The name of its folder says which table it is.
#[test]
fn a_table_in_the_folder_of_another_is_refused() {
    let directory = finished(20);
    let [right, wrong] = [20, 21].map(|bits| directory.path().join(format!("table-{bits}")));
    fs::rename(&right, &wrong).unwrap();
    let of_20 = [
        "table-21/manifest.json",
        "the manifest of a table of 20 bits",
    ];
    for place in [directory.path(), &wrong] {
        let ended = end(&mut verify(place, "quick"));
        damaged(&ended, &of_20);
        for line in [
            "query 3x3",
            "openings 3x3",
            "status",
            "export --out - --format words",
        ] {
            end(chomp(line).arg("--table").arg(place)).refuses(3, &of_20);
        }
    }
    fs::rename(&wrong, directory.path().join("mine")).unwrap();
    end(&mut verify(&directory.path().join("mine"), "quick")).summary();
    // A table of losing positions is none of values.
    let values = directory.path().join("values-020");
    fs::rename(directory.path().join("mine"), &values).unwrap();
    let ended = end(&mut verify(&values, "quick"));
    damaged(
        &ended,
        &["no manifest of a table of the values of 20 tiles"],
    );
}

/// The file with what is done of marking, if there is one.
fn kept(table: &Path) -> Option<PathBuf> {
    let mut files = files(&table.join("state/chomp")).into_iter();
    files.find(|file| file.extension().is_some_and(|end| end == "progress"))
}

/// The saved progress of marking, without the digest before it.
fn progress(table: &Path) -> Option<Value> {
    let bytes = fs::read(kept(table)?).ok()?;
    let json = bytes.split(|&byte| byte == b'\n').nth(1)?;
    serde_json::from_slice(json).ok()
}

fn windows_done(table: &Path) -> u64 {
    let windows = progress(table).map(|found| found["windows"].as_object().unwrap().len());
    windows.unwrap_or_default() as u64
}

/// Marking of the table until it is time, and then `signal`. None if it came to its end before.
fn stop_when(table: &Path, is_time: impl Fn() -> bool, signal: Signal) -> Option<Ended> {
    let mut child = start(&mut verify(table, "full"));
    if child.wait_until(is_time) {
        child.send(signal);
    }
    let ended = child.wait();
    (ended.code != Some(0)).then_some(ended)
}

#[test]
fn marking_goes_on_where_it_was_stopped_or_killed() {
    let directory = finished(BITS);
    let table = directory.path();
    while stopped_and_killed(table).is_none() {
        // Where it came to its end too soon, all begins anew.
        let written = [Some(table.join("verify-30-full.json")), kept(table)];
        for file in written.into_iter().flatten().filter(|file| exists(file)) {
            fs::remove_file(file).unwrap();
        }
    }
}

/// None if marking came to its end before it was to be stopped.
fn stopped_and_killed(table: &Path) -> Option<()> {
    let written = table.join("verify-30-full.json");
    let ended = stop_when(table, || windows_done(table) >= 2, Signal::SIGTERM)?.exits(75);
    ended.says("what is done so far is kept");
    assert!(!exists(&written));
    let names = || {
        let entries = fs::read_dir(table).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        // One that is killed may leave a file that it has not finished.
        let finished = |name: &String| name.contains("verify") && !name.ends_with(".partial");
        let mut names: Vec<String> = names.filter(finished).collect();
        names.sort();
        names
    };
    assert_eq!(names(), [""; 0]);

    // Killed at any moment, it leaves complete files; what was done then counts.
    let before = windows_done(table);
    let is_time = || windows_done(table) >= before + 2;
    let ended = stop_when(table, is_time, Signal::SIGKILL)?;
    assert_eq!(ended.code, None);
    ended.says("goes on after");
    let before = windows_done(table);
    assert!(before >= 4);

    // Another process at the same report is refused.
    let mut child = start(&mut verify(table, "full"));
    if !child.wait_until(|| windows_done(table) > before) {
        return None;
    }
    child.send(Signal::SIGSTOP);
    let other = end(&mut verify(table, "full"));
    child.send(Signal::SIGINT);
    child.send(Signal::SIGCONT);
    let ended = child.wait();
    if ended.code == Some(0) {
        return None;
    }
    other.refuses(5, &["verify-30-full.json is in use"]);
    ended.exits(75);

    // A flipped bit in what is kept: it is said and not believed.
    let kept = kept(table).unwrap();
    let whole = fs::read(&kept).unwrap();
    let before = windows_done(table);
    flip(&kept, whole.len() - 20, 2);
    let is_time = || (1..before).contains(&windows_done(table));
    let ended = stop_when(table, is_time, Signal::SIGTERM)?.exits(75);
    ended.says("progress is not used");
    ended.says("it is not as it was written");

    fs::write(&kept, whole).unwrap();
    let summary = end(&mut verify(table, "full")).summary();
    assert_eq!(read_json(&written), summary);
    let full = &summary["full"];
    assert_eq!(number(full, "positions"), 1 << (BITS - 1));
    assert_eq!(number(full, "losing"), 3_893_679);
    assert_eq!(number(full, "windows"), WINDOWS);
    assert_eq!(number(full, "windows_before"), before);
    assert_eq!(names(), ["verify-30-full.json"]);
    assert!(!exists(&kept), "all is done");
    Some(())
}

/// Progress that came with a wrong table says that all its windows are right.
#[test]
fn planted_progress_is_not_believed() {
    let (forged, _) = hidden_lie();
    let table = forged.path();
    let quick = end(&mut verify(table, "quick")).summary();
    let losing = Table::open(table).unwrap().manifest().losing;
    let planted = json!({
        "format": 1,
        "subject": {
            "software": quick["software"],
            "bits": 22,
            "fingerprint": quick["table"]["fingerprint"],
            "manifest_sha256": quick["table"]["manifest_sha256"],
        },
        "window_bits": 22,
        "windows": {"0": losing},
        "millis": 0,
        "cpu_millis": 0,
    });
    let json = serde_json::to_vec(&planted).unwrap();
    let mut bytes = format!("{}\n", Digest::of(&json)).into_bytes();
    bytes.extend(json);
    let name = "verify-22-full.json.progress";
    fs::write(table.join(name), &bytes).unwrap();
    let ended = end(&mut verify(table, "full"));
    damaged(&ended, &["is not listed, but none of its "]);
    ended.says(name);
    ended.says("is not used");
    // Where this user keeps progress it would be believed: the test plants what counts.
    let kept = kept(table).unwrap();
    fs::write(&kept, &bytes).unwrap();
    end(&mut verify(table, "full")).summary();

    // Root with the home of another user: sudo may keep HOME.
    let is_root = nix::unistd::geteuid().is_root().then_some(());
    let is_root = is_root.ok_or_else(|| "only root has the files of others".to_owned());
    if needs::found("USERS", is_root).is_none() {
        return;
    }
    fs::write(&kept, &bytes).unwrap();
    for owned in [kept.as_path(), kept.parent().unwrap()] {
        chown(owned, Some(4711), None).unwrap();
        let ended = end(&mut verify(table, "full"));
        damaged(&ended, &["is not listed, but none of its "]);
        ended.says("it belongs to another user");
        fs::write(&kept, &bytes).unwrap();
    }
}

/// The maker of a table does not choose which of its positions are looked at.
#[test]
fn the_sample_is_drawn_by_the_fingerprint() {
    let table = finished(16);
    let seed = |flags: &str| {
        let line = format!("verify --json --level sample --sample 500 --report - {flags} --table");
        let report = end(chomp(&line).arg(table.path())).summary();
        let fingerprint = report["table"]["fingerprint"].as_str().unwrap().to_owned();
        (report["sample"]["seed"].as_u64().unwrap(), fingerprint)
    };
    let (found, fingerprint) = seed("");
    assert_eq!(format!("{found:013x}"), fingerprint[..13]);
    assert_eq!(seed("--seed 7").0, 7);
}
