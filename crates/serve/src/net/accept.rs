//! Takes connections in, and lets them go at the end.

use std::io;
use std::sync::Arc;

use axum::Router;
use socket2::SockRef;
use tokio::net::TcpListener;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use super::connection::{Connection, Shared};
use super::limits::{ACCEPT_PAUSE, ACCEPT_WARNING_EVERY, BACKLOG};

/// Serves the connections of one listener until the server is told to stop, and then until they are done.
pub(super) async fn accept(listener: TcpListener, router: Router, shared: Arc<Shared>) {
    // Whoever made the listener left it at 128.
    if let Err(error) = SockRef::from(&listener).listen(BACKLOG) {
        tracing::warn!("connections that come all at once will be delayed: {error}");
    }
    // Ends with this task, and all connections with it.
    let mut connections = JoinSet::new();
    let mut warned = None;
    loop {
        tokio::select! {
            () = shared.stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let Some(permit) = shared.permits.take(peer.ip()) else {
                        tracing::debug!("a connection of {peer} is refused: there are too many");
                        continue;
                    };
                    let (router, shared) = (router.clone(), Arc::clone(&shared));
                    let connection = Connection { peer, router, shared, permit };
                    connections.spawn(connection.serve(stream));
                }
                Err(error) if concerns_one_peer(&error) => {}
                Err(error) => {
                    // Without descriptors nobody gets in, and nothing but time helps.
                    if warned.is_none_or(|at: Instant| at.elapsed() >= ACCEPT_WARNING_EVERY) {
                        warned = Some(Instant::now());
                        tracing::warn!("connections cannot be accepted, trying again: {error}");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(ended) = connections.join_next() => log(ended),
        }
    }
    drop(listener);
    let all = async {
        while let Some(ended) = connections.join_next().await {
            log(ended);
        }
    };
    let drained = tokio::time::timeout(shared.limits.drain_time, all).await;
    if drained.is_err() {
        tracing::debug!("connections were open when the server ended");
        connections.shutdown().await;
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
