//! Chomp on boards that may go on without end, to the right or downwards: a row or column may have as many cells as
//! there are numbers, ω of them. A move takes a cell and all that is neither above nor left of it. Who takes (1,1)
//! loses.
//!
//! A board is any set of cells that has with a cell all that are above or left of it. Rows are at most as long as those
//! above them, so from some row on all have one length. Every game ends, as of infinitely many cells one always lies
//! below or right of an earlier one or of both (Dickson's lemma), though nobody can say beforehand after how many
//! moves.
//!
//! **Theorem.** Of the infinite boards exactly three are losing: two infinite rows (S. Huddleston and J. Shurman,
//! *Transfinite Chomp*, in More Games of No Chance, 2002), two infinite columns, and the hook, which is one infinite row
//! and one infinite column. The proofs below are ours, also that there are no others, and which moves win.
//!
//! **A row or column has one winning move at most**: of two, that nearer the corner can follow, and leaves the same.
//!
//! **One infinite row above T**, which is finitely many cells: exactly one move wins. It is in row 1, and leaves at
//! most max(t, 1) + |T| cells there, where t is the first row of T. For let (p, T) be the board with p cells in row 1.
//!
//! * If a cut of row 1 to c < t leaves a losing board, it wins.
//! * Else take the least p ≥ max(t, 1) for which no move in T makes (p, T) a losing board. A move in T leaves some T′, and
//!   of all boards (p, T′) one is losing at the most, so it rules out one p; all together rule out at most |T|. Then (p, T)
//!   is losing: a cut of row 1 to c with max(t, 1) ≤ c < p leaves (c, T), which is winning by the choice of p.
//!
//! A move in T leaves a board of the same kind, which is winning.
//!
//! **The three are losing.** A move in two infinite rows leaves two equal rows, which are winning as (2, n) can be taken,
//! or an infinite row above a finite one; columns likewise. A move in the hook leaves one infinite row or column, and
//! finitely many other cells, and these are winning; or it takes (1,1).
//!
//! **All others are winning**, by a move to one of the three:
//!
//! * Infinite rows and infinite columns: (2,2) is there, or it is the hook. Taking it leaves the hook. Of the other moves
//!   those win that leave two rows or two columns: (3,1) if there are two infinite rows at least, (1,3) if there are two
//!   infinite columns. No move but (1,1) leaves a finite board.
//! * Two or more infinite rows, and no such column: taking (3,1) leaves two rows, if it is there. All other moves below
//!   row 1 leave infinite boards that are winning. Row 1 may have one more winning move, which leaves a finite board; if
//!   nothing but infinite rows is there it has none, as rectangles are winning. Columns likewise.
//!
//! **The window.** Of an infinite board the moves in the first rows and columns are listed: if the finite rows and
//! columns stand in the upper h rows and left w columns, and f cells are in no infinite row or column, in h + f + 2
//! rows and w + f + 2 columns, or 8 if that is more. By the above all winning moves are among them, but for one: two or
//! more infinite rows above finite ones may have one further on in row 1, as is explained then; columns too.
//!
//! A position is the rows, longest first, with `w` for an infinite one, and `...` behind the last if all below it are
//! as long: `w,w,5`, `w,1...` (the hook); or rows x columns, `3xw`, `wxw`. A move is (row, column). Infinite boards
//! have no value that is told, as it may be no number, but for 0 if they are losing.

use crate::answer::{GameAnswer, Theory};
use crate::board::{self, COLUMNS_MAX, Rows};
use crate::error::GameError;
use crate::game::{Game, GameValue, Move};
use crate::poisons::Poisons;
use crate::search::{Effort, search};
use crate::text::{list, number};

