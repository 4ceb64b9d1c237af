//! Threads and links in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::simulation::{Nanos, nanos, seconds};

/// The threads of a machine. Each does one piece of work after the other.
#[derive(Debug)]
pub(crate) struct Servers(BinaryHeap<Reverse<Nanos>>);

impl Servers {
    pub(crate) fn new(count: u32) -> Servers {
        Servers((0..count.max(1)).map(|_| Reverse(0)).collect())
    }

    /// The time when work that comes at `now` and takes `seconds` is done.
    pub(crate) fn serve(&mut self, now: Nanos, seconds: f64) -> Nanos {
        let Reverse(free) = self.0.pop().expect("there is a server");
        let done = free.max(now) + nanos(seconds);
        self.0.push(Reverse(done));
        done
    }
}

/// One direction of a link. All transfers that are under way share it equally.
#[derive(Debug)]
pub(crate) struct Link {
    /// Bytes a second.
    bandwidth: f64,
    /// The bytes that a transfer would have got that was under way all the time.
    served: f64,
    at: Nanos,
    /// The transfers under way. For each: the value of `served` at its end, as ordered bits of a number that is not
    /// negative; and the lane that it is for.
    transfers: BinaryHeap<Reverse<(u64, u32)>>,
    /// Counts the changes. An end that was expected before a change does not happen.
    changes: u64,
}

impl Link {
    pub(crate) fn new(bandwidth: f64) -> Link {
        Link {
            bandwidth,
            served: 0.0,
            at: 0,
            transfers: BinaryHeap::new(),
            changes: 0,
        }
    }

    /// Begins a transfer.
    pub(crate) fn begin(&mut self, now: Nanos, bytes: f64, whose: u32) {
        self.advance(now);
        let end = self.served + bytes.max(0.0);
        self.transfers.push(Reverse((end.to_bits(), whose)));
        self.changes += 1;
    }

    /// The time when the next transfer ends, if none begins before, and the number of the last change.
    pub(crate) fn next(&self) -> Option<(Nanos, u64)> {
        let &Reverse((end, _)) = self.transfers.peek()?;
        let left = (f64::from_bits(end) - self.served).max(0.0);
        // At least until the clock has moved as far as it can.
        let wait = nanos(left * self.sharers() / self.bandwidth) + 1;
        Some((self.at + wait, self.changes))
    }

    /// Ends a transfer whose bytes have all gone, if nothing has changed since `changes`.
    pub(crate) fn end(&mut self, now: Nanos, changes: u64) -> Option<u32> {
        if changes != self.changes {
            return None;
        }
        self.advance(now);
        let Reverse((end, whose)) = self.transfers.pop()?;
        self.served = self.served.max(f64::from_bits(end));
        self.changes += 1;
        Some(whose)
    }

    fn advance(&mut self, now: Nanos) {
        if !self.transfers.is_empty() {
            self.served += seconds(now - self.at) * self.bandwidth / self.sharers();
        }
        self.at = now;
    }

    #[expect(clippy::cast_precision_loss, reason = "a forecast need not be exact")]
    fn sharers(&self) -> f64 {
        self.transfers.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two at once take twice as long; what begins later ends later by what the other one got alone.
    #[test]
    fn transfers_share_a_link() {
        let mut link = Link::new(100.0);
        let second = 1_000_000_000;
        assert_eq!(link.next(), None);
        let mut last = 0;
        link.begin(0, 100.0, 7);
        let (_, alone) = link.next().unwrap();
        link.begin(second / 2, 100.0, 8);
        assert_eq!(link.end(second, alone), None, "it shares the link now");
        let mut ends = Vec::new();
        while let Some((at, changes)) = link.next() {
            assert!(changes > last, "no change is taken for another");
            last = changes;
            let whose = link.end(at, changes).unwrap();
            ends.push((whose, at / 1_000_000));
            assert_eq!(link.end(at, changes), None, "something has changed");
        }
        assert_eq!(ends, [(7, 1500), (8, 2000)]);
        link.begin(2 * second, 0.0, 9);
        assert_eq!(link.next().unwrap().0, 2 * second + 1, "the clock moves");
    }
}
