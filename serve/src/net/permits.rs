//! The places for connections, and how many each holder and address has.
//!
//! A connection is a stranger's until a call with a valid token comes over it. Strangers have a part
//! of all places, and few from one address, so that those who have a token always find one. Where a
//! token was shown, others from the same address have some too, most likely: they are no strangers.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::time::Instant;

use super::limits::{KNOWN_MAX, KNOWN_TIME, Limits};
use super::slots::network;
use super::standing::Standing;

/// The connections that are open. Clones share them.
#[derive(Clone, Debug)]
pub struct Permits {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    limits: Limits,
    open: Mutex<Open>,
    refused: AtomicU64,
}

#[derive(Debug, Default)]
struct Open {
    total: usize,
    next: u64,
    by_address: HashMap<IpAddr, Count>,
    /// The connections over which a token was shown, by whose it is.
    by_holder: HashMap<u64, usize>,
    /// The connections that are counted as strangers', by their numbers.
    strangers: HashMap<u64, Stranger>,
    /// The addresses from which a token was shown, and when that was last.
    known: HashMap<IpAddr, Instant>,
}

#[derive(Debug)]
struct Stranger {
    address: IpAddr,
    standing: Arc<Standing>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    all: usize,
    strangers: usize,
}

/// The right to one connection, given back when dropped.
#[derive(Debug)]
pub(super) struct Permit {
    number: u64,
    address: IpAddr,
    permits: Permits,
    standing: Arc<Standing>,
    /// Whose token was shown first.
    holder: OnceLock<u64>,
}

impl Permits {
    pub(super) fn new(limits: Limits) -> Permits {
        Permits {
            shared: Arc::new(Shared {
                limits,
                open: Mutex::default(),
                refused: AtomicU64::new(0),
            }),
        }
    }

    /// A place for a peer, unless that is too many. If strangers have all places that they get, the
    /// one of them makes room that has had nothing to ask for the longest time.
    pub(super) fn take(&self, peer: IpAddr) -> Option<Arc<Permit>> {
        let permit = self.try_take(network(peer));
        if permit.is_none() {
            self.shared.refused.fetch_add(1, Ordering::Relaxed);
        }
        permit
    }

    fn try_take(&self, address: IpAddr) -> Option<Arc<Permit>> {
        let limits = &self.shared.limits;
        let mut open = self.now();
        let count = open.by_address.get(&address).copied().unwrap_or_default();
        if count.all >= limits.connections_per_address {
            return None;
        }
        let is_stranger = !open.is_known(address);
        if is_stranger && count.strangers >= limits.strangers_per_address {
            return None;
        }
        let no_room = is_stranger && open.strangers.len() >= limits.strangers;
        if no_room || open.total >= limits.connections {
            open.make_room()?;
        }
        open.total += 1;
        open.next += 1;
        let (number, standing) = (open.next, Arc::new(Standing::new()));
        let count = open.by_address.entry(address).or_default();
        count.all += 1;
        if is_stranger {
            count.strangers += 1;
            let standing = Arc::clone(&standing);
            open.strangers
                .insert(number, Stranger { address, standing });
        }
        Some(Arc::new(Permit {
            number,
            address,
            permits: self.clone(),
            standing,
            holder: OnceLock::new(),
        }))
    }

    /// The connections that are open.
    pub fn open(&self) -> u64 {
        self.now().total as u64
    }

    /// The connections that were refused as too many.
    pub fn refused(&self) -> u64 {
        self.shared.refused.load(Ordering::Relaxed)
    }

    fn now(&self) -> MutexGuard<'_, Open> {
        // The counts are right at every moment, whoever panicked.
        let lock = self.shared.open.lock();
        lock.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn is_known(&self, address: IpAddr) -> bool {
        let shown = self.known.get(&address);
        shown.is_some_and(|shown| shown.elapsed() < KNOWN_TIME)
    }

    fn make_known(&mut self, address: IpAddr) {
        if self.known.len() >= KNOWN_MAX {
            self.known.retain(|_, shown| shown.elapsed() < KNOWN_TIME);
        }
        if self.known.len() < KNOWN_MAX {
            self.known.insert(address, Instant::now());
        }
    }

    /// Ends a stranger's connection; none if all of them have something under way. It is gone in a
    /// moment, and is counted no more as a stranger's.
    fn make_room(&mut self) -> Option<()> {
        let strangers = self.strangers.iter();
        let idle = strangers.filter_map(|(number, stranger)| {
            let since = stranger.standing.idle_since()?;
            Some((since, *number))
        });
        let (_, number) = idle.min()?;
        self.end_stranger(number)?.end();
        Some(())
    }

    /// Counts a connection no more as a stranger's.
    fn end_stranger(&mut self, number: u64) -> Option<Arc<Standing>> {
        let Stranger { address, standing } = self.strangers.remove(&number)?;
        if let Some(count) = self.by_address.get_mut(&address) {
            count.strangers -= 1;
        }
        Some(standing)
    }
}

impl Permit {
    pub(super) fn standing(&self) -> &Arc<Standing> {
        &self.standing
    }

