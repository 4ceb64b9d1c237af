//! The least rate at which a peer takes what it asked for, or sends what it announced.

use std::num::NonZeroU64;
use std::time::Duration;

use tokio::time::Instant;

use super::limits::{RATE_MIN, RATE_TIME};

/// How long a peer may still take: as if it got a second for each so many bytes that it moves, and
/// could save a few. So it may pause, and is as fast as it has to be on average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    rate: NonZeroU64,
    most: Duration,
    left: Duration,
}

impl Default for Pace {
    /// That of all downloads and uploads.
    fn default() -> Pace {
        Pace::new(RATE_MIN, RATE_TIME)
    }
}

impl Pace {
    /// So many bytes a second at the least, on average over so long.
    pub fn new(rate: NonZeroU64, most: Duration) -> Pace {
        Pace {
            rate,
            most,
            left: most,
        }
    }

    /// How long it may take for whatever comes next.
    pub fn left(&self) -> Duration {
        self.left
    }

    /// The peer took so long to move so many bytes.
    pub fn moved(&mut self, took: Duration, bytes: u64) {
        let earned = u128::from(bytes) * 1_000_000_000 / u128::from(self.rate.get());
        let earned = Duration::from_nanos(u64::try_from(earned).unwrap_or(u64::MAX));
        let left = self.left.saturating_sub(took).saturating_add(earned);
        self.left = left.min(self.most);
    }

    /// Waits for what the peer does, which moves as many bytes as `bytes` says; none if the peer is
    /// too slow.
    pub async fn wait<T>(
        &mut self,
        doing: impl Future<Output = T>,
        bytes: impl FnOnce(&T) -> u64,
    ) -> Option<T> {
        let start = Instant::now();
        let done = tokio::time::timeout(self.left, doing).await.ok()?;
        self.moved(start.elapsed(), bytes(&done));
        Some(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn pace() -> Pace {
        Pace::new(NonZeroU64::new(1000).unwrap(), 10 * SECOND)
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_fast_enough_goes_on_for_ever_and_who_is_not_does_not() {
        let slow = async |each: Duration, bytes: u64| {
            let mut pace = pace();
            let mut times = 0;
            while times < 1000 {
                let step = tokio::time::sleep(each);
                if pace.wait(step, |()| bytes).await.is_none() {
                    break;
                }
                times += 1;
            }
            times
        };
        assert_eq!(slow(SECOND, 1000).await, 1000);
        assert_eq!(slow(9 * SECOND, 9000).await, 1000);
        // A byte less, and what it has saved is used up one day.
        assert_eq!(slow(9 * SECOND, 8000).await, 2);
        assert_eq!(slow(SECOND, 0).await, 10);
        assert_eq!(slow(11 * SECOND, u64::MAX).await, 0);
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
