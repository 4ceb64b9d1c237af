//! How long a silent server is asked again.
//!
//! The requests of a download share one [`Contact`], so that an outage is reported once.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chomp_store::retry::{Backoff, Outages};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::error::{DownloadError, Outage};

const REPORT_AFTER: Duration = Duration::from_secs(3);

/// How long a server may be silent, however often it is asked.
#[derive(Clone, Copy, Debug)]
pub struct ServerPatience {
    /// For a server that has never answered: its address may be wrong.
    pub first: Duration,
    /// For a server that has answered before: it may be restarting.
    pub later: Duration,
}

#[derive(Debug)]
pub(crate) struct Contact {
    outages: Outages,
    patience: ServerPatience,
    began: Instant,
    answered: AtomicBool,
}

#[derive(Debug)]
pub(crate) struct RetryWindow<'a> {
    contact: &'a Contact,
    since: Instant,
    backoff: Backoff,
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

    /// Notes that an answer began, or that more of it came.
    pub(crate) fn note_received(&self) {
        self.answered.store(true, Ordering::Relaxed);
        self.outages.end(true);
    }

    pub(crate) fn outage(&self, source: Outage) -> DownloadError {
        let url = self.outages.target().to_owned();
        DownloadError::Unreachable { url, source }
    }

    pub(crate) fn retry_window(&self) -> RetryWindow<'_> {
        RetryWindow {
            contact: self,
            since: Instant::now(),
            backoff: Backoff::default(),
        }
    }

    /// Repeats a request until it succeeds, or no other attempt would help.
    pub(crate) async fn retry<T, F>(&self, request: impl Fn() -> F) -> Result<T, DownloadError>
    where
        F: Future<Output = Result<T, DownloadError>>,
    {
        let mut attempts = self.retry_window();
        loop {
            match request().await {
                Ok(done) => return Ok(done),
                Err(error) => attempts.wait(error).await?,
            }
        }
    }

    /// Waits for the server, and reports if that takes long. Ends when the patience does.
    pub(crate) async fn heed<T>(&self, work: impl Future<Output = T>) -> Result<T, DownloadError> {
        let since = Instant::now();
        let until = self.until(since);
        let mut work = pin!(work);
        let soon = until.min(since + REPORT_AFTER);
        if let Ok(done) = timeout_at(soon, work.as_mut()).await {
            return Ok(done);
        }
        self.note(since, &Outage::Silent);
        let done = timeout_at(until, work).await;
        done.map_err(|_| self.outage(Outage::Silent))
    }

    fn until(&self, since: Instant) -> Instant {
        if self.answered.load(Ordering::Relaxed) {
            since + self.patience.later
        } else {
            self.began + self.patience.first
        }
    }

    fn note(&self, since: Instant, outage: &Outage) {
        let until = self.until(since);
        self.outages.note(since, until, &outage.to_string());
    }
}

impl RetryWindow<'_> {
    /// Waits before a request is repeated. Fails with `error` if it is no outage, or when patience ends.
    pub(crate) async fn wait(&mut self, error: DownloadError) -> Result<(), DownloadError> {
        let DownloadError::Unreachable { source, .. } = &error else {
            return Err(error);
        };
        self.contact.note(self.since, source);
        let until = self.contact.until(self.since);
        let pause = Instant::now() + self.backoff.next_delay();
        sleep_until(pause.min(until)).await;
        if pause < until { Ok(()) } else { Err(error) }
    }
}
