//! Single positions of few rows, and all losing ones in ascending order.

use std::num::NonZeroUsize;

use crate::few::{FEW_ROWS, Few, FewSolver, Tail};

/// A position, as its rows, and what there is to be known of it.
#[derive(Debug)]
pub struct FewQuery {
    rows: Vec<u32>,
    few: Few,
}

/// Whether a position is losing, and what wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FewAnswer {
    /// Whether the player to move loses.
    pub losing: bool,
    /// The moves (row, column), from 1, that leave a losing position, by row, then by column; and the rows of that.
    pub winning_moves: Vec<((u32, u32), Vec<u32>)>,
}

impl FewQuery {
    /// A position of at most five rows; none if it has more.
    pub fn new(rows: &[u32]) -> Option<FewQuery> {
        let mut most: Vec<usize> = rows.iter().map(|&length| length as usize).collect();
        most.resize(most.len().max(*FEW_ROWS.start()), 0);
        FEW_ROWS.contains(&most.len()).then(|| FewQuery {
            rows: rows.to_vec(),
            few: Few::new(&most),
        })
    }

    /// All positions inside it: these are solved.
    pub fn few(&self) -> &Few {
        &self.few
    }

    /// The answer; none if `tell`, which hears how much is done from 0 to 1, said that it shall end.
    pub fn answer(
        &self,
        threads: NonZeroUsize,
        mut tell: impl FnMut(f64) -> bool + Send,
    ) -> Option<FewAnswer> {
        let mut answer = FewAnswer::default();
        let mut solver = FewSolver::new(self.few.clone());
        let goes_on = solver.advance(usize::MAX, threads, |tails, done| {
            for left in tails.iter().flat_map(Tail::positions) {
                let left = &left[..self.rows.len()];
                match self.move_to(left) {
                    Some(cell) => {
                        let there = left.iter().copied().filter(|&length| length > 0);
                        answer.winning_moves.push((cell, there.collect()));
                    }
                    None => answer.losing |= left == self.rows,
                }
            }
            tell(done)
        });
        answer.winning_moves.sort_unstable();
        goes_on.then_some(answer)
    }

    /// The move that leaves these rows, which fit inside the position.
    fn move_to(&self, left: &[u32]) -> Option<(u32, u32)> {
        let mut pairs = (1..).zip(left.iter().zip(&self.rows));
        let (row, (&cut, _)) = pairs.find(|(_, (left, whole))| left != whole)?;
        let is_cut = pairs.all(|(_, (&left, &whole))| left == whole.min(cut));
        is_cut.then_some((row, cut + 1))
    }
}

