//! Chomp with poisons anywhere. A move takes a cell, and all neither above nor left of it. Who takes a poison loses.
//!
//! A position with all its poisons is losing if every move that takes none leads to a winning position, also if there
//! is no such move. A position without one of them is over, and won by who is to move.
//!
//! **Three rows in one step a position.** Of (a, b, c), a ≥ b ≥ c, a move leaves one of six kinds with a smaller x:
//! (x, b, c), (x, x, c), (x, x, x), (a, x, c), (a, x, x), (a, b, x). In ascending order, it is enough to keep for each
//! kind, and for what stands fixed in it, the least x of a losing position. Boards of more rows are searched.
//!
//! A position is a board and its poisons, as `3x8@1,1@2,2`; without any, (1,1) is poisoned. A move is (row, column).

use std::cell::RefCell;

use crate::answer::{GameAnswer, Theory};
use crate::board::{self, COLUMNS_MAX, Rows};
use crate::error::GameError;
use crate::game::{Game, GameValue, Move};
use crate::search::{Effort, Solution, search};
use crate::text::{cell, list, number};

const POISONS_MAX: usize = 2;
/// The most columns of three rows for which values are searched too.
const VALUES_COLUMNS_MAX: u32 = 60;

/// Chomp with some poisoned cells: usually (1,1). Without any, who takes the last cell wins.
#[derive(Debug)]
pub struct Poisons {
    pub(crate) cells: Vec<(u32, u32)>,
    effort: Effort,
    known: RefCell<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// `three_rows` has all losing positions up to this number of columns, in ascending order.
    columns: u32,
    three_rows: Vec<[u32; 3]>,
    solution: Option<Solution<Rows>>,
}

/// Points, and lines that show them.
pub type Picture = (Vec<(u32, u32)>, Vec<String>);

impl Poisons {
    pub(crate) fn new(poisons: Vec<(u32, u32)>, effort: Effort) -> Poisons {
        Poisons {
            cells: poisons,
            effort,
            known: RefCell::default(),
        }
    }

    /// The game of the rules behind the first `@`. Fails if they are no poisons, too many, or on no possible board.
    pub fn parse(rules: &str, effort: Effort) -> Result<Poisons, GameError> {
        if rules.is_empty() {
            return Ok(Poisons::new(vec![(1, 1)], effort));
        }
        let poisons = rules.split('@').map(|text| cell(text, COLUMNS_MAX));
        let poisons: Option<Vec<_>> = poisons.collect();
        let poisons = poisons.filter(|poisons| poisons.len() <= POISONS_MAX);
        let form = "one or two poisons, each as @row,column, as @1,1@2,2";
        let poisons = poisons.ok_or_else(|| GameError::syntax(rules, form))?;
        Ok(Poisons::new(poisons, effort))
    }

    /// Whether all poisons are there, so that the game goes on.
    fn is_on(&self, rows: &[u32]) -> bool {
        self.cells.iter().all(|&poison| board::has(rows, poison))
    }

    /// All losing positions of at most three rows and `columns` columns, in ascending order.
    pub(crate) fn of_three_rows(&self, columns: u32) -> Result<Vec<[u32; 3]>, GameError> {
        let size = columns as usize + 1;
        let mut found = Vec::new();
        // The least x so far, by what has another length. Where two kinds are compared with the same row, the one that
        // is kept for the longer time is the beginning of the other.
        let mut first = vec![u32::MAX; size * size];
        let (mut upper_two, mut all_three) = (vec![u32::MAX; size], u32::MAX);
        for a in 0..=columns {
            let (mut second, mut lower_two) = (upper_two.clone(), all_three);
            for b in 0..=a {
                self.effort.check_time()?;
                let mut third = lower_two;
                for c in 0..=b {
                    let (at, pair) = (c as usize, b as usize * size + c as usize);
                    let wins = first[pair] < a || second[at] < b || third < c;
                    if wins || !self.is_on(&[a, b, c]) {
                        continue;
                    }
                    found.push([a, b, c]);
                    (first[pair], second[at], third) = (a, b, c);
                    if a == b {
                        upper_two[at] = a;
                    }
                    if b == c {
                        lower_two = c;
                    }
                    if a == c {
                        all_three = a;
                    }
                }
            }
        }
        Ok(found)
    }

