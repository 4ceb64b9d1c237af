//! A world for whole jobs: the desk, the plan, the journal, the arbiter and the publication together, on a storage that
//! fails on demand, with the records of true tables.
//!
//! Nothing here waits, and all chance follows from a seed. A [`state::World`] has a storage, a
//! [`coordinator::Coordinator`] with the desk of a job, at times a second one that was overtaken by it, and workers
//! that join, leave, die, stall, hand in late, twice, in part, rubbish, or not at all, and lie ([`workers`]). Parts and
//! shards get lost or damaged ([`steps`]). A [`watch::Watch`] compares everything that the plan says and asks for with
//! what is really durable and was really done. Whatever happened, the job has to end with the table of an undisturbed
//! run, byte for byte ([`ending`], [`table`]); what was acknowledged is never lost; nobody is slandered; and a lie that
//! nobody found ends the job without a table.
//!
//! A failure names its seed, and how to run that schedule alone. It is told then as a story: the time, what the plan
//! was told, and what it asked for.

mod coordinator;
mod ending;
mod expected;
mod faults;
mod state;
mod steps;
mod table;
mod watch;
mod workers;

use std::collections::BTreeMap;

use chomp_table::rng::Rng;
use chomp_testing::trials;
use state::World;

/// The number of schedules from which on [`LEAST`] has to hold.
const MANY: u64 = 10_000;

/// How often each event has to be seen in ten thousand schedules, so that they cannot become harmless.
const LEAST: [(&str, u64); 15] = [
    ("forged files", 100),
    ("late files", 200),
    ("lies", 700),
    ("lies told first", 50),
    ("lost shards", 70),
    ("orphans", 50),
    ("overtaken", 3_000),
    ("publications that found a lie", 50),
    ("published", 10_000),
    ("revoked", 800),
    ("starts", 20_000),
    ("starts with shards", 1_500),
    ("stops", 800),
    ("quarantined", 1_000),
    ("withdrawn", 500),
];

/// How often what was seen.
type Seen = BTreeMap<&'static str, u64>;

fn add(all: &mut Seen, other: Seen) {
    for (what, count) in other {
        *all.entry(what).or_default() += count;
    }
}

/// Runs the schedule of a seed. Some begin when all ranges are done, and some with a lie.
fn run(seed: u64) -> Seen {
    let mut world = World::new(Rng(seed));
    let kind = world.rng.below(8);
    if kind < 3 {
        world.do_ranges();
    }
    for _ in 0..world.rng.below(160) {
        world.step();
    }
    if kind == 3 {
        world.lie_first();
    }
    world.calm_down();
    world.seen
}

#[test]
#[expect(clippy::print_stderr, reason = "says what the schedules were made of")]
fn every_schedule_ends_with_the_right_table() {
    let some = trials("schedules of a job").seconds(6.0).at_least(300);
    let (schedules, seen) = some.on_all_cores().gather(run, add);
    eprintln!("{seen:?}");
    for (what, least) in LEAST {
        let count = seen.get(what).copied().unwrap_or(0);
        // Of few schedules nobody can say what they must have.
        let is_enough = schedules < MANY || count >= schedules * least / 10_000;
        assert!(is_enough, "{what}: {count}");
    }
}
