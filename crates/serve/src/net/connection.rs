//! Serves one connection.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::caller::Caller;
use super::limits::{
    CONNECTION_WINDOW_BYTES, ERROR_RESETS, FRAME_BYTES, GONE_TIME, HEADERS, LOOKS, Limits,
    PENDING_RESETS, SEND_BUFFER_BYTES, STREAM_WINDOW_BYTES, UNSENT_BYTES,
};
use super::permits::{Permit, Permits};
use super::places::network;
use super::rate::Rates;
use super::traffic::{Given, Pace, Sent};
use super::usage::{Call, ConnectionUse, Stay};
use crate::answer::problem;

/// The least that hyper takes for the head of an HTTP/1 request.
const HTTP1_BUFFER_BYTES_MIN: usize = 8 << 10;

/// The factor by which a peer that resets calls and begins others may exceed `calls_per_connection`.
const RESET_FACTOR: usize = 2;

/// The state that all connections of a server share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) limits: Limits,
    tls: Option<Arc<ServerConfig>>,
    pub(super) permits: Permits,
    /// Cancelled when no more connections are taken, and those that are open are to end.
    pub(super) stop: CancellationToken,
    http: auto::Builder<TokioExecutor>,
    handshake_rates: Rates<IpAddr>,
    refusal_rates: Rates<IpAddr>,
}

impl Shared {
    pub(super) fn new(
        limits: Limits,
        tls: Option<Arc<ServerConfig>>,
        permits: Permits,
        stop: CancellationToken,
    ) -> Shared {
        Shared {
            tls,
            permits,
            stop,
            http: http(&limits),
            handshake_rates: Rates::new(limits.handshake_rate),
            refusal_rates: Rates::new(limits.refusal_rate),
            limits,
        }
    }

    /// Waits for the turn of a peer to make a handshake.
    pub(super) async fn turn(&self, peer: IpAddr) -> Result<(), &'static str> {
        let (address, patience) = (network(peer), self.limits.tls_time);
        let turn = self
            .handshake_rates
            .reserve(address, patience, Instant::now());
        let wait = turn.map_err(|_| "its address makes too many handshakes")?;
        tokio::time::sleep(wait).await;
        Ok(())
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

/// A connection to be served.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) peer: SocketAddr,
    pub(super) router: Router,
    pub(super) shared: Arc<Shared>,
    pub(super) permit: Arc<Permit>,
}

/// A connection with TLS or without: behind one type, so that HTTP is compiled once.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

type Ended = Result<(), Box<dyn std::error::Error + Send + Sync>>;

impl Connection {
    pub(super) async fn serve(self, stream: TcpStream) {
        let peer = self.peer;
        let usage = Arc::clone(&self.permit.usage);
        let ended = tokio::select! {
            ended = self.try_serve(stream) => ended,
            () = usage.over.cancelled() => {
                Err("it makes room for another, or had too many calls refused or reset".into())
            }
        };
        // Whoever speaks to an open port may break off, or be no client at all.
        if let Err(error) = ended {
            tracing::debug!("the connection of {peer} ended: {error}");
        }
    }

    async fn try_serve(self, stream: TcpStream) -> Ended {
        stream.set_nodelay(true)?;
        let socket = SockRef::from(&stream);
        #[cfg(target_os = "linux")]
        socket.set_tcp_notsent_lowat(UNSENT_BYTES)?;
        #[cfg(not(target_os = "linux"))]
        socket.set_send_buffer_size(UNSENT_BYTES as usize)?;
        // A peer that is gone without a word is noticed by the kernel.
        #[cfg(target_os = "linux")]
        socket.set_tcp_user_timeout(Some(GONE_TIME))?;
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(GONE_TIME / 2))?;

