//! Accepts connections, up to a limit in all and a limit per address.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use socket2::SockRef;
use tokio::task::JoinSet;

use super::connection::{Shared, serve};
use super::limits::{ACCEPT_PAUSE, BACKLOG, KEPT_SHARE, Limits};
use super::listener::PROXY;
use super::{Endpoint, Listener};

/// The slots for connections. Clones share them.
#[derive(Clone, Debug)]
pub struct Permits(Arc<Slots>);

#[derive(Debug)]
struct Slots {
    limits: Limits,
    /// The addresses of proxies, which may have more slots.
    trusted: Vec<IpAddr>,
    open: Mutex<HashMap<IpAddr, usize>>,
    refused: AtomicU64,
}

/// The right to one connection, released when dropped.
#[derive(Debug)]
pub(super) struct Permit {
    slots: Arc<Slots>,
    address: IpAddr,
}

impl Permits {
    /// The slots that `limits` allow. `trusted` has the addresses of proxies that limit their clients. A proxy may use
    /// all slots but a reserve for other peers: other users of its machine have its address too, and could otherwise
    /// take all slots.
    pub fn new(limits: &Limits, trusted: Vec<IpAddr>) -> Permits {
        Permits(Arc::new(Slots {
            limits: *limits,
            trusted,
            open: Mutex::default(),
            refused: AtomicU64::new(0),
        }))
    }

    /// Takes a slot. None if a limit is reached. Connections over the socket file may use the reserve too, as only the
    /// proxy can open that file.
    pub(super) fn take(&self, peer: IpAddr) -> Option<Permit> {
        let (address, limits) = (network(peer), &self.0.limits);
        let of_address = if address == PROXY {
            limits.connections
        } else if self.0.trusted.contains(&peer.to_canonical()) {
            limits.connections - limits.connections.div_ceil(KEPT_SHARE)
        } else {
            limits.connections_per_address
        };
        let mut open = self.0.open.lock();
        let is_full = open.values().sum::<usize>() >= limits.connections;
        if is_full || open.get(&address).is_some_and(|&open| open >= of_address) {
            self.0.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        *open.entry(address).or_default() += 1;
        let slots = Arc::clone(&self.0);
        Some(Permit { slots, address })
    }

    /// The connections that are open.
    pub fn open(&self) -> u64 {
        self.0.open.lock().values().sum::<usize>() as u64
    }

    /// The connections that were refused as too many.
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = self.slots.open.lock();
        if let Some(of_address) = open.get_mut(&self.address) {
            *of_address -= 1;
            if *of_address == 0 {
                open.remove(&self.address);
            }
        }
    }
}

/// The address under which a connection is counted. For IPv6 it is the network of 64 bits, as one host can use all
/// addresses of its network.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(
            address.to_bits() & !u128::from(u64::MAX),
        )),
    }
}

/// Serves the connections of one listener until the server stops. After that, open connections have
/// [`Limits::drain_time`] to end.
pub(super) async fn accept(endpoint: Endpoint, permits: Permits, shared: Arc<Shared>) {
    let Endpoint { listener, router } = endpoint;
    // tokio makes listeners with a backlog of 128. A second call of `listen` raises it.
    if let Listener::Port(port) = &listener
        && let Err(error) = SockRef::from(port).listen(BACKLOG)
    {
        tracing::warn!("connections that come all at once will be delayed: {error}");
    }
    // Dropping the set, at the end of this task, ends all connections.
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = shared.stop.cancelled() => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            // This error concerns one peer only.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset
                ) =>
            {
                continue;
            }
            Err(error) => {
                // The process may have no descriptor left. It can only wait until it has closed some.
                tracing::warn!("connections cannot be accepted, trying again: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(permit) = permits.take(peer.ip()) else {
            tracing::debug!("a connection of {peer} is refused: there are too many");
            continue;
        };
        let (router, shared) = (router.clone(), Arc::clone(&shared));
        connections.spawn(async move {
            let served = async { Box::pin(serve(stream?, router, shared)).await };
            // Any program may connect to an open port and break off, so the owner needs no warning.
            if let Err(error) = served.await {
                tracing::debug!("the connection of {peer} ended: {error}");
            }
            drop(permit);
        });
    }
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    let drained = tokio::time::timeout(shared.limits.drain_time, all).await;
    if drained.is_err() {
        tracing::debug!("connections were open when the server ended");
        connections.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_has_its_share_and_a_trusted_proxy_more() {
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
        assert!(take("10.0.0.2").is_none(), "all slots are taken");
        drop((silent, proxy));
        let proxy: Vec<Permit> = (0..9).filter_map(|_| take("10.0.0.9")).collect();
        assert_eq!(proxy.len(), 5);
        assert!(take("10.0.0.2").is_some(), "one place is kept for others");
        drop(proxy);
        assert_eq!(permits.open(), 0);
        assert!(permits.0.open.lock().is_empty());
        assert!(take("10.0.0.1").is_some());
        let proxy: Vec<Permit> = (0..9).filter_map(|_| permits.take(PROXY)).collect();
        assert_eq!(proxy.len(), 6);
    }
}
