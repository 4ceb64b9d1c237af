//! Histories of a whole cluster in one thread: true coordinators and true workers, over a network
//! that loses, doubles, delays and cuts, on machines that stop and crash and whose clocks are wrong.
//!
//! The [`store`] is a third party. Workers reach it by ways of their own, which can be cut, fail, lag and
//! change bits, or through the coordinator; it goes down, alone or with the coordinators, and loses
//! parts. Each node has a runtime of its own whose clock stands still until the [`world`] lets it go on
//! ([`node`]). The [`network`] carries the bytes of true calls between their ends in the nodes
//! ([`wire`]). All chance follows from a seed. Whatever [`faults`] happened, every worker must hear
//! that the job is finished, and the table must be that of an undisturbed history ([`expected`]),
//! byte for byte. The segments of the journal form one [`chain`], in which everything is when it is
//! acknowledged, and as many workers had computed it as must; nothing is withdrawn unless a part
//! was harmed. No lease has the number of another; no worker is refused, none makes many calls that
//! come to nothing, and no job ends but that of a coordinator that was overtaken, or whose store was
//! down.
//!
//! A failure names its seed, and how to run that history alone, which is shown then with `-- --nocapture`.
//! `just histories` runs as many as one likes.

mod chain;
mod coordinator;
mod expected;
mod faults;
mod history;
mod network;
mod node;
mod store;
mod watch;
mod wire;
mod worker;
mod world;

use self::history::{History, Seen};
use self::network::Weather;
use self::world::{Plot, World};
use chomp_testing::trials;

/// From this number of histories on, their events must be as frequent as [`LEAST`] says.
const MANY: u64 = 500;

/// The least number of events of each kind in a hundred histories, so that they cannot become harmless.
const LEAST: [(&str, u64); 29] = [
    ("broken connections", 80),
    ("checkpoints", 30),
    ("crashed coordinators", 50),
    ("crashed machines", 20),
    ("crashed workers", 80),
    ("cut streams", 20),
    ("doubled requests", 40),
    ("failing stores", 20),
    ("fenced", 2),
    ("jumped clocks", 50),
    ("lagging stores", 20),
    ("lost answers", 8),
    ("lost parts", 20),
    ("lost requests", 10),
    ("outages", 20),
    ("overtaken coordinators", 20),
    ("packets held", 60),
    ("partitions", 150),
    ("partitions down", 70),
    ("partitions up", 70),
    ("paused coordinators", 50),
    ("paused workers", 80),
    ("reordered packets", 3000),
    ("rotten parts", 20),
    ("rotten reads", 20),
    ("rotten writes", 20),
    ("stores out of reach", 40),
    ("unstored", 30),
    ("withdrawn ranges", 10),
];

/// Draws the conditions of a history.
fn plot(history: &mut History) -> Plot {
    let replicas = history.one_of(&[1, 1, 2]);
    let harsh = history.one_of(&[0, 1, 1, 4]);
    Plot {
        bits: history.one_of(&[13, 14, 14, 15, 15, 16]),
        replicas,
        slots: history.rng.usize(2..=4),
        lease_ms: history.one_of(&[2_000, 4_000, 8_000]),
        slowest: history.one_of(&[0, 30, 400]),
        segments: history.one_of(&[0, 0, 0, 55, 120]),
        weather: Weather {
            latency: history.one_of(&[3, 30, 200]),
            tails: history.one_of(&[0, 10, 50]),
            tail: history.one_of(&[2_000, 25_000]),
            losses: 20 * harsh,
            doubles: 20 * history.one_of(&[0, 1, 5]),
        },
        between_faults: history.one_of(&[300, 1_500, 5_000]),
        calm_at: history.rng.u64(500..30_000),
    }
}

/// Runs the history of a seed; returns the digest of all that happened, and what that was.
fn run(seed: u64, print: bool) -> (u64, Seen) {
    let mut history = History::new(seed, print);
    let plot = plot(&mut history);
    let mut world = World::new(history, plot);
    world.run();
    let history = &mut world.history;
    let seconds = history.now / 1000;
    history.seen.0.insert("seconds", seconds);
    (history.outcome(), history.seen.clone())
}

#[test]
#[expect(clippy::print_stderr, reason = "says what the histories were made of")]
fn every_history_ends_with_the_right_table() {
    let is_alone = std::env::var("CHOMP_TEST_CASES").is_ok_and(|cases| cases == "1");
    let some = trials("histories of a cluster").seconds(2.0).at_least(60);
    let (histories, seen) = some.on_all_cores().gather(
        |seed| run(seed, is_alone).1,
        |seen: &mut Seen, one| seen.add(&one),
    );
    eprintln!("{:#?}", seen.0);
    for (kind, least) in LEAST {
        let count = seen.of(kind);
        // Of few histories nobody can say what they must have.
        assert!(
            histories < MANY || count >= histories * least / 100,
            "{kind}: {count}"
        );
    }
}

#[test]
fn a_seed_gives_one_history() {
    for seed in 0..12 {
        let (once, again) = (run(seed, false).0, run(seed, false).0);
        assert_eq!(once, again, "seed {seed}");
        assert_ne!(once, run(seed + 1, false).0);
    }
}
