//! A worker in virtual time: its threads, its links and the ranges in its memory.

use std::collections::{BTreeMap, VecDeque};

use chomp_plan::forecast::Forecast;
use chomp_table::Head;

use crate::costs::{Cluster, cache_bytes};
use crate::job::index;
use crate::serving::{Link, Servers};
use crate::simulation::Nanos;

/// Whether a worker has a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Missing,
    /// A lane is reading it.
    Coming,
    Here,
    /// It is here, and was drawn on since it was last considered for removal.
    DrawnOn,
}

#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) threads: Servers,
    /// The links from the store to the worker and back. None if the bandwidth is unlimited.
    pub(crate) links: [Option<Link>; 2],
    /// How many lanes read sources, and the lanes that wait for their turn.
    pub(crate) readers: u32,
    pub(crate) in_line: VecDeque<u32>,
    /// How many segments of the journal it has read, and when it is done with reading them.
    pub(crate) segments: u64,
    pub(crate) informed: Nanos,
    /// By head.
    held: Vec<Held>,
    /// The lane that is reading a range.
    coming: BTreeMap<Head, u32>,
    /// The ranges that are here, in the order in which they are considered for removal, and their bytes.
    queue: VecDeque<Head>,
    bytes: u64,
    bytes_max: u64,
}

impl Worker {
    pub(crate) fn new(cluster: &Cluster, ranges: usize) -> Worker {
        Worker {
            threads: Servers::new(cluster.threads),
            links: [(); 2].map(|()| cluster.bandwidth.map(Link::new)),
            readers: 0,
            in_line: VecDeque::new(),
            segments: 0,
            informed: 0,
            held: vec![Held::Missing; ranges],
            coming: BTreeMap::new(),
            queue: VecDeque::new(),
            bytes: 0,
            bytes_max: cluster.cache_bytes,
        }
    }

    /// A lane draws on a range. If the range is neither here nor coming, it is one more that the lane `reads`. Returns
    /// the lane that is reading it already, if one is.
    pub(crate) fn look(&mut self, head: Head, lane: u32, reads: &mut Vec<Head>) -> Option<u32> {
        let state = &mut self.held[index(head)];
        match state {
            Held::Missing => {
                *state = Held::Coming;
                self.coming.insert(head, lane);
                reads.push(head);
                None
            }
            Held::Coming => Some(self.coming[&head]),
            Held::Here | Held::DrawnOn => {
                *state = Held::DrawnOn;
                None
            }
        }
    }

    /// Keeps a range that the worker has read or evaluated. When there is no room, the oldest goes on which nothing
    /// has drawn since it was considered last.
    pub(crate) fn keep(&mut self, head: Head, forecast: &Forecast) {
        match self.held[index(head)] {
            Held::Here | Held::DrawnOn => return,
            Held::Coming => drop(self.coming.remove(&head)),
            Held::Missing => {}
        }
        self.held[index(head)] = Held::Here;
        self.queue.push_back(head);
        self.bytes += cache_bytes(forecast, head);
        while self.bytes > self.bytes_max
            && let Some(old) = self.queue.pop_front()
        {
            let state = &mut self.held[index(old)];
            if *state == Held::DrawnOn {
                *state = Held::Here;
                self.queue.push_back(old);
            } else {
                *state = Held::Missing;
                self.bytes -= cache_bytes(forecast, old);
            }
        }
    }
}
