//! Notices that a peer does not take an answer, and ends the answer then.
//!
//! Over HTTP/2 a peer takes what it has granted a window for, so it may leave an answer without filling the buffers of
//! its connection. Each answer is handed to hyper in pieces that note when they are gone, and an answer of which no
//! piece goes for [`Limits::still_time`](super::Limits::still_time) ends its stream. All that was reserved for an
//! answer is held until its last piece is gone.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use hyper::rt::Executor;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::limits::{PIECE_BYTES, STILL_CHECKS};

tokio::task_local! {
    /// Whether the answer of this stream is taken.
    static TAKING: Arc<Taking>;
}

/// Runs the streams of HTTP/2 connections, and ends those whose answers are not taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamExecutor {
    pub(super) still_time: Duration,
}

impl<F: Future + Send + 'static> Executor<F> for StreamExecutor {
    #[expect(
        clippy::disallowed_methods,
        reason = "a stream ends with its connection"
    )]
    fn execute(&self, stream: F) {
        let taking = Taking::new();
        let stream = TAKING.scope(Arc::clone(&taking), stream);
        let still_time = self.still_time;
        tokio::spawn(async move {
            tokio::select! {
                _ = stream => {}
                // hyper resets the stream when its future is dropped.
                () = taking.stands_still(still_time) => tracing::debug!("an answer is not taken"),
            }
        });
    }
}

/// Whether the peer of a call takes its answer.
#[derive(Debug)]
struct Taking(Mutex<State>);

#[derive(Debug)]
struct State {
    /// The pieces of the answer that hyper has, and the peer has not.
    pieces: usize,
    /// When a piece was handed out or taken last.
    since: Instant,
    /// The body that ends when all of its pieces are taken.
    ends: Option<Waker>,
}

impl Taking {
    fn new() -> Arc<Taking> {
        Arc::new(Taking(Mutex::new(State {
            pieces: 0,
            since: Instant::now(),
            ends: None,
        })))
    }

    async fn stands_still(&self, time: Duration) {
        while !self.is_still(time) {
            sleep(time / STILL_CHECKS).await;
        }
    }

    fn is_still(&self, time: Duration) -> bool {
        let state = self.0.lock();
        state.pieces > 0 && state.since.elapsed() >= time
    }

    fn give(&self) {
        let mut state = self.0.lock();
        state.pieces += 1;
        state.since = Instant::now();
    }

    fn took(&self) {
        let mut state = self.0.lock();
        state.pieces -= 1;
        state.since = Instant::now();
        let ends = if state.pieces == 0 {
            state.ends.take()
        } else {
            None
        };
        drop(state);
        if let Some(waker) = ends {
            waker.wake();
        }
    }

    fn poll_all_taken(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.0.lock();
        if state.pieces == 0 {
            return Poll::Ready(());
        }
        state.ends = Some(context.waker().clone());
        Poll::Pending
    }
}

/// A part of an answer on its way.
struct Piece<T> {
    bytes: Bytes,
    taking: Option<Arc<Taking>>,
    _held: Arc<T>,
}

impl<T> AsRef<[u8]> for Piece<T> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<T> Drop for Piece<T> {
    fn drop(&mut self) {
        if let Some(taking) = &self.taking {
            taking.took();
        }
    }
}

/// A body that owns something until all of its bytes are taken or given up.
struct Holding<T> {
    body: Body,
    /// Bytes of the body that are not handed out yet.
    rest: Bytes,
    has_ended: bool,
    trailers: Option<Frame<Bytes>>,
    /// None if this is no stream of HTTP/2: then something else notices what is not taken.
    taking: Option<Arc<Taking>>,
    held: Arc<T>,
}

/// The same body, which owns `held` until its last byte is taken by the peer, or it is given up.
pub fn holding(body: Body, held: impl Send + Sync + 'static) -> Body {
    if hyper::body::Body::is_end_stream(&body) {
        return body;
    }
    Body::new(Holding {
        body,
        rest: Bytes::new(),
        has_ended: false,
        trailers: None,
        taking: TAKING.try_with(Arc::clone).ok(),
        held: Arc::new(held),
    })
}

impl<T: Send + Sync + 'static> Holding<T> {
    fn next_piece(&mut self) -> Bytes {
        let bytes = self.rest.split_to(self.rest.len().min(PIECE_BYTES));
        if let Some(taking) = &self.taking {
            taking.give();
        }
        Bytes::from_owner(Piece {
            bytes,
            taking: self.taking.clone(),
            _held: Arc::clone(&self.held),
        })
    }
}

impl<T: Send + Sync + 'static> hyper::body::Body for Holding<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        loop {
            if !self.rest.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(self.next_piece()))));
            }
            if self.has_ended {
                // Nobody would notice what is not taken once hyper has the end.
                if let Some(taking) = &self.taking {
                    ready!(taking.poll_all_taken(context));
                }
                return Poll::Ready(self.trailers.take().map(Ok));
            }
            match ready!(Pin::new(&mut self.body).poll_frame(context)).transpose()? {
                None => self.has_ended = true,
                Some(frame) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => {
                        self.trailers = Some(trailers);
                        self.has_ended = true;
                    }
                },
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
            && self.trailers.is_none()
            && self.body.is_end_stream()
            && self
                .taking
                .as_ref()
                .is_none_or(|taking| taking.0.lock().pieces == 0)
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
