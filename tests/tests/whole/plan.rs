//! `chomp plan` beside runs of the same tables: what is not a time has to be near what comes out.

use std::fs;

use crate::common::{end, files, number, program, run_in};
use serde_json::Value;

fn plan(arguments: &[&str]) -> Value {
    end(program().args(["plan", "--json"]).args(arguments)).summary()
}

#[test]
fn a_plan_is_near_what_the_run_comes_to() {
    for (bits, range_bits) in [(26, 16), (28, 20), (30, 22)] {
        let directory = tempfile::tempdir().unwrap();
        let table = directory.path();
        let run = end(run_in(table, bits, range_bits).arg("--keep-parts")).summary();
        let planned = plan(&[
            "--bits",
            &bits.to_string(),
            "--range-bits",
            &range_bits.to_string(),
            "--threads",
            "2",
            "--memory",
            "1GiB",
        ]);
        let near = |what: &str, planned: u64, is: u64, percent: u64| {
            assert!(
                planned.abs_diff(is) * 100 <= is * percent,
                "{bits} bits: {planned} {what} planned, {is} found"
            );
        };
        assert_eq!(number(&planned, "positions"), number(&run, "positions"));
        assert_eq!(number(&planned, "ranges"), number(&run, "ranges_evaluated"));
        let layers = fs::read_dir(table.join("work/parts")).unwrap().count();
        assert_eq!(number(&planned, "layers"), layers as u64);
        near(
            "losing",
            number(&planned, "losing"),
            number(&run, "losing"),
            12,
        );
        near(
            "bytes of shards",
            number(&planned["disk"], "shards"),
            number(&run, "bytes"),
            15,
        );
        let work = files(&table.join("work")).into_iter();
        let work = work.map(|file| fs::metadata(file).unwrap().len()).sum();
        near("bytes of work", number(&planned["disk"], "work"), work, 25);
    }
}

#[test]
fn a_large_table_is_planned_in_seconds_and_for_as_many_workers_as_asked() {
    let planned = plan(&[
        "--bits",
        "44",
        "--workers",
        "16",
        "--threads",
        "8",
        "--memory",
        "8GiB",
        "--bandwidth",
        "1GB",
        "--range-bits",
        "30",
    ]);
    assert_eq!(number(&planned, "workers"), 16);
    assert_eq!(number(&planned, "ranges"), 1 << 14);
    assert_eq!(number(&planned, "layers"), 106);
    assert!(planned["wall_seconds"].as_f64().unwrap() > 0.0);
    assert!(number(&planned["network"], "fetched") > 0);
    assert!(number(&planned["network"], "put") > 0);
    let seconds = |of: &Value, name: &str| of[name].as_f64().unwrap();
    let path = &planned["critical_path"];
    let each = seconds(path, "evaluation") + seconds(path, "commit") + seconds(path, "fetch");
    assert!((seconds(path, "layers") * each / seconds(path, "seconds") - 1.0).abs() < 1e-6);
    let (least, most) = (
        seconds(&planned, "wall_seconds_least"),
        seconds(&planned, "wall_seconds"),
    );
    assert!(seconds(path, "seconds") <= least && least < most);
    let bounds = &planned["bounds"];
    let parts =
        ["threads", "critical_path", "coordinator", "links"].map(|part| seconds(bounds, part));
    assert!(
        (parts.iter().sum::<f64>() / most - 1.0).abs() < 1e-6,
        "{bounds}"
    );
    assert_eq!(
        number(&planned, "threads_that_help"),
        8 * number(&planned, "workers_that_help")
    );
    let text = ["--bits", "30", "--from", "29", "--memory", "1GiB"];
    let text = end(program().arg("plan").args(text));
    for expected in [
        "positions",
        "losing",
        "CPU time",
        "wall time",
        ", restoring ",
        "critical path",
        "threads",
        "disk",
    ] {
        assert!(text.stdout.contains(expected), "no {expected} in {text:?}");
    }
}

#[test]
fn what_no_job_can_do_is_refused() {
    let planned = end(program().args(["plan", "--bits", "40", "--memory", "10MiB"]));
    planned.refuses(2, &["10 MiB of memory", "give at least"]);
    let planned = end(program().args(["plan", "--bits", "40", "--range-bits", "12"]));
    planned.refuses(5, &["use at least 20 range bits"]);
}
