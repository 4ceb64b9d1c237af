//! How many requests an address may make.
//!
//! Each address has a bucket of tokens, twice as many as it gets a second. What is kept of a bucket
//! is the moment at which it will be full again, so a full one is the same as none, and is forgotten.
//! What a request costs is known when it was answered: it takes the first token, and leaves a debt.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::slots::network;

/// The addresses whose buckets are known at a time, of some 50 bytes each. All beyond share one.
const ADDRESSES_MAX: usize = 1 << 16;
/// How often full buckets are looked for when there is no room for another.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// The longest debt: an address may be that of many people.
const DEBT_MAX: Duration = Duration::from_mins(1);
/// The one bucket of all for whom there is no room.
const OTHERS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// The buckets of all addresses.
#[derive(Debug)]
pub(crate) struct Rates {
    /// The time in which a bucket gets a token.
    each: Duration,
    /// The time in which an empty one gets full.
    full: Duration,
    addresses_max: usize,
    buckets: Mutex<Buckets>,
}

#[derive(Debug, Default)]
struct Buckets {
    full_at: HashMap<IpAddr, Instant>,
    swept: Option<Instant>,
}

impl Rates {
    /// So many requests a second for each address, and twice as many at once.
    pub(crate) fn new(a_second: NonZeroU32) -> Rates {
        Rates {
            each: Duration::from_secs(1) / a_second.get(),
            full: Duration::from_secs(2),
            addresses_max: ADDRESSES_MAX,
            buckets: Mutex::default(),
        }
    }

    /// Takes a token for a request from `peer`, or tells how long it has to wait for one.
    pub(crate) fn take(&self, peer: IpAddr, now: Instant) -> Result<(), Duration> {
        // Buckets are changed in one step, whoever panicked.
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let address = buckets.address(network(peer), now, self.addresses_max);
        let full_at = buckets.full_at.get(&address).copied();
        let full_at = full_at.map_or(now, |at| at.max(now)) + self.each;
        match (full_at - now).checked_sub(self.full) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => {
                buckets.full_at.insert(address, full_at);
                Ok(())
            }
        }
    }
}

impl Rates {
    /// Takes so many more tokens of `peer`, also those that it does not have yet.
    pub(crate) fn charge(&self, peer: IpAddr, tokens: u32, now: Instant) {
        if tokens == 0 {
            return;
        }
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let address = buckets.address(network(peer), now, self.addresses_max);
        let full_at = buckets.full_at.get(&address).copied();
        let full_at = full_at.map_or(now, |at| at.max(now)) + self.each.saturating_mul(tokens);
        let most = now + self.full + DEBT_MAX;
        buckets.full_at.insert(address, full_at.min(most));
    }
}

impl Buckets {
    /// Whose bucket an address has.
    fn address(&mut self, address: IpAddr, now: Instant, most: usize) -> IpAddr {
        if self.full_at.contains_key(&address) || self.full_at.len() < most {
            return address;
        }
        if self.swept.is_none_or(|at| now - at >= SWEEP_EVERY) {
            self.swept = Some(now);
            self.full_at.retain(|_, at| *at > now);
        }
        if self.full_at.len() < most {
            address
        } else {
            OTHERS
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(a_second: u32) -> Rates {
        Rates::new(NonZeroU32::new(a_second).unwrap())
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// How many of `count` requests at once are let in.
    fn let_in(rates: &Rates, peer: &str, now: Instant, count: u32) -> u32 {
        let let_in = (0..count).filter(|_| rates.take(address(peer), now).is_ok());
        u32::try_from(let_in.count()).unwrap()
    }

    #[test]
    fn twice_as_many_at_once_and_then_so_many_a_second() {
        let rates = rates(10);
        let start = Instant::now();
        assert_eq!(let_in(&rates, "10.0.0.1", start, 100), 20);
        let wait = rates.take(address("10.0.0.1"), start).unwrap_err();
        assert_eq!(wait, Duration::from_millis(100));
        // Others are not concerned, and the same address in another form is no other.
        assert_eq!(let_in(&rates, "::ffff:10.0.0.1", start, 100), 0);
        assert_eq!(let_in(&rates, "10.0.0.2", start, 100), 20);
        for second in 1..4 {
            let now = start + Duration::from_secs(second);
            assert_eq!(let_in(&rates, "10.0.0.1", now, 100), 10, "{second}");
        }
        let later = start + Duration::from_mins(1);
        assert_eq!(let_in(&rates, "10.0.0.1", later, 100), 20);
    }

    #[test]
    fn a_debt_is_paid_before_the_next_request() {
        let rates = rates(10);
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        // The first is let in whatever it costs, and the next when that is paid.
        assert_eq!(let_in(&rates, "10.0.0.1", start, 1), 1);
        rates.charge(address("10.0.0.1"), 399, start);
        let wait = rates.take(address("10.0.0.1"), start).unwrap_err();
        assert_eq!(wait, Duration::from_millis(38_100));
        assert_eq!(let_in(&rates, "10.0.0.1", after(38), 100), 0);
        assert_eq!(let_in(&rates, "10.0.0.1", after(39), 100), 10);
        assert_eq!(let_in(&rates, "10.0.0.2", start, 100), 20);
        // No debt lasts for ever.
        for _ in 0..10 {
            rates.charge(address("10.0.0.3"), u32::MAX, start);
        }
        assert_eq!(let_in(&rates, "10.0.0.3", after(60), 100), 0);
        assert_eq!(let_in(&rates, "10.0.0.3", after(61), 100), 10);
        rates.charge(address("10.0.0.4"), 0, start);
        assert_eq!(rates.buckets.lock().unwrap().full_at.len(), 3);
    }

    #[test]
    fn a_network_of_64_bits_is_one_address() {
        let rates = rates(10);
        let now = Instant::now();
        assert_eq!(let_in(&rates, "fe80::1:1", now, 15), 15);
        assert_eq!(let_in(&rates, "fe80::2:1", now, 15), 5);
        assert_eq!(let_in(&rates, "fe80:0:0:1::1", now, 30), 20);
    }

    #[test]
    fn memory_is_bounded_and_full_buckets_are_forgotten() {
        let mut rates = rates(10);
        rates.addresses_max = 100;
        let start = Instant::now();
        let peer = |number: u32| IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + number));
        for number in 0..1000 {
            // The first 100 have buckets of their own, and all others one.
            let expected = number < 100 + 20;
            assert_eq!(
                rates.take(peer(number), start).is_ok(),
                expected,
                "{number}"
            );
        }
        assert_eq!(rates.buckets.lock().unwrap().full_at.len(), 101);
        // They stay in their own, whoever else comes.
        assert!(rates.take(peer(0), start).is_ok());
        assert!(rates.take(peer(2000), start).is_err());
        let later = start + Duration::from_secs(5);
        assert!(rates.take(peer(2000), later).is_ok());
        assert_eq!(rates.buckets.lock().unwrap().full_at.len(), 1);
    }
}
