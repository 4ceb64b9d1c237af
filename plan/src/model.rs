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

use chomp_table::rng::Rng;
use chomp_trials::trials;
use world::World;

/// Runs a schedule, which its seed determines.
fn run(seed: u64) {
    let mut world = World::new(Rng(seed));
    for _ in 0..world.rng.below(120) {
        world.step();
    }
    world.calm_down();
}

/// Runs a schedule that begins when all ranges are done.
fn run_from_the_cut_on(seed: u64) {
    let mut world = World::new(Rng(seed));
    world.do_ranges();
    for _ in 0..world.rng.below(200) {
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

#[test]
fn every_schedule_ends_with_the_right_table() {
    let schedules = trials("schedules of the plan").seconds(3.0);
    schedules.at_least(500).on_all_cores().run(run);
}

#[test]
fn every_schedule_of_shards_ends_with_the_right_table() {
    let schedules = trials("schedules of shards").seconds(3.0);
    schedules
        .at_least(500)
        .on_all_cores()
        .run(run_from_the_cut_on);
}

#[test]
fn a_lie_told_first_is_found_in_every_schedule() {
    let schedules = trials("schedules that begin with a lie");
    schedules.at_least(50).run(run_with_a_lie_told_first);
}
