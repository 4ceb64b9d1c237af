//! Passing faults: disks that fail or hang for a while, processes that stand still. A job waits, says for what, and
//! goes on by itself; or it ends with the cause.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use nix::errno::Errno;
use tempfile::TempDir;

use crate::common::cluster::{Cluster, wait_for};
use crate::common::faults::Faults;
use crate::common::{
    Ended, FINGERPRINT_20, FINGERPRINT_26, change, chomp, end, files, folder, is_whole,
    ranges_done, run_in, start, wrapped,
};
use chomp_testing::needs;

const BITS: u32 = 26;
const RANGE_BITS: u32 = 13;
/// Of the jobs for the table of faults.
const TABLE_BITS: u32 = 20;
const TABLE_RANGE_BITS: u32 = 12;

/// A run in a folder of its own.
fn run(table: &TempDir) -> Command {
    run_in(table.path(), BITS, RANGE_BITS)
}

/// A run that is killed when some ranges are done.
fn killed() -> TempDir {
    let table = folder();
    let mut child = start(&mut run(&table));
    assert!(child.wait_until(|| ranges_done(table.path()) > 200));
    child.kill();
    table
}

/// The lines about what is waited for.
fn waits(ended: &Ended) -> Vec<&str> {
    let lines = ended.stderr.lines();
    lines
        .filter(|line| line.contains("waiting for") || line.contains("the wait for"))
        .collect()
}

/// While others can be read, it is lost: its ranges are computed again, and a checkpoint is passed over, also one that
/// has the number of the next.
#[test]
fn an_object_that_stays_unreadable_is_lost_and_no_more() {
    std::thread::scope(|scope| {
        for unreadable in ["work/parts/0000/", "work/checkpoints/"] {
            scope.spawn(move || {
                let table = killed();
                let work = table.path().join("work");
                let mut numbers = (0..).map(|number| format!("{number:010}"));
                let journal = work.join("journal");
                let segments = files(&journal);
                let next = numbers.find(|number| !segments.contains(&journal.join(number)));
                let checkpoints = work.join("checkpoints");
                fs::create_dir_all(&checkpoints).unwrap();
                fs::write(checkpoints.join(next.unwrap()), [0]).unwrap();
                let faults = Faults::new();
                faults.set("read", unreadable, Some(Errno::EIO));
                end(faults.reach(&mut run(&table))).made(FINGERPRINT_26);
            });
        }
    });
}

/// A row of the table in docs/OPERATIONS.md: calls that fail or hang, and what becomes of each program.
struct Row {
    call: &'static str,
    part: &'static str,
    error: Option<Errno>,
    lasts: bool,
    /// Of a run, a coordinator, and a worker: the code, and what is in the last line.
    ends: [(i32, String); 3],
}

impl Row {
    fn of(line: &str) -> Row {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        let (what, how) = cells.next().unwrap().split_once(": ").expect(line);
        let (deed, time) = what.rsplit_once(" for ").expect(line);
        let (call, part) = match deed {
            "writing" => ("write", "work/parts/0009"),
            "reading" => ("read", "work/parts/0009"),
            "opening" => ("open", "work/parts/0009"),
            "syncing a file" => ("sync", "work/parts/0009/"),
            "syncing a folder" => ("sync", "work/parts/0009$"),
            "naming" => ("link", "work/parts/0009"),
            _ => panic!("{line}"),
        };
        let error = match how {
            "hangs" => None,
            "`EACCES`" => Some(Errno::EACCES),
            "`EDQUOT`" => Some(Errno::EDQUOT),
            "`EIO`" => Some(Errno::EIO),
            "`EMFILE`" => Some(Errno::EMFILE),
            "`ENOSPC`" => Some(Errno::ENOSPC),
            "`EPERM`" => Some(Errno::EPERM),
            "`EROFS`" => Some(Errno::EROFS),
            "`ESTALE`" => Some(Errno::ESTALE),
            _ => panic!("{line}"),
        };
        let ends = cells.map(|cell| {
            let (code, last) = cell.split_once(", ").unwrap_or((cell, ""));
            (code.parse().expect(line), last.trim_matches('`').to_owned())
        });
        Row {
            call,
            part,
            error,
            lasts: time == "good",
            ends: ends.collect::<Vec<_>>().try_into().expect(line),
        }
    }

