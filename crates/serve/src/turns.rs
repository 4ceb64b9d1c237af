//! A fair queue: the owners of items take turns, however many items each has.

use std::collections::{BTreeMap, VecDeque};

/// The items that wait, by owner. Those of one owner come out in order.
#[derive(Debug)]
pub struct Turns<K, T> {
    waiting: BTreeMap<K, VecDeque<T>>,
    /// The owners that have items, the next one first.
    turns: VecDeque<K>,
}

impl<K: Ord + Copy, T> Turns<K, T> {
    /// How many items of this owner wait.
    pub fn count(&self, key: K) -> usize {
        self.waiting.get(&key).map_or(0, VecDeque::len)
    }

    /// Puts an item behind those of its owner.
    pub fn push(&mut self, key: K, item: T) {
        let own = self.waiting.entry(key).or_default();
        if own.is_empty() {
            self.turns.push_back(key);
        }
        own.push_back(item);
    }

    /// Takes out the item whose turn it is.
    pub fn pop(&mut self) -> Option<T> {
        let key = self.turns.pop_front()?;
        let own = self.waiting.get_mut(&key)?;
        let item = own.pop_front();
        if own.is_empty() {
            self.waiting.remove(&key);
        } else {
            self.turns.push_back(key);
        }
        item
    }

    /// Takes out all items of this owner.
    pub fn take(&mut self, key: K) -> VecDeque<T> {
        self.turns.retain(|other| *other != key);
        self.waiting.remove(&key).unwrap_or_default()
    }
}

impl<K, T> Default for Turns<K, T> {
    fn default() -> Turns<K, T> {
        Turns {
            waiting: BTreeMap::new(),
            turns: VecDeque::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_who_has_much_delays_nobody() {
        let mut turns = Turns::default();
        for number in 0..1000 {
            turns.push('a', number);
        }
        assert_eq!(turns.pop(), Some(0));
        turns.push('b', 7000);
        turns.push('b', 7001);
        turns.push('c', 8000);
        let next: Vec<_> = (0..6).filter_map(|_| turns.pop()).collect();
        assert_eq!(next, [1, 7000, 8000, 2, 7001, 3]);
        assert_eq!((turns.count('a'), turns.count('b')), (996, 0));
        turns.push('b', 7002);
        assert_eq!(turns.take('a').len(), 996);
        assert_eq!((turns.pop(), turns.pop()), (Some(7002), None));
        assert!(turns.waiting.is_empty() && turns.turns.is_empty());
    }
}
