//! `chomp plan` beside runs of the same tables: what is not a time has to be near what comes out.

use std::fs;
use std::path::Path;

use crate::common::faults::Faults;
use crate::common::{chomp, end, files, number, run_in};
use nix::errno::Errno;
use serde_json::Value;

fn plan(flags: &str) -> Value {
    end(&mut chomp(&format!("plan --json {flags}"))).summary()
}

#[test]
fn a_plan_is_near_what_the_run_comes_to() {
    for (bits, range_bits) in [(26, 16), (28, 20)] {
        let directory = tempfile::tempdir().unwrap();
        let table = directory.path();
        let run = end(run_in(table, bits, range_bits).arg("--keep-parts")).summary();
        let size = format!("--bits {bits} --range-bits {range_bits}");
        let planned = plan(&format!("{size} --threads 2 --memory 1GiB"));
        let near = |what: &str, planned: u64, is: u64, percent: u64| {
            let is_near = planned.abs_diff(is) * 100 <= is * percent;
            assert!(is_near, "{bits} bits: {planned} {what} planned, {is} found");
        };
        assert_eq!(number(&planned, "positions"), number(&run, "positions"));
        assert_eq!(number(&planned, "ranges"), number(&run, "ranges_evaluated"));
        let layers = fs::read_dir(table.join("work/parts")).unwrap().count();
        assert_eq!(number(&planned, "layers"), layers as u64);
        let losing = number(&planned, "losing");
        near("losing", losing, number(&run, "losing"), 12);
        let shards = number(&planned["disk"], "shards");
        near("bytes of shards", shards, number(&run, "bytes"), 15);
        // How many segments the journal has depends on how many results come at the same time.
        let work = files(&table.join("work")).into_iter();
        let work = work.map(|file| fs::metadata(file).unwrap().len()).sum();
        near("bytes of work", number(&planned["disk"], "work"), work, 35);
    }
}

#[test]
fn a_large_table_is_planned_in_seconds_and_for_as_many_workers_as_asked() {
    let means = "--workers 16 --threads 8 --memory 8GiB";
    let planned = plan(&format!("--bits 44 --range-bits 30 {means}"));
    assert_eq!(number(&planned, "workers"), 16);
    assert_eq!(number(&planned, "ranges"), 1 << 14);
    assert_eq!(number(&planned, "layers"), 106);
    assert!(number(&planned["network"], "fetched") > 0);
    assert!(number(&planned["network"], "put") > 0);
    let text = end(&mut chomp("plan --bits 30 --from 29 --memory 1GiB"));
    let expected = "positions|losing|CPU time|wall time|at least|threads|memory|disk";
    for expected in expected.split('|') {
        assert!(text.stdout.contains(expected), "no {expected} in {text:?}");
    }
}

#[test]
fn what_no_job_can_do_is_refused() {
    let planned = end(&mut chomp("plan --bits 40 --memory 10MiB"));
    planned.refuses(2, &["10 MiB of memory", "give at least"]);
    let planned = end(&mut chomp("plan --bits 40 --range-bits 12"));
    planned.refuses(5, &["use at least 20 range bits"]);
}

#[test]
fn a_table_that_has_it_all_leaves_nothing_to_plan() {
    for from in [20, 21, 40] {
        let ended = end(&mut chomp(&format!("plan --bits 20 --from {from}")));
        ended.refuses(2, &[&from.to_string(), "fewer bits than --bits"]);
    }
}

/// Times that cannot be measured are those of another machine, and that is said.
#[test]
fn a_plan_needs_no_folder_to_write_in() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    fs::write(&file, []).unwrap();
    let faults = Faults::new();
    faults.set("lock", "chomp-plan-", Some(Errno::ENOSYS));
    for temporary in [Path::new("/nowhere"), &file, home.path()] {
        let begin = |faulty: bool| {
            let mut command = chomp("plan --json --bits 26 --memory 1GiB");
            command.env("TMPDIR", temporary);
            end(if faulty {
                faults.reach(&mut command)
            } else {
                &mut command
            })
        };
        let ended = begin(true);
        let planned = ended.summary();
        assert_eq!(planned["critical_path"]["commit"], 0.006, "{planned}");
        assert!(planned["cpu_seconds"].as_f64() > Some(0.0), "{planned}");
        for said in [
            &*temporary.display().to_string(),
            "/dev/shm",
            "of another machine",
        ] {
            ended.says(said);
        }
        // Of two folders one is enough.
        begin(false).summary();
    }
    assert_eq!(files(home.path()), [file], "nothing is left");
}
