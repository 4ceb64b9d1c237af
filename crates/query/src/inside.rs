//! All positions inside one: which are losing, how many moves a game takes from each if the winner hurries and the
//! loser delays, or the Grundy value of each.
//!
//! # Depth
//!
//! The empty board has depth 0. The depth of any other position is 1 more than the depth of the position that the best
//! move leaves: the least odd depth, or, if no move leaves an odd depth, the greatest one. So a depth is odd exactly
//! for losing positions, and it can be computed without a table.
//!
//! # Value
//!
//! The Grundy value is the least number that is not the value of a position after one move. The poison is never taken,
//! so the single poisoned cell has the value 0, and a position is losing if and only if its value is 0.
//!
//! # Losing
//!
//! Let S(i, r) say whether a move in row i leads from r to a losing position, and F(i, r) whether r is losing or S(i,
//! r) holds. The moves in row i are the one that shortens it by one cell, to q, and those that q has in row i. So S(i,
//! r) is F(i, q), and each row takes one look, however long it is. The empty board is not losing, and has no moves.
//!
//! # Order
//!
//! The positions inside are numbered by their rows, as words in a dictionary. A move shortens the first row that it
//! changes, so what it leaves has a smaller number, and all are settled in this order. A position with more rows than
//! columns is replaced by its mirror image, which has fewer rows.

use chomp_table::Cell;

use crate::solve::grouped;

/// The most positions inside one that are usually looked at: they take some seconds.
pub const INSIDE_MAX: u64 = 1 << 24;

/// The most moves that are looked at, as an estimate: the cells of the position times the number of positions inside.
const STEPS_MAX: u64 = 1 << 32;

/// The positions that are solved, or the moves that are looked at, between two reports of progress.
const TELL_EVERY: usize = 1 << 16;

/// A position has too many others inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at least {} positions are inside, and {} are the most", grouped(*inside), grouped(*most))]
pub struct TooManyInside {
    /// How many it has at the least.
    pub inside: u64,
    /// The limit, which is lower if the position has many cells.
    pub most: u64,
}

const NOT_TOLD: &str = "nobody said that it shall end";

/// The positions inside one, and a number for each: its depth or its value. Each takes two bytes.
#[derive(Debug)]
pub struct Inside {
    rows: Vec<u32>,
    /// Whether the mirror images are looked at.
    is_mirrored: bool,
    /// By row, then by length: how many positions have the same rows before this one, and a shorter one here.
    before: Vec<Vec<u64>>,
    settled: Vec<u16>,
}

/// The columns of the position with these rows, or the other way round.
pub fn mirrored(rows: &[u32]) -> Vec<u32> {
    let columns = 1..=rows.first().copied().unwrap_or(0);
    let reach = |column| rows.partition_point(|&row| row >= column);
    columns
        .map(|column| u32::try_from(reach(column)).expect("as many rows as a column has"))
        .collect()
}

/// The rows that a move leaves.
pub fn cut(rows: &[u32], cell: Cell) -> Vec<u32> {
    let mut left = rows.to_vec();
    for length in &mut left[cell.row as usize - 1..] {
        *length = (cell.column - 1).min(*length);
    }
    left.retain(|&length| length > 0);
    left
}

/// The cells of a position, by row, then by column.
pub fn cells(rows: &[u32]) -> impl Iterator<Item = Cell> {
    let of_row = |(row, &length): (u32, &u32)| (1..=length).map(move |column| Cell { row, column });
    (1..).zip(rows).flat_map(of_row)
}

impl Inside {
    /// The depths of all positions inside these rows. Fails if there are more than `most`, or they have too many cells.
    pub fn depths(rows: &[u32], most: u64) -> Result<Inside, TooManyInside> {
        let settled = Inside::depths_within(rows, most, |_| true)?;
        Ok(settled.expect(NOT_TOLD))
    }

