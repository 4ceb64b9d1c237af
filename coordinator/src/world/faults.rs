//! Every storage call of a job fails or crashes, and so do those of the recovery.

use super::ending::End;
use super::state::World;
use chomp_store::objects::{Fault, Moment};
use chomp_table::rng::Rng;
use chomp_testing::effort;

const BITS: u32 = 15;

/// The trouble at a storage call: it fails at some moment, and if `sticky` all later ones do; or the machine crashes.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    Fails { sticky: bool, moment: Moment },
    Crashes,
}

fn troubles() -> [Trouble; 5] {
    let fails = |sticky, moment| Trouble::Fails { sticky, moment };
    [
        fails(false, Moment::Before),
        fails(false, Moment::After),
        fails(true, Moment::Before),
        fails(true, Moment::After),
        Trouble::Crashes,
    ]
}

impl World {
    /// Runs the program with trouble at a call counted from now; says how many calls it made.
    fn run_with(&mut self, call: u64, trouble: Trouble) -> (End, u64) {
        let start = self.storage.calls();
        let call = start + call;
        self.harm.troubled = true;
        match trouble {
            Trouble::Fails { sticky, moment } => self.storage.set_fault(Some(Fault {
                call,
                sticky,
                moment,
            })),
            Trouble::Crashes => self.storage.crash_at(call),
        }
        let end = self.run();
        let calls = self.storage.calls() - start;
        self.storage.set_fault(None);
        if matches!(trouble, Trouble::Crashes) {
            self.crash();
        }
        (end, calls)
    }

    fn finish(&mut self) -> u64 {
        let start = self.storage.calls();
        let end = self.run();
        assert!(matches!(end, End::Finished), "{end:?}");
        self.check_table();
        self.storage.calls() - start
    }
}

/// The number of storage calls of an undisturbed job.
fn calls() -> u64 {
    World::quiet(Rng(0), BITS).finish()
}

#[test]
#[expect(clippy::print_stderr, reason = "says how much was tried")]
fn every_call_fails_or_crashes() {
    let calls = calls();
    eprintln!("an undisturbed job of {BITS} bits makes {calls} storage calls");
    assert!(calls > 60, "{calls}");
    for call in 0..calls {
        for trouble in troubles() {
            for seed in 0..4 {
                let mut world = World::quiet(Rng(seed), BITS);
                let (end, _) = world.run_with(call, trouble);
                // A worker tries again after a single failure to read or write.
                let is_single = matches!(trouble, Trouble::Fails { sticky: false, .. });
                let is_well = is_single || !matches!(end, End::Finished);
                assert!(is_well, "{call} {trouble:?}: {end:?}");
                world.finish();
            }
        }
    }
}

#[test]
#[expect(clippy::print_stderr, reason = "says how much was tried")]
fn trouble_in_the_recovery_from_trouble() {
    let calls = calls();
    // A third of the pairs, or all of them with more effort.
    let step = if effort() > 1.0 { 1 } else { 3 };
    let mut pairs = 0;
    for first in 0..calls {
        let mut second = first % step;
        loop {
            // Of the 25 combinations, others at each pair.
            let at = |n: u64| troubles()[usize::try_from(n % 5).unwrap()];
            let (one, two) = (at(first + second), at(first / 5 + 3 * second));
            let mut world = World::quiet(Rng(first * 1000 + second), BITS);
            world.run_with(first, one);
            let (end, made) = world.run_with(second, two);
            pairs += 1;
            // It may tell of the trouble, unless that came after its end.
            let is_well = second < made || matches!(end, End::Finished);
            assert!(is_well, "{first} {one:?}, {second} {two:?}: {end:?}");
            world.finish();
            if second >= made {
                break;
            }
            second += step;
        }
    }
    eprintln!("{pairs} pairs of troubles");
    assert!(pairs > calls * 20 / step, "{pairs}");
}
