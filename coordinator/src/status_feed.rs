//! The status of the job for all who want it. To make it takes time in proportion to the workers, so it is made when
//! somebody asks for it, and every half second for those that follow the job.

use std::sync::Arc;
use std::time::Duration;

use chomp_plan::{JobProgress, Phase};
use chomp_serve::StatusText;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use crate::job::Handle;
use crate::status::Status;

/// How often the status is made anew while somebody listens.
pub(crate) const EVERY: Duration = Duration::from_millis(500);
/// How often the status is made while nobody listens: the job's pace is measured when a status is made.
const UNHEARD_EVERY: Duration = Duration::from_secs(5);

/// The latest status of a job, made anew when it is asked for.
#[derive(Debug)]
pub(crate) struct StatusFeed {
    job: Handle,
    /// When the status was made last.
    made: Mutex<Option<Instant>>,
    status: watch::Sender<Arc<Status>>,
    /// The text of the latest status that has one: all readers share it.
    text: parking_lot::Mutex<Option<(Arc<Status>, StatusText)>>,
}

impl StatusFeed {
    pub(crate) fn new(job: Handle) -> StatusFeed {
        StatusFeed {
            job,
            made: Mutex::default(),
            status: watch::Sender::default(),
            text: parking_lot::Mutex::default(),
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

    /// [`StatusFeed::look`] as text.
    pub(crate) async fn look_at_text(&self) -> StatusText {
        let status = self.look().await;
        self.text_of(status)
    }

    fn text_of(&self, status: Arc<Status>) -> StatusText {
        // The text is put in whole, even if a thread panicked.
        let mut text = self.text.lock();
        match &*text {
            Some((of, told)) if Arc::ptr_eq(of, &status) => told.clone(),
            _ => {
                let told = StatusText::new(&*status);
                *text = Some((status, told.clone()));
                told
            }
        }
    }

    /// Makes the status anew if it is as old as `age`. It returns whether there still is a job.
    pub(crate) async fn make(&self, age: Duration) -> bool {
        let mut made = self.made.lock().await;
        let now = Instant::now();
        if made.is_some_and(|made| now - made < age) {
            return true;
        }
        let Ok(status) = self.job.status().await else {
            return false;
        };
        self.status.send_replace(Arc::new(status));
        *made = Some(now);
        true
    }

    /// Sends each new status as a text for as long as the job runs, and the end of the job at once. `text` has as many
    /// receivers now as it has when nobody listens.
    pub(crate) async fn follow(
        self: Arc<Self>,
        mut progress: watch::Receiver<JobProgress>,
        text: watch::Sender<StatusText>,
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
mod testing {
    use super::*;

    impl StatusFeed {
        /// One that tells nothing but this.
        pub(crate) fn fixed(status: Status) -> StatusFeed {
            let (_, of_no_job, _) = crate::job::tests::job();
            let feed = StatusFeed::new(of_no_job);
            feed.set(status);
            feed
        }

        /// Tells something else from now on.
        pub(crate) fn set(&self, status: Status) {
            self.status.send_replace(Arc::new(status));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn another_status_is_another_text() {
        let feed = StatusFeed::fixed(Status::default());
        let first = feed.look_at_text().await;
        let layers = 7;
        feed.set(Status {
            layers,
            ..Status::default()
        });
        let second = feed.look_at_text().await;
        assert_ne!(format!("{first:?}"), format!("{second:?}"));
    }
}
