//! Random cases of a test, one seed after the other.
//!
//! A test says how many cases it tries at the least, however long they take, and for how many seconds it goes on with
//! more: `trials("schedules of the plan").seconds(2.0).at_least(500).run(|seed| …)`. It prints the first seed and the
//! number of cases, and a case that panics names its seed. These variables change that:
//!
//! | variable | meaning |
//! |---|---|
//! | `CHOMP_TEST_EFFORT` | multiplies the seconds and the least number of cases: 1 if not given, `.ci/run` has more |
//! | `CHOMP_TEST_SEED` | the first seed: 0 if not given, so that a run repeats the one before |
//! | `CHOMP_TEST_CASES` | the exact number of cases, however long they take: 1 repeats a seed alone |
//!
//! A case that hangs ends the process, with its seed.
//!
//! [`ns_each`] is for benchmarks of small things.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::waiting::Watchdog;

/// The cases of a test, and the time for them.
#[derive(Clone, Debug)]
#[must_use]
pub struct Trials {
    what: &'static str,
    effort: f64,
    first: u64,
    exactly: Option<u64>,
    time: Duration,
    at_least: u64,
    threads: usize,
}

/// Cases of this name: at least one, and for one second, on one thread. Panics if a variable of the environment is not
/// a number.
pub fn trials(what: &'static str) -> Trials {
    let effort = variable("CHOMP_TEST_EFFORT").unwrap_or(1.0);
    Trials {
        what,
        effort,
        first: variable("CHOMP_TEST_SEED").unwrap_or(0),
        exactly: variable("CHOMP_TEST_CASES"),
        time: Duration::from_secs_f64(effort),
        at_least: 1,
        threads: 1,
    }
}

/// How many times as much as usual a test shall do, for those that count something else than cases. Panics if
/// `CHOMP_TEST_EFFORT` is not a number.
pub fn effort() -> f64 {
    variable("CHOMP_TEST_EFFORT").unwrap_or(1.0)
}

/// The number that a variable of the environment has, if it is there.
fn variable<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    let Ok(number) = text.parse() else {
        panic!("{name}={text}: a number is wanted");
    };
    Some(number)
}

impl Trials {
    /// After the least number of cases, goes on until `seconds` times the effort are over.
    pub fn seconds(self, seconds: f64) -> Trials {
        let time = Duration::from_secs_f64(seconds * self.effort);
        Trials { time, ..self }
    }

    /// Tries at least `cases` times the effort.
    pub fn at_least(self, cases: u64) -> Trials {
        Trials {
            at_least: cases,
            ..self
        }
    }

    /// On as many threads as there are cores: for what is the only thing that runs.
    pub fn on_all_cores(self) -> Trials {
        let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Trials { threads, ..self }
    }

    /// The number of cases that are tried, however long they take.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of cases, of which a fraction more or less is all the same"
    )]
    fn least(&self) -> u64 {
        ((self.at_least as f64) * self.effort).max(1.0) as u64
    }

    /// Runs the cases. Panics if a case does, after its seed was printed.
    pub fn run(self, case: impl Fn(u64) + Sync) {
        self.gather(case, |(), ()| ());
    }

    /// Runs the cases, and returns how many there were, and what `add` makes of that which they return. Panics if a
    /// case does, after its seed was printed.
    #[expect(clippy::print_stderr, reason = "the seeds, shown on failure")]
    pub fn gather<T: Default + Send>(
        self,
        case: impl Fn(u64) -> T + Sync,
        add: impl Fn(&mut T, T) + Sync,
    ) -> (u64, T) {
        let start = Instant::now();
        let begun = AtomicU64::new(0);
        let sum = Mutex::new(T::default());
        let goes_on = |number: u64| match self.exactly {
            Some(cases) => number < cases,
            None => number < self.least() || start.elapsed() < self.time,
        };
        let work = || {
            let watchdog = Watchdog::of_this_process();
            loop {
                let number = begun.fetch_add(1, Ordering::Relaxed);
                if !goes_on(number) {
                    begun.fetch_sub(1, Ordering::Relaxed);
                    return;
                }
                let seed = self.first + number;
                watchdog.begin(format!("{}, seed {seed}", self.what));
                match catch_unwind(AssertUnwindSafe(|| case(seed))) {
                    Ok(one) => add(&mut sum.lock().expect("no other case failed"), one),
                    Err(panic) => {
                        eprintln!(
                            "{}: the case of seed {seed} failed, see above; it alone: \
                             CHOMP_TEST_SEED={seed} CHOMP_TEST_CASES=1",
                            self.what
                        );
                        resume_unwind(panic);
                    }
                }
            }
        };
        thread::scope(|scope| {
            // The test's own thread works too: of others, nobody keeps back what they print.
            for _ in 1..self.threads {
                scope.spawn(work);
            }
            work();
        });
        let cases = begun.into_inner();
        let (first, time) = (self.first, start.elapsed());
        eprintln!("{cases} {} in {time:.1?}, from seed {first} on", self.what);
        (cases, sum.into_inner().expect("no case failed"))
    }
}

/// Prints the median time of [`ROUNDS`] rounds of `work`, in nanoseconds for each of the `things` that a round is
/// about.
#[expect(
    clippy::cast_precision_loss,
    clippy::print_stdout,
    reason = "a benchmark measures time, and prints it"
)]
pub fn ns_each<T>(what: &str, things: usize, mut work: impl FnMut() -> T) {
    let round = |_| {
        let start = Instant::now();
        let made = work();
        let time = start.elapsed();
        drop(black_box(made));
        time
    };
    let mut times: Vec<Duration> = (0..ROUNDS).map(round).collect();
    times.sort_unstable();
    let each = times[ROUNDS / 2].as_secs_f64() * 1e9 / things as f64;
    println!("| {what} | {each:.2} ns |");
}

/// The rounds of a benchmark.
pub const ROUNDS: usize = 101;

#[cfg(test)]
mod tests {
    use super::*;

    fn quick() -> Trials {
        Trials {
            effort: 1.0,
            first: 7,
            exactly: None,
            ..trials("cases of a test").seconds(0.0)
        }
    }

    #[test]
    fn seeds_follow_each_other_until_there_are_enough() {
        let three = Trials {
            exactly: Some(3),
            ..quick()
        };
        let seeds = three.gather(|seed| vec![seed], Extend::extend);
        assert_eq!(seeds, (3, vec![7, 8, 9]));
        let some = Trials {
            time: Duration::from_millis(20),
            ..quick()
        };
        let some = some.on_all_cores().at_least(100);
        let (cases, sum) = some.gather(|_| 1, |all: &mut u64, one| *all += one);
        assert!(cases >= 100 && cases == sum, "{cases} {sum}");
    }

    #[test]
    fn the_least_number_of_cases_is_tried_however_long_they_take() {
        let slow = quick().at_least(10);
        let cases = slow.gather(|_| thread::sleep(Duration::from_millis(1)), |(), ()| ());
        assert_eq!(cases.0, 10);
    }

    #[test]
    #[should_panic(expected = "of seed 9")]
    fn a_case_that_fails_fails_the_test() {
        let many = Trials {
            exactly: Some(100),
            ..quick()
        };
        many.run(|seed| assert!(seed < 9, "the case of seed {seed}"));
    }
}
