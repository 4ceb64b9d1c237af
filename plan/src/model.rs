//! The plan under random schedules.
//!
//! A [`world::World`] holds what a real job has: a disk, a coordinator that may crash, workers that
//! join, leave, die, stall, lose answers, hand in late, twice, in part, and rubbish, and lie. It
//! checks every action against what is really on its disk. After a while it calms down, and
//! then the job has to end with the right table.

mod checking;
mod disk;
mod ending;
mod steps;
mod world;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use chomp_table::rng::Rng;
use world::World;

/// How many schedules there are, unless `CHOMP_SCHEDULES` says so.
const SCHEDULES: u64 = 100_000;

/// The number that a variable of the environment has.
fn number(variable: &str, default: u64) -> u64 {
    let wanted = std::env::var(variable);
    wanted.map_or(default, |number| number.parse().expect("a number"))
}

/// The seeds of one schedule in so many: the first is 0, unless `CHOMP_FIRST_SEED` says so.
fn seeds(one_in: u64) -> Range<u64> {
    let first = number("CHOMP_FIRST_SEED", 0);
    first..first + number("CHOMP_SCHEDULES", SCHEDULES) / one_in
}

/// Runs a schedule, which its seed determines.
fn run(seed: u64) {
    let mut world = World::new(Rng(seed));
    for _ in 0..world.rng.below(120) {
        world.step();
    }
    world.calm_down();
}

/// Runs a schedule in which the first content of some range is a lie.
fn run_with_a_lie_told_first(seed: u64) {
    let mut world = World::new(Rng(seed));
    for _ in 0..world.rng.below(60) {
        world.step();
    }
    world.lie_first();
}

fn check(seeds: impl Iterator<Item = u64>, run: fn(u64)) {
    for seed in seeds {
        let outcome = catch_unwind(AssertUnwindSafe(|| run(seed)));
        assert!(
            outcome.is_ok(),
            "the schedule of seed {seed} failed, see above"
        );
    }
}

#[test]
fn every_schedule_ends_with_the_right_table() {
    let seeds = seeds(1);
    thread::scope(|scope| {
        scope.spawn(|| check(seeds.clone().step_by(2), run));
        scope.spawn(|| check(seeds.clone().skip(1).step_by(2), run));
    });
}

#[test]
fn a_lie_told_first_is_found_in_every_schedule() {
    check(seeds(20), run_with_a_lie_told_first);
}
