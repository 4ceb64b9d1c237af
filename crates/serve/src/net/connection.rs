//! Serves HTTP over one connection, and ends one that stands still.
//!
//! A connection stands still if it has no call, or if its peer reads no bytes. A connection that waits for an answer of
//! the server does not stand still, however long that takes. hyper limits how long the head of an HTTP/1 request takes,
//! and finds out whether the peer of a quiet HTTP/2 connection is there. An answer that the peer grants no window is
//! ended by `taking`.

use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::Service;
use tower_http::timeout::TimeoutBody;

use super::Stopping;
use super::accept::Peer;
use super::limits::{
    CONNECTION_WINDOW_BYTES, ERROR_RESETS, HEADERS, HTTP1_BUFFER_BYTES_MIN, HTTP2_FRAME_BYTES,
    Limits, PENDING_RESETS, SEND_BUFFER_BYTES, STILL_CHECKS, STREAM_WINDOW_BYTES,
};
use super::taking::{StreamExecutor, holding};

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) limits: Limits,
    /// Cancelled when the server accepts no more connections and ends the open ones.
    pub(super) stop: CancellationToken,
    tls: Option<Arc<ServerConfig>>,
    http: auto::Builder<StreamExecutor>,
}

impl Shared {
    pub(super) fn new(limits: Limits, tls: Option<&Arc<ServerConfig>>) -> Shared {
        let mut http = auto::Builder::new(StreamExecutor {
            still_time: limits.still_time,
        });
        http.http1()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_time)
            .max_headers(HEADERS)
            .max_buf_size(HTTP1_BUFFER_BYTES_MIN.max(limits.header_bytes as usize));
        http.http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(limits.keepalive)
            .keep_alive_timeout(limits.keepalive)
            .max_concurrent_streams(limits.calls_per_connection)
            .max_header_list_size(limits.header_bytes)
            .max_frame_size(HTTP2_FRAME_BYTES)
            .max_pending_accept_reset_streams(PENDING_RESETS)
            .max_local_error_reset_streams(ERROR_RESETS)
            .adaptive_window(false)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_send_buf_size(SEND_BUFFER_BYTES);
        Shared {
            limits,
            stop: CancellationToken::new(),
            tls: tls.cloned(),
            http,
        }
    }
}

/// A connection with TLS or without: behind one type, so that HTTP is compiled once.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

pub(super) type Ended = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Speaks HTTP until the peer closes the connection, the connection stands still, or the server ends.
pub(super) async fn serve(
    stream: impl Stream + 'static,
    router: Router,
    shared: Arc<Shared>,
    peer: Peer,
) -> Ended {
    let still_time = shared.limits.still_time;
    let progress = Progress::new();
    let stream = Watched {
        stream,
        progress: Arc::clone(&progress),
    };
    let stream: Box<dyn Stream> = match &shared.tls {
        None => Box::new(stream),
        Some(tls) => {
            let handshake = TlsAcceptor::from(Arc::clone(tls)).accept(stream);
            Box::new(timeout(shared.limits.tls_time, handshake).await??)
        }
    };
    let (calls, stopping) = (Arc::clone(&progress), Stopping(shared.stop.clone()));
    let service = service_fn(move |request: Request<Incoming>| {
        let under_way = UnderWay::begin(&calls);
        let mut request = request.map(|body| Body::new(TimeoutBody::new(still_time, body)));
        request.extensions_mut().insert(stopping.clone());
        let (mut router, peer) = (router.clone(), peer.clone());
        async move {
            // An answer that says that there is no place would need one too. So the call ends without any.
            let call = peer.call().ok_or(TooManyCalls)?;
            request.extensions_mut().insert(call.clone());
            // An axum router is always ready, so `poll_ready` need not be called.
            let Ok(answer) = router.call(request).await;
            Ok::<_, TooManyCalls>(answer.map(|body| holding(body, (under_way, call))))
        }
    });
    let connection = shared.http.serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return ended,
        () = shared.stop.cancelled() => {}
        () = progress.stands_still(still_time) => {}
    }
    // hyper ends the connection after its open calls. If they take longer than `drain_time`, it is dropped.
    connection.as_mut().graceful_shutdown();
    let ended = timeout(shared.limits.drain_time, connection).await;
    ended.unwrap_or_else(|_| Err("it stood still, or the server ends".into()))
}

#[derive(Debug, thiserror::Error)]
#[error("the peer has too many calls under way, or does not take their answers")]
struct TooManyCalls;

/// Whether calls are under way on a connection, and whether its peer takes bytes.
#[derive(Debug)]
struct Progress(Mutex<State>);

#[derive(Debug)]
struct State {
    /// The number of calls whose answer is not sent in full yet.
    calls: usize,
    /// Whether a write waits until the peer takes earlier bytes.
    is_blocked: bool,
    /// When `is_blocked` changed, or when a call ended while it was false, whichever was last.
    since: Instant,
}

impl Progress {
    fn new() -> Arc<Progress> {
        Arc::new(Progress(Mutex::new(State {
            calls: 0,
            is_blocked: false,
            since: Instant::now(),
        })))
    }

    async fn stands_still(&self, time: Duration) {
        while !self.is_still(time) {
            sleep(time / STILL_CHECKS).await;
        }
    }

    fn is_still(&self, time: Duration) -> bool {
        let state = self.0.lock();
        (state.is_blocked || state.calls == 0) && state.since.elapsed() >= time
    }

    fn wrote(&self, is_blocked: bool) {
        let mut state = self.0.lock();
        if state.is_blocked != is_blocked {
            state.is_blocked = is_blocked;
            state.since = Instant::now();
        }
    }
}

/// A call under way: from its head until the last byte of its answer is sent.
#[derive(Debug)]
struct UnderWay(Arc<Progress>);

impl UnderWay {
    fn begin(progress: &Arc<Progress>) -> UnderWay {
        progress.0.lock().calls += 1;
        UnderWay(Arc::clone(progress))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.calls -= 1;
        if !state.is_blocked {
            state.since = Instant::now();
        }
    }
}

/// A stream that notes whether its peer takes bytes.
struct Watched<S> {
    stream: S,
    progress: Arc<Progress>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.progress.wrote(written.is_pending());
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
