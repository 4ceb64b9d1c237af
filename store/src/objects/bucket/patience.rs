//! How long a server may give no answer.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use object_store::Error;
use tokio::time::Instant;

use super::super::{Action, Key, StorageError};
use super::failure::{Knowledge, known, sort, unknown};

/// The first pause before a request is repeated, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

#[derive(Debug)]
pub(super) struct Patience {
    most: Duration,
    since: Instant,
    pause: Duration,
}

impl Patience {
    pub(super) fn new(most: Duration) -> Patience {
        Patience {
            most,
            since: Instant::now(),
            pause: PAUSES.0,
        }
    }

    /// Waits before a request is repeated, unless its failure tells enough.
    pub(super) async fn again(
        &mut self,
        key: &Key,
        action: Action,
        error: Error,
    ) -> Result<(), StorageError> {
        match sort(&error) {
            Knowledge::Known => Err(known(key, action, error)),
            Knowledge::Unknown => self.wait(key, action, error).await,
        }
    }

    /// Waits before a request is repeated, or gives up.
    pub(super) async fn wait(
        &mut self,
        key: &Key,
        action: Action,
        error: Error,
    ) -> Result<(), StorageError> {
        if self.since.elapsed() + self.pause > self.most {
            return Err(unknown(key, action, &error));
        }
        tracing::warn!("cannot {action} {key} yet, trying again: {error}");
        // Between a half and all of the pause: of many that failed together, few ask together.
        let rng = RandomState::new().hash_one(key.as_str()) % 512;
        let rng = f64::from(u16::try_from(rng).unwrap_or(0)) / 1024.0;
        tokio::time::sleep(self.pause.mul_f64(0.5 + rng)).await;
        self.pause = (self.pause * 2).min(PAUSES.1);
        Ok(())
    }
}
