//! Waits for what passes: for all requests to one storage together, and says so.

use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chomp_table::format::describe;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::{FaultKind, StorageError};

/// The first pause before something is tried again, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(8));
/// The time without an answer after which a request counts as waiting.
const HANGS: Duration = Duration::from_secs(3);
/// Shorter outages are not reported.
const UNSAID: Duration = Duration::from_secs(1);
/// The least time between the beginnings of two outages that are told.
const SAY_EVERY: Duration = Duration::from_mins(1);

/// How long a storage is waited for, and whether it is at present.
#[derive(Debug)]
pub(super) struct StoragePatience {
    /// The storage, for people.
    place: String,
    most: Duration,
    state: Mutex<PatienceState>,
}

#[derive(Debug, Default)]
struct PatienceState {
    /// The requests that have failed, or hang, and are not given up.
    waiting: usize,
    /// Since when there is one.
    since: Option<Instant>,
    /// The last failure, for people.
    what: String,
    /// Whether people were told of this outage, and when they were told of one last.
    told: bool,
    told_at: Option<Instant>,
}

/// A request that may have to be waited for.
#[derive(Debug)]
struct PatientRequest<'a> {
    patience: &'a StoragePatience,
    begin: Instant,
    waits: bool,
    succeeded: bool,
}

impl StoragePatience {
    /// Waits for the storage `place` for as long as `most`.
    pub(super) fn new(place: String, most: Duration) -> StoragePatience {
        StoragePatience {
            place,
            most,
            state: Mutex::default(),
        }
    }

    /// A text for people if requests have waited for the storage for [`UNSAID`] or longer.
    pub(super) fn waits_for(&self) -> Option<String> {
        let state = self.state();
        let elapsed = state.since?.elapsed();
        (elapsed >= UNSAID).then(|| {
            let (place, seconds, what) = (&self.place, elapsed.as_secs(), &state.what);
            format!("waiting for {place} for {seconds} s: {what}")
        })
    }

