//! Where an opening near the poison wins: on which boards (i, j) is a winning first move.
//!
//! # The mathematics
//!
//! A position without the cell (i, j) is i − 1 rows and, below them, j − 1 columns, as long as one likes. If it has the
//! cell (i − 1, j − 1), and so the whole **core** above it, rows and columns do not depend on each other: a ≥ b ≥ … are
//! the lengths of the rows, at least j − 1, and c ≥ d ≥ … those of the columns, at least i − 1. That is the **family**
//! (i, j). A move
//!
//! * in a row leaves a', j − 1 ≤ a' < a, and cuts the rows below to that, if they are longer; in a column likewise;
//! * at a cell (u, v) of the core leaves the rows before u and columns before v: family (u, v), without rows if u = 1.
//!
//! As in [`few`](crate::few), for given (b, …; c, …) at most one a is losing: the least a ≥ b that no losing position
//! excludes which a move outside of the first row leads to; and none if a move in the first row to a' < b leads to a
//! losing position, as every larger a could be cut to it. The opening (i, j) of a board of m rows and n columns leaves
//! the position of the family (i, j) with rows of n and columns of m cells.
//!
//! # The opening (3, 3)
//!
//! A position with the cell (2, 2), but without (3, 3), is two rows a ≥ b ≥ 2 and two columns c ≥ d ≥ 2. The moves are
//!
//! * in a row: a to a' (and b to min(b, a')), or b to b'; in a column likewise with c and d; each leaves 2 or more;
//! * (2, 2), which leaves a **hook**, a row of a cells and a column of c cells. A hook is losing exactly if a = c: whoever is
//!   to move there spoils that, and the other restores it, until the poison is left;
//! * (1, 2) and (2, 1), which leave a column of c ≥ 2 cells or a row of a ≥ 2 cells. Those are winning.
//!
//! So the last moves never help, and (2, 2) wins exactly if a = c. The loops are c, d, b. What moves in c exclude is
//! kept for each (b, d) as a set of numbers a, that begins, when c = d, as what (b, c', c') excludes for c' < d; what
//! moves in d exclude, for each b; what those in b exclude is one set. The least a in none of the three is losing.
//!
//! # The opening (2, 4)
//!
//! A position with the cell (1, 3), but without (2, 4), is a row of a ≥ 3 cells and three columns c ≥ d ≥ e ≥ 1. The
//! moves are
//!
//! * in the row: a to a'; in a column: c to c' (and d, e to c' at the most), d to d' (and e), e to e';
//! * (1, 3), which leaves two columns: they are losing exactly if c = d + 1;
//! * (1, 2), which leaves one column: it is losing exactly if c = 1.
//!
//! After the last two there is no row: if one wins, no a is losing. The loops are c, d, e, the sets as in (3, 3): for
//! each (d, e), for each e, and one. Where lengths are equal they begin as what both cut alike excludes.

#![expect(
    clippy::needless_range_loop,
    reason = "a row or a length is an index into several tables"
)]

/// The most of i + j.
pub const SUM_MAX: usize = 8;

/// The boards up to `most` x `most` on which the opening (i, j) wins, as (rows, columns), ascending. `control` hears
/// now and then which fraction is done; none if it said not to go on. Panics if i or j is 0, or i + j > [`SUM_MAX`].
pub fn boards_won_by(
    opening: [usize; 2],
    most: usize,
    control: impl FnMut(f64) -> bool,
) -> Option<Vec<(usize, usize)>> {
    let mut won = Vec::new();
    let ended = match opening {
        [3, 3] => three_three(most, control, |[a, b, c, d]| {
            if a == b && c == d {
                won.push((c, a));
            }
        }),
        [2, 4] | [4, 2] => two_four(most, control, |a, [c, d, e]| {
            if a > 3 && c > 1 && c == d && d == e {
                won.push(if opening == [2, 4] { (c, a) } else { (a, c) });
            }
        }),
        _ => return by_moves(opening, most, control),
    };
    won.sort_unstable();
    ended.then_some(won)
}

/// The bytes that [`boards_won_by`] takes.
pub fn memory(opening: [usize; 2], most: usize) -> u64 {
    let words = (most / 64 + 1) as u64;
    let sides = most as u64;
    match opening {
        [3, 3] => (sides + 1) * (sides + 3) * words * 8,
        [2, 4] | [4, 2] => (sides + 1) * (sides + 6) / 2 * words * 8,
        _ => memory_by_moves(opening, most),
    }
}

