//! The parts of a history: chance, time, the log of what happened, and counts of it.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hasher};

use fastrand::Rng;

/// A history so far.
#[derive(Debug)]
pub(crate) struct History {
    /// All chance of the history comes from here.
    pub(crate) rng: Rng,
    /// The time of the world, in milliseconds.
    pub(crate) now: u64,
    pub(crate) seen: Seen,
    digest: DefaultHasher,
    printed: bool,
}

/// How often what happened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen(pub(crate) BTreeMap<&'static str, u64>);

impl History {
    /// The history of a seed. If it is `printed`, what happens is printed.
    pub(crate) fn new(seed: u64, printed: bool) -> History {
        History {
            rng: Rng::with_seed(seed),
            now: 0,
            seen: Seen::default(),
            digest: DefaultHasher::new(),
            printed,
        }
    }

    /// Puts something into the log.
    pub(crate) fn log(&mut self, what: fmt::Arguments<'_>) {
        struct Digested<'a>(&'a mut DefaultHasher);
        impl fmt::Write for Digested<'_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0.write(text.as_bytes());
                Ok(())
            }
        }
        self.digest.write_u64(self.now);
        fmt::write(&mut Digested(&mut self.digest), what).expect("a digest takes all texts");
        if self.printed {
            self.show(what);
        }
    }

    #[expect(
        clippy::print_stderr,
        reason = "shows what happens to whoever replays it"
    )]
    fn show(&self, what: fmt::Arguments<'_>) {
        eprintln!("{:>4}.{:03} {what}", self.now / 1000, self.now % 1000);
    }

    /// Puts bytes into the digest of the log.
    pub(crate) fn digest(&mut self, bytes: &[u8]) {
        self.digest.write(bytes);
    }

    /// The digest of all that happened.
    pub(crate) fn outcome(&self) -> u64 {
        self.digest.finish()
    }

    /// Counts something that happens, and puts it into the log.
    pub(crate) fn count(&mut self, kind: &'static str, what: fmt::Arguments<'_>) {
        *self.seen.0.entry(kind).or_default() += 1;
        self.log(format_args!("{kind}: {what}"));
    }

    /// True with a probability of `times` in a thousand.
    pub(crate) fn per_mille(&mut self, times: u64) -> bool {
        self.rng.u64(0..1000) < times
    }

    /// One of these.
    pub(crate) fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.rng.usize(0..of.len())]
    }
}

impl Seen {
    pub(crate) fn add(&mut self, other: &Seen) {
        for (kind, count) in &other.0 {
            *self.0.entry(kind).or_default() += count;
        }
    }

    pub(crate) fn of(&self, kind: &str) -> u64 {
        self.0.get(kind).copied().unwrap_or(0)
    }
}