    /// Makes attempts until one ends otherwise than with [`FaultKind::Passing`], or patience ends.
    pub(super) async fn keep_trying<T, F>(
        &self,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, StorageError>
    where
        F: Future<Output = Result<T, StorageError>>,
    {
        let mut request = PatientRequest {
            patience: self,
            begin: Instant::now(),
            waits: false,
            succeeded: false,
        };
        let mut pause = PAUSES.0;
        loop {
            let error = match request.watch(attempt()).await {
                Err(error) if error.is(FaultKind::Passing) => error,
                done => {
                    request.succeeded = true;
                    return done;
                }
            };
            let has_clock = Handle::try_current().is_ok();
            if !has_clock || request.begin.elapsed() + pause > self.most {
                return Err(error);
            }
            request.wait(&describe(&error));
            // Between a half and all of the pause: of many that failed together, few ask together.
            let random = RandomState::new().hash_one(0) % 512;
            let random = f64::from(u16::try_from(random).unwrap_or(0)) / 1024.0;
            tokio::time::sleep(pause.mul_f64(0.5 + random)).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    fn state(&self) -> MutexGuard<'_, PatienceState> {
        // Whole at any time.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PatientRequest<'_> {
    /// The outcome of an attempt. One that takes long is told.
    async fn watch<T>(&mut self, attempt: impl Future<Output = T>) -> T {
        let mut attempt = pin!(attempt);
        if Handle::try_current().is_err() {
            return attempt.await;
        }
        // A process that stood still finds all times over: then the answer comes in the moment after that.
        for hangs in [HANGS, HANGS / 6] {
            if let Ok(done) = tokio::time::timeout(hangs, attempt.as_mut()).await {
                return done;
            }
        }
        loop {
            self.wait("it does not answer");
            if let Ok(done) = tokio::time::timeout(SAY_EVERY, attempt.as_mut()).await {
                return done;
            }
        }
    }

    /// Notes that this request waits, and tells people.
    fn wait(&mut self, what: &str) {
        let mut state = self.patience.state();
        if !self.waits {
            self.waits = true;
            state.waiting += 1;
        }
        let now = Instant::now();
        let since = *state.since.get_or_insert(self.begin);
        what.clone_into(&mut state.what);
        let is_long = now - since >= UNSAID;
        let is_quiet = state.told_at.is_none_or(|at| now - at >= SAY_EVERY);
        if is_long && is_quiet {
            (state.told, state.told_at) = (true, Some(now));
            let StoragePatience { place, most, .. } = self.patience;
            let minutes = most.as_secs().div_ceil(60);
            drop(state);
            tracing::warn!("waiting for {place}, for {minutes} min at the most: {what}");
        }
    }
}

impl Drop for PatientRequest<'_> {
    fn drop(&mut self) {
        if !self.waits {
            return;
        }
        let mut state = self.patience.state();
        state.waiting -= 1;
        if state.waiting > 0 {
            return;
        }
        let since = state.since.take();
        if std::mem::take(&mut state.told)
            && let Some(since) = since
            && self.succeeded
        {
            let seconds = since.elapsed().as_secs();
            drop(state);
            tracing::warn!(
                "the wait for {} is over, after {seconds} s",
                self.patience.place
            );
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
    async fn pauses_grow_and_differ_until_patience_ends() {
        let mut lengths = Vec::new();
        for most in [99, 100, 1000, 180_000].map(Duration::from_millis) {
            let patience = StoragePatience::new("a store".to_owned(), most);
            let mut attempts = Vec::new();
            let start = Instant::now();
            let tried = patience.keep_trying(|| {
                attempts.push(start.elapsed());
                async { Err::<(), _>(away()) }
            });
            assert!(tried.await.unwrap_err().is(FaultKind::Passing));
            let mut longest = PAUSES.0;
            for pair in attempts.windows(2) {
                assert!(pair[0] + longest <= most, "{attempts:?}");
                let percent =
                    pair[1].saturating_sub(pair[0]).as_millis() * 100 / longest.as_millis();
                assert!((49..=101).contains(&percent), "{percent} % of {longest:?}");
                lengths.push(percent);
                longest = PAUSES.1.min(longest * 2);
            }
            assert!(*attempts.last().unwrap() + longest > most, "{attempts:?}");
        }
        assert!(lengths.len() > 20 && lengths.iter().any(|&percent| percent != lengths[0]));
    }

    /// Shorter than people care for.
    #[tokio::test(start_paused = true)]
    async fn a_hiccup_is_not_told() {
        let patience = StoragePatience::new("a store".to_owned(), Duration::from_mins(1));
        let start = Instant::now();
        let mut attempts = 0;
        let tried = patience.keep_trying(|| {
            attempts += 1;
            let is_over = start.elapsed() >= UNSAID / 3;
            async move { if is_over { Ok(()) } else { Err(away()) } }
        });
        let watched = async {
            tokio::time::sleep(UNSAID / 4).await;
            assert!(patience.state().since.is_some());
            assert_eq!(patience.waits_for(), None);
        };
        let (tried, ()) = tokio::join!(tried, watched);
        tried.unwrap();
        assert!(attempts > 1 && patience.state().told_at.is_none());
    }

    /// People hear what is waited for within five seconds, whether attempts fail or have no answer.
    #[tokio::test(start_paused = true)]
    async fn what_is_waited_for_is_told_and_then_no_more() {
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
                assert_eq!(patience.waits_for(), None);
                tokio::time::sleep(Duration::from_secs(5)).await;
                let told = patience.waits_for().unwrap();
                let why = if hangs {
                    "it does not answer"
                } else {
                    "no answer"
                };
                assert!(
                    told.starts_with("waiting for a store") && told.contains(why),
                    "{told}"
                );
                assert!(patience.state().told);
            };
            let (tried, ()) = tokio::join!(tried, watched);
            tried.unwrap();
            assert_eq!(patience.waits_for(), None);
            assert!(!patience.state().told);
        }
    }
}
