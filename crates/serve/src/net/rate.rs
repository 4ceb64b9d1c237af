//! How many requests a peer may make. Peers are told apart by address or otherwise.
//!
//! Each has a bucket of tokens, twice as many as it gets a second. What is kept of a bucket is the moment at which it
//! will be full again, so a full one is the same as none, and is forgotten. The cost of a request is known only after
//! its answer: it takes one token at once, and the rest as a debt.

use std::collections::HashMap;
use std::hash::Hash;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The buckets that are known at a time, of some 50 bytes each. All beyond share one.
const BUCKETS_MAX: usize = 1 << 16;
/// How often full buckets are looked for when there is no room for another.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// The time in which an empty bucket gets full.
const FULL: Duration = Duration::from_secs(2);
/// The longest debt: an address may be that of many people.
const DEBT_MAX: Duration = Duration::from_mins(1);

/// The buckets of all, each by whose it is. Addresses are those of [networks](super::places::network).
#[derive(Debug)]
pub struct Rates<K> {
    /// The time in which a bucket gets a token.
    each: Duration,
    buckets_max: usize,
    buckets: Mutex<AddressBuckets<K>>,
}

#[derive(Debug)]
struct AddressBuckets<K> {
    /// Those for whom there is no room have one together, which is that of none.
    full_at: HashMap<Option<K>, Instant>,
    swept: Option<Instant>,
}

impl<K: Copy + Eq + Hash> Rates<K> {
    /// Permits `a_second` requests a second to each peer, and twice as many at once.
    pub fn new(a_second: NonZeroU32) -> Rates<K> {
        Rates {
            each: Duration::from_secs(1) / a_second.get(),
            buckets_max: BUCKETS_MAX,
            buckets: Mutex::new(AddressBuckets {
                full_at: HashMap::new(),
                swept: None,
            }),
        }
    }

    /// Takes a token for a request of `peer`, or tells how long it has to wait for one.
    ///
    /// # Errors
    ///
    /// If there is none: the time until there is.
    pub fn take(&self, peer: K, now: Instant) -> Result<(), Duration> {
        self.reserve(peer, Duration::ZERO, now).map(drop)
    }

    /// Takes a token that `peer` has, or gets within `patience`, and tells how long that is.
    ///
    /// # Errors
    ///
    /// If it would have to wait longer: the time until it would not.
    pub fn reserve(&self, peer: K, patience: Duration, now: Instant) -> Result<Duration, Duration> {
        // Buckets are changed in one step, whoever panicked.
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let (whose, full_at) = buckets.of(peer, now, self.buckets_max);
        let full_at = full_at + self.each;
        let wait = (full_at - now).saturating_sub(FULL);
        match wait.checked_sub(patience) {
            Some(more) if !more.is_zero() => Err(more),
            _ => {
                buckets.full_at.insert(whose, full_at);
                Ok(wait)
            }
        }
    }

    /// Takes `tokens` more tokens of `peer`, also those that it does not have yet.
    pub fn charge(&self, peer: K, tokens: u32, now: Instant) {
        if tokens == 0 {
            return;
        }
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let (whose, full_at) = buckets.of(peer, now, self.buckets_max);
        let most = now + FULL + DEBT_MAX;
        let full_at = full_at + self.each.saturating_mul(tokens);
        buckets.full_at.insert(whose, full_at.min(most));
    }
}

impl<K: Copy + Eq + Hash> AddressBuckets<K> {
    /// Which bucket somebody has, and when it is full.
    fn of(&mut self, peer: K, now: Instant, most: usize) -> (Option<K>, Instant) {
        let mut whose = Some(peer);
        if self.full_at.len() >= most && !self.full_at.contains_key(&whose) {
            if self.swept.is_none_or(|at| now - at >= SWEEP_EVERY) {
                self.swept = Some(now);
                self.full_at.retain(|_, at| *at > now);
            }
            whose = whose.filter(|_| self.full_at.len() < most);
        }
        let full_at = self.full_at.get(&whose);
        (whose, full_at.map_or(now, |at| (*at).max(now)))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::super::places::network;
    use super::*;

    fn rates(a_second: u32) -> Rates<IpAddr> {
        Rates::new(NonZeroU32::new(a_second).unwrap())
    }

    fn address(text: &str) -> IpAddr {
        network(text.parse().unwrap())
    }

    /// How many of `count` requests at once are let in.
    fn let_in(rates: &Rates<IpAddr>, peer: &str, now: Instant, count: u32) -> u32 {
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
    fn who_is_patient_has_tokens_before_they_are_there() {
        let rates = rates(10);
        let (peer, start) = (address("10.0.0.1"), Instant::now());
        let patience = Duration::from_millis(500);
        assert_eq!(let_in(&rates, "10.0.0.1", start, 100), 20);
        for turn in 1..=5 {
            let wait = Duration::from_millis(100 * turn);
            assert_eq!(rates.reserve(peer, patience, start), Ok(wait));
        }
        let more = Duration::from_millis(100);
        assert_eq!(rates.reserve(peer, patience, start), Err(more));
        assert_eq!(rates.reserve(peer, patience, start + more), Ok(patience));
    }

    #[test]
    fn memory_is_bounded_and_full_buckets_are_forgotten() {
        let mut rates = rates(10);
        rates.buckets_max = 100;
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
