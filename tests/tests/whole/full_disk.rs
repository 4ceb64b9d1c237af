//! A disk that runs full stops the run with an error that says so, spoils nothing, and once there is room the same
//! command finishes. An export leaves nothing there, and a download does not begin. Needs the permission to mount small
//! file systems.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::cluster::Server;
use crate::common::{
    FINGERPRINT_24, chomp, end, exists, files, fingerprint, finished, ranges_done, run_in,
};
use chomp_table::Table;
use chomp_testing::effort;
use chomp_testing::needs;
use tempfile::TempDir;

const BITS: u32 = 24;
const RANGE_BITS: u32 = 15;
const PAGE: u64 = 4096;
/// More than the table takes.
const AMPLE: u64 = 64 << 20;

/// A file system in memory, unmounted at the end.
struct SmallDisk(TempDir);

impl SmallDisk {
    /// None where mounting is not permitted.
    fn mount(bytes: u64) -> Option<SmallDisk> {
        let directory = tempfile::tempdir().unwrap();
        let options = format!("size={bytes}");
        let args = ["-t", "tmpfs", "-o", &options, "tmpfs"];
        let mounted = needs::can("a small file system", &mut mount(&args, directory.path()));
        needs::found("MOUNT", mounted)?;
        Some(SmallDisk(directory))
    }

    fn table(&self) -> &Path {
        self.0.path()
    }