    /// The faults of a job in this directory. One in which something is to be read goes on from a smaller table, whose
    /// ranges nobody has in memory.
    fn begin(&self, table: &Path) -> Faults {
        if self.call == "read" {
            let mut smaller = run_in(table, TABLE_BITS - 1, TABLE_RANGE_BITS);
            end(smaller.arg("--keep-parts")).summary();
        }
        let faults = Faults::new();
        faults.set(self.call, self.part, self.error);
        faults
    }

    /// Ends a fault that does not last, a while after it was there.
    fn end(&self, faults: &Faults) {
        if !self.lasts {
            wait_for("a fault", || faults.is_hit());
            sleep(Duration::from_millis(1500));
            faults.end();
        }
    }

    fn check(&self, program: usize, ended: &Ended) {
        let (code, last) = &self.ends[program];
        let what = format!("{} {} {:?}: {ended:?}", self.call, self.part, self.error);
        assert_eq!(ended.code, Some(*code), "{what}");
        let said = ended.stderr.lines().last().unwrap_or_default();
        assert!(said.contains(last), "{what}");
        ended.says_nothing_of("a task failed");
    }

    fn run(&self) {
        let table = folder();
        let faults = self.begin(table.path());
        let mut command = run_in(table.path(), TABLE_BITS, TABLE_RANGE_BITS);
        let child = start(faults.reach(&mut command));
        self.end(&faults);
        let mut ended = child.wait();
        self.check(0, &ended);
        if ended.code != Some(0) {
            ended.refuses(1, &[table.path().to_str().unwrap()]);
            let place = self.part.trim_end_matches(['/', '$']);
            let waits = waits(&ended).into_iter();
            let waits: Vec<&str> = waits.filter(|line| line.contains(place)).collect();
            assert_eq!(waits, [""; 0], "{ended:?}");
            faults.end();
            ended = start(&mut command).wait();
        }
        ended.made(FINGERPRINT_20);
    }

    /// A coordinator whose store fails, or a worker who writes into it.
    fn of_cluster(&self, program: usize) {
        let cluster = Cluster::new();
        let faults = self.begin(&cluster.table());
        let mut coordinator = cluster.coordinator(TABLE_BITS, TABLE_RANGE_BITS);
        coordinator.arg("--exit-when-done");
        let mut worker = cluster.worker(if program == 1 { "proxied" } else { "one" });
        faults.reach([&mut coordinator, &mut worker][program - 1]);
        let coordinator = cluster.start_coordinator(&mut coordinator);
        let worker = cluster.start(&mut worker);
        self.end(&faults);
        let ended = coordinator.wait();
        if program == 1 {
            self.check(1, &ended);
        } else {
            ended.made(FINGERPRINT_20);
            self.check(2, &worker.wait());
        }
    }
}

#[test]
fn what_becomes_of_a_fault_is_what_the_manual_says() {
    let manual = include_str!("../../../docs/OPERATIONS.md");
    let head = "| what fails | `run` | `coordinator` | `worker` |";
    let (_, table) = manual.split_once(head).expect("the table of faults");
    let lines = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let rows: Vec<Row> = lines.map(Row::of).collect();
    assert!(rows.len() > 10, "{}", rows.len());
    std::thread::scope(|scope| {
        for some in rows.chunks(rows.len().div_ceil(2)) {
            scope.spawn(|| some.iter().for_each(Row::run));
            for program in [1, 2] {
                scope.spawn(move || some.iter().for_each(|row| row.of_cluster(program)));
            }
        }
    });
}

