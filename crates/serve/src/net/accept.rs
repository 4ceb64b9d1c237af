//! Takes connections in, and lets them go at the end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use rustls::ServerConfig;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::connection::{Connection, Shared};
use super::limits::{ACCEPT_PAUSE, ACCEPT_WARNING_EVERY, BACKLOG};
use super::permits::Permits;

/// Accepts the connections of one listener.
#[derive(Debug)]
pub(super) struct Acceptor {
    router: Router,
    tls: Option<Arc<ServerConfig>>,
    shared: Arc<Shared>,
    permits: Permits,
    stop: CancellationToken,
    /// Ends with the acceptor, and all connections with it.
    connections: JoinSet<()>,
    warned: Option<Instant>,
}

impl Acceptor {
    pub(super) fn new(
        router: Router,
        tls: Option<Arc<ServerConfig>>,
        shared: Arc<Shared>,
        permits: Permits,
        stop: CancellationToken,
    ) -> Acceptor {
        Acceptor {
            router,
            tls,
            shared,
            permits,
            stop,
            connections: JoinSet::new(),
            warned: None,
        }
    }

    /// Runs until it is told to stop, and then until the connections are done.
    pub(super) async fn run(mut self, listener: TcpListener) {
        let stop = self.stop.clone();
        // Whoever made the listener left it at 128.
        if let Err(error) = SockRef::from(&listener).listen(BACKLOG) {
            tracing::warn!("connections that come all at once will be delayed: {error}");
        }
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => self.take(stream, peer),
                    Err(error) if concerns_one_peer(&error) => {}
                    Err(error) => {
                        self.warn(&error);
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(ended) = self.connections.join_next() => log(ended),
            }
        }
        drop(listener);
        self.drain().await;
    }

    fn take(&mut self, stream: TcpStream, peer: SocketAddr) {
        let Some(permit) = self.permits.take(peer.ip()) else {
            tracing::debug!("a connection of {peer} is refused: there are too many");
            return;
        };
        let connection = Connection {
            peer,
            router: self.router.clone(),
            tls: self.tls.clone(),
            shared: Arc::clone(&self.shared),
            stop: self.stop.clone(),
            permit,
        };
        self.connections.spawn(connection.serve(stream));
    }

    /// Without descriptors nobody gets in, and nothing but time helps.
    fn warn(&mut self, error: &io::Error) {
        let recently = |at: Instant| at.elapsed() < ACCEPT_WARNING_EVERY;
        if !self.warned.is_some_and(recently) {
            self.warned = Some(Instant::now());
            tracing::warn!("connections cannot be accepted, trying again: {error}");
        }
    }

    async fn drain(&mut self) {
        let all = async {
            while let Some(ended) = self.connections.join_next().await {
                log(ended);
            }
        };
        if tokio::time::timeout(self.shared.limits.drain_time, all)
            .await
            .is_err()
        {
            tracing::debug!("connections were open when the server ended");
            self.connections.shutdown().await;
        }
    }
}

/// Whether the next connection may be accepted at once.
fn concerns_one_peer(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

fn log(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!("a connection ended badly: {error}");
    }
}