        let stream: Box<dyn Stream> = match self.shared.tls.clone() {
            None => Box::new(stream),
            Some(tls) => {
                self.shared.turn(self.peer.ip()).await?;
                let handshake = TlsAcceptor::from(tls).accept(stream);
                let handshake = tokio::time::timeout(self.shared.limits.tls_time, handshake);
                Box::new(Box::pin(handshake).await??)
            }
        };
        Box::pin(self.speak(stream)).await
    }

    /// Speaks HTTP until the peer has no more to say, or the server ends.
    pub(super) async fn speak(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Ended {
        let limits = self.shared.limits;
        let usage = Arc::clone(&self.permit.usage);
        let stop = &self.shared.stop;
        let calls = Arc::new(Calls {
            caller: Arc::new(Caller {
                address: self.peer.ip(),
                stop: stop.clone(),
                permit: Arc::downgrade(&self.permit),
            }),
            usage: Arc::clone(&usage),
            shared: Arc::clone(&self.shared),
            router: self.router,
        });
        let service = service_fn(move |request| {
            let call = calls.begin();
            Arc::clone(&calls).answer(request, call)
        });
        let connection = self
            .shared
            .http
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let mut look = tokio::time::interval(limits.idle_time.min(limits.rate_time) / LOOKS);
        loop {
            tokio::select! {
                ended = connection.as_mut() => return ended,
                () = stop.cancelled() => break,
                _ = look.tick() => match usage.judge(limits.idle_time) {
                    Stay::Stays => {}
                    Stay::Slow => return Err("the peer takes answers too slowly".into()),
                    Stay::Idle => {
                        // Who is honest goes away when told so.
                        connection.as_mut().graceful_shutdown();
                        let gone = tokio::time::timeout(limits.drain_time, connection);
                        return gone.await.unwrap_or_else(|_| Err("nothing was asked for too long".into()));
                    }
                }
            }
        }
        connection.as_mut().graceful_shutdown();
        connection.await
    }
}

/// Answers the calls of a connection.
#[derive(Debug)]
struct Calls {
    caller: Arc<Caller>,
    usage: Arc<ConnectionUse>,
    shared: Arc<Shared>,
    router: Router,
}

impl Calls {
    /// A call is under way from its head on, and one that the peer resets until somebody has noticed. So who resets
    /// calls and begins others in their place, faster than a busy machine notices, has more of them than a connection
    /// may have.
    fn begin(&self) -> Call {
        let limits = &self.shared.limits;
        if self.usage.calls() >= RESET_FACTOR * limits.calls_per_connection as usize {
            self.usage.over.cancel();
        }
        Call::begin(&self.usage)
    }

    async fn answer(
        self: Arc<Calls>,
        request: Request<Incoming>,
        mut call: Call,
    ) -> Result<Response, Infallible> {
        let limits = &self.shared.limits;
        let pace = Pace::new(limits.rate_min, limits.rate_time);
        let (mut head, body) = request.into_parts();
        head.extensions.insert(Arc::clone(&self.caller));
        let request = Request::from_parts(head, Body::new(Sent::new(body, pace)));
        // A router is always ready.
        let mut answer = pin!(self.router.clone().call(request));
        let response = match tokio::time::timeout(limits.answer_time, answer.as_mut()).await {
            Ok(response) => response?,
            Err(_) if self.usage.is_admitted() => answer.await?,
            Err(_) => {
                let what = "what you sent did not come to an end in time";
                problem(StatusCode::REQUEST_TIMEOUT, what)
            }
        };
        if is_refused(&response) {
            let now = Instant::now();
            let rate = self.shared.refusal_rates.take(self.caller.network(), now);
            if rate.is_err() && !self.usage.is_admitted() {
                self.usage.over.cancel();
            }
        } else if response.status().as_u16() < StatusCode::BAD_REQUEST.as_u16() {
            call.is_useful();
        }
        Ok(response.map(|body| Body::new(Given::new(body, call, pace))))
    }
}

/// Whether a call had no token, a wrong one, or one of a holder who has too much: as HTTP says it, or gRPC.
fn is_refused(response: &Response) -> bool {
    const GRPC_STATUS: &str = "grpc-status";
    const REFUSALS: [&str; 2] = ["16", "8"];
    let grpc = response.headers().get(GRPC_STATUS);
    let refuses = |status: &http::HeaderValue| REFUSALS.iter().any(|refusal| *status == **refusal);
    response.status() == StatusCode::UNAUTHORIZED || grpc.is_some_and(refuses)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// On a busy machine calls that were reset wait until somebody looks at them.
    #[tokio::test]
    async fn who_resets_calls_and_begins_others_has_to_go() {
        let limits = Limits {
            calls_per_connection: 4,
            ..Limits::default()
        };
        let calls = Calls {
            caller: Caller::at(Ipv4Addr::LOCALHOST.into()),
            usage: Arc::default(),
            shared: Arc::new(Shared::new(
                limits,
                None,
                limits.permits(),
                CancellationToken::new(),
            )),
            router: Router::new(),
        };
        let held: Vec<Call> = (0..8).map(|_| calls.begin()).collect();
        drop(held);
        let held: Vec<Call> = (0..8).map(|_| calls.begin()).collect();
        assert!(!calls.usage.over.is_cancelled());
        drop(calls.begin());
        assert!(calls.usage.over.is_cancelled());
        drop(held);
    }
}
