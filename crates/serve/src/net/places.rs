//! Places for what is limited in number, shared among peers.
//!
//! Each peer has a limit. When no place is left, a newcomer gets one of the peer that has the most, if that has more
//! than the newcomer will have: first one that has had nothing under way for the longest time, else the oldest. If all
//! have as many as the newcomer will have, it gets one that has nothing under way. So whatever others do with their
//! places, a peer finds as many as they have. What takes more than another, as a large answer, counts as several.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::limits::Limit;
use super::usage::ConnectionUse;

/// The places that peers hold. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Places<P> {
    held: Arc<Mutex<HolderPlaces<P>>>,
}

#[derive(Debug)]
struct HolderPlaces<P> {
    most: Limit,
    next: u64,
    total: u32,
    by_peer: HashMap<P, Own>,
}

/// The places of one peer.
#[derive(Debug, Default)]
struct Own {
    total: u32,
    by_number: BTreeMap<u64, Holding>,
}

/// A place that is held.
#[derive(Debug)]
struct Holding {
    size: u32,
    over: CancellationToken,
    /// Tells whether anything is under way; without it, something always is.
    usage: Option<Weak<ConnectionUse>>,
}

/// The right to one of them, given back when dropped.
#[derive(Debug)]
pub(crate) struct Place<P: Copy + Eq + Hash> {
    peer: P,
    number: u64,
    places: Places<P>,
    over: CancellationToken,
}

impl<P: Copy + Eq + Hash> Places<P> {
    /// As many as this says.
    pub(crate) fn new(most: Limit) -> Places<P> {
        let held = HolderPlaces {
            most,
            next: 0,
            total: 0,
            by_peer: HashMap::new(),
        };
        Places {
            held: Arc::new(Mutex::new(held)),
        }
    }

    /// A place in which something is under way until it is dropped; none if that is too many.
    pub(crate) fn take(&self, peer: P) -> Option<Place<P>> {
        let holding = Holding {
            size: 1,
            over: CancellationToken::new(),
            usage: None,
        };
        self.take_with(peer, holding)
    }

    /// Places for what a connection has or is, which ends with it.
    pub(super) fn take_for(
        &self,
        peer: P,
        size: u32,
        usage: &Arc<ConnectionUse>,
    ) -> Option<Place<P>> {
        let holding = Holding {
            size,
            over: usage.over.clone(),
            usage: Some(Arc::downgrade(usage)),
        };
        self.take_with(peer, holding)
    }

    fn take_with(&self, peer: P, holding: Holding) -> Option<Place<P>> {
        let mut held = self.now();
        let most = held.most;
        let over = holding.over.clone();
        let own = held.by_peer.get(&peer).map_or(0, |own| own.total) + holding.size;
        if own > most.each {
            return None;
        }
        while held.total + holding.size > most.all {
            held.make_room(own)?;
        }
        held.next += 1;
        held.total += holding.size;
        let number = held.next;
        let all = held.by_peer.entry(peer).or_default();
        all.total += holding.size;
        all.by_number.insert(number, holding);
        Some(Place {
            peer,
            number,
            places: self.clone(),
            over,
        })
    }

    /// How many are held.
    pub(crate) fn open(&self) -> u32 {
        self.now().total
    }

    fn now(&self) -> MutexGuard<'_, HolderPlaces<P>> {
        // The counts are right at every moment, whoever panicked.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P: Copy + Eq + Hash> HolderPlaces<P> {
    /// Takes a place from somebody for a peer that will have `least`; none if nobody has one to give away.
    fn make_room(&mut self, least: u32) -> Option<()> {
        let most = self.by_peer.values().map(|own| own.total).max()?;
        let of_most = self.by_peer.iter().filter(|(_, own)| own.total == most);
        let places = of_most.flat_map(|(&peer, own)| {
            let all = own.by_number.iter();
            all.map(move |(&number, holding)| (holding.rank(number), peer))
        });
        let ((is_busy, _, number), peer) = places.min_by_key(|(rank, _)| *rank)?;
        if most < least || most == least && is_busy {
            return None;
        }
        self.remove(peer, number)?.over.cancel();
        Some(())
    }

    fn remove(&mut self, peer: P, number: u64) -> Option<Holding> {
        let own = self.by_peer.get_mut(&peer)?;
        let removed = own.by_number.remove(&number)?;
        own.total -= removed.size;
        self.total -= removed.size;
        if own.by_number.is_empty() {
            self.by_peer.remove(&peer);
        }
        Some(removed)
    }
}