/// Gives all losing positions within some rows and columns to `take`, ascending, in pieces, each as its rows. `counts`
/// has their number for each first row. There are as many passes as are needed if `most` of them are sorted at a time,
/// or those of one first row; `tell` hears how much is done, from 0 to 1. False if one of the two said to end.
pub fn in_order(
    rows: usize,
    counts: &[u64],
    most: u64,
    threads: NonZeroUsize,
    mut tell: impl FnMut(f64) -> bool + Send,
    mut take: impl FnMut(&[[u32; 5]]) -> bool,
) -> bool {
    let mut first = 0;
    while first < counts.len() {
        let mut sums = counts[first..].iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        let end = first
            + sums
                .position(|sum| sum > most)
                .unwrap_or(counts.len())
                .max(1);
        let end = end.min(counts.len());
        let firsts = u32::try_from(first).expect("a length")..;
        let mut found = Vec::new();
        let few = Few::new(&vec![end - 1; rows]);
        #[expect(clippy::cast_precision_loss, reason = "it is shown as a bar")]
        let share = (end as f64 / counts.len() as f64).powi(i32::try_from(rows).expect("few"));
        let goes_on = FewSolver::new(few).advance(usize::MAX, threads, |tails, done| {
            let positions = tails.iter().flat_map(Tail::positions);
            found.extend(positions.filter(|rows| firsts.contains(&rows[0])));
            tell(done * share)
        });
        found.sort_unstable();
        if !goes_on || !take(&found) {
            return false;
        }
        first = end;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FewTally;
    use crate::few::tests::by_definition;

    const THREADS: NonZeroUsize = NonZeroUsize::new(2).unwrap();

    #[test]
    fn answers_are_those_of_the_definition() {
        for most in [
            &[7][..],
            &[9, 8],
            &[12, 9, 7],
            &[8, 8, 6, 5],
            &[6, 5, 5, 4, 3],
        ] {
            let losing = by_definition(most);
            let mut rows = vec![0; most.len()];
            // All positions inside, as the digits of a number.
            loop {
                let next = (0..rows.len()).rev().find(|&row| rows[row] < most[row]);
                let Some(next) = next else {
                    break;
                };
                rows[next] += 1;
                rows[next + 1..].fill(0);
                if rows.is_sorted_by(|one, next| one >= next) {
                    let there = rows.iter().map(|&length| u32::try_from(length).unwrap());
                    let there: Vec<u32> = there.filter(|&length| length > 0).collect();
                    let answer = FewQuery::new(&there).unwrap().answer(THREADS, |_| true);
                    let answer = answer.unwrap();
                    assert_eq!(answer.losing, losing.contains(&rows), "{rows:?}");
                    assert_eq!(answer.winning_moves, winning(&rows, &losing), "{rows:?}");
                }
            }
        }
        assert!(FewQuery::new(&[1; 6]).is_none());
        let asked = FewQuery::new(&[30, 20, 10]).unwrap();
        assert_eq!(asked.answer(THREADS, |done| done < 0.5), None);
        let empty = FewQuery::new(&[]).unwrap().answer(THREADS, |_| true);
        assert_eq!(empty, Some(FewAnswer::default()));
    }

    fn winning(
        rows: &[usize],
        losing: &std::collections::BTreeSet<Vec<usize>>,
    ) -> Vec<((u32, u32), Vec<u32>)> {
        let number = |length: usize| u32::try_from(length).unwrap();
        let mut moves = Vec::new();
        for (row, &length) in rows.iter().enumerate() {
            for column in 0..length {
                let mut left = rows.to_vec();
                left[row..]
                    .iter_mut()
                    .for_each(|length| *length = (*length).min(column));
                if losing.contains(&left) {
                    let there = left.into_iter().filter(|&length| length > 0).map(number);
                    moves.push(((number(row) + 1, number(column) + 1), there.collect()));
                }
            }
        }
        moves
    }

    #[test]
    fn positions_come_in_order_whatever_the_memory() {
        for (rows, columns) in [(3, 30), (4, 14), (5, 9)] {
            let expected: Vec<Vec<u32>> = by_definition(&vec![columns; rows])
                .into_iter()
                .map(|rows| {
                    rows.into_iter()
                        .map(|length| u32::try_from(length).unwrap())
                        .collect()
                })
                .collect();
            let mut tally = FewTally::new(rows, columns);
            let mut solver = FewSolver::new(Few::new(&vec![columns; rows]));
            solver.advance(usize::MAX, THREADS, |tails, _| {
                tally.add(&tails);
                true
            });
            for most in [0, 20, 100, u64::MAX] {
                let (mut found, mut pieces) = (Vec::new(), 0);
                let take = |positions: &[[u32; 5]]| {
                    found.extend(positions.iter().map(|position| position[..rows].to_vec()));
                    pieces += 1;
                    true
                };
                assert!(in_order(
                    rows,
                    &tally.by_first_row(),
                    most,
                    THREADS,
                    |_| true,
                    take
                ));
                assert_eq!(found, expected, "{rows} rows, {most} at a time");
                assert!((pieces > 1) == (most < expected.len() as u64));
            }
            let counts = tally.by_first_row();
            assert!(!in_order(rows, &counts, 9, THREADS, |_| false, |_| true));
            assert!(!in_order(rows, &counts, 9, THREADS, |_| true, |_| false));
        }
    }
}
