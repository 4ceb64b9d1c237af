//! The least rate at which a peer takes what it asked for, or sends what it announced.

use std::num::NonZeroU64;
use std::time::Duration;

/// How long a peer may still take: it earns a second for every `rate` bytes that it moves, and saves
/// up to `most`. So it may pause, and is as fast as it has to be on average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    rate: NonZeroU64,
    most: Duration,
    left: Duration,
}

impl Pace {
    /// At least `rate` bytes a second, on average over `most`.
    pub(super) fn new(rate: NonZeroU64, most: Duration) -> Pace {
        Pace {
            rate,
            most,
            left: most,
        }
    }

    /// How long it may take for whatever comes next.
    pub(super) fn left(&self) -> Duration {
        self.left
    }

    /// Notes that the peer took `took` to move `bytes` bytes.
    pub(super) fn moved(&mut self, took: Duration, bytes: u64) {
        let earned = u128::from(bytes) * 1_000_000_000 / u128::from(self.rate.get());
        let earned = Duration::from_nanos(u64::try_from(earned).unwrap_or(u64::MAX));
        let left = self.left.saturating_sub(took).saturating_add(earned);
        self.left = left.min(self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn pace() -> Pace {
        Pace::new(NonZeroU64::new(1000).unwrap(), 10 * SECOND)
    }

    #[test]
    fn who_is_fast_enough_goes_on_for_ever_and_who_is_not_does_not() {
        let slow = |each: Duration, bytes: u64| {
            let mut pace = pace();
            let mut times = 0;
            while times < 1000 && each <= pace.left() {
                pace.moved(each, bytes);
                times += 1;
            }
            times
        };
        assert_eq!(slow(SECOND, 1000), 1000);
        assert_eq!(slow(9 * SECOND, 9000), 1000);
        // A byte less, and what it has saved is used up one day.
        assert_eq!(slow(9 * SECOND, 8000), 2);
        assert_eq!(slow(SECOND, 0), 10);
        assert_eq!(slow(11 * SECOND, u64::MAX), 0);
    }

    #[test]
    fn no_more_is_saved_than_that() {
        let mut pace = pace();
        pace.moved(Duration::ZERO, u64::MAX);
        assert_eq!(pace.left(), 10 * SECOND);
        pace.moved(4 * SECOND, 1500);
        assert_eq!(pace.left(), Duration::from_millis(7500));
        pace.moved(20 * SECOND, 0);
        assert_eq!(pace.left(), Duration::ZERO);
    }
}
