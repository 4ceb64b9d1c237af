//! The harm that one liar can do: whole jobs of the true plan, in which one of many participants lies about some of its
//! ranges.
//!
//!     liars JOBS PARTICIPANTS RATE    of 1,000 ranges, RATE are sampled for a check
//!
//! The liar knows the program. It changes one word together with its mirror image, where both are in one range, so that
//! nothing is missing when the table is counted. It lies with a given chance, from the first range on or once half of
//! all ranges are done. Of ranges that are done it tells the truth, since a lie about these is found at once. All
//! participants are equally fast, each has one worker of one thread, and nobody else is wrong.

#![expect(
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::too_many_lines,
    reason = "it prints a table of small numbers, and a job is one story"
)]

use std::collections::BTreeMap;
use std::thread;

use chomp_plan::{
    Action, Event, LeaseAnswer, Millis, ParticipantId, Past, Phase, Plan, PlanTypes,
    PublishOutcome, RequestId, Settings, Task, TaskResult, Unit, Work, WorkerId, Write,
};
use chomp_table::rng::{Rng, mix};
use chomp_table::{Digest, Head, RangeBits, RangeSummary};

/// A job has 2^16 ranges of 12 bits.
const BITS: u32 = 28;
const LIAR: u32 = 1;

#[derive(Debug)]
struct Handles;

impl PlanTypes for Handles {
    type LeaseResponder = ();
    type VerdictResponder = ();
    /// Whether it is a lie.
    type Location = bool;
}

#[derive(Clone, Copy)]
struct Kind {
    participants: u32,
    replicas: u32,
    rate: u32,
    one_in: u64,
    begins_late: bool,
}

struct Outcome {
    is_wrong: bool,
    /// How many ranges the liar had delivered when it was found.
    found_after: Option<u64>,
    evaluated: u64,
}

fn range(head: Head, is_lie: bool) -> RangeSummary {
    RangeSummary {
        head,
        count: 1,
        stored: 1,
        digest: Digest([u8::from(is_lie); 32]),
    }
}

fn run(kind: Kind, seed: u64) -> Outcome {
    let mut rng = Rng(mix(seed + 1));
    let range_bits = RangeBits::new(12).expect("possible range bits");
    let settings = Settings {
        replicas: kind.replicas,
        checks_per_1000: kind.rate,
        task_positions_max: 0,
        check_seed: rng.next_u64(),
        ..Settings::new(BITS, range_bits)
    };
    let (mut plan, actions) = Plan::<Handles>::new(settings, Past::default()).expect("few ranges");
    let ranges = range_bits.head_count(BITS);
    let mut queue = actions;
    let mut doing: Vec<(WorkerId, Task)> = Vec::new();
    let mut lies: BTreeMap<Unit, bool> = BTreeMap::new();
    let mut outcome = Outcome {
        is_wrong: false,
        found_after: None,
        evaluated: 0,
    };
    let (mut delivered, mut done, mut requests) = (0, 0, 0);
    let workers: Vec<WorkerId> = (1..=kind.participants).map(WorkerId::only).collect();
    let mut events: Vec<Event<Handles>> = Vec::new();
    for &worker in &workers {
        let name = String::new();
        events.push(Event::Joined {
            worker,
            name,
            threads: 1,
        });
    }
    let ask = |worker, requests: &mut u64| {
        *requests += 1;
        Event::Requested {
            request: RequestId(*requests),
            worker,
            responder: (),
        }
    };
    for &worker in &workers {
        events.push(ask(worker, &mut requests));
    }
    events.reverse();
    loop {
        for action in queue.drain(..) {
            match action {
                Action::Answer {
                    worker,
                    answer: LeaseAnswer::Task(task),
                    ..
                } => doing.push((worker, task)),
                Action::Write(Write::Commit { write, units }) => {
                    for committed in units {
                        let before = lies.insert(committed.unit, committed.location);
                        let is_range = matches!(committed.unit, Unit::Range(_));
                        done += u64::from(is_range && before.is_none());
                    }
                    let outcome = Ok(());
                    events.push(Event::Written { write, outcome });
                }
                Action::Write(Write::Withdraw { heads }) => {
                    for head in heads {
                        let was_done = lies.remove(&Unit::Range(head)).is_some();
                        done -= u64::from(was_done);
                    }
                }
                Action::Write(Write::Out { .. }) => outcome.found_after = Some(delivered),
                Action::CallReferee => {
                    let worker = WorkerId::new(ParticipantId::REFEREE.0, 0);
                    events.push(ask(worker, &mut requests));
                    events.push(Event::Joined {
                        worker,
                        name: "referee".to_owned(),
                        threads: 1,
                    });
                }
                Action::Publish => {
                    outcome.is_wrong = lies.values().any(|&is_lie| is_lie);
                    events.push(Event::Published(PublishOutcome::Done));
                }
                _ => {}
            }
        }
        let event = if let Some(event) = events.pop() {
            event
        } else if let Some(at) = rng.index(doing.len()) {
            let (worker, task) = doing.swap_remove(at);
            events.push(ask(worker, &mut requests));
            let result = match task.work {
                Work::Evaluate {
                    heads, is_check, ..
                } => {
                    outcome.evaluated += heads.len() as u64;
                    let is_liar = worker.participant == ParticipantId(LIAR);
                    delivered += if is_liar { heads.len() as u64 } else { 0 };
                    let may_lie = is_liar && !is_check && (!kind.begins_late || 2 * done > ranges);
                    let found = heads.into_iter().map(|head| {
                        let is_lie = may_lie && rng.once_in(kind.one_in);
                        (range(head, is_lie), is_lie)
                    });
                    TaskResult::Ranges(found.collect())
                }
                Work::Merge { shard, .. } => TaskResult::Shard {
                    number: shard,
                    digest: Digest([9; 32]),
                    is_forged: false,
                    location: false,
                },
            };
            Event::Completed {
                worker,
                lease: task.lease,
                result,
                responder: (),
            }
        } else if *plan.phase() == Phase::Running {
            Event::Tick
        } else {
            return outcome;
        };
        queue = plan.handle(Millis(0), event);
    }
}