/// A worker that alone sees other bytes in a file hears that the records are in order: it reads them through the
/// coordinator, and nothing is computed again.
#[test]
fn records_that_one_worker_alone_cannot_read_go_through_the_coordinator() {
    let cluster = Cluster::new();
    // Ranges that no worker has in memory.
    let mut smaller = run_in(&cluster.table(), TABLE_BITS - 1, TABLE_RANGE_BITS);
    end(smaller.arg("--keep-parts")).summary();
    let part = files(&cluster.table().join("work/parts")).swap_remove(0);
    let damaged = cluster.home().join("damaged");
    fs::copy(&part, &damaged).unwrap();
    change(&damaged, |bytes| {
        for byte in bytes {
            *byte ^= 0x20;
        }
    });
    let mount = r#"mount --bind "$0" "$1" && shift && exec "$@""#;
    let paths = [&damaged, &part].map(|path| path.to_str().unwrap());
    let view = |command: &Command| {
        let shell = ["--map-root-user", "--mount", "sh", "-c", mount];
        wrapped("unshare", &[&shell[..], &paths].concat(), command)
    };
    let can = needs::can("another view of a file", &mut view(&Command::new("true")));
    if needs::found("MOUNT", can).is_none() {
        return;
    }
    let coordinator = cluster.begin(TABLE_BITS, TABLE_RANGE_BITS);
    let worker = cluster.start(&mut view(&cluster.worker("alone")));
    let ended = coordinator.wait();
    ended.made(FINGERPRINT_20);
    let worker = worker.wait().done();
    worker.says("is in order and cannot be read here");
    let said = |what: &str| ended.stderr.matches(what).count();
    assert_eq!(
        said("worker alone cannot read what others can"),
        1,
        "{ended:?}"
    );
    assert_eq!(said("is computed again"), 0, "{ended:?}");
}

/// As a machine leaves it whose disk lost its last write.
#[test]
fn the_last_segment_can_be_given_up_if_it_is_damaged() {
    let table = killed();
    let segments = files(&table.path().join("work/journal"));
    let mut whole = segments.iter().filter(|file| is_whole(file));
    let last = whole.next_back().unwrap();
    change(last, |bytes| bytes.truncate(bytes.len() / 2));
    let number = last.file_name().unwrap().to_str().unwrap();
    let number: u64 = number.parse().unwrap();
    let remedy = format!("--without-segment {number}");
    end(&mut run(&table)).refuses(3, &["is damaged", &remedy]);
    let run_without = |number: u64| {
        let flag = ["--without-segment", &number.to_string()];
        end(run(&table).args(flag))
    };
    // No other one is.
    for other in [number - 1, number + 1] {
        run_without(other).refuses(5, &["is not removed"]);
    }
    run_without(number).made(FINGERPRINT_26);
}

/// It would be missing at each attempt: the message says which it is, and what to do.
#[test]
fn a_call_that_a_file_system_lacks_is_named() {
    let home = folder();
    let at = |name: &str| home.path().join(name).display().to_string();
    let commands = [
        format!("run --bits 14 --table {}", at("table")),
        format!("grundy --tiles 10 --table {}", at("values")),
        format!(
            "box --rows 3 --columns 20 --positions {}",
            at("positions.csv")
        ),
    ];
    let (locks, links, syncs) = (
        "has no locks (flock)",
        "has no hard links",
        "cannot sync (fsync)",
    );
    for (call, error, said) in [
        ("lock", Errno::ENOSYS, locks),
        ("lock", Errno::ENOLCK, locks),
        ("lock", Errno::EOPNOTSUPP, locks),
        ("link", Errno::EPERM, links),
        ("link", Errno::EOPNOTSUPP, links),
        ("sync", Errno::EINVAL, syncs),
        ("sync", Errno::ENOSYS, syncs),
    ] {
        // Only the objects of a store need links, and the positions of a box need no lock.
        let needed = match call {
            "link" => 1,
            "lock" => 2,
            _ => 3,
        };
        for line in &commands[..needed] {
            let faults = Faults::new();
            faults.set(call, &at(""), Some(error));
            let ended = end(faults.reach(&mut chomp(line))).exits(1);
            for said in [said, "use a directory on another one"] {
                ended.says(said);
            }
        }
    }
}
