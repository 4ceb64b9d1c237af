//! What a liar can do: whole jobs with the true plan, in which one of many participants lies about some of its ranges.
//!
//! `cargo run --release -p chomp-plan --example liars [JOBS [PARTICIPANTS]]` prints the table that is in docs/SECURITY.md, or
//! the rows for so many participants.
//!
//! The liar knows the program. It changes one word together with its mirror image, where both are in one range, so that
//! nothing is missing when the table is counted; it lies with a given chance, from the first range on or once half of all
//! ranges are done; and it tells the truth of what others found, since a lie about that is seen at once. All
//! participants are equally fast, each has one worker of one thread, and nobody else is wrong, but for what follows
//! from a lie.

#![expect(clippy::print_stdout, reason = "the table is what it is for")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use chomp_plan::{
    Action, Event, LeaseAnswer, Millis, Past, Phase, Plan, RequestId, Settings, SubmissionId, Task,
    Unit, Work, WorkerId,
};
use chomp_table::rng::{Rng, mix};
use chomp_table::sources::sources;
use chomp_table::{Digest, Head, RangeBits, RangeSummary};

/// A job has 2^16 ranges.
const HEAD_BITS: u32 = 16;
/// Longer than any job.
const NEVER_MS: u64 = u64::MAX / 4;
const LIAR: usize = 0;

/// What one liar does.
#[derive(Clone, Copy, Debug)]
struct Case {
    participants: usize,
    /// It lies about one in so many of its ranges.
    one_in: u64,
    replicas: u32,
    /// Whether it begins when half of the ranges are done.
    is_late: bool,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    published_wrong: bool,
    /// How many ranges it had delivered since it began, when it was found out.
    found_after: Option<u64>,
}

struct Job {
    case: Case,
    plan: Plan,
    range_bits: RangeBits,
    rng: Rng,
    /// What is done, and what of that is wrong.
    done: BTreeMap<Head, Digest>,
    wrong: BTreeSet<Head>,
    /// Who has which task.
    busy: Vec<(usize, Task)>,
    numbers: u64,
    /// The results of the submissions that are not forgotten.
    results: BTreeMap<SubmissionId, Vec<RangeSummary>>,
    delivered: u64,
    outcome: Outcome,
}

impl Job {
    fn new(case: Case, seed: u64) -> Job {
        let range_bits = RangeBits::new(12).expect("12 range bits are possible");
        let settings = Settings {
            replicas: case.replicas,
            lease_ms: NEVER_MS,
            silence_ms: NEVER_MS,
            straggler_ms: NEVER_MS,
            key: mix(seed),
            // Each range is a task.
            task_positions_min: 0,
            task_positions_max: 0,
            ..Settings::new(12 + HEAD_BITS, range_bits)
        };
        let (plan, first) = Plan::new(settings, &Past::default()).expect("a job of this size");
        assert!(first.is_empty(), "nothing is done yet");
        Job {
            case,
            plan,
            range_bits,
            rng: Rng(seed),
            done: BTreeMap::new(),
            wrong: BTreeSet::new(),
            busy: Vec::new(),
            numbers: 0,
            results: BTreeMap::new(),
            delivered: 0,
            outcome: Outcome::default(),
        }
    }

    fn run(mut self) -> Outcome {
        for number in 0..self.case.participants {
            let worker = worker(number);
            self.tell(Event::Joined {
                worker,
                name: String::new(),
                threads: 1,
            });
        }
        for number in 0..self.case.participants {
            self.want(number);
        }
        while *self.plan.phase() == Phase::Running {
            let next = self.rng.index(self.busy.len());
            let (number, task) = self.busy.swap_remove(next.expect("somebody has a task"));
            self.finish(number, task);
            self.want(number);
        }
        assert_eq!(*self.plan.phase(), Phase::Finished, "the job ends well");
        self.outcome
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn want(&mut self, number: usize) {
        let request = RequestId(self.number() << 16 | number as u64);
        self.tell(Event::Wanted {
            request,
            worker: worker(number),
        });
    }

    fn finish(&mut self, number: usize, task: Task) {
        let submission = SubmissionId(self.number());
        let (worker, lease) = (worker(number), task.lease);
        let event = match task.work {
            Work::Evaluate { heads, .. } => {
                let mut ranges = self.evaluate(&heads);
                let total = 1 << HEAD_BITS;
                let lies = !self.case.is_late || self.plan.progress().ranges_done * 2 >= total;
                if number == LIAR && lies && self.outcome.found_after.is_none() {
                    self.delivered += ranges.len() as u64;
                    for range in &mut ranges {
                        if self.rng.once_in(self.case.one_in) {
                            range.digest.0[31] ^= 1;
                        }
                    }
                }
                self.results.insert(submission, ranges.clone());
                Event::Evaluated {
                    submission,
                    worker,
                    lease,
                    ranges,
                }
            }
            Work::Merge { shard, .. } => Event::Merged {
                submission,
                worker,
                lease,
                shard,
                digest: Digest([0; 32]),
            },
        };
        self.tell(event);
    }

    /// What follows from the ranges that are done.
    fn evaluate(&self, heads: &[Head]) -> Vec<RangeSummary> {
        heads.iter().map(|&head| self.evaluate_one(head)).collect()
    }

    fn evaluate_one(&self, head: Head) -> RangeSummary {
        let mut digest = truth(head);
        if !self.wrong.is_empty() {
            let wrong = sources(head, self.range_bits).into_iter();
            let wrong = wrong.filter(|source| self.wrong.contains(source));
            let sum = wrong.fold(0, |sum, source| mix(sum ^ source.0) | 1);
            digest.0[8..16].copy_from_slice(&u64::to_le_bytes(sum));
        }
        RangeSummary {
            head,
            count: 1,
            stored: 1,
            digest,
        }
    }

    fn tell(&mut self, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for action in self.plan.handle(Millis(0), event) {
                events.extend(self.perform(action));
            }
        }
    }

