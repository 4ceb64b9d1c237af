//! `/api/status`: how a job gets on, once or as events for as long as somebody listens.
//!
//! Each status is made once for all listeners. A listener gets the newest one when its peer has taken the one before:
//! so a slow reader misses those between, and one that does not read is dropped with its connection.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, VARY};
use http::request::Parts;
use http::{Method, StatusCode};
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::answer::{busy, text};
use crate::net::limits::LISTENERS;
use crate::net::{Caller, Place, Places};

/// How often an event comes at the most.
const EVENT_EVERY: Duration = Duration::from_millis(500);
/// How often something comes at the least, so that everybody on the way knows that both ends live.
const SIGN_EVERY: Duration = Duration::from_secs(15);

/// The text before the JSON of an event, and after it: axum's events would be put together for each listener, these are
/// the same bytes for all.
const BEFORE: &str = "event: status\ndata: ";
const AFTER: &str = "\n\n";
/// A line that says nothing.
const SIGN: &[u8] = b": still here\n\n";

const EVENTS: &str = "text/event-stream";

/// Something that is told of a job, as JSON, and ready to be sent as an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusText(Bytes);

impl StatusText {
    /// The text of `status`. The default is that there is nothing to say yet.
    ///
    /// # Panics
    ///
    /// If it cannot be JSON, as a map whose keys are no texts.
    pub fn new(status: &impl Serialize) -> StatusText {
        let mut event = BEFORE.as_bytes().to_vec();
        serde_json::to_writer(&mut event, status).expect("texts, numbers and lists become JSON");
        event.extend(AFTER.as_bytes());
        StatusText(event.into())
    }

    fn is_nothing(&self) -> bool {
        self.0.is_empty()
    }

    fn event(&self) -> Bytes {
        self.0.clone()
    }

    /// The JSON, with the end of its line. It is the same bytes for all who have it.
    pub fn json(&self) -> Bytes {
        self.0.slice(BEFORE.len()..self.0.len() - 1)
    }
}

/// The page.
#[derive(Clone, Debug)]
pub(crate) struct StatusPage {
    told: watch::Receiver<StatusText>,
    listeners: Places<IpAddr>,
}

impl StatusPage {
    pub(crate) fn new(told: watch::Receiver<StatusText>) -> StatusPage {
        StatusPage {
            told,
            listeners: Places::new(LISTENERS),
        }
    }