/// A fraction of the work: what the lengths to `of` are of those to `most`, where it grows with this power.
#[expect(clippy::cast_precision_loss, reason = "it is shown as a bar")]
fn share(of: usize, most: usize, power: i32) -> f64 {
    (of as f64 / most as f64).powi(power)
}

/// Tells all losing positions [a, b, c, d] of the family (3, 3) with a, c ≤ most.
fn three_three(
    most: usize,
    mut control: impl FnMut(f64) -> bool,
    mut found: impl FnMut([usize; 4]),
) -> bool {
    let words = most / 64 + 1;
    let size = (most + 1) * words;
    // For each d, what moves in c exclude, by b.
    let mut by_c: Vec<Vec<u64>> = vec![Vec::new(); most + 1];
    // For each b: f(b, c, c) for all c so far.
    let mut squares = vec![0_u64; size];
    let mut by_d = vec![0_u64; size];
    let mut by_b = vec![0_u64; words];
    for c in 2..=most {
        if !control(share(c - 1, most, 2)) {
            return false;
        }
        by_c[c].clone_from(&squares);
        by_d.fill(0);
        for d in 2..=c {
            by_b.fill(0);
            for b in 2..=most {
                let row = b * words;
                let Some(a) = least(
                    b,
                    c,
                    [&by_c[d][row..][..words], &by_d[row..][..words], &by_b],
                ) else {
                    continue;
                };
                if a > most {
                    continue;
                }
                found([a, b, c, d]);
                let (word, bit) = (a / 64, 1 << (a % 64));
                by_c[d][row + word] |= bit;
                by_d[row + word] |= bit;
                by_b[word] |= bit;
                if c == d {
                    squares[row + word] |= bit;
                }
                if a == b {
                    break;
                }
            }
        }
    }
    true
}

/// Tells all losing positions a, [c, d, e] of the family (2, 4) with a, c ≤ most.
fn two_four(
    most: usize,
    mut control: impl FnMut(f64) -> bool,
    mut found: impl FnMut(usize, [usize; 3]),
) -> bool {
    let words = most / 64 + 1;
    let empty = vec![0_u64; words];
    // For each d, what moves in c exclude, by e.
    let mut by_c: Vec<Vec<u64>> = vec![Vec::new(); most + 1];
    // For each e: what c = d cut to the same length excludes.
    let mut squares = vec![0_u64; (most + 1) * words];
    // Also with e.
    let mut cubes = empty.clone();
    for c in 1..=most {
        if !control(share(c - 1, most, 3)) {
            return false;
        }
        squares[c * words..][..words].copy_from_slice(&cubes);
        by_c[c] = squares[..(c + 1) * words].to_vec();
        // For each e, what moves in d exclude; and what d = e cut to the same length does.
        let mut by_d = vec![0_u64; (c + 1) * words];
        let mut pairs = empty.clone();
        for d in 1..=c {
            by_d[d * words..][..words].copy_from_slice(&pairs);
            if c == 1 || c == d + 1 {
                continue;
            }
            let mut by_e = empty.clone();
            for e in 1..=d {
                let row = e * words;
                let sets = [&by_c[d][row..][..words], &by_d[row..][..words], &by_e];
                let Some(a) = least(3, 0, sets).filter(|&a| a <= most) else {
                    continue;
                };
                found(a, [c, d, e]);
                let (word, bit) = (a / 64, 1 << (a % 64));
                by_c[d][row + word] |= bit;
                by_d[row + word] |= bit;
                by_e[word] |= bit;
                if d == e {
                    pairs[word] |= bit;
                }
                if c == d {
                    squares[row + word] |= bit;
                    if d == e {
                        cubes[word] |= bit;
                    }
                }
            }
        }
    }
    true
}

/// The least number from `least` on that is not `other` and in no set.
fn least(least: usize, other: usize, sets: [&[u64]; 3]) -> Option<usize> {
    let mut below = (1 << (least % 64)) - 1;
    for word in least / 64..sets[0].len() {
        let mut union = below | sets[0][word] | sets[1][word] | sets[2][word];
        if other / 64 == word {
            union |= 1 << (other % 64);
        }
        if union != u64::MAX {
            return Some(word * 64 + union.trailing_ones() as usize);
        }
        below = 0;
    }
    None
}