    fn resize(&self, bytes: u64) {
        let options = format!("remount,size={bytes}");
        let resized = mount(&["-o", &options], self.table()).status();
        assert!(resized.unwrap().success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let mut unmount = Command::new("umount");
        let unmounted = unmount.arg("--lazy").arg(self.0.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}

fn mount(args: &[&str], at: &Path) -> Command {
    let mut mount = Command::new("mount");
    mount.args(args).arg(at);
    mount
}

/// Where a run stopped.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Start,
    Layers,
    Publication,
}

fn stage(table: &Path) -> Stage {
    if exists(&table.join("table-24")) {
        Stage::Publication
    } else if ranges_done(table) > 0 {
        Stage::Layers
    } else {
        Stage::Start
    }
}

#[test]
fn a_full_disk_at_any_stage() {
    let Some(ample) = SmallDisk::mount(AMPLE) else {
        return;
    };
    end(run_in(ample.table(), BITS, RANGE_BITS).arg("--keep-parts")).made(FINGERPRINT_24);
    let pages = |folder: &Path| -> u64 {
        let files = files(folder);
        let lengths = files.iter().map(|file| file.metadata().unwrap().len());
        lengths.map(|length| length.div_ceil(PAGE)).sum()
    };
    let (work, all) = (pages(&ample.table().join("work")), pages(ample.table()));
    // All ranges are there, and room for the checkpoint of a start, which is as large as the table, and little more.
    fs::remove_dir_all(ample.table().join("table-24")).unwrap();
    let little = pages(ample.table()) + (all - work) * 3 / 2;
    let mut stages = stops_and_goes_on(&ample, little);
    assert!(stages.contains(&Stage::Publication), "{stages:?}");

    let mut sizes: Vec<u64> = vec![1, 2, 3, 5];
    sizes.extend((1..6).map(|sixth| work * sixth / 6));
    // How many parts there are depends on who is done first, so near the end it may just fit.
    let closely = if effort() > 1.0 { 2 } else { 8 };
    sizes.extend((work - work / 8..all).step_by(closely));
    for size in sizes {
        let disk = SmallDisk::mount(size * PAGE).expect("as before");
        let stopped = stops_and_goes_on(&disk, size);
        assert!(!stopped.is_empty() || size > work / 2, "{size} of {all}");
        stages.extend(stopped);
    }
    stages.sort();
    stages.dedup();
    assert_eq!(stages, [Stage::Start, Stage::Layers, Stage::Publication]);
}

/// Runs up to twice on a disk of `size` pages, then on a large one. Returns the stages at which space ran out.
fn stops_and_goes_on(disk: &SmallDisk, size: u64) -> Vec<Stage> {
    let table = disk.table();
    let run = || end(&mut run_in(table, BITS, RANGE_BITS));
    disk.resize(size * PAGE);
    let mut stages = Vec::new();
    for _ in 0..2 {
        let ended = run();
        if ended.code == Some(0) {
            break;
        }
        let path = table.to_str().unwrap();
        ended.refuses(1, &[path, "no space left", "free some and run again"]);
        assert!(!exists(&table.join("table-24/manifest.json")));
        stages.push(stage(table));
    }
    disk.resize(AMPLE);
    run().made(FINGERPRINT_24);
    Table::open(table).unwrap().verify_bytes().unwrap();
    stages
}

/// The values of 60 tiles take 6.6 MB before they are published, and the table 2.2 MB.
#[test]
fn grundy_values_on_a_full_disk() {
    let Some(disk) = SmallDisk::mount(AMPLE) else {
        return;
    };
    let mut grundy = chomp("grundy --json --tiles 60 --table");
    grundy.arg(disk.table());
    let expected = end(&mut grundy).summary();
    fs::remove_dir_all(disk.table().join("values-060")).unwrap();
    // Within a file of an area, and within the last shard.
    for bytes in [5 << 20, 8 << 20] {
        disk.resize(bytes);
        let ended = end(&mut grundy);
        ended.refuses(1, &["no space left", "free some and run again"]);
        let areas = files(&disk.table().join("values-work"));
        assert!(areas.len() > 50, "{areas:?}");
        disk.resize(AMPLE);
    }
    end(&mut grundy).made(fingerprint(&expected));
    assert_eq!(files(disk.table()).len(), 60 + 3);
}

#[test]
fn an_export_to_a_full_disk() {
    let Some(disk) = SmallDisk::mount(8 * PAGE) else {
        return;
    };
    let table = finished(BITS);
    let out = disk.table().join("out");
    for format in ["words", "rows", "npy", "parquet", "roaring"] {
        let mut export = chomp(&format!("export --both --format {format} --table"));
        let ended = end(export.arg(table.path()).arg("--out").arg(&out));
        let path = out.to_str().unwrap();
        ended.refuses(1, &[path, "no space left", "free some and run again"]);
        assert!(files(disk.table()).is_empty(), "{format}");
    }
}

#[test]
fn a_download_to_a_disk_that_is_too_small() {
    let Some(disk) = SmallDisk::mount(8 * PAGE) else {
        return;
    };
    let home = finished(BITS);
    let server = Server::start(1, home.path(), home.path(), "");
    let mut download = chomp(&format!("download --from {} --out", server.url()));
    let out = disk.table().join("out");
    let ended = end(download.arg(&out));
    let path = out.to_str().unwrap();
    ended.refuses(1, &[path, "no space left", "free some and run again"]);
    let files = files(&out).into_iter();
    let there: u64 = files.map(|file| file.metadata().unwrap().len()).sum();
    assert!(there < 100, "{there}");
    disk.resize(AMPLE);
    end(&mut download).says("the table has ");
    Table::open(&out).unwrap().verify_bytes().unwrap();
}

#[test]
fn a_table_on_a_disk_that_is_read_only_is_checked() {
    let Some(disk) = SmallDisk::mount(AMPLE) else {
        return;
    };
    end(&mut run_in(disk.table(), 16, 12)).summary();
    let locked = mount(&["-o", "remount,ro"], disk.table()).status();
    assert!(locked.unwrap().success());
    let mut verify = chomp("verify --table");
    let ended = end(verify.arg(disk.table())).done();
    ended.says("no report is kept");
    ended.says("--report FILE");
    // Where one was asked for, it is needed.
    let path = disk.table().join("report.json");
    end(verify.arg("--report").arg(path)).refuses(1, &["--report FILE"]);
}
