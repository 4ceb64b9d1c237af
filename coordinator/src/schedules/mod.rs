//! Whole jobs under random schedules and under every fault: the plan, the journal, the arbiter and the
//! publication together, on a storage that fails on demand, with the records of real tables.
//!
//! Nothing here waits, and all chance follows from a seed. A [`world::World`] has a storage,
//! a [`coordinator::Coordinator`] with the desk of a job, at times a second one that was overtaken by
//! it, and workers that evaluate and merge; that hand in late, twice, in part, or not at
//! all; and that lie. Parts and shards get lost or damaged. Whatever happened, the job has to end
//! with the table of an undisturbed run ([`published`]), byte for byte; what was acknowledged is
//! never lost; and a lie that nobody found ends the job without a table.
//!
//! A failure names its seed, and how to run that schedule alone.

mod coordinator;
mod ending;
mod expected;
mod faults;
mod published;
mod steps;
mod worker;
mod world;

use chomp_table::rng::Rng;
use chomp_trials::trials;
use world::World;

/// So many schedules have something of everything that is worth being seen.
const MANY: u64 = 20_000;

/// What was seen in some schedules: shows that they are not all harmless.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    starts: u64,
    stops: u64,
    overtaken: u64,
    quarantined: u64,
    /// Ranges that were withdrawn.
    withdrawn: u64,
    /// Publications that found a lie.
    healed: u64,
    published: u64,
    /// Starts that found shards.
    shards: u64,
    /// Ranges that a start found and that had been found by one participant more than has to.
    votes: u64,
    /// Shards that were read back and were not what the journal said.
    lost_shards: u64,
    /// Removals of parts that nobody had use for.
    orphans: u64,
}

impl Seen {
    fn add(&mut self, other: Seen) {
        self.starts += other.starts;
        self.stops += other.stops;
        self.overtaken += other.overtaken;
        self.quarantined += other.quarantined;
        self.withdrawn += other.withdrawn;
        self.healed += other.healed;
        self.published += other.published;
        self.shards += other.shards;
        self.votes += other.votes;
        self.lost_shards += other.lost_shards;
        self.orphans += other.orphans;
    }
}

/// Runs the schedule of a seed.
fn run(seed: u64) -> Seen {
    let mut world = World::new(Rng(seed));
    for _ in 0..world.rng.below(60) {
        world.step();
    }
    world.calm_down();
    world.seen
}

#[test]
#[expect(clippy::print_stderr, reason = "says what the schedules were made of")]
fn every_schedule_of_plan_journal_and_publication_ends_well() {
    let some = trials("schedules of plan, journal and publication").seconds(3.0);
    let (schedules, seen) = some.at_least(300).on_all_cores().gather(run, Seen::add);
    eprintln!("{seen:?}");
    let often = [
        (seen.starts, 2 * schedules),
        (seen.stops, schedules / 10),
        (seen.overtaken, schedules / 20),
        (seen.quarantined, schedules / 200),
        (seen.withdrawn, schedules / 100),
        (seen.healed, schedules / 2000),
        (seen.published, schedules / 2),
        (seen.shards, schedules / 200),
        (seen.votes, schedules / 20),
        (seen.lost_shards, schedules / 10_000),
        (seen.orphans, schedules / 10),
    ];
    let is_often = often.iter().all(|(seen, least)| seen > least);
    assert!(is_often || schedules < MANY, "{seen:?}");
}