/// The positions of one family. Its lower rows are those after the first, and the columns.
#[derive(Debug)]
struct Family {
    rows: usize,
    columns: usize,
    most: usize,
    /// For each lower row and column, then its length: what it adds to the number of the lower rows.
    ranks: Vec<Vec<usize>>,
    /// By the number of lower rows: the losing first row, 0 if there is none. Without rows 1 if the columns are losing.
    first: Vec<u16>,
}

/// The number of descending lists of `count` lengths of at most `most`: binom(most + count, count).
pub(crate) fn descending(count: usize, most: usize) -> u128 {
    (1..=count as u128).fold(1, |all, one| all * (most as u128 + one) / one)
}

impl Family {
    fn new(rows: usize, columns: usize, most: usize) -> Family {
        let lower = rows.saturating_sub(1);
        let of_columns = descending(columns, most);
        let fits = |number: u128| usize::try_from(number).expect("a number of positions in memory");
        // In lexicographic order: before a list with a at some place come those that are the same so far, then less.
        let ranks = |count: usize, each: u128| {
            let before = move |left: usize, length: usize| match length {
                0 => 0,
                _ => fits(each * descending(left, length - 1)),
            };
            let of = move |left: usize| (0..=most).map(|length| before(left, length)).collect();
            (1..=count).rev().map(of)
        };
        Family {
            rows,
            columns,
            most,
            ranks: ranks(lower, of_columns).chain(ranks(columns, 1)).collect(),
            first: vec![0; fits(descending(lower, most) * of_columns)],
        }
    }

    /// The number of some lower rows, each of which `cut` may shorten.
    fn number(&self, lower: &[usize], cut: impl Fn(usize, usize) -> usize) -> usize {
        let lengths = self.ranks.iter().zip(lower).enumerate();
        lengths
            .map(|(at, (ranks, &length))| ranks[cut(at, length)])
            .sum()
    }

    /// The first row for the lower rows of which those from `from` to `end` are cut to `to`.
    fn get(&self, lower: &[usize], (from, end, to): (usize, usize, usize)) -> usize {
        let number = self.number(lower, |at, length| {
            if (from..end).contains(&at) {
                length.min(to)
            } else {
                length
            }
        });
        self.first[number].into()
    }
}

fn memory_by_moves([i, j]: [usize; 2], most: usize) -> u64 {
    let family = |rows: usize, columns: usize| {
        descending(rows.saturating_sub(1), most) * descending(columns, most)
    };
    let of_rows = |rows: usize| (0..j).map(|columns| family(rows, columns)).sum::<u128>();
    let positions = (0..i).map(of_rows).sum::<u128>();
    u64::try_from(positions * 2).unwrap_or(u64::MAX)
}

/// [`boards_won_by`] with a look at each move of each position.
fn by_moves(
    [i, j]: [usize; 2],
    most: usize,
    mut control: impl FnMut(f64) -> bool,
) -> Option<Vec<(usize, usize)>> {
    assert!(
        i > 0 && j > 0 && i + j <= SUM_MAX,
        "an opening near the poison"
    );
    // Index u − 1, then v − 1.
    let mut families: Vec<Vec<Family>> = Vec::new();
    for rows in 0..i {
        families.push(Vec::new());
        for columns in 0..j {
            let mut family = Family::new(rows, columns, most);
            let lengths = i32::try_from(family.ranks.len()).expect("few");
            // The last family takes nearly all of the time, as it is the largest.
            let is_last = (rows + 1, columns + 1) == (i, j);
            let fraction = |length| {
                if is_last {
                    share(length, most, lengths)
                } else {
                    0.0
                }
            };
            let tell = &mut |length| control(fraction(length));
            if !fill(&mut family, &families, &mut Vec::new(), tell) {
                return None;
            }
            families[rows].push(family);
        }
    }
    let family = &families[i - 1][j - 1];
    let boards = (i..=most).flat_map(|m| (j..=most).map(move |n| (m, n)));
    let wins = |&(m, n): &(usize, usize)| {
        let mut lower = vec![n; i.saturating_sub(2)];
        lower.extend(vec![m; j - 1]);
        family.get(&lower, (0, 0, 0)) == if i > 1 { n } else { 1 }
    };
    Some(boards.filter(wins).collect())
}

