//! Accepts connections, up to a limit in all and a share of it per address.

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
use super::shares::{Share, Shares, Spare};
use super::{Endpoint, Listener};

/// The places for connections, and for calls whose answers are not taken. Clones share them.
#[derive(Clone, Debug)]
pub struct Permits {
    connections: Shares<IpAddr>,
    answers: Shares<IpAddr>,
    limits: Limits,
    /// The addresses of proxies, which may have more places.
    trusted: Arc<[IpAddr]>,
    refused: Arc<AtomicU64>,
}

/// The peer of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    address: IpAddr,
    answers: Shares<IpAddr>,
    spare: Spare,
}

/// A call, in the extensions of its request. It has one of the places of its address until its answer is taken.
#[derive(Clone, Debug)]
pub struct Call {
    peer: Peer,
    place: Arc<Mutex<Option<Share<IpAddr>>>>,
}

impl Permits {
    /// The places that `limits` allow. `trusted` has the addresses of proxies that limit their clients. A proxy may use
    /// all places but a reserve for other peers: other users of its machine have its address too, and could otherwise
    /// take all.
    pub fn new(limits: &Limits, trusted: Vec<IpAddr>) -> Permits {
        Permits {
            connections: Shares::new(limits.connections),
            answers: Shares::new(limits.answer_units),
            limits: *limits,
            trusted: trusted.into(),
            refused: Arc::default(),
        }
    }

    /// Takes a place for a connection. None if there is none for this address. Connections over the socket file may
    /// use the reserve too, as only the proxy can open that file.
    pub(crate) fn take(&self, address: IpAddr) -> Option<(Share<IpAddr>, Peer)> {
        let spare = |places: usize| {
            if address == PROXY {
                Spare::Places(0)
            } else if self.trusted.contains(&address.to_canonical()) {
                Spare::Places(places.div_ceil(KEPT_SHARE))
            } else {
                Spare::Share(0)
            }
        };
        let of_connections = spare(self.limits.connections);
        let place = self.connections.take(network(address), 1, of_connections);
        if place.is_none() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        let peer = Peer {
            address,
            answers: self.answers.clone(),
            spare: spare(self.limits.answer_units),
        };
        Some((place?, peer))
    }

    /// The connections that are open.
    pub fn open(&self) -> u64 {
        self.connections.taken() as u64
    }

    /// The connections that were refused as too many.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

impl Peer {
    /// Takes memory for an answer, in units of [`ANSWER_UNIT_BYTES`](super::limits::ANSWER_UNIT_BYTES). None if there
    /// is none for this peer.
    pub(crate) fn take(&self, units: usize) -> Option<Share<IpAddr>> {
        self.answers.take(network(self.address), units, self.spare)
    }

    pub(super) fn call(&self) -> Option<Call> {
        let place = Arc::new(Mutex::new(Some(self.take(1)?)));
        let peer = self.clone();
        Some(Call { peer, place })
    }
}

impl Call {
    /// The address of its peer.
    pub fn address(&self) -> IpAddr {
        self.peer.address
    }

    /// Takes more memory for the answer, as [`Peer::take`] does.
    pub(crate) fn take(&self, units: usize) -> Option<Share<IpAddr>> {
        self.peer.take(units)
    }

    /// Gives the place back, as this call is one of a participant, who has places of its own.
    pub fn leave_place(&self) {
        drop(self.place.lock().take());
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
        let Some((place, from)) = permits.take(peer.ip()) else {
            tracing::debug!("a connection of {peer} is refused: there are too many");
            continue;
        };
        let (router, shared) = (router.clone(), Arc::clone(&shared));
        connections.spawn(async move {
            let served = async { Box::pin(serve(stream?, router, shared, from)).await };
            // Any program may connect to an open port and break off, so the owner needs no warning.
            if let Err(error) = served.await {
                tracing::debug!("the connection of {peer} ended: {error}");
            }
            drop(place);
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
            connections: 8,
            ..Limits::default()
        };
        let permits = Permits::new(&limits, vec!["10.0.0.9".parse().unwrap()]);
        let take = |address: &str| permits.take(address.parse().unwrap());
        let take_all = |address| std::iter::from_fn(|| take(address)).collect::<Vec<_>>();
        let silent = take_all("10.0.0.1");
        assert_eq!((silent.len(), permits.open(), permits.refused()), (4, 4, 1));
        assert!(take("::ffff:10.0.0.1").is_none(), "it is the same address");
        // One host has a whole network of IPv6.
        let network = ["fe80::1", "fe80::2", "fe80::3", "fe80:0:0:1::1"].map(take);
        let taken = network.each_ref().map(Option::is_some);
        assert_eq!(taken, [true, true, false, true]);
        drop((network, silent));
        let proxy = take_all("::ffff:10.0.0.9");
        assert_eq!((proxy.len(), permits.open()), (7, 7));
        let other = take("10.0.0.2");
        assert!(other.is_some(), "one place is kept for others");
        assert!(take("10.0.0.3").is_none(), "all are taken");
        drop((proxy, other));
        assert_eq!(permits.open(), 0);
        let proxy: Vec<_> = (0..9).filter_map(|_| permits.take(PROXY)).collect();
        assert_eq!(proxy.len(), 8);
    }
}
