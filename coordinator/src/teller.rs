//! The teller: makes the status of the job. That takes time in proportion to the workers, so the teller makes a status
//! when somebody asks for it, and a new one every half second for those that follow the job. What the job waits for, the
//! teller writes into the log too.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use chomp_plan::{JobProgress, Phase};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use crate::job::Handle;
use crate::roster::Roster;
use crate::status::{JobInfo, Status};

/// How often the status is made anew while somebody listens.
pub(crate) const EVERY: Duration = Duration::from_millis(500);
/// How often the status is made while nobody listens: the job's pace is measured when a status is made.
const UNHEARD_EVERY: Duration = Duration::from_secs(5);

/// The time after which a job that waits is worth a line in the log.
const WAITS: Duration = Duration::from_secs(3);
/// The least time between two such lines.
const TELL_EVERY: Duration = Duration::from_mins(1);

/// The wait of the job, and its line in the log.
#[derive(Debug, Default)]
struct Waits {
    since: Option<Instant>,
    told: Option<(Instant, String)>,
}

impl Waits {
    /// Notes what the job waits for, if it does. It returns whether that is to be told.
    fn note(&mut self, now: Instant, what: Option<&str>) -> bool {
        let Some(what) = what else {
            self.since = None;
            return false;
        };
        let since = *self.since.get_or_insert(now);
        let is_new = self
            .told
            .as_ref()
            .is_none_or(|(at, told)| now - *at >= TELL_EVERY && (told != what || *at < since));
        let tells = is_new && now - since >= WAITS;
        if tells {
            self.told = Some((now, what.to_owned()));
        }
        tells
    }
}

/// Makes the status of a job.
#[derive(Debug)]
pub(crate) struct Teller {
    /// The job whose status it is; none in tests.
    job: Option<(JobInfo, Handle, Roster)>,
    /// When the status was made last, and what was told of waiting.
    made: Mutex<(Option<Instant>, Waits)>,
    status: watch::Sender<Arc<Status>>,
    /// The text of the latest status that has one: all readers share it.
    text: std::sync::Mutex<Option<(Arc<Status>, chomp_serve::StatusText)>>,
}

impl Teller {
    pub(crate) fn new(told: JobInfo, handle: Handle, roster: Roster) -> Teller {
        Teller {
            job: Some((told, handle, roster)),
            made: Mutex::default(),
            status: watch::Sender::default(),
            text: std::sync::Mutex::default(),
        }
    }

    /// The latest status, and each later one.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<Status>> {
        self.status.subscribe()
    }

    /// The status, at most half a second old.
    pub(crate) async fn look(&self) -> Arc<Status> {
        self.make(EVERY).await;
        self.status.borrow().clone()
    }

    /// [`Teller::look`] as text.
    pub(crate) async fn look_at_text(&self) -> chomp_serve::StatusText {
        let status = self.look().await;
        self.text_of(status)
    }

    fn text_of(&self, status: Arc<Status>) -> chomp_serve::StatusText {
        // The text is put in whole, even if a thread panicked.
        let mut text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        match &*text {
            Some((of, told)) if Arc::ptr_eq(of, &status) => told.clone(),
            _ => {
                let told = chomp_serve::StatusText::new(&*status);
                *text = Some((status, told.clone()));
                told
            }
        }
    }

    /// Makes the status anew if it is as old as `age`. It returns whether there still is a job.
    pub(crate) async fn make(&self, age: Duration) -> bool {
        let mut made = self.made.lock().await;
        let now = Instant::now();
        if made.0.is_some_and(|made| now - made < age) {
            return true;
        }
        let Some((told, handle, roster)) = &self.job else {
            return false;
        };
        let Ok(snapshot) = handle.inspect().await else {
            return false;
        };
        let waits = snapshot.waits_for.as_deref();
        let waits = waits.filter(|_| snapshot.phase == Phase::Running && !snapshot.is_store_away);
        if made.1.note(now, waits) {
            tracing::warn!("the job waits: {}", waits.unwrap_or_default());
        }
        self.status
            .send_replace(Arc::new(Status::of(told, snapshot, roster)));
        made.0 = Some(now);
        true
    }

    /// Sends each new status as a text for as long as the job runs, and the end of the job at once. `text` has as many
    /// receivers now as it has when nobody listens.
    pub(crate) async fn follow(
        self: Arc<Self>,
        mut progress: watch::Receiver<JobProgress>,
        text: watch::Sender<chomp_serve::StatusText>,
    ) {
        let unheard = text.receiver_count();
        let (mut ended, mut told) = (false, None);
        loop {
            let heard = text.receiver_count() > unheard || self.status.receiver_count() > 0;
            let now = Instant::now();
            let age = told.map(|told| now - told);
            if ended || heard || age.is_none_or(|age| age >= UNHEARD_EVERY) {
                let age = if ended { Duration::ZERO } else { EVERY };
                if !self.make(age).await {
                    // A job that is gone is found to be gone when it is asked.
                    return;
                }
                let status = self.status.borrow().clone();
                text.send_replace(self.text_of(status));
                told = Some(now);
            }
            let ends = progress.wait_for(|progress| progress.phase != Phase::Running);
            tokio::select! {
                () = tokio::time::sleep(EVERY) => ended = false,
                ends = ends, if !ended => ended = ends.is_ok(),
            }
        }
    }
}

#[cfg(test)]
impl Teller {
    /// One that tells nothing but this.
    pub(crate) fn fixed(status: Status) -> Teller {
        Teller {
            job: None,
            made: Mutex::default(),
            status: watch::Sender::new(Arc::new(status)),
            text: std::sync::Mutex::default(),
        }
    }

    /// Tells something else from now on.
    pub(crate) fn set(&self, status: Status) {
        self.status.send_replace(Arc::new(status));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_waits_is_told_once_and_seldom_again() {
        let start = Instant::now();
        let mut waits = Waits::default();
        for (second, what, told) in [
            (0, Some("a"), false),
            (2, Some("b"), false),
            (3, Some("b"), true),
            (30, Some("c"), false),
            (62, Some("c"), false),
            (63, Some("c"), true),
            (200, Some("c"), false),
            (201, None, false),
            (202, Some("c"), false),
            (204, Some("c"), false),
            (205, Some("c"), true),
        ] {
            let now = start + Duration::from_secs(second);
            assert_eq!(waits.note(now, what), told, "{second}");
        }
    }

    #[tokio::test]
    async fn another_status_is_another_text() {
        let teller = Teller::fixed(Status::default());
        let first = teller.look_at_text().await;
        let layers = 7;
        teller.set(Status {
            layers,
            ..Status::default()
        });
        let second = teller.look_at_text().await;
        assert_ne!(format!("{first:?}"), format!("{second:?}"));
    }
}
