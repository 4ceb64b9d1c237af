//! How long a server is asked that gives nothing.
//!
//! The requests of a download share one [`Contact`], so that an outage is reported once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chomp_store::retry::{Backoff, Outages};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::error::{DownloadError, Failure, Outage};

/// How long an answer may keep everybody waiting before that is reported.
const REPORT_AFTER: Duration = Duration::from_secs(3);

/// How long a server may give nothing, however often it is asked.
#[derive(Clone, Copy, Debug)]
pub struct ServerPatience {
    /// If it has never answered: its address may be wrong.
    pub first: Duration,
    /// If it has answered before: it may have to be started again.
    pub later: Duration,
}

/// Whether one server has answered, and whether it does.
#[derive(Debug)]
pub(crate) struct Contact {
    outages: Outages,
    patience: ServerPatience,
    began: Instant,
    /// Whether it has ever answered.
    answered: AtomicBool,
}

/// The tries of one request.
#[derive(Debug)]
pub(crate) struct Tries<'a> {
    contact: &'a Contact,
    since: Instant,
    backoff: Backoff,
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
            outages: Outages::new(place),
            patience,
            began: Instant::now(),
            answered: AtomicBool::new(false),
        }
    }

    /// The tries of a request that is about to be made.
    pub(crate) fn tries(&self) -> Tries<'_> {
        Tries {
            contact: self,
            since: Instant::now(),
            backoff: Backoff::default(),
            failure: None,
        }
    }

    /// An answer began.
    pub(crate) fn answered(&self) {
        self.answered.store(true, Ordering::Relaxed);
    }

    /// Bytes of an answer came, or its end.
    pub(crate) fn received(&self) {
        self.outages.end(true);
    }

    /// Waits for `work`, and reports if that takes long. Ends when the patience does.
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
            () = sleep_until(until.min(since + REPORT_AFTER)) => {}
        }
        self.note(since, until, &Outage::Silent);
        let done = timeout_at(until, work).await;
        done.unwrap_or(Err(Outage::Silent))
    }

    /// Until when a request is tried that has had nothing since `since`.
    fn until(&self, since: Instant) -> Instant {
        if self.answered.load(Ordering::Relaxed) {
            since + self.patience.later
        } else {
            self.began + self.patience.first
        }
    }

    fn note(&self, since: Instant, until: Instant, outage: &Outage) {
        self.outages.note(since, until, &outage.to_string());
    }
}

impl Tries<'_> {
    /// The request has got further.
    pub(crate) fn renew(&mut self) {
        *self = self.contact.tries();
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
                url: self.contact.outages.place().to_owned(),
                source: outage,
            });
        }
        self.contact.note(self.since, until, &outage);
        self.failure = Some(outage);
        let pause = Instant::now() + self.backoff.pause();
        sleep_until(pause.min(until)).await;
        Ok(())
    }
}
