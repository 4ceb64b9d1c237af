//! A machine with a clock of its own: a runtime of one thread that goes on when the world says so.

use std::cell::Cell;
use std::panic;
use std::sync::Once;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, advance, sleep_until};

thread_local! {
    /// Whether anything has panicked here, in a task that nobody waits for perhaps.
    static PANICKED: Cell<bool> = const { Cell::new(false) };
}

/// Takes note of panics from now on.
fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            PANICKED.set(true);
            print(panic);
        }));
    });
}

/// A node.
#[derive(Debug)]
pub(crate) struct Node {
    runtime: Runtime,
    start: Instant,
    /// The milliseconds since its start, by its clock.
    local: u64,
    /// The time of the world that it has come to.
    world: u64,
    /// How far its clock goes in a second of the world, in milliseconds.
    rate: u64,
    /// The rest of the last step, in thousandths of a millisecond.
    left: u64,
    /// Whether it is not to go on.
    pub(crate) paused: bool,
}

impl Node {
    /// A node that starts at `now`.
    pub(crate) fn new(now: u64, rate: u64) -> Node {
        watch();
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime of one thread needs nothing");
        let start = runtime.block_on(async { Instant::now() });
        Node {
            runtime,
            start,
            local: 0,
            world: now,
            rate,
            left: 0,
            paused: false,
        }
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Lets it go on to the time `now` of the world: whatever is due by then happens.
    pub(crate) fn step(&mut self, now: u64) {
        self.local += self.passed(now);
        let until = self.start + Duration::from_millis(self.local);
        self.runtime.block_on(async { sleep_until(until).await });
        assert!(!PANICKED.get(), "something in a node panicked");
    }

    /// Sets its clock forward: what became due meanwhile happens all at once.
    pub(crate) fn jump(&mut self, millis: u64) {
        self.local += millis;
        self.runtime
            .block_on(advance(Duration::from_millis(millis)));
    }

    /// Lets it go on after a pause.
    pub(crate) fn resume(&mut self, now: u64) {
        self.paused = false;
        let passed = self.passed(now);
        self.jump(passed);
    }

    /// The milliseconds that pass by its clock until the world comes to `now`.
    fn passed(&mut self, now: u64) -> u64 {
        let thousandths = (now - self.world) * self.rate + self.left;
        self.world = now;
        self.left = thousandths % 1000;
        thousandths / 1000
    }
}