    /// As [`depths`](Inside::depths). `tell` gets the fraction that is done, from 0 to 1; none if it cancelled.
    pub fn depths_within(
        rows: &[u32],
        most: u64,
        tell: impl FnMut(f64) -> bool,
    ) -> Result<Option<Inside>, TooManyInside> {
        let inside = Inside::new(rows, most)?;
        let settled = inside.settle(tell, |left| {
            let odd = left.iter().filter(|&depth| depth % 2 == 1).min();
            odd.or_else(|| left.iter().max())
                .map_or(0, |depth| depth + 1)
        });
        Ok(settled)
    }

    /// As [`depths_within`](Inside::depths_within), but the number of a position is 1 if it is losing, and else 0.
    pub fn losing(
        rows: &[u32],
        most: u64,
        mut tell: impl FnMut(f64) -> bool,
    ) -> Result<Option<Inside>, TooManyInside> {
        let shorter = rows
            .len()
            .min(rows.first().map_or(0, |&first| first as usize));
        let words = shorter.div_ceil(32).max(1);
        let mut inside = Inside::new(rows, most / words as u64)?;
        let (own, count) = (inside.sides(), inside.settled.len());
        // By number, then by row: a bit of F.
        let mut found = vec![0_u32; words * count];
        let mut rows = vec![0; own.len()];
        for number in 1..count {
            advance(&mut rows, &own);
            let (mut is_losing, mut change) = (true, 0);
            for (row, &length) in rows
                .iter()
                .enumerate()
                .rev()
                .filter(|(_, length)| **length > 0)
            {
                if rows.get(row + 1) != Some(&length) {
                    change = 0;
                }
                let before = &inside.before[row];
                change += before[length as usize] - before[length as usize - 1];
                let (word, bit) = (row / 32, 1 << (row % 32));
                if found[(number - index(change)) * words + word] & bit > 0 {
                    found[number * words + word] |= bit;
                    is_losing = false;
                }
            }
            if is_losing {
                found[number * words..][..words].fill(u32::MAX);
            }
            inside.settled[number] = is_losing.into();
            #[expect(clippy::cast_precision_loss, reason = "it is shown as a bar")]
            if number % TELL_EVERY == 0 && !tell(number as f64 / count as f64) {
                return Ok(None);
            }
        }
        Ok(Some(inside))
    }

    /// The Grundy values of all positions inside one of these rows. The empty board has none, and is given as 0.
    pub fn values(rows: &[u32], most: u64) -> Result<Inside, TooManyInside> {
        let mut seen = Vec::new();
        let inside = Inside::new(rows, most)?;
        let settled = inside.settle(
            |_| true,
            |left| {
                seen.clear();
                seen.resize(left.len(), false);
                // The last move takes the poison.
                for &value in &left[..left.len() - 1] {
                    seen[usize::from(value)] = true;
                }
                let least = seen.iter().position(|&is_seen| !is_seen);
                u16::try_from(least.expect("a value more than moves")).expect("few cells")
            },
        );
        Ok(settled.expect(NOT_TOLD))
    }

    /// The number that was found for a position inside, as a depth or a value. Panics if the position is not inside.
    pub fn result_of(&self, rows: &[u32]) -> u32 {
        let mirror = self.is_mirrored.then(|| mirrored(rows));
        let rows = mirror.as_deref().unwrap_or(rows);
        let before = self.before.iter().zip(rows);
        let number: u64 = before
            .map(|(before, &length)| before[length as usize])
            .sum();
        self.settled[index(number)].into()
    }

    /// Perfect play to the end, if the numbers are depths. Of equally good moves the first by row, then by column.
    pub fn line(&self) -> Vec<Cell> {
        let mut rows = self.rows.clone();
        let mut line = Vec::new();
        for left in (0..self.result_of(&rows)).rev() {
            let best = cells(&rows).find(|&cell| self.result_of(&cut(&rows, cell)) == left);
            let best = best.expect("a move leaves one less");
            rows = cut(&rows, best);
            line.push(best);
        }
        line
    }

