//! `chomp box`: what it finds is what a table says; it goes on after it was killed; and what it refuses.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use common::{end, number, program, run, send, start, wait, wait_until};
use nix::sys::signal::Signal;
use serde_json::Value;

/// So often a run is killed.
const KILLS: usize = 10;
/// A test that has not come to its end after so many starts never will.
const STARTS_MAX: usize = 200;

fn solve(rows: u32, columns: u32) -> Command {
    let mut command = program();
    let sizes = [rows, columns].map(|n| n.to_string());
    command.args(["box", "--rows", &sizes[0], "--columns", &sizes[1], "--json"]);
    command
}

fn with_folder(rows: u32, columns: u32, folder: &Path) -> Command {
    let mut command = solve(rows, columns);
    command.arg("--scratch").arg(folder);
    command
}

/// What does not depend on how it was computed.
fn found(summary: &Value) -> [&Value; 4] {
    ["digest", "losing", "losing_by_rows_and_columns", "openings"].map(|name| &summary[name])
}

#[test]
fn openings_are_those_that_a_table_has() {
    let directory = tempfile::tempdir().unwrap();
    run(directory.path(), 20).output().unwrap();
    let mut openings = program();
    openings
        .args(["openings", "--json", "--table"])
        .arg(directory.path());
    let openings = end(&mut openings);
    assert_eq!(openings.code, Some(0), "{openings:?}");
    let board = |opening: &Value| (number(opening, "rows"), number(opening, "columns"));
    let of_table = openings.stdout.lines().map(|line| {
        let opening: Value = serde_json::from_str(line).unwrap();
        (board(&opening), opening)
    });
    let of_table: BTreeMap<_, _> = of_table.collect();

    let summary = end(&mut solve(9, 14)).summary();
    let of_box = summary["openings"].as_array().unwrap();
    assert_eq!(of_box.len(), 9 * 14);
    let both = of_box
        .iter()
        .filter_map(|of_box| Some((of_box, of_table.get(&board(of_box))?)));
    let mut count = 0;
    for (of_box, of_table) in both {
        assert_eq!(of_box, of_table);
        count += 1;
    }
    assert!(count > 70, "{count} rectangles");
    assert_eq!(summary["losing_by_rows_and_columns"][8][8], 322);
}

#[test]
fn a_run_that_is_killed_goes_on_and_finds_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("scratch");
    let state = || fs::read(folder.join("box.json")).ok();
    let (mut kills, mut starts) = (0, 0);
    while kills < KILLS {
        starts += 1;
        assert!(starts < STARTS_MAX, "it always ends before it is killed");
        let before = state();
        let mut child = start(with_folder(9, 36, &folder).args(["--threads", "2"]));
        if wait_until(&mut child, || state() != before) {
            send(child.id(), Signal::SIGKILL);
        }
        match wait(child).code {
            None => kills += 1,
            Some(code) => {
                assert_eq!(code, 0);
                fs::remove_dir_all(&folder).unwrap();
                kills = 0;
            }
        }
    }
    let summary = end(&mut with_folder(9, 36, &folder)).summary();
    let undisturbed = end(solve(9, 36).args(["--threads", "1"])).summary();
    assert_eq!(found(&summary), found(&undisturbed));
}

#[test]
fn what_does_not_fit_is_refused_with_the_figure_or_streamed() {
    let directory = tempfile::tempdir().unwrap();
    let little = ["--memory", "55MiB", "--threads", "1"];
    end(solve(10, 30).args(little)).refuses(2, &["needs at least 61 MiB", "--scratch"]);
    let streamed = end(with_folder(10, 30, directory.path()).args(little)).summary();
    assert_eq!(number(&streamed, "losing"), 8_085_081);
    let least = ["--memory", "1MiB"];
    let refused = end(with_folder(10, 30, directory.path()).args(least));
    refused.refuses(2, &["needs at least"]);
    end(&mut solve(33, 30)).refuses(2, &["1 to 32 rows"]);
    end(&mut with_folder(9, 30, directory.path())).refuses(5, &["10 rows"]);
}
