//! Chance for tests of processes. The seed is printed, and `CHOMP_TEST_SEED` gives it again.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chomp_table::rng::Rng;

/// Random numbers from a seed that was printed.
#[derive(Debug)]
pub(crate) struct Random(Rng);

/// The seed in `CHOMP_TEST_SEED`, or else a new one.
#[expect(clippy::print_stderr, reason = "the seed, shown on failure")]
pub(crate) fn seed() -> u64 {
    let given = std::env::var("CHOMP_TEST_SEED").ok();
    let seed = given.map_or_else(
        || {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            now.as_secs() << 20 | u64::from(now.subsec_micros())
        },
        |seed| seed.parse().unwrap(),
    );
    eprintln!("seed {seed}");
    seed
}

impl Random {
    pub(crate) fn new() -> Random {
        Random::of(seed())
    }

    /// The numbers of a seed that an earlier run has printed.
    pub(crate) fn of(seed: u64) -> Random {
        Random(Rng(seed))
    }

    /// From 0 to `most - 1`.
    pub(crate) fn below(&mut self, most: usize) -> usize {
        self.0.index(most).unwrap()
    }

    /// From `least` to `most` milliseconds.
    pub(crate) fn millis(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(least + self.0.below(most - least + 1))
    }
}