    pub(crate) fn answer(&self, request: &Parts) -> Response {
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

    fn events(&self, request: &Parts) -> Response {
        let caller = Caller::of(&request.extensions);
        let body = if request.method == Method::HEAD {
            Body::empty()
        } else {
            let Some(place) = self.listeners.take(caller.network()) else {
                return busy(
                    "too many listen: ask without text/event-stream, or try again later",
                    10,
                );
            };
            Body::from_stream(Listener::new(self.told.clone(), caller, place).hear())
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

fn wants_events(request: &Parts) -> bool {
    let mut accepted = request.headers.get_all(ACCEPT).iter();
    accepted.any(|value| value.to_str().is_ok_and(|value| value.contains(EVENTS)))
}

/// One who listens. The place is free again when this is dropped.
#[derive(Debug)]
struct Listener {
    told: watch::Receiver<StatusText>,
    caller: Arc<Caller>,
    last: Bytes,
    /// How long it has to wait for more.
    pause: Duration,
    goes_on: bool,
    place: Place<IpAddr>,
}

impl Listener {
    fn new(
        told: watch::Receiver<StatusText>,
        caller: Arc<Caller>,
        place: Place<IpAddr>,
    ) -> Listener {
        Listener {
            told,
            caller,
            last: Bytes::new(),
            pause: Duration::ZERO,
            goes_on: true,
            place,
        }
    }

    /// The newest status, each time the listener asks for it, until the server stops or nobody tells
    /// of changes any more. The last status comes before that.
    fn hear(self) -> impl Stream<Item = Result<Bytes, Infallible>> {
        stream::unfold(self, async |mut listener| {
            let event = listener.next().await?;
            Some((Ok(event), listener))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let stop = self.caller.stop.clone();
            let goes_on = tokio::select! {
                () = sleep(std::mem::take(&mut self.pause)) => true,
                () = stop.cancelled() => false,
                () = self.place.is_lost() => return None,
            };
            self.goes_on &= goes_on;
            let event = self.told.borrow_and_update().event();
            if event != self.last {
                self.last = event.clone();
                self.pause = EVENT_EVERY;
                return Some(event);
            }
            if !self.goes_on {
                return None;
            }
            self.goes_on = tokio::select! {
                () = stop.cancelled() => false,
                () = self.place.is_lost() => return None,
                changed = tokio::time::timeout(SIGN_EVERY, self.told.changed()) => match changed {
                    Ok(changed) => changed.is_ok(),
                    Err(_) => return Some(Bytes::from_static(SIGN)),
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use serde_json::json;

    use super::*;
    use crate::net::Limit;

    fn listener(told: &StatusText) -> (Listener, watch::Sender<StatusText>, Places<IpAddr>) {
        let places = Places::new(Limit { all: 1, each: 1 });
        let caller = Caller::at(Ipv4Addr::LOCALHOST.into());
        let place = places.take(caller.address).unwrap();
        let (teller, told) = watch::channel(told.clone());
        (Listener::new(told, caller, place), teller, places)
    }

    #[tokio::test(start_paused = true)]
    async fn a_sign_comes_when_there_is_nothing_to_tell() {
        let told = StatusText::new(&json!({"a": 1}));
        let (mut listener, teller, slots) = listener(&told);
        let start = tokio::time::Instant::now();
        let mut heard = Vec::new();
        for _ in 0..4 {
            heard.push(listener.next().await.unwrap());
        }
        assert_eq!(heard, [&told.event()[..], SIGN, SIGN, SIGN]);
        assert_eq!(start.elapsed(), EVENT_EVERY + 3 * SIGN_EVERY);
        listener.caller.stop.cancel();
        assert_eq!(listener.next().await, None);
        drop(listener);
        assert_eq!(slots.open(), 0, "the place is free again");
        drop(teller);
    }

    /// While it has to wait, though there is more to tell, and while there is nothing.
    #[tokio::test(start_paused = true)]
    async fn who_loses_the_place_hears_no_more() {
        let [first, next] = [1, 2].map(|number| StatusText::new(&json!({ "a": number })));
        for (wait, next) in [
            (EVENT_EVERY / 2, next),
            (EVENT_EVERY + SIGN_EVERY / 2, first.clone()),
        ] {
            let places = Places::new(Limit { all: 2, each: 2 });
            let caller = Caller::at(Ipv4Addr::LOCALHOST.into());
            let held = [(); 2].map(|()| places.take(caller.address).unwrap());
            let (teller, told) = watch::channel(first.clone());
            let [place, _second] = held;
            let mut listener = Listener::new(told, caller, place);
            assert!(listener.next().await.is_some());
            let take = async {
                sleep(wait).await;
                teller.send_if_modified(|told| {
                    *told = next;
                    false
                });
                places.take(Ipv4Addr::new(10, 0, 0, 1).into()).unwrap()
            };
            let (more, _other) = tokio::join!(listener.next(), take);
            assert_eq!(more, None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_read_has_one_event_and_then_the_newest() {
        let texts: Vec<StatusText> = (0..100)
            .map(|number| StatusText::new(&json!({"a": number})))
            .collect();
        let (mut listener, teller, _slots) = listener(&texts[0]);
        let unread = listener.next().await.unwrap();
        for told in &texts {
            teller.send_replace(told.clone());
            sleep(Duration::from_secs(1)).await;
        }
        // It is the one text that everybody has.
        assert_eq!(unread.as_ptr(), texts[0].event().as_ptr());
        assert_eq!(listener.last.as_ptr(), unread.as_ptr());
        let next = listener.next().await.unwrap();
        assert_eq!(next.as_ptr(), texts[99].event().as_ptr());
    }
}