impl Holding {
    /// The least goes first: whether anything is under way, since when nothing is, and the number.
    fn rank(&self, number: u64) -> (bool, Option<Instant>, u64) {
        let usage = self.usage.as_ref().and_then(Weak::upgrade);
        let idle = usage.and_then(|usage| usage.idle_since());
        (idle.is_none(), idle, number)
    }
}

impl<P: Copy + Eq + Hash> Place<P> {
    /// Waits until another peer gets it.
    pub(crate) async fn is_lost(&self) {
        self.over.cancelled().await;
    }
}

impl<P: Copy + Eq + Hash> Drop for Place<P> {
    fn drop(&mut self) {
        self.places.now().remove(self.peer, self.number);
    }
}

/// Who an address is counted as: anybody has 2^64 addresses of IPv6.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(
            address.to_bits() & !u128::from(u64::MAX),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::usage::Call;
    use super::*;

    #[test]
    fn a_network_is_one_peer() {
        let of = |address: &str| network(address.parse().unwrap());
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_eq!(of("fe80::1:1"), of("fe80::2:1"));
        assert_ne!(of("fe80::1"), of("fe80:0:0:1::1"));
    }

    /// Few that take all there is leave every newcomer as many as they keep.
    #[test]
    fn who_has_the_most_makes_room() {
        let places = Places::new(Limit { all: 12, each: 6 });
        let greedy: Vec<_> = "aaaaaabbbbbb"
            .chars()
            .map(|peer| places.take(peer))
            .collect();
        assert!(greedy.iter().all(Option::is_some));
        let newcomers: Vec<_> = (0..4).filter_map(|_| places.take('c')).collect();
        assert_eq!(newcomers.len(), 4);
        assert!(places.take('c').is_none(), "all have the same now");
        assert!(places.take('a').is_none());
        assert_eq!(places.open(), 12);
        let is_lost = |place: &Option<Place<char>>| place.as_ref().unwrap().over.is_cancelled();
        let lost: Vec<_> = (0..12).filter(|&at| is_lost(&greedy[at])).collect();
        assert_eq!(lost.len(), 4);
        assert!(
            lost.contains(&0) && lost.contains(&6),
            "the oldest go: {lost:?}"
        );
        // A place that is dropped after it was lost frees nothing.
        drop(greedy);
        assert_eq!(places.open(), 4);
        drop(newcomers);
        assert!(places.now().by_peer.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_nothing_under_way_goes_first() {
        let places = Places::new(Limit { all: 3, each: 3 });
        let usages = [(); 3].map(|()| Arc::<ConnectionUse>::default());
        let held = usages
            .each_ref()
            .map(|it| places.take_for('a', 1, it).unwrap());
        let calls = [0, 2].map(|at| Call::begin(&usages[at]));
        tokio::time::sleep(Duration::from_secs(1)).await;
        let other = places.take('b').unwrap();
        assert!(usages[1].over.is_cancelled());
        drop(calls);
        tokio::time::sleep(Duration::from_secs(1)).await;
        // Of those who have as many, only one with nothing under way.
        let second = places.take_for('c', 1, &usages[1]).unwrap();
        assert!(usages[0].over.is_cancelled());
        let _calls = [1, 2].map(|at| Call::begin(&usages[at]));
        let third = places.take('d');
        assert!(third.is_none() && places.open() == 3);
        drop((other, second, held));
    }

    /// Large things, of a peer with many, make room for those of one with few.
    #[tokio::test]
    async fn what_is_large_counts_as_several() {
        let places = Places::new(Limit { all: 12, each: 8 });
        let usages = [(); 4].map(|()| Arc::<ConnectionUse>::default());
        let take = |at: usize, peer, size| places.take_for(peer, size, &usages[at]);
        let first = take(0, 'a', 5);
        assert!(first.is_some() && take(0, 'a', 4).is_none());
        let second = take(1, 'a', 3);
        let third = take(2, 'b', 6);
        assert_eq!(places.open(), 9);
        let ended = usages.each_ref().map(|it| it.over.is_cancelled());
        assert_eq!(ended, [true, false, false, false]);
        assert!(take(3, 'c', 7).is_none(), "nobody has more than that");
        drop((first, second, third));
        assert_eq!(places.open(), 0);
    }
}
