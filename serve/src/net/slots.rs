//! Places for things that are limited in number: how many each address holds.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// The places that peers hold, by address. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    total_max: usize,
    each_max: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    total: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// The right to one of them, given back when dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    address: IpAddr,
    slots: Slots,
}

impl Slots {
    pub(crate) fn new(total_max: usize, each_max: usize) -> Slots {
        Slots {
            shared: Arc::new(Shared {
                total_max,
                each_max,
                open: Mutex::default(),
            }),
        }
    }

    /// So many of which an address has some if they are `shared`, and else half: even a proxy of everybody leaves others some.
    pub(crate) fn shared(total_max: usize, each_max: usize, shared: bool) -> Slots {
        Slots::new(total_max, if shared { each_max } else { total_max / 2 })
    }

    /// One for a peer, unless that is too many.
    pub(crate) fn take(&self, peer: IpAddr) -> Option<Slot> {
        let address = network(peer);
        let mut open = self.open_now();
        let count = open.by_address.get(&address).copied().unwrap_or(0);
        if open.total >= self.shared.total_max || count >= self.shared.each_max {
            return None;
        }
        open.total += 1;
        open.by_address.insert(address, count + 1);
        Some(Slot {
            address,
            slots: self.clone(),
        })
    }

    #[cfg(test)]
    pub(crate) fn open(&self) -> usize {
        self.open_now().total
    }

    fn open_now(&self) -> std::sync::MutexGuard<'_, Open> {
        // The counts are right at every moment, whoever panicked.
        let lock = self.shared.open.lock();
        lock.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut open = self.slots.open_now();
        open.total -= 1;
        if let Some(count) = open.by_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.by_address.remove(&self.address);
            }
        }
    }
}

/// Who a peer is counted as: anybody has 2^64 addresses of IPv6.
pub(crate) fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(
            address.to_bits() & !u128::from(u64::MAX),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_counted_in_all_and_by_address() {
        let slots = Slots::new(3, 2);
        let take = |address: &str| slots.take(address.parse().unwrap());
        let first = take("10.0.0.1").unwrap();
        // The same machine, as a socket for both protocols sees it.
        let second = take("::ffff:10.0.0.1").unwrap();
        assert!(take("10.0.0.1").is_none());
        let third = take("10.0.0.2").unwrap();
        assert!(take("10.0.0.3").is_none());
        assert_eq!(slots.open(), 3);
        drop(first);
        drop(third);
        assert_eq!(slots.open(), 1);
        let _more = (take("fe80::1:1").unwrap(), take("fe80::2:1").unwrap());
        assert_eq!(slots.open(), 3);
        drop(second);
        assert!(take("fe80::3:1").is_none(), "one network is one peer");
        assert!(take("fe80:0:0:1::1").is_some());
        assert_eq!(slots.open(), 2);
        assert_eq!(slots.open_now().by_address.len(), 1);
    }
}