    /// The losing positions of at most three rows and `columns` columns in which one row has a length, as `1=50`: the
    /// other two rows, and a picture of them. There the shorter one goes down, the longer one to the right, both from
    /// 0, and `#` is losing. Fails if there is no such row, or the board is too large, or too small for it.
    pub fn picture(&self, columns: u32, fix: &str) -> Result<Picture, GameError> {
        GameError::check(columns as usize, COLUMNS_MAX as usize, "columns")?;
        let fixed = fix.split_once('=').unwrap_or_default();
        let fixed = number(fixed.0, 3).zip(number(fixed.1, columns));
        let Some((row @ 1.., length)) = fixed else {
            let form = "a row from 1 to 3 and a length on the board, as 1=50";
            return Err(GameError::syntax(fix, form));
        };
        let at = row as usize - 1;
        let longest = if row == 1 { length } else { columns };
        let all = self.of_three_rows(longest)?.into_iter();
        let fixed = all.filter(|rows| rows[at] == length);
        let others = |[a, b, c]: [u32; 3]| [(b, c), (a, c), (a, b)][at];
        let losing: Vec<(u32, u32)> = fixed.map(others).collect();
        let sign = |point| if losing.contains(&point) { '#' } else { '.' };
        let line = |shorter| {
            let signs = (shorter..=longest).map(|longer| sign((longer, shorter)));
            " ".repeat(shorter as usize) + &signs.collect::<String>()
        };
        let lowest = losing.iter().map(|&(_, shorter)| shorter).max();
        let lines = (0..=lowest.unwrap_or(0)).map(line).collect();
        Ok((losing, lines))
    }
}

impl Game for Poisons {
    type Position = Rows;

    fn moves(&self, rows: &Rows) -> Vec<(Move, Rows)> {
        let cells = board::cells(rows).filter(|_| self.is_on(rows));
        let moves = cells.map(|cell| (vec![cell.0, cell.1], board::take(rows, cell)));
        moves.collect()
    }

    fn end_is_won(&self, rows: &Rows) -> bool {
        !self.is_on(rows)
    }
}

impl Theory for Poisons {
    const NAME: &'static str = "poisons";

    fn position(&self, text: &str) -> Result<Rows, GameError> {
        board::parse(text)
    }

    fn text(&self, rows: &Rows) -> String {
        let poisons = self.cells.iter();
        let poisons = poisons.map(|&(row, column)| format!("@{}", list(&[row, column])));
        board::name(rows) + &poisons.collect::<String>()
    }

    fn verdicts(&self, all: &[Rows], _: &[Vec<u32>]) -> Result<Vec<GameValue>, GameError> {
        let (three_rows, columns) = (all[0].len() <= 3, all[0].first().copied().unwrap_or(0));
        let is_searched = !three_rows || columns <= VALUES_COLUMNS_MAX;
        let mut known = self.known.borrow_mut();
        let solved = |solution: &Solution<Rows>| solution.verdict(&all[0]).is_some();
        if is_searched && !known.solution.as_ref().is_some_and(solved) {
            match search(self, [all[0].clone()], self.effort) {
                Err(GameError::TooLarge(..)) if three_rows => known.solution = None,
                found => known.solution = Some(found?),
            }
        }
        if three_rows && known.columns < columns {
            known.three_rows = self.of_three_rows(columns)?;
            known.columns = columns;
        }
        let solution = known.solution.as_ref().filter(|_| is_searched);
        let is_losing = |rows: &Rows| {
            let row = |index| rows.get(index).copied().unwrap_or(0);
            let rows = [row(0), row(1), row(2)];
            three_rows.then(|| known.three_rows.binary_search(&rows).is_ok())
        };
        let verdict = |rows: &Rows| {
            let found = solution.and_then(|solution| solution.verdict(rows));
            let value = found.and_then(|found| found.value);
            let losing = is_losing(rows).unwrap_or_else(|| value == Some(0));
            GameValue { losing, value }
        };
        Ok(all.iter().map(verdict).collect())
    }

    /// The board: `x` is a poison, `O` a move that wins, `.` one that does not.
    fn explain(&self, rows: &Rows, answer: &GameAnswer) -> Vec<String> {
        let sign = |cell: (u32, u32)| match self.cells.contains(&cell) {
            true => "x",
            false if answer.winning_moves.contains(&vec![cell.0, cell.1]) => "O",
            false => ".",
        };
        let line = |(row, &length): (u32, &u32)| {
            let signs: Vec<&str> = (1..=length).map(|column| sign((row, column))).collect();
            signs.join(" ")
        };
        (1..).zip(rows).map(line).collect()
    }

    fn losing(&self, size: u32) -> Result<Vec<Rows>, GameError> {
        GameError::check(size as usize, COLUMNS_MAX as usize, "columns")?;
        let mut positions = self.of_three_rows(size)?;
        positions.sort_by_key(|rows| rows.iter().sum::<u32>());
        let trimmed = |rows: [u32; 3]| rows.into_iter().filter(|&length| length > 0).collect();
        Ok(positions.into_iter().map(trimmed).collect())
    }
}
