//! Places that parties share, so that none takes what another needs.
//!
//! A party may have as many places as it leaves free: one alone has half of them at most, and the next one finds room
//! however many came before it. Parties that wait for places get them in turn, the one that has the fewest first.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The number of places that a party must leave free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spare {
    /// This many.
    Places(usize),
    /// This many and, unless it has none yet, as many as it has then.
    Share(usize),
}

impl Spare {
    /// Whether a party that has `of_party` places may have `count` more while `free` are free.
    pub fn admits(self, count: usize, of_party: usize, free: usize) -> bool {
        let spare = match self {
            Spare::Share(spare) if of_party > 0 => spare + of_party + count,
            Spare::Share(spare) | Spare::Places(spare) => spare,
        };
        count + spare <= free
    }
}

/// Places, and the parties that have them. Clones share them.
#[derive(Debug)]
pub struct Shares<K: Party>(Arc<Inner<K>>);

/// One that shares places with others: an address, or a participant.
pub trait Party: Eq + Hash + Copy {}

impl<K: Eq + Hash + Copy> Party for K {}

#[derive(Debug)]
struct Inner<K: Party> {
    places: usize,
    state: Mutex<State<K>>,
}

#[derive(Debug)]
struct State<K: Party> {
    taken: HashMap<K, usize>,
    all_taken: usize,
    waiting: HashMap<K, VecDeque<Waiter<K>>>,
}

#[derive(Debug)]
struct Waiter<K: Party> {
    spare: Spare,
    turn: oneshot::Sender<Share<K>>,
}

/// Places of one party, which are free again when this is dropped.
#[derive(Debug)]
pub struct Share<K: Party> {
    of: Shares<K>,
    party: K,
    count: usize,
}

impl<K: Party> Clone for Shares<K> {
    fn clone(&self) -> Shares<K> {
        Shares(Arc::clone(&self.0))
    }
}

impl<K: Party> Shares<K> {
    /// So many places, all of them free.
    pub fn new(places: usize) -> Shares<K> {
        let state = State {
            taken: HashMap::new(),
            all_taken: 0,
            waiting: HashMap::new(),
        };
        let state = Mutex::new(state);
        Shares(Arc::new(Inner { places, state }))
    }

    /// Takes places. None if this party may not have them now.
    pub fn take(&self, party: K, count: usize, spare: Spare) -> Option<Share<K>> {
        let mut state = self.0.state.lock();
        let admitted = self.admits(&state, party, count, spare);
        admitted.then(|| self.give(&mut state, party, count))
    }

    /// Takes a place as soon as this party may have it.
    pub async fn turn(&self, party: K, spare: Spare) -> Share<K> {
        let turn = {
            let mut state = self.0.state.lock();
            let waits = state.waiting.contains_key(&party);
            if !waits && self.admits(&state, party, 1, spare) {
                return self.give(&mut state, party, 1);
            }
            let (turn, waits) = oneshot::channel();
            let waiters = state.waiting.entry(party).or_default();
            waiters.push_back(Waiter { spare, turn });
            waits
        };
        turn.await.expect("who waits has its turn")
    }

    /// The places that are taken.
    pub fn taken(&self) -> usize {
        self.0.state.lock().all_taken
    }

    fn admits(&self, state: &State<K>, party: K, count: usize, spare: Spare) -> bool {
        let of_party = state.taken.get(&party).copied().unwrap_or_default();
        spare.admits(count, of_party, self.0.places - state.all_taken)
    }

    fn give(&self, state: &mut State<K>, party: K, count: usize) -> Share<K> {
        *state.taken.entry(party).or_default() += count;
        state.all_taken += count;
        let of = self.clone();
        Share { of, party, count }
    }

    /// The next one that waits and may have a place now, and the place.
    fn next(&self, state: &mut State<K>) -> Option<(oneshot::Sender<Share<K>>, Share<K>)> {
        state.waiting.retain(|_, waiters| {
            waiters.retain(|waiter| !waiter.turn.is_closed());
            !waiters.is_empty()
        });
        let admitted = state
            .waiting
            .iter()
            .filter(|(party, waiters)| self.admits(state, **party, 1, waiters[0].spare));
        let fewest = admitted.min_by_key(|(party, _)| state.taken.get(party));
        let party = *fewest?.0;
        let first = state.waiting.get_mut(&party)?.pop_front()?;
        Some((first.turn, self.give(state, party, 1)))
    }
}

impl<K: Party> Drop for Share<K> {
    fn drop(&mut self) {
        let mut state = self.of.0.state.lock();
        state.all_taken -= self.count;
        if let Some(of_party) = state.taken.get_mut(&self.party) {
            *of_party -= self.count;
            if *of_party == 0 {
                state.taken.remove(&self.party);
            }
        }
        let mut turns = Vec::new();
        while let Some(turn) = self.of.next(&mut state) {
            turns.push(turn);
        }
        // A turn that nobody waits for any more is dropped, which locks the state.
        drop(state);
        for (waiter, share) in turns {
            drop(waiter.send(share));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    const FAIR: Spare = Spare::Share(8);
    const FAIR_OF_ALL: Spare = Spare::Share(0);

    fn take_all(shares: &Shares<u32>, party: u32, spare: Spare) -> Vec<Share<u32>> {
        std::iter::from_fn(|| shares.take(party, 1, spare)).collect()
    }

    #[test]
    fn each_party_leaves_room_for_the_next_one() {
        let shares = Shares::new(64);
        let mut held = Vec::new();
        let mut counts = Vec::new();
        for party in 0..7 {
            let of_party = take_all(&shares, party, FAIR);
            counts.push(of_party.len());
            held.push(of_party);
        }
        assert_eq!(counts, [28, 14, 7, 3, 2, 1, 1]);
        // A party that is trusted with all takes the rest.
        let all = take_all(&shares, 9, Spare::Places(0));
        assert_eq!((all.len(), shares.taken()), (8, 64));
        // Places that are given back may be taken.
        held.remove(0);
        drop(all);
        assert_eq!(take_all(&shares, 8, FAIR).len(), 14);
        drop(held);
        assert_eq!(shares.taken(), 0);
        assert!(shares.0.state.lock().taken.is_empty());
        // A party may have all places at once, if nobody has any.
        assert!(shares.take(1, 65, Spare::Share(0)).is_none());
        assert!(shares.take(1, 64, Spare::Share(0)).is_some());
    }

    #[test]
    fn who_has_the_fewest_is_next() {
        let shares = Shares::new(4);
        let mut context = Context::from_waker(Waker::noop());
        let turn = |party| Box::pin(shares.turn(party, FAIR_OF_ALL));
        let mut held = take_all(&shares, 1, FAIR_OF_ALL);
        held.extend(take_all(&shares, 2, Spare::Places(0)));
        assert_eq!(held.len(), 4);
        let mut turns = [1, 1, 3, 4, 4].map(turn);
        let mut polls = |gone: Option<usize>| {
            let mut ready = Vec::new();
            for (number, turn) in turns.iter_mut().enumerate() {
                if Some(number) == gone {
                    *turn = Box::pin(shares.turn(9, Spare::Places(4)));
                } else if let Poll::Ready(share) = turn.as_mut().poll(&mut context) {
                    ready.push((number, share));
                }
            }
            ready
        };
        assert!(polls(None).is_empty());
        // One of two that have none gives up.
        assert!(polls(Some(2)).is_empty());
        drop(held.pop());
        let ready = polls(None);
        assert_eq!(
            ready.iter().map(|(number, _)| *number).collect::<Vec<_>>(),
            [3]
        );
        assert_eq!(shares.taken(), 4);
    }
}