    /// A token of this holder was shown; whether the holder may have one more connection.
    pub(super) fn admit(&self, holder: u64) -> bool {
        if self.standing.is_admitted() {
            return true;
        }
        let mut open = self.permits.now();
        let count = open.by_holder.entry(holder).or_default();
        if *count >= self.permits.shared.limits.connections_per_holder {
            return false;
        }
        // Two calls may come at once.
        if self.holder.set(holder).is_ok() {
            *count += 1;
        }
        self.standing.admit();
        open.make_known(self.address);
        open.end_stranger(self.number);
        true
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let admitted = self.standing.is_admitted();
        let mut open = self.permits.now();
        if admitted {
            open.make_known(self.address);
        }
        open.end_stranger(self.number);
        open.total -= 1;
        if let Some(holder) = self.holder.get()
            && let Some(count) = open.by_holder.get_mut(holder)
        {
            *count -= 1;
            if *count == 0 {
                open.by_holder.remove(holder);
            }
        }
        if let Some(count) = open.by_address.get_mut(&self.address) {
            count.all -= 1;
            if count.all == 0 {
                open.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::standing::Call;
    use super::*;

    fn permits(connections: usize, each: usize, strangers: usize, few: usize) -> Permits {
        Permits::new(Limits {
            connections,
            connections_per_address: each,
            strangers,
            strangers_per_address: few,
            ..Limits::default()
        })
    }

    fn take(permits: &Permits, address: &str) -> Option<Arc<Permit>> {
        permits.take(address.parse().unwrap())
    }

    fn has_ended(permit: &Permit) -> bool {
        permit.standing.has_ended()
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_never_have_all_places() {
        let permits = permits(6, 6, 4, 2);
        let strangers = ["10.0.0.1", "::ffff:10.0.0.1", "10.0.0.2", "10.0.0.2"];
        let strangers = strangers.map(|address| take(&permits, address).unwrap());
        assert!(
            take(&permits, "10.0.0.1").is_none(),
            "that address has its part"
        );
        assert_eq!((permits.open(), permits.refused()), (4, 1));
        // Somebody else: the first of those who have nothing under way makes room.
        let under_way = Call::begin(strangers[0].standing());
        tokio::time::sleep(Duration::from_secs(1)).await;
        let newcomer = take(&permits, "10.0.0.3").unwrap();
        let ended = strangers.each_ref().map(|permit| has_ended(permit));
        assert_eq!(ended.iter().filter(|ended| **ended).count(), 1);
        assert!(!ended[0]);
        // It shows a token: it is nobody's to end any more, and its address has the other places.
        assert!(newcomer.admit(1));
        let more = [(); 1].map(|()| take(&permits, "10.0.0.3").unwrap());
        assert_eq!(permits.open(), 6);
        // When there are none left, strangers make room for those who are known.
        let last = take(&permits, "10.0.0.3").unwrap();
        let busy = Call::begin(last.standing());
        for _ in 0..20 {
            let _ = take(&permits, "10.0.0.4");
        }
        assert!(!has_ended(&newcomer) && !has_ended(&last) && !has_ended(&more[0]));
        drop((under_way, busy, more, last, strangers, newcomer));
        assert_eq!(permits.open(), 0);
        assert!(permits.now().by_address.is_empty() && permits.now().strangers.is_empty());
        // It is known for a while.
        let again = [(); 3].map(|()| take(&permits, "10.0.0.3"));
        assert!(again.iter().all(Option::is_some));
        drop(again);
        tokio::time::sleep(KNOWN_TIME).await;
        let again = [(); 3].map(|()| take(&permits, "10.0.0.3").is_some());
        assert_eq!(again, [true, true, true], "they are dropped at once");
        let held = [(); 3].map(|()| take(&permits, "10.0.0.3"));
        assert!(held[2].is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn one_holder_at_many_addresses_never_has_all_places() {
        let permits = Permits::new(Limits {
            connections: 8,
            connections_per_holder: 4,
            ..Limits::default()
        });
        let holder: Vec<_> = (1..=5)
            .map(|number| take(&permits, &format!("10.0.0.{number}")).unwrap())
            .collect();
        let admitted: Vec<_> = holder.iter().map(|permit| permit.admit(7)).collect();
        assert_eq!(admitted, [true, true, true, true, false]);
        assert!(holder[0].admit(7), "the same again is no other");
        // It is a stranger's still, and makes room for others.
        let others = [6, 7, 8, 9].map(|number| take(&permits, &format!("10.0.0.{number}")));
        assert!(has_ended(&holder[4]));
        assert!(others.iter().flatten().all(|permit| permit.admit(8)));
        drop(holder);
        let again = take(&permits, "10.0.0.1").unwrap();
        assert!(again.admit(7));
        drop((again, others));
        assert!(permits.now().by_holder.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_makes_room_who_is_at_something() {
        let permits = permits(6, 6, 2, 2);
        let held = ["10.0.0.1", "10.0.0.2"].map(|address| take(&permits, address).unwrap());
        let calls = held.each_ref().map(|permit| Call::begin(permit.standing()));
        assert!(take(&permits, "10.0.0.3").is_none());
        drop(calls);
        assert!(take(&permits, "10.0.0.3").is_some());
        assert!(held.iter().any(|permit| has_ended(permit)));
    }
}
