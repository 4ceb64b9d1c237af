//! A run that is killed again and again, at any moment, ends with the same table, and nothing that
//! was committed is evaluated again. Signals stop it in good order.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use crate::common::process::Process;
use crate::common::{
    Ended, exists, files, fingerprint, folder, is_whole, number, ranges_done, run_in, start,
};
use chomp_table::Table;
use chomp_table::rng::Rng;
use chomp_testing::trials;
use nix::sys::signal::Signal;
use serde_json::Value;

const BITS: u32 = 28;
const RANGE_BITS: u32 = 18;
const RANGES: u64 = 1 << (BITS - RANGE_BITS);
/// The least number of kills in a series at random moments.
const KILLS_MIN: u32 = 20;
/// The least number of them that find some ranges, and not all.
const AMID_MIN: u32 = 5;
/// The least number of kills in a series that interrupt a publication.
const PUBLICATIONS_KILLED_MIN: u32 = 5;
/// The least number of publications, so that each kind of moment has its share.
const PUBLICATIONS_MIN: u32 = 16;
/// A series that needs more starts never ends.
const STARTS_MAX: u32 = 400;

/// The summary of an undisturbed run, and how long it takes to its last range and from there.
struct Undisturbed {
    summary: Value,
    evaluation: Duration,
    publication: Duration,
}

fn begin(table: &Path) -> Process {
    start(run_in(table, BITS, RANGE_BITS).arg("--keep-parts"))
}

fn undisturbed() -> &'static Undisturbed {
    static UNDISTURBED: OnceLock<Undisturbed> = OnceLock::new();
    UNDISTURBED.get_or_init(|| {
        let directory = folder();
        let start = SystemTime::now();
        let summary = begin(directory.path()).wait().summary();
        let written = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
        let parts = files(&directory.path().join("work/parts"));
        let last_part = parts.iter().map(|part| written(part)).max().unwrap();
        let manifest = written(&manifest(directory.path()));
        assert_eq!(number(&summary, "losing"), 1_154_468);
        assert_eq!(number(&summary, "ranges_evaluated"), RANGES);
        Undisturbed {
            summary,
            evaluation: last_part.duration_since(start).unwrap_or_default(),
            publication: manifest.duration_since(last_part).unwrap_or_default(),
        }
    })
}

/// From 0 to `most`, the short ones more often.
fn up_to(most: Duration, random: &mut Rng) -> Duration {
    let number = u32::try_from(random.below(1 << 24)).expect("24 bits");
    let uniform = f64::from(number) / f64::from(1 << 24);
    most.mul_f64(uniform * uniform)
}

fn manifest(table: &Path) -> PathBuf {
    table.join(format!("table-{BITS}/manifest.json"))
}

fn is_published(table: &Path) -> bool {
    exists(&manifest(table))
}

/// The files of the journal: each start adds one before it does anything else.
fn segments(table: &Path) -> usize {
    let journal = files(&table.join("work/journal"));
    journal.iter().filter(|file| is_whole(file)).count()
}

/// Kills `child` after `delay`, unless it ends before that.
fn kill_after(child: Process, delay: Duration) -> Ended {
    std::thread::sleep(delay);
    child.kill()
}

/// Asserts that a run did all but the `committed` ranges, and ended well.
fn check_end(ended: &Ended, committed: u64) {
    let summary = ended.summary();
    let expected = &undisturbed().summary;
    assert_eq!(fingerprint(&summary), fingerprint(expected));
    assert_eq!(summary["losing_by_bits"], expected["losing_by_bits"]);
    assert_eq!(number(&summary, "ranges_evaluated"), RANGES - committed);
}

#[test]
fn killed_at_random_moments() {
    undisturbed();
    trials("series of kills at random moments")
        .seconds(1.5)
        .run(kill_at_random_moments);
}

