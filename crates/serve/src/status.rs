//! `/api/status`: the progress of a job, once or as a stream of events.
//!
//! Each status is serialized once for all subscribers. A subscriber gets the newest status when its peer has read the
//! previous one: a slow reader skips statuses, and one that does not read is dropped with its connection.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use http::header::{ACCEPT, VARY};
use http::request::Parts;
use http::{Method, StatusCode};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::answer::{JSON, Refusal, text};
use crate::net::Stopping;
use crate::net::limits::SUBSCRIBERS_MAX;

/// The least time between two events.
const EVENT_EVERY: Duration = Duration::from_millis(500);
/// The longest time without a byte: peers and proxies close connections that seem dead.
const SIGN_EVERY: Duration = Duration::from_secs(15);

/// The bytes before the JSON of an event; [`AFTER`] follows it. All subscribers share the bytes of an event, while axum
/// would build its own events for each subscriber.
const BEFORE: &str = "event: status\ndata: ";
const AFTER: &str = "\n\n";
/// A comment in the stream, which clients ignore.
const SIGN: &[u8] = b": still here\n\n";

const EVENTS: &str = "text/event-stream";

/// A status as JSON, ready to be sent as an event. The default is empty: there is no status yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusText(Bytes);

impl StatusText {
    /// Serializes `status`. Panics if it cannot be JSON, such as a map whose keys are not strings.
    pub fn new(status: &impl Serialize) -> StatusText {
        let mut event = BEFORE.as_bytes().to_vec();
        serde_json::to_writer(&mut event, status).expect("texts, numbers and lists become JSON");
        event.extend(AFTER.as_bytes());
        StatusText(event.into())
    }

    /// The JSON, with the end of its line. All callers share the bytes.
    pub fn json(&self) -> Bytes {
        self.0.slice(BEFORE.len()..self.0.len() - 1)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct StatusPage {
    newest: watch::Receiver<StatusText>,
    subscribers: Arc<Semaphore>,
}

impl StatusPage {
    pub(crate) fn new(newest: watch::Receiver<StatusText>) -> StatusPage {
        StatusPage {
            newest,
            subscribers: Arc::new(Semaphore::new(SUBSCRIBERS_MAX)),
        }
    }

    pub(crate) fn answer(&self, request: &Parts) -> Response {
        let answer = if wants_events(request) {
            self.events(request)
        } else {
            self.once()
        };
        ([(VARY, "accept")], answer).into_response()
    }

    fn once(&self) -> Result<Response, Refusal> {
        let newest = self.newest.borrow().clone();
        if newest.0.is_empty() {
            let soon = "there is nothing to tell yet: try again soon";
            return Err(Refusal::NotNow(soon, 1));
        }
        Ok(text(StatusCode::OK, JSON, newest.json()))
    }

    fn events(&self, request: &Parts) -> Result<Response, Refusal> {
        let body = if request.method == Method::HEAD {
            Body::empty()
        } else {
            let full = "too many listen: ask without text/event-stream, or try again later";
            let slot = Arc::clone(&self.subscribers).try_acquire_owned();
            let slot = slot.map_err(|_| Refusal::NotNow(full, 10))?;
            let stop = request.extensions.get::<Stopping>();
            let stop = stop.map_or_else(CancellationToken::new, |Stopping(stop)| stop.clone());
            let subscriber = Subscriber {
                newest: self.newest.clone(),
                stop,
                last: StatusText::default(),
                next_at: Instant::now(),
                goes_on: true,
                _slot: slot,
            };
            Body::from_stream(stream::unfold(subscriber, async |mut subscriber| {
                let event = subscriber.next().await?;
                Some((Ok::<_, Infallible>(event), subscriber))
            }))
        };
        // Proxies that buffer whole answers would never forward a stream without an end.
        let at_once = [("x-accel-buffering", "no")];
        Ok((at_once, text(StatusCode::OK, EVENTS, body)).into_response())
    }
}

fn wants_events(request: &Parts) -> bool {
    let mut accepted = request.headers.get_all(ACCEPT).iter();
    accepted.any(|value| value.to_str().is_ok_and(|value| value.contains(EVENTS)))
}

/// A client of the event stream. Dropping it frees its slot.
#[derive(Debug)]
struct Subscriber {
    newest: watch::Receiver<StatusText>,
    stop: CancellationToken,
    last: StatusText,
    next_at: Instant,
    goes_on: bool,
    _slot: OwnedSemaphorePermit,
}

impl Subscriber {
    /// The newest status or a comment. None after the last status, when the server stops or the sender is gone.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            tokio::select! {
                () = sleep_until(self.next_at) => {}
                () = self.stop.cancelled() => self.goes_on = false,
            }
            let status = self.newest.borrow_and_update().clone();
            if status != self.last {
                self.next_at = Instant::now() + EVENT_EVERY;
                self.last = status.clone();
                return Some(status.0);
            }
            if !self.goes_on {
                return None;
            }
            tokio::select! {
                changed = self.newest.changed() => self.goes_on = changed.is_ok(),
                () = self.stop.cancelled() => self.goes_on = false,
                () = sleep(SIGN_EVERY) => return Some(Bytes::from_static(SIGN)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A slow reader gets one event, whose bytes all subscribers share, and then the newest event.
    #[tokio::test(start_paused = true)]
    async fn an_event_is_the_newest_and_a_sign_comes_when_there_is_none() {
        let texts: Vec<StatusText> = (0..100)
            .map(|number| StatusText::new(&json!({"a": number})))
            .collect();
        let (teller, newest) = watch::channel(texts[0].clone());
        let slots = Arc::new(Semaphore::new(1));
        let mut subscriber = Subscriber {
            newest,
            stop: CancellationToken::new(),
            last: StatusText::default(),
            next_at: Instant::now(),
            goes_on: true,
            _slot: Arc::clone(&slots).try_acquire_owned().unwrap(),
        };
        let unread = subscriber.next().await.unwrap();
        assert_eq!(unread.as_ptr(), texts[0].0.as_ptr());
        for newest in &texts {
            teller.send_replace(newest.clone());
            sleep(Duration::from_secs(1)).await;
        }
        let next = subscriber.next().await.unwrap();
        assert_eq!(next.as_ptr(), texts[99].0.as_ptr());
        let start = Instant::now();
        for _ in 0..3 {
            assert_eq!(subscriber.next().await.unwrap(), SIGN);
        }
        assert_eq!(start.elapsed(), EVENT_EVERY + 3 * SIGN_EVERY);
        subscriber.stop.cancel();
        assert_eq!(subscriber.next().await, None);
        drop(subscriber);
        assert_eq!(slots.available_permits(), 1);
    }
}
