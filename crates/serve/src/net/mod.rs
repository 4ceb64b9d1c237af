//! The server's connections: accepting them, TLS, HTTP, and their limits.
//!
//! | module | holds |
//! |---|---|
//! | [`limits`] | every bound, with its reason |
//! | `accept` | accepts connections, up to a limit in all and to a share of it for each address |
//! | `listener` | a port, or a socket file for a proxy on this machine |
//! | `connection` | the TLS handshake and HTTP over one connection, and its end if it stands still |
//! | `shares` | what each party may have of what all parties share |
//! | `taking` | the end of an answer that its peer does not take, and what is held until it is taken |
//!
//! One [`Router`] answers gRPC calls and requests for pages. The first bytes of a connection show whether the peer
//! speaks HTTP/2 or HTTP/1.

mod accept;
mod connection;
pub mod limits;
mod listener;
mod shares;
mod taking;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::Router;
use rustls::ServerConfig;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

pub use accept::{Call, Permits};
pub use limits::Limits;
#[cfg(test)]
pub(crate) use listener::PROXY;
pub use listener::{Listener, SocketFile};
pub use shares::{Share, Shares, Spare};
pub use taking::holding;

use connection::Shared;

/// Cancelled when the server is to stop: endless answers, such as event streams, then end. Each request has it in its
/// extensions.
#[derive(Clone, Debug)]
pub struct Stopping(pub CancellationToken);

/// A router, and the listener on which it is served.
#[derive(Debug)]
pub struct Endpoint {
    /// The source of connections.
    pub listener: Listener,
    /// Answers the requests of these connections.
    pub router: Router,
}

/// A running server. Dropping it ends all connections at once.
#[derive(Debug)]
pub struct Server {
    endpoints: Vec<AbortOnDropHandle<()>>,
    stop: CancellationToken,
}

impl Server {
    /// Serves on all `endpoints`, over TLS if there is a configuration for it.
    #[expect(clippy::disallowed_methods, reason = "`stop` waits for the tasks")]
    pub fn start(
        endpoints: Vec<Endpoint>,
        tls: Option<&Arc<ServerConfig>>,
        limits: Limits,
        permits: &Permits,
    ) -> Server {
        let shared = Arc::new(Shared::new(limits, tls));
        let endpoints = endpoints.into_iter().map(|endpoint| {
            let accepting = accept::accept(endpoint, permits.clone(), Arc::clone(&shared));
            AbortOnDropHandle::new(tokio::spawn(accepting))
        });
        Server {
            endpoints: endpoints.collect(),
            stop: shared.stop.clone(),
        }
    }

    /// Accepts no more connections, and ends the open ones when their calls are done or [`Limits::drain_time`] is over.
    pub async fn stop(self) {
        self.stop.cancel();
        for endpoint in self.endpoints {
            if let Err(error) = endpoint.await {
                tracing::warn!("the server ended badly: {error}");
            }
        }
    }
}
