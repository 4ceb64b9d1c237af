//! The server's connections: accepting them, TLS, HTTP, and what one peer may cost.
//!
//! | module | holds |
//! |---|---|
//! | `limits` | every bound, with its reason |
//! | `accept` | takes connections in, and lets them go at the end |
//! | `connection` | serves one |
//! | `caller` | who makes a request |
//! | `permits` | the places for connections: strangers' and participants' |
//! | `usage` | what a connection is used for |
//! | `traffic` | calls and answers on their way, and how slow they may be |
//! | `rate` | how often somebody may come |
//! | `places` | what peers hold of what is limited in number, and who makes room for whom |
//!
//! hyper has the timers and limits of HTTP: heads, windows, streams, resets, pings. What is here no library has: tower
//! and governor count all calls or those of a key, and neither knows who makes room, a debt that is known after the
//! answer, or the least rate of a peer.
//!
//! A [`Router`] serves calls and pages alike: HTTP/2 and HTTP/1 are told apart by
//! their first bytes.

mod accept;
mod caller;
mod connection;
pub mod limits;
mod permits;
mod places;
mod rate;
#[cfg(test)]
mod tests;
mod traffic;
mod usage;

use std::sync::Arc;

use axum::Router;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

pub use caller::Caller;
pub use limits::{Limit, Limits};
pub use permits::Permits;
pub use rate::Rates;

pub(crate) use places::{Place, Places, network};

use accept::accept;
use connection::Shared;

/// Something to serve, and where.
#[derive(Debug)]
pub struct Endpoint {
    /// Where connections come from.
    pub listener: TcpListener,
    /// Answers their requests.
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
        let stop = CancellationToken::new();
        let shared = Shared::new(limits, tls.cloned(), permits.clone(), stop.clone());
        let shared = Arc::new(shared);
        let endpoints = endpoints.into_iter().map(|Endpoint { listener, router }| {
            AbortOnDropHandle::new(tokio::spawn(accept(listener, router, Arc::clone(&shared))))
        });
        Server {
            endpoints: endpoints.collect(),
            stop,
        }
    }

    /// Takes no more connections, and ends those that are open when their calls are done, or
    /// when [`Limits::drain_time`] is over.
    pub async fn stop(self) {
        self.stop.cancel();
        for endpoint in self.endpoints {
            if let Err(error) = endpoint.await {
                tracing::warn!("the server ended badly: {error}");
            }
        }
    }
}
