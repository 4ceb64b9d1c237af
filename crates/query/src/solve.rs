//! Answers without a table: the positions inside the given one are solved on the spot.

use std::num::NonZeroUsize;

use chomp_boxes::{FewAnswer, FewQuery};
use chomp_table::{Cell, Position, Word};

use crate::answer::{Answer, PositionVerdict, number, reply};
use crate::inside::{Inside, TooManyInside, cells, cut, mirrored};

/// The limits of the work for an answer.
#[derive(Clone, Copy, Debug)]
pub struct SolveLimits {
    /// The most positions inside a position of more than five rows and columns. Each takes six bytes.
    pub inside: u64,
    /// For a position of at most five rows or columns: the most sets of rows, or columns, below the first.
    pub lower_rows: u64,
    /// The most bytes that the sets of `lower_rows` take.
    pub memory: u64,
    /// The threads that solve the sets of `lower_rows`.
    pub threads: NonZeroUsize,
}

/// The reason why a position is not solved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SolveError {
    /// Too many positions are inside.
    #[error("{0}")]
    Inside(String),
    /// The position has few rows or columns, but they are too long.
    #[error("{0}")]
    FewRows(String),
    /// `tell` cancelled the work.
    #[error("stopped")]
    Stopped,
}

/// Answers without a table. `tell` gets the fraction done, from 0 to 1, and says whether to go on. Fails if the limits
/// are too low, or if `tell` cancels.
pub fn solve(
    rows: &[u32],
    limits: SolveLimits,
    tell: impl FnMut(f64) -> bool + Send,
) -> Result<Answer, SolveError> {
    let first = rows.first().copied().unwrap_or(0);
    let is_mirrored = rows.len() > first as usize;
    let sides = if is_mirrored {
        mirrored(rows)
    } else {
        rows.to_vec()
    };
    let found = match FewQuery::new(&sides) {
        Some(query) => few(&query, limits, tell)?,
        None => inside(&sides, limits, tell)?,
    };
    let own = |((row, column), left): ((u32, u32), Vec<u32>)| {
        if is_mirrored {
            ((column, row), mirrored(&left))
        } else {
            ((row, column), left)
        }
    };
    let mut moves: Vec<_> = found.winning_moves.into_iter().map(own).collect();
    moves.sort_unstable();
    let cells = moves.iter().map(|&((row, column), _)| Cell { row, column });
    let reply = reply(rows, &cells.collect::<Vec<_>>());
    let (winning_moves, losing_positions) = moves.into_iter().unzip();
    let position = Position::new(rows.to_vec()).ok();
    Ok(Answer {
        verdict: PositionVerdict {
            rows: rows.to_vec(),
            word: position.and_then(|position| number(Word::from(&position))),
            bits: first + u32::try_from(rows.len()).expect("rows that fit in memory"),
            area: rows.iter().sum(),
            losing: found.losing,
        },
        reply: reply.map(|cell| (cell.row, cell.column)),
        winning_moves,
        losing_positions,
    })
}

fn few(
    query: &FewQuery,
    limits: SolveLimits,
    tell: impl FnMut(f64) -> bool + Send,
) -> Result<FewAnswer, SolveError> {
    let (lower, most) = (query.few().lower_rows(), limits.lower_rows);
    if lower > most {
        let [lower, most] = [lower, most].map(grouped);
        let why = format!(
            "it has {lower} sets of rows below the first, and without a table {most} are the most"
        );
        return Err(SolveError::FewRows(why));
    }
    let (needed, free) = (query.few().memory(limits.threads), limits.memory);
    if needed > free {
        let [needed, free] = [needed, free].map(|bytes| bytes >> 20);
        let why = format!("without a table it takes {needed} MiB of memory, and {free} are free");
        return Err(SolveError::FewRows(why));
    }
    query
        .answer(limits.threads, tell)
        .ok_or(SolveError::Stopped)
}