    fn new(rows: &[u32], most: u64) -> Result<Inside, TooManyInside> {
        let first = rows.first().copied().unwrap_or(0);
        let area: u64 = rows.iter().copied().map(u64::from).sum();
        let most = most.min(STEPS_MAX / area.max(1));
        // At least as many positions as hooks are inside, and the count of all positions takes a step for each hook.
        let hooks = rows.len() as u64 * u64::from(first);
        if hooks > most {
            return Err(TooManyInside {
                inside: hooks,
                most,
            });
        }
        let is_mirrored = rows.len() > first as usize;
        let sides = if is_mirrored {
            mirrored(rows)
        } else {
            rows.to_vec()
        };
        let mut before = Vec::new();
        // By length: the number of ways to choose the rows below a row of this length.
        let mut ways = vec![1_u64; sides.first().map_or(1, |&row| row as usize + 1)];
        for &row in sides.iter().rev() {
            let mut sum = 0_u64;
            let mut shorter = vec![0];
            for ways in &ways[..=row as usize] {
                sum = sum.saturating_add(*ways);
                shorter.push(sum);
            }
            for (length, ways) in ways.iter_mut().enumerate() {
                *ways = shorter[length.min(row as usize) + 1];
            }
            before.push(shorter);
        }
        before.reverse();
        let inside = before
            .first()
            .map_or(1, |lengths| lengths[lengths.len() - 1]);
        let all = usize::try_from(inside).ok().filter(|_| inside <= most);
        let settled = vec![0; all.ok_or(TooManyInside { inside, most })?];
        Ok(Inside {
            rows: rows.to_vec(),
            is_mirrored,
            before,
            settled,
        })
    }

    /// The rows, or the columns if these are looked at.
    fn sides(&self) -> Vec<u32> {
        if self.is_mirrored {
            mirrored(&self.rows)
        } else {
            self.rows.clone()
        }
    }

    /// Settles each position from the numbers of those that its moves leave, of which the empty board is the last.
    fn settle(
        mut self,
        mut tell: impl FnMut(f64) -> bool,
        mut rule: impl FnMut(&[u16]) -> u16,
    ) -> Option<Inside> {
        let mut looked_at = 0;
        let own = self.sides();
        let mut rows = vec![0; own.len()];
        let mut left = Vec::new();
        for number in 1..self.settled.len() {
            advance(&mut rows, &own);
            left.clear();
            let mut height = 0;
            for column in (0..rows[0]).rev() {
                while rows.get(height).is_some_and(|&length| length > column) {
                    height += 1;
                }
                // From the last row up: what is left if all rows from here on end before the column.
                let mut change = 0;
                for (before, &length) in self.before.iter().zip(&rows[..height]).rev() {
                    change += before[length as usize] - before[column as usize];
                    left.push(self.settled[number - index(change)]);
                }
            }
            self.settled[number] = rule(&left);
            looked_at += left.len();
            if looked_at >= TELL_EVERY {
                looked_at = 0;
                #[expect(clippy::cast_precision_loss, reason = "it is shown as a bar")]
                let done = number as f64 / self.settled.len() as f64;
                if !tell(done) {
                    return None;
                }
            }
        }
        Some(self)
    }
}

