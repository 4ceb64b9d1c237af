//! The bodies of calls and answers, watched on their way: neither direction may be slower than the
//! pace.

use std::io;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Error;
use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep};

use super::usage::Call;

/// The most bytes that are given to HTTP at a time. It asks for more when there is room, so a larger
/// answer tells whether the peer takes it.
const SLICE_BYTES: usize = 64 << 10;

/// The least rate at which a peer takes what it asked for, or sends what it announced.
///
/// It says how long a peer may still take: it earns a second for every `rate` bytes that it moves, and saves
/// up to `most`. So it may pause, and is as fast as it has to be on average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    rate: NonZeroU64,
    most: Duration,
    left: Duration,
}

impl Pace {
    /// At least `rate` bytes a second, on average over `most`.
    pub(super) fn new(rate: NonZeroU64, most: Duration) -> Pace {
        Pace {
            rate,
            most,
            left: most,
        }
    }

    /// How long it may take for whatever comes next.
    pub(super) fn left(&self) -> Duration {
        self.left
    }

    /// Notes that the peer took `took` to move `bytes` bytes.
    pub(super) fn moved(&mut self, took: Duration, bytes: u64) {
        let earned = u128::from(bytes) * 1_000_000_000 / u128::from(self.rate.get());
        let earned = Duration::from_nanos(u64::try_from(earned).unwrap_or(u64::MAX));
        let left = self.left.saturating_sub(took).saturating_add(earned);
        self.left = left.min(self.most);
    }
}

/// The body of a call. It fails if the peer is too slow while somebody waits for it.
#[derive(Debug)]
pub(super) struct Sent {
    body: Incoming,
    pace: Pace,
    /// Since when somebody waits for the peer, and until when that may be.
    waits: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl Sent {
    pub(super) fn new(body: Incoming, pace: Pace) -> Sent {
        Sent {
            body,
            pace,
            waits: None,
        }
    }
}

impl hyper::body::Body for Sent {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
            let left = self.pace.left();
            let (_, timer) = self.waits.get_or_insert_with(|| {
                let now = Instant::now();
                (now, Box::pin(tokio::time::sleep_until(now + left)))
            });
            ready!(timer.as_mut().poll(context));
            let slow = io::Error::new(io::ErrorKind::TimedOut, "it comes too slowly");
            return Poll::Ready(Some(Err(slow.into())));
        };
        let took = self.waits.take();
        let took = took.map_or_else(Default::default, |(since, _)| since.elapsed());
        let data = frame
            .as_ref()
            .and_then(|frame| frame.as_ref().ok()?.data_ref());
        let bytes = data.map_or(0, |data| data.len() as u64);
        self.pace.moved(took, bytes);
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// An answer. Whether the peer takes it is told to whoever judges the connection.
#[derive(Debug)]
pub(super) struct Given {
    body: Body,
    call: Call,
    pace: Pace,
    /// The bytes of a frame that are still to be given.
    rest: Bytes,
    /// Since when the peer has had something to take, and how much.
    offered: Option<(Instant, usize)>,
    begun: bool,
}

impl Given {
    pub(super) fn new(body: Body, call: Call, pace: Pace) -> Given {
        let mut given = Given {
            body,
            call,
            pace,
            rest: Bytes::new(),
            offered: None,
            begun: false,
        };
        // The head.
        given.offer(0);
        given
    }

    fn offer(&mut self, bytes: usize) {
        self.offered = Some((Instant::now(), bytes));
        self.call.offers(self.pace.left());
    }

    /// More is asked for, so the peer has taken what there was.
    fn taken(&mut self) {
        if let Some((since, bytes)) = self.offered.take() {
            self.pace.moved(since.elapsed(), bytes as u64);
            self.call.taken();
        }
    }

    fn slice(&mut self) -> Frame<Bytes> {
        let bytes = self.rest.len().min(SLICE_BYTES);
        self.offer(bytes);
        Frame::data(self.rest.split_to(bytes))
    }
}

impl hyper::body::Body for Given {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        self.taken();
        self.begun = true;
        if !self.rest.is_empty() {
            return Poll::Ready(Some(Ok(self.slice())));
        }
        let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
            Some(Ok(frame)) => frame,
            end => return Poll::Ready(end),
        };
        Poll::Ready(Some(Ok(match frame.into_data() {
            Ok(data) => {
                self.rest = data;
                self.slice()
            }
            Err(other) => other,
        })))
    }

    /// An answer with something in it ends when it was asked for more, and had none: before that
    /// nobody knows whether the peer has taken it.
    fn is_end_stream(&self) -> bool {
        !self.begun && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.body.size_hint();
        let rest = self.rest.len() as u64;
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn pace() -> Pace {
        Pace::new(NonZeroU64::new(1000).unwrap(), 10 * SECOND)
    }

    #[test]
    fn who_is_fast_enough_goes_on_for_ever_and_who_is_not_does_not() {
        let slow = |each: Duration, bytes: u64| {
            let mut pace = pace();
            let mut times = 0;
            while times < 1000 && each <= pace.left() {
                pace.moved(each, bytes);
                times += 1;
            }
            times
        };
        assert_eq!(slow(SECOND, 1000), 1000);
        assert_eq!(slow(9 * SECOND, 9000), 1000);
        // A byte less, and what it has saved is used up one day.
        assert_eq!(slow(9 * SECOND, 8000), 2);
        assert_eq!(slow(SECOND, 0), 10);
        assert_eq!(slow(11 * SECOND, u64::MAX), 0);
    }

    #[test]
    fn no_more_is_saved_than_that() {
        let mut pace = pace();
        pace.moved(Duration::ZERO, u64::MAX);
        assert_eq!(pace.left(), 10 * SECOND);
        pace.moved(4 * SECOND, 1500);
        assert_eq!(pace.left(), Duration::from_millis(7500));
        pace.moved(20 * SECOND, 0);
        assert_eq!(pace.left(), Duration::ZERO);
    }
}
