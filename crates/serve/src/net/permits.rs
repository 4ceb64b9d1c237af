//! The places for connections. A connection is its address's until a call with a valid token comes over it, and its
//! participant's from then on.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::limits::Limits;
use super::places::{Place, Places, network};
use super::usage::ConnectionUse;

/// The connections that are open. Clones share them.
#[derive(Clone, Debug)]
pub struct Permits {
    strangers: Places<IpAddr>,
    participants: Places<u64>,
    refused: Arc<AtomicU64>,
}

/// The right to one connection, given back when dropped.
#[derive(Debug)]
pub(super) struct Permit {
    permits: Permits,
    pub(super) usage: Arc<ConnectionUse>,
    stranger: Mutex<Option<Place<IpAddr>>>,
    /// Of whose token was shown first.
    participant: OnceLock<Place<u64>>,
}

impl Limits {
    /// The places for connections.
    pub fn permits(&self) -> Permits {
        Permits {
            strangers: Places::new(self.strangers),
            participants: Places::new(self.participants),
            refused: Arc::default(),
        }
    }
}

impl Permits {
    /// A place for a peer, unless that is too many.
    pub(super) fn take(&self, peer: IpAddr) -> Option<Arc<Permit>> {
        let usage = Arc::<ConnectionUse>::default();
        let Some(place) = self.strangers.take_for(network(peer), 1, &usage) else {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        Some(Arc::new(Permit {
            permits: self.clone(),
            usage,
            stranger: Mutex::new(Some(place)),
            participant: OnceLock::new(),
        }))
    }

    /// The connections that are open.
    pub fn open(&self) -> u64 {
        u64::from(self.strangers.open() + self.participants.open())
    }

    /// The connections that were refused as too many.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

impl Permit {
    /// A token of this participant was shown; whether the participant may have one more connection.
    pub(super) fn admit(&self, participant: u64) -> bool {
        if self.usage.is_admitted() {
            return true;
        }
        let places = &self.permits.participants;
        let Some(place) = places.take_for(participant, 1, &self.usage) else {
            return false;
        };
        // Two calls may come at once.
        if self.participant.set(place).is_ok() {
            self.usage.admit();
            let stranger = self.stranger.lock();
            stranger.unwrap_or_else(PoisonError::into_inner).take();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::Limit;
    use super::*;

    fn permits() -> Permits {
        let limits = Limits {
            strangers: Limit { all: 4, each: 2 },
            participants: Limit { all: 6, each: 4 },
            ..Limits::default()
        };
        limits.permits()
    }

    fn take(permits: &Permits, address: &str) -> Option<Arc<Permit>> {
        permits.take(address.parse().unwrap())
    }

    fn has_ended(permit: &Permit) -> bool {
        permit.usage.over.is_cancelled()
    }

    /// Also where somebody has shown a token.
    #[tokio::test]
    async fn strangers_never_have_the_places_of_participants() {
        let permits = permits();
        let worker = take(&permits, "10.0.0.1").unwrap();
        assert!(worker.admit(7) && worker.admit(7));
        let silent: Vec<_> = (0..9).filter_map(|_| take(&permits, "10.0.0.1")).collect();
        assert_eq!((silent.len(), permits.refused()), (2, 7));
        let others = ["10.0.0.2", "10.0.0.2", "10.0.0.3"].map(|it| take(&permits, it).unwrap());
        assert_eq!(permits.open(), 5);
        assert!(silent.iter().chain(&others).any(|permit| has_ended(permit)));
        assert!(others[2].admit(8) && !has_ended(&worker));
        // Anybody has 2^64 addresses of IPv6.
        let one = ["fe80::1", "fe80::2", "fe80::3"].map(|it| take(&permits, it));
        assert!(one[1].is_some() && one[2].is_none());
        drop((silent, others, worker, one));
        assert_eq!(permits.open(), 0);
    }

    #[tokio::test]
    async fn one_participant_at_many_addresses_never_has_all_places() {
        let permits = permits();
        let mut hostile = Vec::new();
        for number in 1..=6 {
            let permit = take(&permits, &format!("10.0.0.{number}")).unwrap();
            let admitted = permit.admit(7);
            assert_eq!(admitted, number <= 4);
            // It is a stranger's still.
            hostile.push(permit);
        }
        let honest = [8, 9].map(|number| take(&permits, &format!("10.0.1.{number}")).unwrap());
        assert!(honest.iter().all(|permit| permit.admit(1)));
        let third = take(&permits, "10.0.1.3").unwrap();
        assert!(third.admit(1), "it has fewer than the other");
        assert!(hostile[..4].iter().any(|permit| has_ended(permit)));
    }
}
