//! Accepts connections: so many in all, and so many from one address.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use parking_lot::Mutex;
use rustls::ServerConfig;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use super::connection::{Connection, Ended, Shared, Stream};
use super::limits::{ACCEPT_PAUSE, ACCEPT_WARNING_EVERY, BACKLOG, GONE_TIME, Limits, UNSENT_BYTES};

/// The places for connections. Clones share them.
#[derive(Clone, Debug)]
pub struct Permits(Arc<Places>);

#[derive(Debug)]
struct Places {
    limits: Limits,
    /// The addresses that may have all places.
    trusted: Vec<IpAddr>,
    free: Arc<Semaphore>,
    by_address: Mutex<HashMap<IpAddr, usize>>,
    refused: AtomicU64,
}

/// The right to one connection, released when dropped.
#[derive(Debug)]
pub(super) struct Permit {
    places: Arc<Places>,
    address: IpAddr,
    _place: OwnedSemaphorePermit,
}

impl Permits {
    /// As many as `limits` say. The addresses in `trusted`, of proxies that limit their clients, may have all.
    pub fn new(limits: &Limits, trusted: Vec<IpAddr>) -> Permits {
        Permits(Arc::new(Places {
            limits: *limits,
            trusted,
            free: Arc::new(Semaphore::new(limits.connections)),
            by_address: Mutex::default(),
            refused: AtomicU64::new(0),
        }))
    }

    /// A place for a peer, unless that is one too many.
    pub(super) fn take(&self, peer: IpAddr) -> Option<Permit> {
        let permit = self.0.take(peer);
        if permit.is_none() {
            self.0.refused.fetch_add(1, Ordering::Relaxed);
        }
        permit
    }

    /// The connections that are open.
    pub fn open(&self) -> u64 {
        (self.0.limits.connections - self.0.free.available_permits()) as u64
    }

    /// The connections that were refused as too many.
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }
}

impl Places {
    fn take(self: &Arc<Places>, peer: IpAddr) -> Option<Permit> {
        let address = network(peer);
        let place = Arc::clone(&self.free).try_acquire_owned().ok()?;
        let mut by_address = self.by_address.lock();
        let open = by_address.entry(address).or_default();
        let is_trusted = self.trusted.contains(&peer.to_canonical());
        if *open >= self.limits.connections_per_address && !is_trusted {
            return None;
        }
        *open += 1;
        Some(Permit {
            places: Arc::clone(self),
            address,
            _place: place,
        })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut by_address = self.places.by_address.lock();
        if let Some(open) = by_address.get_mut(&self.address) {
            *open -= 1;
            if *open == 0 {
                by_address.remove(&self.address);
            }
        }
    }
}

/// The address that a connection counts for: one host has 2^64 addresses of IPv6.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(
            address.to_bits() & !u128::from(u64::MAX),
        )),
    }
}

/// The state that the listeners of a server share.
#[derive(Clone, Debug)]
pub(super) struct Door {
    pub(super) permits: Permits,
    pub(super) tls: Option<Arc<ServerConfig>>,
    pub(super) shared: Arc<Shared>,
}

/// Serves the connections of one listener until the server is told to stop, and then until they are done.
pub(super) async fn accept(listener: TcpListener, router: Router, door: Door) {
    let shared = &door.shared;
    // Listeners are made with a backlog of 128.
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
                    let Some(permit) = door.permits.take(peer.ip()) else {
                        tracing::debug!("a connection of {peer} is refused: there are too many");
                        continue;
                    };
                    let (router, door) = (router.clone(), door.clone());
                    connections.spawn(async move {
                        // Any program may connect to an open port and break off.
                        if let Err(error) = serve(stream, router, door, permit).await {
                            tracing::debug!("the connection of {peer} ended: {error}");
                        }
                    });
                }
                Err(error) if concerns_one_peer(&error) => {}
                Err(error) => {
                    // Without descriptors no connection is accepted, and nothing but time helps.
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

async fn serve(stream: TcpStream, router: Router, door: Door, permit: Permit) -> Ended {
    let Door { tls, shared, .. } = door;
    stream.set_nodelay(true)?;
    let socket = SockRef::from(&stream);
    #[cfg(target_os = "linux")]
    socket.set_tcp_notsent_lowat(UNSENT_BYTES)?;
    #[cfg(not(target_os = "linux"))]
    socket.set_send_buffer_size(UNSENT_BYTES as usize)?;
    // The kernel notices a peer that vanishes.
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(GONE_TIME))?;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(GONE_TIME / 2))?;

    let stream: Box<dyn Stream> = match tls {
        None => Box::new(stream),
        Some(tls) => {
            let handshake = TlsAcceptor::from(tls).accept(stream);
            let handshake = tokio::time::timeout(shared.limits.tls_time, handshake);
            Box::new(Box::pin(handshake).await??)
        }
    };
    let served = Connection::new(router, shared).serve(stream);
    let ended = Box::pin(served).await;
    drop(permit);
    ended
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_has_its_share_and_a_trusted_proxy_all() {
        let limits = Limits {
            connections: 6,
            connections_per_address: 2,
            ..Limits::default()
        };
        let permits = Permits::new(&limits, vec!["10.0.0.9".parse().unwrap()]);
        let take = |address: &str| permits.take(address.parse().unwrap());
        let silent: Vec<Permit> = (0..5).filter_map(|_| take("10.0.0.1")).collect();
        assert_eq!((silent.len(), permits.open(), permits.refused()), (2, 2, 3));
        assert!(take("::ffff:10.0.0.1").is_none(), "it is the same address");
        // One host has a whole network of IPv6.
        let network = ["fe80::1", "fe80::2", "fe80::3", "fe80:0:0:1::1"].map(take);
        let taken = network.each_ref().map(Option::is_some);
        assert_eq!(taken, [true, true, false, true]);
        drop(network);
        let proxy: Vec<Permit> = (0..9).filter_map(|_| take("::ffff:10.0.0.9")).collect();
        assert_eq!((proxy.len(), permits.open()), (4, 6));
        assert!(take("10.0.0.2").is_none(), "all places are taken");
        drop((silent, proxy));
        assert_eq!(permits.open(), 0);
        assert!(permits.0.by_address.lock().is_empty());
        assert!(take("10.0.0.1").is_some());
    }
}
