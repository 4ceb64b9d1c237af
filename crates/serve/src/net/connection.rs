//! Serves HTTP over one connection, and ends one that stands still.
//!
//! Heads of calls and bytes of their bodies, in either direction, count as progress. Pings do not: a
//! peer that takes no answer may send them for ever.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::Request;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::Stopping;
use super::limits::{
    CONNECTION_WINDOW_BYTES, ERROR_RESETS, FRAME_BYTES, HEADERS, HTTP1_BUFFER_BYTES_MIN, Limits,
    PENDING_RESETS, RESET_FACTOR, SEND_BUFFER_BYTES, SLICE_BYTES, STILL_CHECKS,
    STREAM_WINDOW_BYTES,
};

/// The state that all connections of a server share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) limits: Limits,
    /// Cancelled when no more connections are taken, and those that are open are to end.
    pub(super) stop: CancellationToken,
    http: auto::Builder<TokioExecutor>,
}

impl Shared {
    pub(super) fn new(limits: Limits, stop: CancellationToken) -> Shared {
        Shared {
            stop,
            http: http(&limits),
            limits,
        }
    }
}

/// HTTP/1 and HTTP/2, within the limits.
fn http(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_time)
        .max_headers(HEADERS)
        .max_buf_size(HTTP1_BUFFER_BYTES_MIN.max(limits.header_bytes as usize));
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(limits.keepalive)
        .keep_alive_timeout(limits.keepalive)
        .max_concurrent_streams(limits.calls_per_connection)
        .max_header_list_size(limits.header_bytes)
        .max_frame_size(FRAME_BYTES)
        .max_pending_accept_reset_streams(PENDING_RESETS)
        .max_local_error_reset_streams(ERROR_RESETS)
        .adaptive_window(false)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES);
    builder
}

/// A connection with TLS or without: behind one type, so that HTTP is compiled once.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

pub(super) type Ended = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// A connection to be served.
#[derive(Debug)]
pub(super) struct Connection {
    router: Router,
    shared: Arc<Shared>,
    progress: Arc<Progress>,
}

impl Connection {
    pub(super) fn new(router: Router, shared: Arc<Shared>) -> Connection {
        Connection {
            router,
            shared,
            progress: Arc::default(),
        }
    }

