//! Retries of requests that fail in a way that can pass. All requests to one storage share the reports of an outage.

use std::pin::pin;
use std::time::Duration;

use chomp_table::format::describe;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::{FaultKind, StorageError};
use crate::retry::{Backoff, Outages};

/// The time without an answer after which a request counts as waiting.
const HANGS: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(super) struct StoragePatience {
    most: Duration,
    pub(super) outages: Outages,
    /// The requests that have failed, or hang, and are not given up.
    waiting: Mutex<usize>,
}

#[derive(Debug)]
struct PatientRequest<'a> {
    patience: &'a StoragePatience,
    begin: Instant,
    waits: bool,
    answered: bool,
}

impl StoragePatience {
    pub(super) fn new(target: String, most: Duration) -> StoragePatience {
        StoragePatience {
            most,
            outages: Outages::new(target),
            waiting: Mutex::default(),
        }
    }

    /// Makes attempts until one ends otherwise than with [`FaultKind::Passing`], or patience ends.
    pub(super) async fn keep_trying<T, F>(
        &self,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, StorageError>
    where
        F: Future<Output = Result<T, StorageError>>,
    {
        // Outside a tokio runtime there are no timers, and so no retries.
        if Handle::try_current().is_err() {
            return attempt().await;
        }
        let mut request = PatientRequest {
            patience: self,
            begin: Instant::now(),
            waits: false,
            answered: false,
        };
        let mut backoff = Backoff::default();
        loop {
            let error = match request.watch(attempt()).await {
                Err(error) if error.is(FaultKind::Passing) => error,
                done => {
                    request.answered = true;
                    return done;
                }
            };
            let pause = backoff.next_delay();
            if request.begin.elapsed() + pause > self.most {
                return Err(error);
            }
            request.note_waiting(&describe(&error));
            tokio::time::sleep(pause).await;
        }
    }
}

impl PatientRequest<'_> {
    /// The outcome of an attempt. One that takes long is reported.
    async fn watch<T>(&mut self, attempt: impl Future<Output = T>) -> T {
        let mut attempt = pin!(attempt);
        loop {
            match tokio::time::timeout(HANGS, attempt.as_mut()).await {
                Ok(done) => return done,
                Err(_) => self.note_waiting("it does not answer"),
            }
        }
    }

    fn note_waiting(&mut self, reason: &str) {
        let StoragePatience { most, outages, .. } = self.patience;
        if !self.waits {
            self.waits = true;
            *self.patience.waiting.lock() += 1;
        }
        outages.note(self.begin, self.begin + *most, reason);
    }
}

impl Drop for PatientRequest<'_> {
    fn drop(&mut self) {
        if self.waits {
            let mut waiting = self.patience.waiting.lock();
            *waiting -= 1;
            if *waiting == 0 {
                self.patience.outages.end(self.answered);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Key, Operation};
    use super::*;

    fn away() -> StorageError {
        let key = Key::new("work/a").unwrap();
        StorageError::new(FaultKind::Passing, Operation::Read, &key, "no answer")
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_end_with_patience() {
        for most in [40, 100, 1000, 180_000].map(Duration::from_millis) {
            let patience = StoragePatience::new("a store".to_owned(), most);
            let mut attempts = 0;
            let start = Instant::now();
            let tried = patience.keep_trying(|| {
                attempts += 1;
                async { Err::<(), _>(away()) }
            });
            assert!(tried.await.unwrap_err().is(FaultKind::Passing));
            let last_pause = most.min(Duration::from_secs(8));
            assert!(start.elapsed() <= most && start.elapsed() + last_pause >= most);
            assert_eq!(attempts > 1, most.as_millis() >= 100, "{most:?}");
            assert_eq!(patience.outages.current(), None);
        }
    }

    /// The outage is reported within five seconds, whether attempts fail or have no answer.
    #[tokio::test(start_paused = true)]
    async fn an_outage_is_reported_until_it_is_over() {
        for hangs in [false, true] {
            let patience = StoragePatience::new("a store".to_owned(), Duration::from_mins(1));
            let start = Instant::now();
            let over = Duration::from_secs(20);
            let tried = patience.keep_trying(|| async {
                if hangs {
                    tokio::time::sleep(over).await;
                } else if start.elapsed() < over {
                    return Err(away());
                }
                Ok(())
            });
            let watched = async {
                assert_eq!(patience.outages.current(), None);
                tokio::time::sleep(Duration::from_secs(5)).await;
                let reason = if hangs {
                    "it does not answer"
                } else {
                    "no answer"
                };
                let text = patience.outages.current().unwrap();
                assert!(
                    text.starts_with("waiting for a store") && text.contains(reason),
                    "{text}"
                );
            };
            let (tried, ()) = tokio::join!(tried, watched);
            tried.unwrap();
            assert_eq!(patience.outages.current(), None);
        }
    }
}
