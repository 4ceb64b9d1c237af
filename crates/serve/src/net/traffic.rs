//! The bodies of calls and answers, watched on their way: neither direction may be slower than the
//! pace.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::Error;
use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep};

use super::pace::Pace;
use super::standing::Call;

/// The most bytes that are given to HTTP at a time. It asks for more when there is room, so a larger
/// answer tells whether the peer takes it.
const SLICE_BYTES: usize = 64 << 10;

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
