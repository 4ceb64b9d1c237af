//! How long a server may give nothing, and what is said meanwhile.
//!
//! The tasks of a download share one [`Contact`], so that an outage is said once: what is wrong, for how long already,
//! and how long it is tried. When it is over, that is said too. An outage that the next try mends is not worth a line.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};

use crate::error::{DownloadError, Failure, Outage};

/// The first pause before a request is repeated, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(8));
/// How long requests fail before that is said.
const FAILING: Duration = Duration::from_secs(1);
/// How long an answer may keep everybody waiting before that is said.
const WAITING: Duration = Duration::from_secs(3);
/// The least time from one line about an outage to the next.
const LINE_EVERY: Duration = Duration::from_mins(1);
/// A server that sends fewer bytes a second gives nothing.
const BYTES_PER_SECOND: u128 = 1 << 10;
/// The part of the patience over which that is averaged: 10 s of five minutes.
const WINDOW: u32 = 30;
/// The part of that time which one pause counts at most: who sends enough may pause now and then.
const PAUSE: u32 = 4;

/// How long a server may give nothing, however often it is asked.
#[derive(Clone, Copy, Debug)]
pub struct ServerPatience {
    /// If it has never answered: its address may be wrong.
    pub first: Duration,
    /// If it has answered before: it may have to be started again.
    pub later: Duration,
}

/// When one server has answered, and how fast.
#[derive(Debug)]
pub(crate) struct Contact {
    /// The server's address, for messages.
    place: String,
    patience: ServerPatience,
    began: Instant,
    state: Mutex<ContactState>,
}

#[derive(Debug, Default)]
struct ContactState {
    /// Whether it has ever answered.
    answered: bool,
    pace: ReadPace,
    /// Since when it gives nothing; none if it gave something last.
    silent_since: Option<Instant>,
    /// Whether that was said.
    is_said: bool,
    /// When an outage was last said, this one or an earlier one.
    said: Option<Instant>,
}

/// How fast bytes come, to whichever requests.
#[derive(Debug, Default)]
struct ReadPace {
    /// The bytes that came since an answer began or the pace was last judged.
    bytes: u128,
    /// How long that took, with a part of each pause.
    taken: Duration,
    /// When something came last.
    last: Option<Instant>,
    /// When it was last fast enough.
    kept: Option<Instant>,
}

/// The tries of one request.
#[derive(Debug)]
pub(crate) struct Tries<'a> {
    contact: &'a Contact,
    since: Instant,
    pause: Duration,
    /// The last failure that says why.
    failure: Option<Outage>,
}

impl ServerPatience {
    /// Ten seconds for the first answer, five minutes for a later one.
    pub const USUAL: ServerPatience = ServerPatience {
        first: Duration::from_secs(10),
        later: Duration::from_mins(5),
    };

    /// Divides both times by `haste`: for tests, which wait for their end.
    pub fn hastened(self, haste: u32) -> ServerPatience {
        ServerPatience {
            first: self.first / haste,
            later: self.later / haste,
        }
    }
}

impl Contact {
    pub(crate) fn new(place: String, patience: ServerPatience) -> Contact {
        Contact {
            place,
            patience,
            began: Instant::now(),
            state: Mutex::default(),
        }
    }

