//! Results that are computed from a table once, on the first request.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::answer::Refusal;
use crate::question_threads::spawn_blocking;

/// The result of work that is done once, on one thread for all requests.
type Found<T> = watch::Receiver<Option<Result<T, Refusal>>>;

/// A result that the first request starts to compute. None before the first request, and after a failure.
#[derive(Debug, Default)]
pub(crate) struct Once<T>(Mutex<Option<Found<T>>>);

impl<T: Clone + Send + Sync + 'static> Once<T> {
    /// The result; none if it takes longer than the `limit`. The first request starts the `work`, on a thread that
    /// may block on the disk. After a failure was returned, the next request starts it again.
    pub(crate) async fn ask(
        &self,
        limit: Duration,
        work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
    ) -> Result<Option<T>, Refusal> {
        let start = || {
            let (sender, found) = watch::channel(None);
            spawn_blocking(Box::new(move || drop(sender.send_replace(Some(work())))));
            found
        };
        let mut found = self.0.lock().get_or_insert_with(start).clone();
        let result = match timeout(limit, found.wait_for(Option::is_some)).await {
            Err(_) => return Ok(None),
            Ok(Ok(result)) => result.clone().expect("it was waited for"),
            // The work panicked, as the log says.
            Ok(Err(_)) => Err(Refusal::Lost),
        };
        if result.is_err() {
            let is_this = |begun: &mut Found<T>| begun.same_channel(&found);
            self.0.lock().take_if(is_this);
        }
        result.map(Some)
    }
}