fn inside(
    rows: &[u32],
    limits: SolveLimits,
    tell: impl FnMut(f64) -> bool,
) -> Result<FewAnswer, SolveError> {
    let losing = Inside::losing(rows, limits.inside, tell);
    let losing = losing.map_err(|TooManyInside { inside, most }| {
        let [inside, most] = [inside, most].map(grouped);
        let why = format!(
            "it has at least {inside} positions inside, and without a table {most} are the most"
        );
        SolveError::Inside(why)
    })?;
    let losing = losing.ok_or(SolveError::Stopped)?;
    let moves = cells(rows).map(|cell| ((cell.row, cell.column), cut(rows, cell)));
    Ok(FewAnswer {
        losing: losing.result_of(rows) == 1,
        winning_moves: moves
            .filter(|(_, left)| losing.result_of(left) == 1)
            .collect(),
    })
}

/// A number with a comma before each three digits.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&[u8]> = digits.as_bytes().rchunks(3).rev().collect();
    String::from_utf8_lossy(&groups.join(&b',')).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::ByDefinition;

    const LIMITS: SolveLimits = SolveLimits {
        inside: 1 << 21,
        lower_rows: 1 << 21,
        memory: 1 << 26,
        threads: NonZeroUsize::MIN,
    };

    fn solved(rows: &[u32]) -> Result<Answer, SolveError> {
        solve(rows, LIMITS, |_| true)
    }

    #[test]
    fn every_small_position_agrees_with_the_definition() {
        let table = ByDefinition::new(14);
        for index in 0..1u64 << 13 {
            let position = Position::from(Word::new(index * 2));
            let expected = crate::answer(&table, &position).unwrap();
            assert_eq!(solved(position.rows()), Ok(expected), "{position}");
        }
    }

    #[test]
    fn openings_are_those_that_others_found() {
        for (rows, columns, moves) in [
            (8, 10, &[(4, 9), (5, 6)][..]),
            (10, 8, &[(6, 5), (9, 4)]),
            (9, 10, &[(7, 8), (9, 5)]),
            (6, 13, &[(4, 12), (5, 9)]),
            (9, 9, &[(2, 2)]),
            (2, 900, &[(2, 900)]),
        ] {
            let answer = solved(&vec![columns; rows]).unwrap();
            assert_eq!(answer.winning_moves, moves, "{rows}x{columns}");
            for left in &answer.losing_positions {
                assert!(solved(left).unwrap().verdict.losing, "{left:?}");
            }
        }
    }

    /// Hooks are known: they are losing if their arms are equal.
    #[test]
    fn positions_of_more_bits_than_a_word_are_solved() {
        let hook = |row: u32, rows: usize| [vec![row], vec![1; rows - 1]].concat();
        for (row, rows) in [(70, 70), (71, 70), (70, 72)] {
            let answer = solved(&hook(row, rows)).unwrap();
            assert_eq!(
                (answer.verdict.word, answer.verdict.bits as usize),
                (None, row as usize + rows)
            );
            let moves = match row as usize {
                _ if row as usize == rows => vec![],
                columns if columns > rows => vec![(1, 71)],
                _ => vec![(71, 1)],
            };
            assert_eq!(answer.verdict.losing, moves.is_empty());
            assert_eq!(answer.winning_moves, moves);
        }
    }

    #[test]
    fn more_work_than_the_limits_is_refused() {
        let refused = |rows: &[u32]| solved(rows).unwrap_err().to_string();
        assert!(refused(&[12; 12]).contains(" 2,704,156 positions inside"));
        assert!(refused(&[30; 30]).contains("without a table 2,097,152 are the most"));
        assert!(refused(&[200_000; 5]).contains(" 18,446,744,073,709,551,615 sets of rows"));
        assert!(refused(&vec![5; 200_000]).contains(" sets of rows below"));
        let large = vec![200_000; 200_000];
        assert!(refused(&large).contains(" at least 40,000,000,000 positions"));
        let little = SolveLimits {
            memory: 0,
            ..LIMITS
        };
        let refused = solve(&[400; 3], little, |_| true);
        assert!(matches!(refused, Err(SolveError::FewRows(_))));
        for rows in [vec![11; 10], vec![400; 3]] {
            assert_eq!(solve(&rows, LIMITS, |_| false), Err(SolveError::Stopped));
        }
    }
}
