//! How many moves a game takes if the winner hurries and the loser delays.
//!
//! The depth of the empty board is 0. That of any other position is 1 more than that of the position that is left: of
//! those with an odd depth the least, or else the greatest. So it is odd if and only if the position is losing, and
//! needs no table.
//!
//! The positions inside the given one are numbered by their rows, as words in a dictionary. A move shortens the first
//! row that it changes, so what it leaves has a smaller number, and all are settled in this order.

use chomp_table::Position;

/// The depth of a position; or, if there are more than `most` positions inside it, their number. Each takes two bytes.
///
/// # Errors
///
/// The number of positions inside, at most `u64::MAX`.
pub fn depth(position: &Position, most: u64) -> Result<u32, u64> {
    let inside = Inside::of(position);
    let all = inside.count();
    match usize::try_from(all) {
        Ok(count) if all <= most => Ok(u32::from(inside.depths(count))),
        _ => Err(all),
    }
}

/// The positions inside one.
struct Inside {
    rows: Vec<usize>,
    /// By row, then by length: how many positions have the same rows before this one, and a shorter one here.
    before: Vec<Vec<u64>>,
}

impl Inside {
    fn of(position: &Position) -> Inside {
        let rows: Vec<usize> = position.rows().iter().map(|&row| row as usize).collect();
        let mut before = Vec::new();
        // By length: how many positions go on so after a row of this length.
        let mut ways = vec![1_u64; rows.first().map_or(1, |row| row + 1)];
        for &row in rows.iter().rev() {
            let mut sum = 0_u64;
            let mut shorter = vec![0];
            for ways in &ways[..=row] {
                sum = sum.saturating_add(*ways);
                shorter.push(sum);
            }
            for (length, ways) in ways.iter_mut().enumerate() {
                *ways = shorter[length.min(row) + 1];
            }
            before.push(shorter);
        }
        before.reverse();
        Inside { rows, before }
    }

    fn count(&self) -> u64 {
        let first = self.before.first();
        first.map_or(1, |lengths| lengths[lengths.len() - 1])
    }

    /// The depth of the last of all `count` positions.
    fn depths(&self, count: usize) -> u16 {
        let mut depths = vec![0_u16; count];
        let mut rows = vec![0; self.rows.len()];
        for number in 1..count {
            self.advance(&mut rows);
            let (mut quickest, mut slowest) = (u16::MAX, 0);
            for column in 0..rows[0] {
                // From the last row up: what is left if all rows from here on end before the column.
                let mut change = 0;
                for (row, &length) in rows.iter().enumerate().rev() {
                    if length > column {
                        let before = &self.before[row];
                        change += before[length] - before[column];
                        let left = depths
                            [number - usize::try_from(change).expect("it is below the number")];
                        if left % 2 == 1 {
                            quickest = quickest.min(left);
                        } else {
                            slowest = slowest.max(left);
                        }
                    }
                }
            }
            depths[number] = 1 + if quickest < u16::MAX {
                quickest
            } else {
                slowest
            };
        }
        depths[count - 1]
    }

    /// From a position to the next one.
    fn advance(&self, rows: &mut [usize]) {
        let grows = |row: &usize| {
            let above = row.checked_sub(1).map_or(usize::MAX, |above| rows[above]);
            rows[*row] < self.rows[*row].min(above)
        };
        let row = (0..rows.len())
            .rev()
            .find(grows)
            .expect("it is not the last one");
        rows[row] += 1;
        rows[row + 1..].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use chomp_table::Word;

    use super::*;
    use crate::tests::ByDefinition;

    /// The depth of a position, straight from the rule.
    fn by_definition(word: Word, known: &mut HashMap<Word, u32>) -> u32 {
        if let Some(&depth) = known.get(&word) {
            return depth;
        }
        let left: Vec<u32> = word
            .moves()
            .map(|(_, next)| by_definition(next, known))
            .collect();
        let odd = left.iter().filter(|&depth| depth % 2 == 1).min();
        let depth = match odd.or_else(|| left.iter().max()) {
            Some(left) => left + 1,
            None => 0,
        };
        known.insert(word, depth);
        depth
    }

    #[test]
    fn every_small_position_agrees_with_the_definition() {
        let table = ByDefinition::new(12);
        let mut known = HashMap::new();
        for index in 0..1u64 << 11 {
            let word = Word::new(index * 2);
            let position = Position::from(word);
            let found = depth(&position, 1000);
            assert_eq!(found, Ok(by_definition(word, &mut known)), "{position}");
            assert_eq!(found.unwrap() % 2 == 1, table.is_losing(word), "{position}");
        }
    }

    #[test]
    fn of_a_square_it_is_twice_its_side() {
        for side in 2..10_u32 {
            let position: Position = format!("{side}x{side}").parse().unwrap();
            assert_eq!(depth(&position, 1 << 16), Ok(2 * side));
        }
    }

    #[test]
    fn what_is_too_much_is_counted() {
        for (text, inside) in [("8x10", 43_758), ("1", 2), ("0", 1), ("5,4,2,1", 66)] {
            let position: Position = text.parse().unwrap();
            assert!(depth(&position, inside).is_ok(), "{text}");
            assert_eq!(depth(&position, inside - 1), Err(inside), "{text}");
        }
        let largest: Position = "32x32".parse().unwrap();
        assert_eq!(
            depth(&largest, u64::MAX >> 40),
            Err(1_832_624_140_942_590_534)
        );
    }
}
