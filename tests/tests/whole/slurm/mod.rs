//! `deploy/slurm/chomp.sbatch` on a Slurm of this machine: one submission computes a table, whatever becomes of its
//! nodes and its time.

mod engine;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use self::engine::{SOON, SUBMISSION, Slurm, try_send};
use crate::common::cluster::wait_for;
use crate::common::{FINGERPRINT_24, FINGERPRINT_28, end, ranges_done, send};
use chomp_testing::effort;
use nix::sys::signal::Signal;

/// A job of some seconds: half of it is done before anybody can be disturbed.
const BITS: u32 = 28;
const RANGE_BITS: u32 = 14;
/// The number of ranges, of 16,384, that are done when it is disturbed.
const BEGUN: u64 = 1_000;

/// Submits a job, and waits until it has begun.
fn begin(slurm: &Slurm, options: &[&str]) -> String {
    let job = slurm.submit(options, BITS, RANGE_BITS);
    wait_for("some ranges", || ranges_done(&slurm.table()) > BEGUN);
    job
}

/// Waits until a job has ended well, with the right table.
fn finish(slurm: &Slurm, job: &str) {
    let well = slurm.ends_well(job);
    let said = || [None, Some(0), Some(1), Some(2)].map(|element| slurm.said(element));
    let states = slurm.states(job);
    assert!(well, "{states:?}: {:?}\n{}", said(), slurm.log());
    assert_eq!(slurm.fingerprint(BITS), FINGERPRINT_28);
}

#[test]
fn one_submission_computes_a_table() {
    let Some(mut slurm) = Slurm::start() else {
        return;
    };
    let options = ["--ntasks=2", "--nodes=2", "--cpus-per-task=1"];
    let job = slurm.submit(&options, 24, 12);
    assert!(slurm.ends_well(&job), "{}", slurm.said(None));
    assert_eq!(slurm.fingerprint(24), FINGERPRINT_24);
    // Each task took its one CPU, though the machine may have more.
    let said = slurm.said(None);
    assert_eq!(said.matches(" with 1 thread, for ").count(), 2, "{said}");
    assert_eq!(slurm.restarts(&job), 0);
    // Workers that come too late, with a coordinator or without, have nothing to do, and no reason to complain.
    slurm.patience = SOON;
    let late = slurm.submit(&["--array=0-1", "--cpus-per-task=1"], 24, 12);
    let said = || [0, 1].map(|element| slurm.said(Some(element)));
    assert!(slurm.ends_well(&late), "{:?}", said());
}

/// Which may have ended before the script has seen it.
#[test]
fn a_coordinator_with_nothing_to_do_ends_its_job() {
    let home = tempfile::tempdir().unwrap();
    let mut script = Command::new("bash");
    script.arg(SUBMISSION).env("CHOMP_PROGRAM", "true");
    script.env("CHOMP_TABLE", home.path());
    end(script.env("SLURM_JOB_ID", "1")).done();
    let leader = fs::read_to_string(home.path().join("slurm-job"));
    assert_eq!(leader.unwrap(), "finished\n");
}

/// Workers have lost their coordinator, and nobody says whether its job is over.
#[test]
fn a_slurm_that_does_not_answer_is_waited_for() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let program = |name: &str, text: &str| {
        let path = home.join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    };
    // Two times in three there is no coordinator.
    let said = "slurm_load_jobs error: Unable to contact slurm controller";
    program("squeue", &format!("echo {said} >&2; exit 1"));
    program("srun", "echo >>tried; [ $(wc -l <tried) = 3 ] || exit 4");
    fs::write(home.join("slurm-job"), "6\n").unwrap();
    fs::write(home.join("access.json"), "{}").unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut script = Command::new("bash");
    script.arg(std::path::absolute(SUBMISSION).unwrap());
    script.env("PATH", format!("{}:{path}", home.display()));
    script.env("CHOMP_TABLE", home).current_dir(home);
    script.env("SLURM_JOB_ID", "7").env("CHOMP_PAUSE", "0");
    script.env("SLURM_ARRAY_JOB_ID", "7").stderr(Stdio::piped());
    end(script.env("SLURM_ARRAY_TASK_ID", "1")).done();
    // One that answers and does not know the job any more is not waited for.
    fs::remove_file(home.join("tried")).unwrap();
    let said = "slurm_load_jobs error: Invalid job id specified";
    program("squeue", &format!("echo {said} >&2; exit 1"));
    let ended = end(&mut script).exits(4);
    ended.says("the job of the coordinator, 6, is over");
}

