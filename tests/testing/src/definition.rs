//! W by its definition, and nothing else: the twin that every fast path is tested against.

use std::collections::HashMap;

use chomp_table::Word;

/// For each position of at most `bits` bits, at index word / 2: is it losing?
///
/// The empty position is not losing (W is true there); any other position is losing when no move
/// leads to a losing one. Takes area(p) steps a position: meant for tables of 20 bits or less.
pub fn losing(bits: u32) -> Vec<bool> {
    let mut losing = vec![false; 1 << bits.saturating_sub(1)];
    for index in 1..losing.len() {
        let word = Word::new(index as u64 * 2);
        losing[index] = !word.moves().any(|(_, next)| losing[index_of(next)]);
    }
    losing
}

/// Where [`losing`] keeps the answer for `word`.
pub fn index_of(word: Word) -> usize {
    usize::try_from(word.get() / 2).expect("a position of a small table")
}

/// W by its definition for single positions of any size, as far as their moves do not lead to more
/// positions than fit in memory. It remembers every position it has seen.
#[derive(Debug, Default)]
pub struct Oracle {
    known: HashMap<Word, bool>,
}

impl Oracle {
    /// Whether `word` is losing.
    pub fn is_losing(&mut self, word: Word) -> bool {
        if word == Word::EMPTY {
            return false;
        }
        if let Some(&losing) = self.known.get(&word) {
            return losing;
        }
        let losing = !word.moves().any(|(_, next)| self.is_losing(next));
        self.known.insert(word, losing);
        losing
    }
}

#[cfg(test)]
mod tests {
    use chomp_table::Position;
    use chomp_table::known::LOSING_BY_TILES;

    use super::*;

    #[test]
    fn single_positions_agree_with_the_table() {
        let losing = losing(12);
        let mut oracle = Oracle::default();
        for (index, &losing) in losing.iter().enumerate().rev() {
            assert_eq!(oracle.is_losing(Word::new(index as u64 * 2)), losing);
        }
    }

    #[test]
    fn agrees_with_known_results() {
        let bits = 18;
        let losing = losing(bits);
        let words = || {
            (0..losing.len())
                .filter(|&index| losing[index])
                .map(|index| Word::new(index as u64 * 2))
        };

        for (area, count) in (1..bits).zip(LOSING_BY_TILES) {
            let found = words().filter(|word| word.area() == area).count();
            assert_eq!(found as u64, count, "area {area}");
        }
        assert_eq!(
            words().filter(|&word| word == word.mirror()).count(),
            bits as usize / 2
        );

        let rows =
            |rows: &[u32]| losing[index_of(Word::from(&Position::new(rows.to_vec()).unwrap()))];
        for first in 1..=10 {
            for second in 1..=first {
                assert_eq!(
                    rows(&[first, second]),
                    second + 1 == first,
                    "two rows {first},{second}"
                );
                assert_eq!(
                    rows(&[first, second, 1]),
                    (first, second) == (3, 1) || (first, second) == (2, 2)
                );
                if second >= 2 {
                    assert_eq!(
                        rows(&[first, second, 2]),
                        second + 2 == first,
                        "{first},{second},2"
                    );
                }
            }
        }
    }
}
