//! What is found out of a table once, when somebody asks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use crate::lookups::spawn_blocking;
use crate::refusal::Refusal;

/// What is found out, by one thread for all who ask.
#[derive(Debug)]
pub(crate) struct Once<T> {
    finding: Arc<watch::Sender<Finding<T>>>,
}

#[derive(Debug)]
enum Finding<T> {
    /// Nobody asked yet, or nothing came of it.
    Idle,
    UnderWay,
    /// Why it failed, and whether somebody was told.
    Failed(Refusal, AtomicBool),
    Known(T),
}

impl<T: Clone + Send + Sync + 'static> Once<T> {
    pub(crate) fn new() -> Once<T> {
        Once {
            finding: Arc::new(watch::Sender::new(Finding::Idle)),
        }
    }

    /// What was found; none if it takes longer than the `patience`. The first who asks has the `work` begun, and so has
    /// the first after it failed and somebody was told. All others wait for the same.
    pub(crate) async fn ask(
        &self,
        patience: Duration,
        work: impl FnOnce() -> Result<Option<T>, Refusal> + Send + 'static,
    ) -> Result<Option<T>, Refusal> {
        let mut finding = self.finding.subscribe();
        self.begin(work);
        let is_over =
            |finding: &Finding<T>| matches!(finding, Finding::Failed(..) | Finding::Known(_));
        let over = tokio::time::timeout(patience, finding.wait_for(is_over));
        let Ok(Ok(found)) = over.await else {
            return Ok(None);
        };
        match &*found {
            Finding::Known(known) => Ok(Some(known.clone())),
            Finding::Failed(refusal, is_told) => {
                is_told.store(true, Ordering::Release);
                Err(refusal.clone())
            }
            Finding::Idle | Finding::UnderWay => unreachable!("it was waited for"),
        }
    }

    /// Begins the work, on a thread that may wait for the disk, unless it is under way or done.
    fn begin(&self, work: impl FnOnce() -> Result<Option<T>, Refusal> + Send + 'static) {
        let begins = self.finding.send_if_modified(|finding| {
            let begins = match finding {
                Finding::Idle => true,
                Finding::Failed(_, is_told) => *is_told.get_mut(),
                Finding::UnderWay | Finding::Known(_) => false,
            };
            if begins {
                *finding = Finding::UnderWay;
            }
            begins
        });
        if !begins {
            return;
        }
        let finding = Arc::clone(&self.finding);
        spawn_blocking(Box::new(move || {
            // After a panic the next who asks has it begun again.
            let found = catch_unwind(AssertUnwindSafe(work)).unwrap_or(Ok(None));
            finding.send_replace(match found {
                Ok(Some(known)) => Finding::Known(known),
                Ok(None) => Finding::Idle,
                Err(refusal) => Finding::Failed(refusal, AtomicBool::new(false)),
            });
        }));
    }
}