/// The length of an infinite row.
const OMEGA: u32 = u32::MAX;
/// The most rows of an infinite board, and the most cells of its window.
const ROWS_MAX: usize = 256;
const CELLS_MAX: usize = 256;
/// The fewest rows and columns of the window of an infinite board.
const WINDOW_MIN: u32 = 8;
/// The most cells of the finite boards in a list.
const LIST_MAX: usize = 30;
const FORM: &str = "rows, longest first, w for an infinite one, as w,w,5, ... behind the last if it goes on downwards, as w,1..., or rows x columns, as 3xw: at most 256 rows, and 256 cells to look at";

#[derive(Debug)]
pub(crate) struct Transfinite(pub(crate) Effort);

/// A board, finite or not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Endless {
    /// The rows that are longer than `below`.
    rows: Rows,
    /// The length of all other rows.
    below: u32,
}

impl Endless {
    fn new(mut rows: Rows, below: u32) -> Endless {
        rows.retain(|&length| length > below);
        Endless { rows, below }
    }

    /// The infinite boards that are losing: two rows, two columns, the hook.
    fn losing() -> [Endless; 3] {
        let two = vec![OMEGA, OMEGA];
        [(two, 0), (Rows::new(), 2), (vec![OMEGA], 1)]
            .map(|(rows, below)| Endless::new(rows, below))
    }

    /// Parses a position with an infinite length.
    fn parse(text: &str) -> Option<Endless> {
        let length = |text: &str| match text.trim() {
            "w" => Some(OMEGA),
            digits => number(digits, COLUMNS_MAX),
        };
        if let Some((rows, columns)) = text.split_once(['x', 'X', '×', '*']) {
            return match (length(rows)?, length(columns)?) {
                (OMEGA, columns) => Some(Endless::new(Rows::new(), columns)),
                (rows, columns) => Some(Endless::new(vec![columns; rows as usize], 0)),
            };
        }
        let above = text.strip_suffix("...");
        let rows: Option<Rows> = above.unwrap_or(text).split(',').map(length).collect();
        let rows = rows.filter(|rows| rows.is_sorted_by(|a, b| a >= b))?;
        let below = above.map_or(0, |_| rows[rows.len() - 1]);
        Some(Endless::new(rows, below))
    }

    fn infinite_rows(&self) -> usize {
        let rows = self.rows.iter();
        rows.take_while(|&&length| length == OMEGA).count()
    }

    fn is_infinite(&self) -> bool {
        self.below > 0 || self.infinite_rows() > 0
    }

    fn lengths(&self) -> impl Iterator<Item = u32> {
        let below = std::iter::repeat(self.below);
        self.rows.iter().copied().chain(below)
    }

    /// The finite board in the window, which is all of a finite one.
    fn window(&self) -> Rows {
        let finite = &self.rows[self.infinite_rows()..];
        let cells: u32 = finite.iter().map(|length| length - self.below).sum();
        // In the whole plane no column is finite.
        let wide = finite.first().copied().unwrap_or(self.below % OMEGA);
        let columns = WINDOW_MIN.max(wide + cells + 2);
        let rows = (WINDOW_MIN as usize).max(self.rows.len() + cells as usize + 2);
        let lengths = self.lengths().take(rows).map(|row| row.min(columns));
        lengths.take_while(|&length| length > 0).collect()
    }

    fn take(&self, (row, column): (u32, u32)) -> Endless {
        let mut rows = self.rows.clone();
        rows.resize(rows.len().max(row as usize - 1), self.below);
        for length in rows.iter_mut().skip(row as usize - 1) {
            *length = (*length).min(column - 1);
        }
        Endless::new(rows, self.below.min(column - 1))
    }
}

impl Game for Transfinite {
    type Position = Endless;

    /// The moves in the window.
    fn moves(&self, board: &Endless) -> Vec<(Move, Endless)> {
        let window = board.window();
        let cells = board::cells(&window);
        let moves = cells.map(|cell| (vec![cell.0, cell.1], board.take(cell)));
        moves.collect()
    }

    fn end_is_won(&self, _: &Endless) -> bool {
        true
    }
}

