//! `/api/status`: how a job gets on, once or as events for as long as somebody listens.
//!
//! What is told is made once for all who listen. Each of them has a task that keeps nothing but the
//! last of it and waits for its peer: whoever reads slowly misses what was told meanwhile, and
//! whoever does not read is dropped.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, VARY};
use http::{Method, Request, StatusCode};
use hyper::body::Frame;
use serde::Serialize;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use crate::answer::{busy, text};
use crate::net::{Caller, Slot, Slots};

/// Those who listen at a time. Each is a task and what its connection has not sent yet.
const LISTENERS_MAX: usize = 256;
/// The same from one address, or one IPv6 network of 64 bits: nobody keeps all others out.
const LISTENERS_PER_ADDRESS: usize = 32;
/// How often an event comes at the most.
const EVENT_EVERY: Duration = Duration::from_millis(500);
/// How often something comes at the least, so that everybody on the way knows that both ends live.
const SIGN_EVERY: Duration = Duration::from_secs(15);
/// How long a peer may take for an event.
const PATIENCE: Duration = Duration::from_secs(30);

/// What comes before the JSON in an event, and after it.
const BEFORE: &str = "event: status\ndata: ";
const AFTER: &str = "\n\n";
/// A line that says nothing.
const SIGN: &[u8] = b": still here\n\n";

const EVENTS: &str = "text/event-stream";

/// Something that is told of a job, as JSON, and ready to be sent as an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told(Bytes);

impl Told {
    /// What `status` says. The default is that there is nothing to say yet.
    ///
    /// # Panics
    ///
    /// If it cannot be JSON, as a map whose keys are no texts.
    pub fn new(status: &impl Serialize) -> Told {
        let mut event = BEFORE.as_bytes().to_vec();
        serde_json::to_writer(&mut event, status).expect("texts, numbers and lists become JSON");
        event.extend(AFTER.as_bytes());
        Told(event.into())
    }

    fn is_nothing(&self) -> bool {
        self.0.is_empty()
    }

    fn event(&self) -> Bytes {
        self.0.clone()
    }

    /// The JSON, with the end of its line.
    fn json(&self) -> Bytes {
        self.0.slice(BEFORE.len()..self.0.len() - 1)
    }
}

/// The page.
#[derive(Clone, Debug)]
pub(crate) struct StatusPage {
    told: watch::Receiver<Told>,
    listeners: Slots,
}

impl StatusPage {
    pub(crate) fn new(told: watch::Receiver<Told>) -> StatusPage {
        StatusPage {
            told,
            listeners: Slots::new(LISTENERS_MAX, LISTENERS_PER_ADDRESS),
        }
    }

    pub(crate) fn answer(&self, request: &Request<Body>) -> Response {
        let mut response = if wants_events(request) {
            self.events(request)
        } else {
            self.once()
        };
        let headers = response.headers_mut();
        headers.insert(VARY, HeaderValue::from_static("accept"));
        response
    }

    fn once(&self) -> Response {
        let told = self.told.borrow().clone();
        if told.is_nothing() {
            return busy("there is nothing to tell yet: try again soon", 1);
        }
        text(StatusCode::OK, "application/json", told.json())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "ends with the body that it fills, or with the server"
    )]
    fn events(&self, request: &Request<Body>) -> Response {
        let caller = Caller::of(request.extensions());
        let body = if request.method() == Method::HEAD {
            Body::empty()
        } else {
            let Some(slot) = self.listeners.take(caller.address) else {
                return busy(
                    "too many listen: ask without text/event-stream, or try again later",
                    10,
                );
            };
            let (sender, events) = mpsc::channel(1);
            tokio::spawn(tell(self.told.clone(), sender, caller, slot));
            Body::new(Events(events))
        };
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENTS));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        // Proxies that collect answers before they pass them on would collect for ever.
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        response
    }
}

fn wants_events(request: &Request<Body>) -> bool {
    let mut accepted = request.headers().get_all(ACCEPT).iter();
    accepted.any(|value| value.to_str().is_ok_and(|value| value.contains(EVENTS)))
}

/// Sends what is told, until the peer is gone, or the server or what it tells of ends. The last that
/// was told comes in any case.
async fn tell(
    mut told: watch::Receiver<Told>,
    events: mpsc::Sender<Bytes>,
    caller: Arc<Caller>,
    _slot: Slot,
) {
    let mut last = Bytes::new();
    let mut goes_on = true;
    loop {
        let event = told.borrow_and_update().event();
        if event != last {
            last = event.clone();
            if !send(&events, event).await {
                return;
            }
        }
        if !goes_on {
            return;
        }
        goes_on = tokio::select! {
            () = events.closed() => return,
            () = caller.stop.cancelled() => false,
            goes_on = another(&mut told, &events) => goes_on,
        };
    }
}

/// Waits until there may be something else to tell; false if there never will be.
async fn another(told: &mut watch::Receiver<Told>, events: &mpsc::Sender<Bytes>) -> bool {
    sleep(EVENT_EVERY).await;
    loop {
        match tokio::time::timeout(SIGN_EVERY, told.changed()).await {
            Ok(changed) => return changed.is_ok(),
            Err(_) => {
                if !send(events, Bytes::from_static(SIGN)).await {
                    return false;
                }
            }
        }
    }
}

/// Whether the peer has taken it.
async fn send(events: &mpsc::Sender<Bytes>, event: Bytes) -> bool {
    let sent = tokio::time::timeout(PATIENCE, events.send(event)).await;
    matches!(sent, Ok(Ok(())))
}

/// The events on their way.
#[derive(Debug)]
struct Events(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let event = self.0.poll_recv(context);
        event.map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::net::Caller;

    /// What a listener who takes nothing, or takes all, hears in how much time.
    async fn listen(takes: bool) -> (Vec<String>, Duration) {
        let slots = Slots::new(1, 1);
        let caller = Caller::of(&http::Extensions::new());
        let slot = slots.take(caller.address).unwrap();
        let (teller, told) = watch::channel(Told::new(&json!({"a": 1})));
        let (sender, mut events) = mpsc::channel(1);
        let start = tokio::time::Instant::now();
        let stop = caller.stop.clone();
        let telling = tell(told, sender, caller, slot);
        let mut heard = Vec::new();
        let hearing = async {
            if takes {
                while let Some(event) = events.recv().await {
                    heard.push(String::from_utf8(event.to_vec()).unwrap());
                    if heard.len() == 4 {
                        stop.cancel();
                    }
                }
            } else {
                sleep(EVENT_EVERY).await;
                teller.send_replace(Told::new(&json!({"a": 2})));
                std::future::pending::<()>().await;
            }
        };
        let both = async {
            tokio::select! {
                () = telling => {}
                () = hearing => {}
            }
        };
        // The clock is a paused one: it goes on when nobody has anything else to do.
        let both = tokio::time::timeout(Duration::from_hours(1), both).await;
        both.expect("an end");
        assert_eq!(slots.open(), 0, "the place is free again");
        (heard, start.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_sign_comes_when_there_is_nothing_to_tell() {
        let (heard, time) = listen(true).await;
        let sign = std::str::from_utf8(SIGN).unwrap();
        assert_eq!(
            heard,
            ["event: status\ndata: {\"a\":1}\n\n", sign, sign, sign]
        );
        assert_eq!(time, EVENT_EVERY + 3 * SIGN_EVERY);
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_read_is_dropped() {
        let (_, time) = listen(false).await;
        assert_eq!(time.as_secs(), (EVENT_EVERY + PATIENCE).as_secs());
    }
}