/// All lower rows that begin with these, shorter ones first.
fn fill(
    family: &mut Family,
    families: &[Vec<Family>],
    lower: &mut Vec<usize>,
    control: &mut impl FnMut(usize) -> bool,
) -> bool {
    let rows = family.rows.saturating_sub(1);
    let at = lower.len();
    if at == rows + family.columns {
        let first = first(family, families, lower);
        let number = family.number(lower, |_, length| length);
        family.first[number] = u16::try_from(first).expect("a length");
        return true;
    }
    let least = if at < rows {
        family.columns
    } else {
        family.rows
    };
    let longest = if at == 0 || at == rows {
        family.most
    } else {
        lower[at - 1]
    };
    for length in least..=longest {
        lower.push(length);
        let goes_on = fill(family, families, lower, control);
        lower.pop();
        if !goes_on || at == 0 && !control(length) {
            return false;
        }
    }
    true
}

/// The first row that makes these lower rows losing; 0 if there is none.
fn first(family: &Family, families: &[Vec<Family>], lower: &[usize]) -> usize {
    let rows = family.rows.saturating_sub(1);
    let mut excluded = vec![false; family.most + 1];
    for (at, &length) in lower.iter().enumerate() {
        let (end, least) = if at < rows {
            (rows, family.columns)
        } else {
            (lower.len(), family.rows)
        };
        for to in least..length {
            excluded[family.get(lower, (at, end, to))] = true;
        }
    }
    let mut left = Vec::with_capacity(lower.len());
    for u in 1..=family.rows {
        for v in 1..=family.columns {
            left.clear();
            left.extend_from_slice(&lower[..u.saturating_sub(2)]);
            left.extend_from_slice(&lower[rows..][..v - 1]);
            let first = families[u - 1][v - 1].get(&left, (0, 0, 0));
            if u > 1 {
                excluded[first] = true;
            } else if first > 0 {
                return 0;
            }
        }
    }
    if family.rows == 0 {
        // Columns alone, which are losing if no move was found that wins. Those without a cell are not.
        return usize::from(!excluded[1] && lower.iter().any(|&length| length > 0));
    }
    let second = if rows > 0 { lower[0] } else { family.columns };
    let is_dead = |to: usize| family.get(lower, (0, rows, to)) == to;
    if (family.columns.max(1)..second).any(is_dead) {
        return 0;
    }
    let least = second.max(1);
    (least..=family.most)
        .find(|&first| !excluded[first])
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::few::{Few, FewSolver, Tail};
    use std::collections::{BTreeMap, BTreeSet};
    use std::num::NonZeroUsize;

    #[test]
    fn fast_methods_agree_with_a_look_at_every_move() {
        for (opening, most) in [([3, 3], 60), ([2, 4], 100), ([4, 2], 70)] {
            let fast = boards_won_by(opening, most, |_| true).unwrap();
            assert!(fast.len() > 20);
            assert_eq!(Some(fast), by_moves(opening, most, |_| true), "{opening:?}");
            assert_eq!(boards_won_by(opening, most, |_| false), None);
            assert_eq!(boards_won_by(opening, most, |done| done < 0.1), None);
        }
    }

    #[test]
    fn openings_are_those_of_all_positions_of_five_rows() {
        const MOST: usize = 13;
        let mut won: BTreeMap<(usize, usize), BTreeSet<_>> = BTreeMap::new();
        let mut solver = FewSolver::new(Few::new(&[MOST; 5]));
        solver.advance(usize::MAX, NonZeroUsize::MIN, |tails, _| {
            for rows in tails.iter().flat_map(Tail::positions) {
                let rows = rows.map(|length| length as usize);
                // All rows that are not whole have the same length.
                let whole = rows.iter().take_while(|&&length| length == rows[0]).count();
                for m in whole + 1..=5 {
                    let cut = &rows[whole..m];
                    if cut.iter().all(|&length| length == cut[0]) && rows[m..] == [0; 5][m..] {
                        won.entry((whole + 1, cut[0] + 1))
                            .or_default()
                            .insert((m, rows[0]));
                    }
                }
            }
            true
        });
        for i in 2..=4 {
            for j in 2..=SUM_MAX - i {
                let found = boards_won_by([i, j], MOST, |_| true).unwrap().into_iter();
                let found: BTreeSet<_> = found.filter(|&(m, n)| m <= 5 && n <= MOST).collect();
                let expected = won.remove(&(i, j)).unwrap_or_default();
                assert_eq!(found, expected, "({i}, {j})");
            }
        }
    }
}