    /// The tries of a request that is about to be made.
    pub(crate) fn tries(&self) -> Tries<'_> {
        Tries {
            contact: self,
            since: Instant::now(),
            pause: PAUSES.0,
            failure: None,
        }
    }

    /// An answer began.
    pub(crate) fn answered(&self) {
        let mut state = self.state();
        state.answered = true;
        state.pace.restart();
    }

    /// Counts the next bytes of an answer; none at its end. Fails if too few have come for a while.
    pub(crate) fn came(&self, bytes: Option<usize>) -> Result<(), Outage> {
        let mut state = self.state();
        let judge = |bytes| state.pace.judge(bytes, self.patience.later / WINDOW);
        match bytes.map_or(Some(true), judge) {
            Some(true) => {}
            Some(false) => return Err(Outage::Slow),
            None => return Ok(()),
        }
        let since = state.silent_since.take();
        if std::mem::take(&mut state.is_said)
            && let Some(since) = since
        {
            let seconds = since.elapsed().as_secs();
            tracing::warn!("{} answers again, after {seconds} s", self.place);
        }
        Ok(())
    }

    /// Waits for `work`, and says so if that takes long. Ends when the patience does.
    pub(crate) async fn heed<T>(
        &self,
        work: impl Future<Output = Result<T, Outage>>,
    ) -> Result<T, Outage> {
        let since = Instant::now();
        let until = self.until(since);
        let mut work = std::pin::pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = sleep_until(until.min(since + WAITING)) => {}
        }
        self.silent(since, &Outage::Silent, until);
        let done = timeout_at(until, work).await;
        done.unwrap_or(Err(Outage::Silent))
    }

    /// Until when a request is tried that has had nothing since `since`.
    fn until(&self, since: Instant) -> Instant {
        if self.state().answered {
            since + self.patience.later
        } else {
            self.began + self.patience.first
        }
    }

    /// Nothing has come since `since`, for this reason; it is tried until `until`.
    fn silent(&self, since: Instant, outage: &Outage, until: Instant) {
        let now = Instant::now();
        let mut state = self.state();
        let since = *state.silent_since.get_or_insert(since);
        let is_due = |said: Instant| now.duration_since(said) >= LINE_EVERY;
        let gone = now.duration_since(since);
        if gone < FAILING || now >= until || !state.said.is_none_or(is_due) {
            return;
        }
        state.said = Some(now);
        state.is_said = true;
        let (gone, left) = (gone.as_secs(), until.duration_since(now).as_secs() + 1);
        let place = &self.place;
        tracing::warn!("nothing from {place} for {gone} s: {outage}; trying for {left} s more");
    }

    fn state(&self) -> MutexGuard<'_, ContactState> {
        // Nothing in it panics between two changes.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReadPace {
    fn restart(&mut self) {
        (self.bytes, self.taken) = (0, Duration::ZERO);
        self.last = Some(Instant::now());
    }

    /// Whether the pace is fast enough with `bytes` more; none if not known yet. It is known after a `window`, or as
    /// soon as there are enough bytes for it.
    fn judge(&mut self, bytes: usize, window: Duration) -> Option<bool> {
        let now = Instant::now();
        let last = self.last.replace(now).unwrap_or(now);
        self.taken += (now - last).min(window / PAUSE);
        self.bytes += bytes as u128;
        let due = BYTES_PER_SECOND * self.taken.max(window).as_millis();
        let is_enough = self.bytes * 1000 >= due;
        if !is_enough && self.taken < window {
            return None;
        }
        self.restart();
        if is_enough {
            self.kept = Some(now);
        }
        Some(is_enough)
    }
}

impl Tries<'_> {
    /// The request has got further, which counts if it was fast enough.
    pub(crate) fn renew(&mut self) {
        if self.contact.state().pace.kept > Some(self.since) {
            self.since = Instant::now();
            self.pause = PAUSES.0;
        }
    }

    /// Waits before a request is repeated, or gives up.
    pub(crate) async fn wait(&mut self, failure: Failure) -> Result<(), DownloadError> {
        let until = self.contact.until(self.since);
        let outage = match failure {
            Failure::Final(error) => return Err(error),
            // The last try may have had no time to fail.
            Failure::Outage(Outage::Silent) => self.failure.take().unwrap_or(Outage::Silent),
            Failure::Outage(outage) => outage,
        };
        if Instant::now() >= until {
            return Err(DownloadError::Unreachable {
                url: self.contact.place.clone(),
                source: outage,
            });
        }
        self.contact.silent(self.since, &outage, until);
        self.failure = Some(outage);
        // Between a half and all of the pause: of many that failed together, few ask together.
        let chance = RandomState::new().hash_one(&self.contact.place) % 512;
        let part = 0.5 + f64::from(u16::try_from(chance).unwrap_or(0)) / 1024.0;
        let pause = Instant::now() + self.pause.mul_f64(part);
        sleep_until(pause.min(until)).await;
        self.pause = (self.pause * 2).min(PAUSES.1);
        Ok(())
    }
}