#[test]
fn a_job_whose_time_is_up_goes_on_in_its_next_one() {
    let Some(slurm) = Slurm::start() else { return };
    // Slurm looks at the time every half minute, and a minute is the least: else the same signal comes from here.
    let by_time = effort() > 1.0;
    let time = if by_time { "--time=1" } else { "--time=30" };
    let options = ["--cpus-per-task=1", time, "--signal=B:USR1@50"];
    let job = begin(&slurm, &options);
    let workers = slurm.processes("worker");
    // By then Slurm may have ended them.
    assert!(by_time || workers.len() == 1, "{workers:?}");
    let tell_workers = |signal| {
        for &worker in &workers {
            try_send(worker, signal);
        }
    };
    tell_workers(Signal::SIGSTOP);
    if !by_time {
        slurm.run("scancel", &["--batch", "--signal=USR1", &job]);
    }
    wait_for("the signal", || {
        slurm.said(None).contains("the time limit is near")
    });
    tell_workers(Signal::SIGCONT);
    finish(&slurm, &job);
    assert!(slurm.restarts(&job) >= 1);
    let said = slurm.said(None);
    let submitted = "stopped early: finished results are submitted";
    assert!(by_time || said.contains(submitted), "{said}");
}

#[test]
fn jobs_of_an_array_that_are_requeued_find_each_other_again() {
    let Some(mut slurm) = Slurm::start() else {
        return;
    };
    slurm.patience = SOON;
    let job = begin(&slurm, &["--array=0-2", "--cpus-per-task=1"]);
    let [first, second, last] = [0, 1, 2].map(|element| format!("{job}_{element}"));
    // The time of the last one is up: its number is that of all of them too, and only it is to go.
    slurm.run("scancel", &["--batch", "--signal=USR1", &last]);
    wait_for("a requeued job", || slurm.restarts(&last) == 1);
    assert_eq!((slurm.restarts(&first), slurm.restarts(&second)), (0, 0));
    // The one with the coordinator.
    slurm.run("scontrol", &["requeue", &first]);
    finish(&slurm, &job);
    assert_eq!(slurm.restarts(&first), 1, "{}", slurm.said(Some(0)));
}

/// Of a node that is lost the processes may go on: they own the table until the node is back.
#[test]
fn a_job_on_a_node_that_is_lost_goes_on_elsewhere() {
    let Some(slurm) = Slurm::start() else { return };
    let job = begin(&slurm, &["--cpus-per-task=1"]);
    let stopped = [slurm.processes("worker"), slurm.processes("coordinator")].concat();
    for &process in &stopped {
        send(process, Signal::SIGSTOP);
    }
    slurm.lose_node("n1");
    wait_for("a second attempt", || {
        slurm.hurry(&job);
        slurm.said(None).contains("the table is in use")
    });
    // The node is back, and ends what it should not have.
    slurm.start_node("n1");
    finish(&slurm, &job);
    assert_eq!(slurm.restarts(&job), 1, "{}", slurm.said(None));
}

#[test]
fn a_job_that_makes_room_goes_on_later() {
    let Some(slurm) = Slurm::start() else { return };
    let options = ["--ntasks=2", "--nodes=2", "--cpus-per-task=2"];
    let job = begin(&slurm, &options);
    // Slurm has them continue when it ends them.
    for worker in slurm.processes("worker") {
        send(worker, Signal::SIGSTOP);
    }
    let urgent = ["-p", "high", "-N2", "-n2", "-c2", "true"];
    slurm.run("srun", &urgent);
    finish(&slurm, &job);
    assert_eq!(slurm.restarts(&job), 1, "{}", slurm.said(None));
}

#[test]
fn a_job_that_is_cancelled_stays_so_and_the_next_one_goes_on() {
    let Some(slurm) = Slurm::start() else { return };
    let job = begin(&slurm, &["--cpus-per-task=1"]);
    slurm.run("scancel", &[&job]);
    assert!(!slurm.ends_well(&job));
    assert_eq!(slurm.states(&job), ["CANCELLED"]);
    assert_eq!(slurm.restarts(&job), 0);
    assert!(slurm.processes("coordinator").is_empty());
    let done = ranges_done(&slurm.table());
    assert!(done > BEGUN);

    let next = slurm.submit(&["--cpus-per-task=1"], BITS, RANGE_BITS);
    finish(&slurm, &next);
}
