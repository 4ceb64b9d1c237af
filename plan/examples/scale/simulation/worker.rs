//! A worker in virtual time: its threads, its links and the ranges in its cache.

use std::collections::{BTreeMap, VecDeque};

use chomp_plan::forecast::Cluster;
use chomp_table::Head;

use super::Nanos;
use super::serving::{Link, Servers};

/// One bit for each range.
#[derive(Debug)]
struct Bits(Vec<u64>);

impl Bits {
    fn new(count: usize) -> Bits {
        Bits(vec![0; count.div_ceil(64)])
    }

    fn get(&self, index: usize) -> bool {
        self.0[index / 64] >> (index % 64) & 1 == 1
    }

    fn set(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }

    fn clear(&mut self, index: usize) {
        self.0[index / 64] &= !(1 << (index % 64));
    }
}

/// Whether a worker has a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// The worker has the range.
    Here,
    /// This lane of the worker is reading the range.
    Coming(u32),
    /// The worker does not have the range.
    Missing,
}

#[derive(Debug)]
pub(super) struct Worker {
    pub(super) threads: Servers,
    /// The links from the store to the worker and back. None if the bandwidth is unlimited.
    pub(super) down: Option<Link>,
    pub(super) up: Option<Link>,
    /// How many lanes read sources, and the lanes that wait for their turn.
    pub(super) readers: u32,
    pub(super) in_line: VecDeque<u32>,
    /// How many segments of the journal it has read, and when it is done with reading them.
    pub(super) journal: (u64, Nanos),
    cache: Cache,
    /// By head: the lane that is reading the range.
    coming: BTreeMap<u32, u32>,
    is_coming: Bits,
}

/// The ranges that a worker has. When there is no room, a range goes if nothing has drawn on it since it was
/// considered last.
#[derive(Debug)]
struct Cache {
    has: Bits,
    drawn_on: Bits,
    queue: VecDeque<u32>,
    bytes: u64,
    bytes_max: u64,
}

impl Worker {
    pub(super) fn new(cluster: &Cluster, ranges: usize) -> Worker {
        Worker {
            threads: Servers::new(cluster.threads),
            down: cluster.bandwidth.map(Link::new),
            up: cluster.bandwidth.map(Link::new),
            readers: 0,
            in_line: VecDeque::new(),
            journal: (0, 0),
            cache: Cache {
                has: Bits::new(ranges),
                drawn_on: Bits::new(ranges),
                queue: VecDeque::new(),
                bytes: 0,
                bytes_max: cluster.cache_bytes,
            },
            coming: BTreeMap::new(),
            is_coming: Bits::new(ranges),
        }
    }

    /// Whether the worker has a range. If it has, the use of the range is noted.
    pub(super) fn look(&mut self, head: Head) -> Look {
        let index = index(head);
        if self.is_coming.get(index) {
            return Look::Coming(self.coming[&key(head)]);
        }
        if self.cache.has.get(index) {
            self.cache.drawn_on.set(index);
            return Look::Here;
        }
        Look::Missing
    }

    /// Notes that a lane reads a range.
    pub(super) fn read(&mut self, head: Head, lane: u32) {
        self.is_coming.set(index(head));
        self.coming.insert(key(head), lane);
    }

    /// Keeps a range that the worker has read or evaluated. `weights` are by head.
    pub(super) fn keep(&mut self, head: Head, weights: &[u64]) {
        if self.coming.remove(&key(head)).is_some() {
            self.is_coming.clear(index(head));
        }
        self.cache.keep(head, weights);
    }
}

impl Cache {
    fn keep(&mut self, head: Head, weights: &[u64]) {
        let new = index(head);
        if self.has.get(new) {
            return;
        }
        self.has.set(new);
        self.queue.push_back(key(head));
        self.bytes += weights[new];
        while self.bytes > self.bytes_max
            && let Some(old) = self.queue.pop_front()
        {
            let index = old as usize;
            if self.drawn_on.get(index) {
                self.drawn_on.clear(index);
                self.queue.push_back(old);
            } else {
                self.has.clear(index);
                self.bytes -= weights[index];
            }
        }
    }
}

fn index(head: Head) -> usize {
    key(head) as usize
}

/// A head in four bytes.
fn key(head: Head) -> u32 {
    u32::try_from(head.0).expect("a head of a table that can be planned")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_drawn_on_stays() {
        let cluster = Cluster {
            workers: 1,
            threads: 1,
            cache_bytes: 20,
            coordinator_threads: 1,
            shared: false,
            bandwidth: None,
        };
        let weights = [10; 4];
        let mut worker = Worker::new(&cluster, 4);
        let [a, b, c, d] = [0, 1, 2, 3].map(Head);
        assert_eq!(worker.look(a), Look::Missing);
        worker.read(a, 5);
        assert_eq!(worker.look(a), Look::Coming(5));
        worker.keep(a, &weights);
        worker.keep(b, &weights);
        assert_eq!(worker.look(a), Look::Here);
        worker.keep(c, &weights);
        assert_eq!(worker.look(b), Look::Missing);
        worker.keep(d, &weights);
        assert_eq!(
            [c, d].map(|head| worker.look(head)),
            [Look::Missing, Look::Here]
        );
        assert_eq!(worker.look(a), Look::Here, "it had a second chance");
    }
}