    /// Does what the plan asks for, at once. What it is told then.
    fn perform(&mut self, action: Action) -> Option<Event> {
        match action {
            Action::Answer {
                request,
                answer: LeaseAnswer::Task(task),
            } => {
                let number = usize::try_from(request.0 & 0xffff).expect("16 bits");
                self.busy.push((number, task));
            }
            Action::Commit { submission, units } => {
                let ranges = self.results.get(&submission).cloned().unwrap_or_default();
                for settled in units {
                    let found = ranges
                        .iter()
                        .find(|range| Unit::Range(range.head) == settled.unit);
                    if let Some(range) = found {
                        self.done.insert(range.head, range.digest);
                        if range.digest == truth(range.head) {
                            self.wrong.remove(&range.head);
                        } else {
                            self.wrong.insert(range.head);
                        }
                    }
                }
                return Some(Event::Committed { submission });
            }
            Action::Withdraw { heads } => {
                for head in heads {
                    self.done.remove(&head);
                    self.wrong.remove(&head);
                }
            }
            Action::Arbitrate { unit, .. } => {
                let submission = SubmissionId(self.number());
                let range = match unit {
                    Unit::Range(head) => Some(self.evaluate_one(head)),
                    Unit::Shard(_) => None,
                };
                self.results.insert(submission, range.into_iter().collect());
                let digest = range.map_or(Digest([0; 32]), |range| range.digest);
                return Some(Event::Arbitrated {
                    submission,
                    unit,
                    range,
                    digest,
                    is_forged: false,
                });
            }
            Action::Quarantine { worker: of, .. } => {
                assert_eq!(
                    of.participant,
                    worker(LIAR).participant,
                    "an honest one is blamed"
                );
                self.outcome.found_after = Some(self.delivered);
                self.busy.retain(|&(number, _)| number != LIAR);
            }
            Action::Publish => {
                self.outcome.published_wrong = !self.wrong.is_empty();
                return Some(Event::Published);
            }
            Action::Stop { reason } => panic!("the job stops: {reason}"),
            // Results are kept for longer than need be.
            _ => {}
        }
        None
    }
}

fn worker(number: usize) -> WorkerId {
    WorkerId::only(u32::try_from(number + 1).expect("a thousand participants"))
}

fn truth(head: Head) -> Digest {
    let mut digest = [0; 32];
    digest[16..24].copy_from_slice(&head.0.to_le_bytes());
    Digest(digest)
}

/// Runs `jobs` jobs on all cores.
fn outcomes(case: Case, jobs: usize) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= jobs {
                        return;
                    }
                    let outcome = Job::new(case, mix(seed as u64 + 1)).run();
                    outcomes.lock().expect("no job panics").push(outcome);
                }
            });
        }
    });
    outcomes.into_inner().expect("no job panics")
}

/// The part of the jobs whose table was published wrong, in percent.
fn wrong(outcomes: &[Outcome]) -> String {
    let wrong = outcomes.iter().filter(|outcome| outcome.published_wrong);
    format!("{} %", 100 * wrong.count() / outcomes.len())
}

fn main() {
    let mut numbers = std::env::args().skip(1);
    let mut number = || Some(numbers.next()?.parse::<usize>().expect("a number"));
    let jobs = number().unwrap_or(100);
    let only = number();
    println!(
        "| one liar among | of its ranges it touches | wrong, 1 replica | begins late | wrong, 2 replicas | found after |"
    );
    println!("|---|---|---|---|---|---|");
    let wanted = |participants: &usize| only.is_none_or(|only| only == *participants);
    for participants in [10, 100, 1000].into_iter().filter(wanted) {
        for one_in in [1, 10, 100, 1000] {
            let run = |replicas, is_late| {
                let case = Case {
                    participants,
                    one_in,
                    replicas,
                    is_late,
                };
                outcomes(case, jobs)
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
}