#[expect(clippy::print_stderr, reason = "the stages, shown on failure")]
fn kill_at_random_moments(seed: u64) {
    let evaluation = undisturbed().evaluation;
    let mut random = Rng(seed);
    let mut kills = 0;
    // How often a kill found no range, some, and all but no table.
    let mut stages = [0; 3];
    let mut starts = 0;
    // A slow machine may finish a table before the kills are done: then there is another one.
    while kills < KILLS_MIN || stages[1] < AMID_MIN {
        let directory = folder();
        let table = directory.path();
        loop {
            starts += 1;
            assert!(starts <= STARTS_MAX, "{kills} kills in stages {stages:?}");
            let committed = ranges_done(table);
            let most = evaluation.div_f64(if kills < KILLS_MIN { 4.0 } else { 1.0 });
            let ended = kill_after(begin(table), up_to(most, &mut random));
            if ended.code.is_some() {
                check_end(&ended, committed);
                break;
            }
            // A kill may come between the last word and the end of the process.
            assert!(ended.stdout.is_empty() || is_published(table));
            kills += 1;
            let after = ranges_done(table);
            assert!(after >= committed, "{after} of {committed} ranges are left");
            let stage = match after {
                0 => 0,
                RANGES => 2,
                _ => 1,
            };
            stages[stage] += 1;
            // The runs grow longer, so that the last steps are made too.
            if kills >= 2 * KILLS_MIN {
                check_end(&begin(table).wait(), after);
                break;
            }
        }
    }
    eprintln!("{kills} kills: {stages:?} before, amid and after the ranges");
}

#[test]
fn killed_while_it_publishes() {
    undisturbed();
    trials("series of kills of publications")
        .seconds(1.5)
        .run(kill_while_it_publishes);
}

fn kill_while_it_publishes(seed: u64) {
    let publication = undisturbed().publication;
    let mut random = Rng(seed);
    let directory = folder();
    let table = directory.path();
    let folder = table.join(format!("table-{BITS}"));
    let all_done = || ranges_done(table) == RANGES;
    let (mut kills, mut starts) = (0, 0);
    while kills < PUBLICATIONS_KILLED_MIN || starts < PUBLICATIONS_MIN {
        assert!(starts < STARTS_MAX, "{kills} kills");
        // Workers that were faster than the signal do it again: their parts are all there.
        if is_published(table) {
            fs::remove_dir_all(&folder).unwrap();
        }
        let mut child = begin(table);
        let there = match starts % 4 {
            0 => child.wait_until(all_done),
            1 => child.wait_until(|| exists(&folder)),
            2 => child.wait_until(|| exists(&folder.join("SHA256SUMS"))),
            _ => child.wait_until(|| is_published(table)),
        };
        let most = [publication, Duration::ZERO][usize::from(starts % 4 > 0)];
        starts += 1;
        let ended = kill_after(child, up_to(most, &mut random));
        if is_published(table) {
            // The manifest is the last: the rest is there.
            Table::open(table).unwrap().verify_bytes().unwrap();
        } else if there && ended.code.is_none() && all_done() {
            kills += 1;
        }
    }
    if is_published(table) {
        fs::remove_file(folder.join("manifest.json")).unwrap();
    }
    check_end(&begin(table).wait(), RANGES);
    Table::open(table).unwrap().verify_bytes().unwrap();
}

/// Whether the tests run under `nohup`, so that the lost terminal of a process does not concern it.
fn is_hangup_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.map(|mask| u64::from_str_radix(mask.trim(), 16).expect("a mask"));
    ignored.is_some_and(|mask| mask & 1 == 1)
}

#[test]
fn signals_stop_it_in_good_order() {
    // The last two come from a batch system that warns, and from a terminal that is lost.
    for signal in [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGUSR1,
        Signal::SIGHUP,
    ] {
        let directory = folder();
        let table = directory.path();
        for after in [0, 1, RANGES / 8] {
            // Signals are caught by the time of its first segment.
            let before = segments(table);
            let child = begin(table);
            let there = child.hold_when(|| segments(table) > before && ranges_done(table) >= after);
            assert!(there, "{signal}: a run that ended before its signal");
            child.send(signal);
            child.send(Signal::SIGCONT);
            let ended = child.wait();
            if signal == Signal::SIGHUP && is_hangup_ignored() {
                check_end(&ended, 0);
                return;
            }
            ended.refuses(75, &["stopped early", "run the same command again"]);
            assert!(files(table).iter().all(|file| is_whole(file)));
            assert!(!is_published(table));
        }
        let committed = ranges_done(table);
        assert!(committed > 0);
        check_end(&begin(table).wait(), committed);
    }
}
