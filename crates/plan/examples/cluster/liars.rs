//! The harm that a liar can do: whole jobs in which one of many participants lies about some of its ranges.
//!
//! The liar knows the program. It changes one word together with its mirror image, where both are in one range, so
//! that nothing is missing when the table is counted; it lies with a given chance, from the first range on or once half
//! of all ranges are done; and it tells the truth of what others found, since a lie about that is seen at once. All
//! participants are equally fast, each has one worker of one thread, and nobody else is wrong, but for what follows
//! from a lie.

use std::thread::ScopedJoinHandle;

use chomp_plan::forecast::{Forecast, as_f64};
use chomp_table::RangeBits;
use chomp_table::rng::mix;

use crate::costs::{Cluster, Costs};
use crate::job::{Job, Outcome};
use crate::simulation::{ALONE, Strangers, run};

/// A job has 2^16 ranges.
const BITS: u32 = 28;
const RANGE_BITS: u32 = 12;
/// The average seconds of a task: so few that no lease is ever slow.
const TASK_SECONDS: f64 = 1e-3;

/// A job of tasks of one range each, all of which take equally long on average.
pub(crate) fn job(bits: u32) -> Job {
    let range_bits = RangeBits::new(RANGE_BITS).expect("12 range bits are possible");
    let costs = Costs {
        position: TASK_SECONDS / as_f64(range_bits.positions()),
        ..Costs::default()
    };
    let mut job = Job::new(Forecast::new(bits, range_bits), costs).expect("few enough ranges");
    job.settings.task_positions_min = 0;
    job.settings.task_positions_max = 0;
    job
}

/// The outcomes of `jobs` jobs of `participants` participants each.
pub(crate) fn outcomes(job: &Job, participants: u32, kind: Strangers, jobs: usize) -> Vec<Outcome> {
    let cluster = Cluster {
        workers: participants,
        ..ALONE
    };
    let run = |number: usize| {
        let seed = mix(number as u64 + 1);
        run(job, cluster, Some(Strangers { seed, ..kind }))
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        let of_thread = |first| (first..jobs).step_by(threads).map(run).collect::<Vec<_>>();
        let begun = (0..threads).map(|first| scope.spawn(move || of_thread(first)));
        let begun: Vec<_> = begun.collect();
        let ended = begun.into_iter().map(ScopedJoinHandle::join);
        ended
            .flat_map(|found| found.expect("no job panics"))
            .collect()
    })
}

/// The part of the jobs whose table was published wrong, in percent.
fn wrong(outcomes: &[Outcome]) -> String {
    let wrong = outcomes.iter().filter(|outcome| outcome.is_wrong);
    format!("{} %", 100 * wrong.count() / outcomes.len())
}

/// Prints the table of docs/SECURITY.md, or only the rows for one number of participants.
///
/// # Errors
///
/// If the arguments are no numbers.
pub(crate) fn answer(arguments: impl Iterator<Item = String>) -> Result<(), String> {
    let numbers: Result<Vec<u32>, _> = arguments.map(|argument| argument.parse()).collect();
    let numbers = numbers.map_err(|_| "give the number of jobs, and that of participants")?;
    let jobs = numbers.first().map_or(100, |&jobs| jobs.max(1) as usize);
    let only = numbers.get(1).copied();
    let job = job(BITS);
    println!(
        "| one liar among | of its ranges it touches | wrong, 1 replica | begins late | wrong, 2 replicas | found after |"
    );
    println!("|---|---|---|---|---|---|");
    for participants in only.map_or_else(|| vec![10, 100, 1000], |only| vec![only]) {
        for one_in in [1, 10, 100, 1000] {
            let run = |replicas, is_late| {
                let kind = Strangers {
                    one_in,
                    is_late,
                    replicas,
                    seed: 0,
                };
                outcomes(&job, participants, kind, jobs)
            };
            let (once, late) = (run(1, false), run(1, true));
            let twice = [run(2, false), run(2, true)].concat();
            let mut found: Vec<u64> = once.iter().filter_map(|one| one.found_after).collect();
            found.sort_unstable();
            let found = found.get(found.len() / 2).map_or_else(
                || "never".to_owned(),
                |median| {
                    let soon = found.iter().filter(|&&after| after <= 1000).count();
                    format!("{median}; {} % within 1,000", 100 * soon / jobs)
                },
            );
            println!(
                "| {participants} | 1 in {one_in} | {} | {} | {} | {found} |",
                wrong(&once),
                wrong(&late),
                wrong(&twice)
            );
        }
    }
    Ok(())
}