/// From a position inside `most` to the next one.
fn advance(rows: &mut [u32], most: &[u32]) {
    let grows = |row: &usize| {
        let above = row.checked_sub(1).map_or(u32::MAX, |above| rows[above]);
        rows[*row] < most[*row].min(above)
    };
    let row = (0..rows.len())
        .rev()
        .find(grows)
        .expect("it is not the last one");
    rows[row] += 1;
    rows[row + 1..].fill(0);
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("it is one of those in memory")
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use chomp_table::{Position, Word};

    use super::*;
    use crate::tests::ByDefinition;

    /// A number of a position, straight from a rule about those that its moves leave, and whether they have cells.
    fn by_definition(
        word: Word,
        rule: fn(&[(u32, bool)]) -> u32,
        known: &mut HashMap<Word, u32>,
    ) -> u32 {
        if let Some(&number) = known.get(&word) {
            return number;
        }
        let left: Vec<(u32, bool)> = word
            .moves()
            .map(|(_, next)| (by_definition(next, rule, known), next != Word::EMPTY))
            .collect();
        let number = rule(&left);
        known.insert(word, number);
        number
    }

    fn depth(left: &[(u32, bool)]) -> u32 {
        let odd = left.iter().filter(|(depth, _)| depth % 2 == 1).min();
        let best = odd.or_else(|| left.iter().max());
        best.map_or(0, |(depth, _)| depth + 1)
    }

    fn value(left: &[(u32, bool)]) -> u32 {
        let is_free = |value: &u32| !left.contains(&(*value, true));
        (0..1000).find(is_free).unwrap()
    }

    #[test]
    fn every_small_position_agrees_with_the_definition() {
        let table = ByDefinition::new(12);
        let [mut depths, mut values] = [HashMap::new(), HashMap::new()];
        for index in 0..1u64 << 11 {
            let word = Word::new(index * 2);
            let position = Position::from(word);
            let rows = position.rows();
            let found = Inside::depths(rows, 1000).unwrap();
            let expected = by_definition(word, depth, &mut depths);
            assert_eq!(found.result_of(rows), expected, "{position}");
            assert_eq!(expected % 2 == 1, table.is_losing(word), "{position}");
            let losing = Inside::losing(rows, 1000, |_| true).unwrap().unwrap();
            assert_eq!(
                losing.result_of(rows) == 1,
                table.is_losing(word),
                "{position}"
            );
            let found_values = Inside::values(rows, 1000).unwrap();
            let expected = by_definition(word, value, &mut values);
            assert_eq!(found_values.result_of(rows), expected, "{position}");
            // So it is of all that its moves leave, and the line takes the first of the best.
            let mut best = None;
            for (cell, left) in word.moves() {
                let next = Position::from(left);
                assert_eq!(cut(rows, cell), next.rows());
                assert_eq!(
                    found_values.result_of(next.rows()),
                    values[&left],
                    "{position}"
                );
                assert_eq!(found.result_of(next.rows()), depths[&left], "{position}");
                if depths[&left] + 1 == depths[&word] {
                    best = best.min(Some(cell)).or(Some(cell));
                }
            }
            let line = found.line();
            assert_eq!(line.first().copied(), best, "{position}");
            let mut left = rows.to_vec();
            for (cell, depth) in line.iter().zip((0..depths[&word]).rev()) {
                left = cut(&left, *cell);
                assert_eq!(found.result_of(&left), depth, "{position}");
            }
            assert!(left.is_empty());
        }
    }

    #[test]
    fn of_a_square_the_depth_is_twice_its_side() {
        for side in 2..10_u32 {
            let square = vec![side; side as usize];
            let found = Inside::depths(&square, 1 << 16).unwrap();
            assert_eq!(found.result_of(&square), 2 * side);
            assert_eq!(found.line().len(), 2 * side as usize);
        }
    }

    #[test]
    fn long_rows_and_columns_have_numbers_too() {
        for rows in [vec![600, 599], vec![300], vec![1; 300], vec![2; 100]] {
            let found = Inside::depths(&rows, 1 << 20).unwrap();
            let mirror = mirrored(&rows);
            assert_eq!(mirrored(&mirror), rows);
            let line = found.line();
            let mirrored = Inside::depths(&mirror, 1 << 20).unwrap().result_of(&mirror);
            assert_eq!(
                (line.len(), found.result_of(&rows)),
                (mirrored as usize, mirrored)
            );
            assert!(
                line.iter()
                    .all(|cell| cell.column <= rows[cell.row as usize - 1])
            );
        }
        assert_eq!(
            Inside::values(&[600], 1 << 20).unwrap().result_of(&[600]),
            599
        );
    }

    #[test]
    fn what_is_too_much_is_counted() {
        for (text, inside) in [("8x10", 43_758), ("1", 2), ("0", 1), ("5,4,2,1", 66)] {
            let position: Position = text.parse().unwrap();
            let ask = |most| Inside::depths(position.rows(), most);
            assert!(ask(inside).is_ok(), "{text}");
            let most = inside - 1;
            assert_eq!(
                ask(most).unwrap_err(),
                TooManyInside { inside, most },
                "{text}"
            );
        }
        let inside = 1_832_624_140_942_590_534;
        let most = (1 << 32) / 1024;
        let refused = Inside::depths(&[32; 32], u64::MAX).unwrap_err();
        assert_eq!(refused, TooManyInside { inside, most });
    }
}