    /// Speaks HTTP until the peer closes the connection, the connection stands still, or the server ends.
    pub(super) async fn serve(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Ended {
        let (shared, progress) = (Arc::clone(&self.shared), Arc::clone(&self.progress));
        let limits = &shared.limits;
        let this = Arc::new(self);
        let service = service_fn(move |request| Arc::clone(&this).answer(request));
        let connection = shared.http.serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let mut check = tokio::time::interval(limits.still_time / STILL_CHECKS);
        loop {
            tokio::select! {
                ended = connection.as_mut() => return ended,
                () = shared.stop.cancelled() => break,
                () = progress.too_many_calls.cancelled() => {
                    return Err("it resets calls and begins others".into());
                }
                _ = check.tick() => match progress.still(limits.still_time) {
                    Still::Moves => {}
                    Still::AwaitsPeer => return Err("its peer neither sends nor takes bytes".into()),
                    Still::Idle => {
                        // An honest peer closes the connection when it is told to.
                        connection.as_mut().graceful_shutdown();
                        let gone = tokio::time::timeout(limits.drain_time, connection);
                        return gone.await.unwrap_or_else(|_| Err("it had no call for too long".into()));
                    }
                }
            }
        }
        connection.as_mut().graceful_shutdown();
        connection.await
    }

    async fn answer(
        self: Arc<Connection>,
        request: Request<Incoming>,
    ) -> Result<Response, Infallible> {
        let limit = RESET_FACTOR * self.shared.limits.calls_per_connection as usize;
        let call = Call::begin(&self.progress, limit);
        let (mut head, body) = request.into_parts();
        let stop = self.shared.stop.clone();
        head.extensions.insert(Stopping(stop));
        let received = RequestBody {
            body,
            turn: PeerTurn::new(&self.progress),
        };
        let request = Request::from_parts(head, Body::new(received));
        // A router is always ready.
        let response = self.router.clone().call(request).await?;
        Ok(response.map(|body| Body::new(ResponseBody::new(body, call, &self.progress))))
    }
}

/// Whether calls are under way on a connection, and when one of them moved last.
#[derive(Debug)]
struct Progress {
    state: Mutex<State>,
    /// Cancelled when more calls are under way than a peer can have without resetting them.
    too_many_calls: CancellationToken,
}

#[derive(Debug)]
struct State {
    calls: usize,
    /// The bodies of which the peer has to send or to take bytes.
    awaiting_peer: usize,
    moved: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Still {
    /// It moved lately, or the server has yet to answer.
    Moves,
    /// It has had no call for too long.
    Idle,
    /// The peer has neither sent nor taken bytes for too long.
    AwaitsPeer,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress {
            state: Mutex::new(State {
                calls: 0,
                awaiting_peer: 0,
                moved: Instant::now(),
            }),
            too_many_calls: CancellationToken::new(),
        }
    }
}

impl Progress {
    fn still(&self, time: Duration) -> Still {
        let state = self.state();
        if state.moved.elapsed() < time {
            Still::Moves
        } else if state.awaiting_peer > 0 {
            Still::AwaitsPeer
        } else if state.calls == 0 {
            Still::Idle
        } else {
            Still::Moves
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// A call under way: from its head to the last byte of its answer.
#[derive(Debug)]
struct Call(Arc<Progress>);

impl Call {
    /// hyper begins a call before it sees that the last one was reset. A busy machine may have many such calls: a peer
    /// with more than `limit` of them has to go.
    fn begin(progress: &Arc<Progress>, limit: usize) -> Call {
        let mut state = progress.state();
        state.calls += 1;
        state.moved = Instant::now();
        if state.calls > limit {
            progress.too_many_calls.cancel();
        }
        Call(Arc::clone(progress))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.calls -= 1;
        state.moved = Instant::now();
    }
}

/// Whether the peer has to move next in one direction of a call.
#[derive(Debug)]
struct PeerTurn {
    progress: Arc<Progress>,
    awaits: bool,
}

impl PeerTurn {
    fn new(progress: &Arc<Progress>) -> PeerTurn {
        PeerTurn {
            progress: Arc::clone(progress),
            awaits: false,
        }
    }

    fn begin(&mut self) {
        if !std::mem::replace(&mut self.awaits, true) {
            let mut state = self.progress.state();
            if state.awaiting_peer == 0 {
                // The time that the server took is not the peer's.
                state.moved = Instant::now();
            }
            state.awaiting_peer += 1;
        }
    }

    fn end(&mut self) {
        if std::mem::take(&mut self.awaits) {
            let mut state = self.progress.state();
            state.awaiting_peer -= 1;
            state.moved = Instant::now();
        }
    }
}

impl Drop for PeerTurn {
    fn drop(&mut self) {
        self.end();
    }
}

/// The body of a request: it is the peer's turn while the handler waits for bytes.
#[derive(Debug)]
struct RequestBody {
    body: Incoming,
    turn: PeerTurn,
}

impl hyper::body::Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        match frame {
            Poll::Pending => self.turn.begin(),
            Poll::Ready(_) => self.turn.end(),
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a response, in slices: it is the peer's turn from a slice, or the head, until HTTP asks for the next.
#[derive(Debug)]
struct ResponseBody {
    body: Body,
    turn: PeerTurn,
    /// The bytes of a frame that HTTP has not asked for yet.
    rest: Bytes,
    polled: bool,
    _call: Call,
}

impl ResponseBody {
    fn new(body: Body, call: Call, progress: &Arc<Progress>) -> ResponseBody {
        let mut turn = PeerTurn::new(progress);
        turn.begin();
        ResponseBody {
            body,
            turn,
            rest: Bytes::new(),
            polled: false,
            _call: call,
        }
    }
}

impl hyper::body::Body for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.turn.end();
        self.polled = true;
        if self.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                end => return Poll::Ready(end),
            };
            match frame.into_data() {
                Ok(data) => self.rest = data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        self.turn.begin();
        let bytes = self.rest.len().min(SLICE_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(bytes)))))
    }

    /// A body with bytes ends when HTTP has asked for more: only then has the peer taken the last of them.
    fn is_end_stream(&self) -> bool {
        !self.polled && self.body.is_end_stream()
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

    /// On a busy machine calls that were reset wait until hyper sees that.
    #[tokio::test]
    async fn a_peer_that_resets_calls_and_begins_others_has_to_go() {
        let progress = Arc::<Progress>::default();
        let begin = || Call::begin(&progress, 8);
        for _ in 0..2 {
            let held: Vec<Call> = (0..8).map(|_| begin()).collect();
            assert!(!progress.too_many_calls.is_cancelled());
            drop(held);
        }
        let _held: Vec<Call> = (0..9).map(|_| begin()).collect();
        assert!(progress.too_many_calls.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_stands_still_when_the_peer_has_to_move() {
        const SECOND: Duration = Duration::from_secs(1);
        const ALMOST: Duration = Duration::from_secs(29);
        const TIME: Duration = Duration::from_secs(30);
        let progress = Arc::<Progress>::default();
        let after = async |time| {
            tokio::time::sleep(time).await;
            progress.still(TIME)
        };
        assert_eq!(after(ALMOST).await, Still::Moves);
        assert_eq!(after(SECOND).await, Still::Idle);
        // The server may take any time for an answer.
        let call = Call::begin(&progress, 8);
        assert_eq!(after(10 * TIME).await, Still::Moves);
        let mut turns = [(); 2].map(|()| PeerTurn::new(&progress));
        turns[0].begin();
        assert_eq!(after(SECOND).await, Still::Moves);
        turns[1].begin();
        assert_eq!(after(ALMOST).await, Still::AwaitsPeer);
        // One that moves shows that the peer is there.
        turns[1].end();
        assert_eq!(after(TIME / 2).await, Still::Moves);
        assert_eq!(after(TIME / 2).await, Still::AwaitsPeer);
        drop((turns, call));
        assert_eq!(after(TIME / 2).await, Still::Moves);
        assert_eq!(after(TIME / 2).await, Still::Idle);
    }
}
