//! Serves one connection.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use axum::Router;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::caller::Caller;
use super::limits::{
    CONNECTION_WINDOW_BYTES, ERROR_RESETS, FRAME_BYTES, HEADERS, Limits, PENDING_RESETS,
    SEND_BUFFER_BYTES, STREAM_WINDOW_BYTES, UNSENT_BYTES,
};
use super::patience::Patience;

/// The least that hyper takes for the head of an HTTP/1 request.
const HTTP1_BUFFER_BYTES_MIN: usize = 8 << 10;

/// HTTP/1 and HTTP/2, within the limits.
#[derive(Debug)]
pub(super) struct Http(auto::Builder<TokioExecutor>);

impl Http {
    pub(super) fn new(limits: &Limits) -> Http {
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
        Http(builder)
    }
}

/// A connection to be served.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) peer: SocketAddr,
    pub(super) router: Router,
    pub(super) tls: Option<Arc<ServerConfig>>,
    pub(super) http: Arc<Http>,
    pub(super) limits: Limits,
    pub(super) stop: CancellationToken,
}

impl Connection {
    pub(super) async fn serve(self, stream: TcpStream) {
        let peer = self.peer;
        match self.try_serve(stream).await {
            Ok(()) => {}
            // Whoever speaks to an open port may break off, or be no client at all.
            Err(error) => tracing::debug!("the connection of {peer} ended: {error}"),
        }
    }

    async fn try_serve(
        self,
        stream: TcpStream,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        stream.set_nodelay(true)?;
        let socket = SockRef::from(&stream);
        #[cfg(target_os = "linux")]
        socket.set_tcp_notsent_lowat(UNSENT_BYTES)?;
        #[cfg(not(target_os = "linux"))]
        socket.set_send_buffer_size(UNSENT_BYTES as usize)?;

        match self.tls.clone() {
            None => Box::pin(self.speak(stream)).await,
            Some(tls) => {
                let handshake = TlsAcceptor::from(tls).accept(stream);
                let handshake = tokio::time::timeout(self.limits.tls_time, handshake);
                let stream = Box::pin(handshake).await??;
                Box::pin(self.speak(stream)).await
            }
        }
    }

    /// Speaks HTTP until the peer has no more to say, or the server ends.
    fn speak(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> impl Future<Output = Result<(), Box<dyn std::error::Error + Send + Sync>>> + Send {
        let Limits {
            greeting_time,
            still_time,
            ..
        } = self.limits;
        let stream = TokioIo::new(Patience::new(stream, greeting_time, still_time));
        async move {
            let caller = Arc::new(Caller {
                address: self.peer.ip(),
                stop: self.stop.clone(),
            });
            let router = self.router;
            let service = service_fn(move |mut request: http::Request<Incoming>| {
                request.extensions_mut().insert(Arc::clone(&caller));
                // A router is always ready.
                router.clone().call(request)
            });
            let mut connection = pin!(self.http.0.serve_connection(stream, service));
            tokio::select! {
                ended = connection.as_mut() => return ended,
                () = self.stop.cancelled() => connection.as_mut().graceful_shutdown(),
            }
            connection.await
        }
    }
}