impl Theory for Transfinite {
    const NAME: &'static str = "transfinite";

    fn position(&self, text: &str) -> Result<Endless, GameError> {
        let plain = text.trim().to_lowercase();
        let plain = plain.replace('ω', "w").replace('…', "...");
        if !plain.contains('w') && !plain.ends_with("...") {
            return Ok(Endless::new(board::parse(text)?, 0));
        }
        let board = Endless::parse(&plain).filter(|board| board.rows.len() <= ROWS_MAX);
        let board = board.ok_or_else(|| GameError::syntax(text, FORM))?;
        let window = board.window();
        let cells = window.iter().sum::<u32>() as usize;
        GameError::check(cells, CELLS_MAX, "cells to look at")?;
        Ok(board)
    }

    fn text(&self, board: &Endless) -> String {
        let (rows, below) = (&board.rows, board.below);
        let text = match (rows.len(), below) {
            (_, 0) => board::name(rows),
            (0, below) => format!("{OMEGA}x{below}"),
            _ => format!("{},{below}...", list(rows)),
        };
        text.replace(&OMEGA.to_string(), "w")
    }

    fn parts(&self, all: &[Endless]) -> Result<Vec<Vec<u32>>, GameError> {
        Ok(vec![Vec::new(); all.len()])
    }

    fn verdicts(&self, all: &[Endless], _: &[Vec<u32>]) -> Result<Vec<GameValue>, GameError> {
        let finite = all.iter().filter(|board| !board.is_infinite());
        let finite = finite.map(|board| board.rows.clone());
        let solution = search(&Poisons::new(vec![(1, 1)], self.0), finite, self.0)?;
        let three = Endless::losing();
        let verdict = |board: &Endless| {
            let losing = three.contains(board);
            let value = losing.then_some(0);
            let found = solution.verdict(&board.rows);
            let found = found.filter(|_| !board.is_infinite());
            found.unwrap_or(GameValue { losing, value })
        };
        Ok(all.iter().map(verdict).collect())
    }

    /// The window: `x` is the poison, `O` a move that wins, `.` one that does not; rows go on at `…`, columns at `:`.
    fn explain(&self, board: &Endless, answer: &GameAnswer) -> Vec<String> {
        let window = board.window();
        let mut lines = Poisons::new(vec![(1, 1)], self.0).explain(&window, answer);
        if !board.is_infinite() {
            return lines;
        }
        for (line, _) in lines
            .iter_mut()
            .zip(board.lengths().take_while(|&row| row == OMEGA))
        {
            line.push_str(" …");
        }
        if board.below > 0 {
            lines.push(vec![":"; window[window.len() - 1] as usize].join(" "));
        }
        lines.push("Of all infinite boards three are losing: 2xw, wx2 and w,1...".to_owned());
        let found = |index: usize| answer.winning_moves.iter().any(|name| name[index] == 1);
        let more = match (board.infinite_rows(), board.below) {
            (rows @ 2.., 0) if rows < board.rows.len() && !found(0) => {
                format!("row 1, beyond column {}", window[0])
            }
            (0, 2..) if !board.rows.is_empty() && !found(1) => {
                format!("column 1, beyond row {}", window.len())
            }
            _ => return lines,
        };
        lines.push(format!("At most one other move wins, if any: in {more}."));
        lines
    }

    /// The infinite losing positions, and the finite ones of `size` cells.
    fn losing(&self, size: u32) -> Result<Vec<Endless>, GameError> {
        GameError::check(size as usize, LIST_MAX, "cells")?;
        let finite = board::all(size);
        let finite = finite.into_iter().map(|rows| Endless::new(rows, 0));
        let mut all: Vec<Endless> = Endless::losing().into_iter().chain(finite).collect();
        let mut verdicts = self.verdicts(&all, &[])?.into_iter();
        all.retain(|_| verdicts.next().is_some_and(|verdict| verdict.losing));
        Ok(all)
    }
}