fn outcomes(kind: Kind, jobs: u64) -> Vec<Outcome> {
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    thread::scope(|scope| {
        let of_thread = |first| {
            (first..jobs)
                .step_by(threads as usize)
                .map(|seed| run(kind, seed))
                .collect()
        };
        let begun: Vec<_> = (0..threads)
            .map(|first| scope.spawn(move || -> Vec<Outcome> { of_thread(first) }))
            .collect();
        let ended = begun
            .into_iter()
            .map(|thread| thread.join().expect("no job panics"));
        ended.flatten().collect()
    })
}

fn main() {
    let numbers: Vec<u64> = std::env::args()
        .skip(1)
        .map(|text| text.parse().expect("a number"))
        .collect();
    let [jobs, participants, rate] = numbers[..] else {
        panic!(
            "give the number of jobs, that of participants, and how many of 1,000 ranges are checked"
        );
    };
    println!(
        "| one liar among | of its ranges it touches | wrong, 1 replica | begins late | wrong, 2 replicas | found after | evaluations |"
    );
    println!("|---|---|---|---|---|---|---|");
    for one_in in [1, 10, 100, 1000] {
        let outcomes = |replicas, begins_late| {
            let kind = Kind {
                participants: participants as u32,
                replicas,
                rate: rate as u32,
                one_in,
                begins_late,
            };
            outcomes(kind, jobs)
        };
        let wrong = |outcomes: &[Outcome]| {
            let wrong = outcomes.iter().filter(|outcome| outcome.is_wrong).count();
            format!("{} %", 100 * wrong / outcomes.len())
        };
        let (once, late) = (outcomes(1, false), outcomes(1, true));
        let twice: Vec<Outcome> = outcomes(2, false)
            .into_iter()
            .chain(outcomes(2, true))
            .collect();
        let mut found: Vec<u64> = once.iter().filter_map(|one| one.found_after).collect();
        found.sort_unstable();
        let median = found
            .get(found.len() / 2)
            .map_or_else(|| "never".to_owned(), u64::to_string);
        let evaluated: u64 = once.iter().map(|one| one.evaluated).sum();
        let factor = evaluated as f64 / (jobs << 16) as f64;
        println!(
            "| {participants} | 1 in {one_in} | {} | {} | {} | {median} | {factor:.2} |",
            wrong(&once),
            wrong(&late),
            wrong(&twice)
        );
    }
}
