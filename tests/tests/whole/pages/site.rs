//! A table that is served, the game as its page shows it, and W by its definition beside it.

use std::path::{Path, PathBuf};

use chomp_table::{Position, Word};
use chomp_testing::definition::{index_of, losing};
use serde_json::Value;
use tempfile::TempDir;

use super::browser::Browser;
use crate::common::cluster::{Process, at_home, free_port, serve_tables, wait_to_answer};
use crate::common::random::Random;
use crate::common::{end, run};

/// The bits of the tables here: small enough for the definition.
pub(crate) const BITS: u32 = 18;

/// A table and its server.
#[derive(Debug)]
pub(crate) struct Site {
    home: TempDir,
    port: u16,
    server: Option<Process>,
}

impl Site {
    /// A table of [`BITS`] bits, served.
    pub(crate) fn new() -> Site {
        Site::with(|_| ())
    }

    /// The same, with files that `more` puts beside the table.
    pub(crate) fn with(more: impl FnOnce(&Path)) -> Site {
        let mut site = Site {
            home: tempfile::tempdir().unwrap(),
            port: free_port(),
            server: None,
        };
        end(&mut run(&site.table(), BITS)).summary();
        more(&site.table());
        site.start();
        site
    }

    fn table(&self) -> PathBuf {
        self.home.path().join("table")
    }

    /// Serves again, where it did.
    pub(crate) fn start(&mut self) {
        let mut command = at_home(serve_tables(&self.table(), self.port), self.home.path());
        self.server = Some(Process::start(&mut command, self.home.path()));
        wait_to_answer(self.port);
    }

    /// Ends the server.
    pub(crate) fn stop(&mut self) {
        self.server = None;
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

/// W by its definition.
#[derive(Debug)]
pub(crate) struct Twin(Vec<bool>);

/// A cell as the pages name it: row and column.
pub(crate) type Cell = (u32, u32);

impl Twin {
    pub(crate) fn new() -> Twin {
        Twin(losing(BITS))
    }

    pub(crate) fn is_losing(&self, rows: &[u32]) -> bool {
        self.0[index_of(word(rows))]
    }

    /// The winning moves, by rows and columns.
    pub(crate) fn winning_moves(&self, rows: &[u32]) -> Vec<Cell> {
        let moves = word(rows).moves();
        let winning = moves.filter(|&(_, left)| self.0[index_of(left)]);
        let mut cells: Vec<Cell> = winning.map(|(cell, _)| (cell.row, cell.column)).collect();
        cells.sort_unstable();
        cells
    }

    /// How many positions are losing, among those for which `counts` holds.
    pub(crate) fn count(&self, counts: impl Fn(Word) -> bool) -> u64 {
        let words = (0..self.0.len()).filter(|&index| self.0[index]);
        let words = words.map(|index| Word::new(index as u64 * 2));
        words.filter(|&word| counts(word)).count() as u64
    }

    /// A random position that is not empty, losing or not.
    pub(crate) fn position(&self, random: &mut Random, losing: bool) -> Vec<u32> {
        loop {
            let index = 1 + random.below(self.0.len() - 1);
            if self.0[index] == losing {
                return rows(Word::new(index as u64 * 2));
            }
        }
    }
}

pub(crate) fn word(rows: &[u32]) -> Word {
    Word::from(&Position::new(rows.to_vec()).unwrap())
}

pub(crate) fn rows(word: Word) -> Vec<u32> {
    Position::from(word).rows().to_vec()
}

pub(crate) fn text(rows: &[u32]) -> String {
    let lengths: Vec<String> = rows.iter().map(u32::to_string).collect();
    lengths.join(",")
}

/// The rows after a move.
pub(crate) fn take(rows: &[u32], cell: Cell) -> Vec<u32> {
    let mut moves = word(rows).moves();
    let found = moves.find(|(taken, _)| (taken.row, taken.column) == cell);
    self::rows(found.expect("a legal move").1)
}

/// Any cell of a position.
pub(crate) fn any_cell(random: &mut Random, rows: &[u32]) -> Cell {
    let row = random.below(rows.len());
    let column = random.below(rows[row] as usize);
    let [row, column] = [row, column].map(|number| u32::try_from(number + 1).unwrap());
    (row, column)
}

/// The game as the Play page shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// `you`, `computer` or `over`.
    pub(crate) turn: String,
    /// The rows that are left on the board.
    pub(crate) rows: Vec<u32>,
    /// The start and the moves, as the address has them.
    pub(crate) start: String,
    pub(crate) moves: Vec<Cell>,
    /// The step that is looked at.
    pub(crate) at: usize,
}

const SHOWN: &str = "
    const lines = [...document.querySelectorAll('#board .line:not(.numbers)')];
    const fields = new URLSearchParams(location.hash.slice(1));
    return {
        turn: document.body.dataset.turn,
        rows: lines.map((line) => line.querySelectorAll('.cell:not(.gone)').length).filter((n) => n > 0),
        start: fields.get('start'),
        moves: (fields.get('moves') ?? '').split('_').filter((move) => move !== '')
            .map((move) => move.split('-').map(Number)),
        at: Number(document.getElementById('step').value),
    };";

impl Browser {
    pub(crate) fn shown(&self) -> Shown {
        let found = self.run(SHOWN);
        Shown {
            turn: found["turn"].as_str().unwrap().to_owned(),
            rows: list(&found["rows"]).iter().map(number).collect(),
            start: found["start"].as_str().unwrap().to_owned(),
            moves: cells(&found["moves"]),
            at: usize::try_from(number(&found["at"])).unwrap(),
        }
    }

    /// How many elements there are of a kind.
    pub(crate) fn number_of(&self, css: &str) -> u64 {
        let number = self.value(&format!("document.querySelectorAll({css:?}).length"));
        number.as_u64().expect("a number")
    }

    /// Waits until it is your turn after at least `moves` moves, or the game is over.
    pub(crate) fn wait_for_turn(&self, moves: usize) -> Shown {
        self.wait_for_moves(moves);
        self.shown()
    }

    pub(crate) fn wait_for_moves(&self, moves: usize) {
        self.wait(&format!(
            "document.body.dataset.turn === 'over' || document.body.dataset.turn === 'you'
             && (new URLSearchParams(location.hash.slice(1)).get('moves') ?? '').split('_').filter((m) => m).length >= {moves}"
        ));
    }

    /// Opens a game and waits until it is your turn there. The computer's pauses are short.
    pub(crate) fn play(&self, site: &Site, rows: &[u32], first: &str) -> Shown {
        let start = text(rows);
        self.open(&site.url(&format!("/play#start={start}&first={first}")));
        self.wait(&format!(
            "document.body.dataset.turn !== undefined && location.hash.startsWith('#start={start}&first={first}')"
        ));
        self.hurry();
        self.wait_for_turn(usize::from(first == "computer"))
    }
}

/// The selector of a cell of the board.
pub(crate) fn cell((row, column): Cell) -> String {
    format!("#board button[data-row=\"{row}\"][data-column=\"{column}\"]")
}

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value}"))
}

/// The cells in a list of rows and columns.
pub(crate) fn cells(value: &Value) -> Vec<Cell> {
    let cell = |cell: &Value| (number(&cell[0]), number(&cell[1]));
    list(value).iter().map(cell).collect()
}

pub(crate) fn number(value: &Value) -> u32 {
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    number.unwrap_or_else(|| panic!("{value}"))
}

/// The number in a text, without what keeps its thousands apart.
pub(crate) fn digits(text: &str) -> u64 {
    text.replace(',', "").parse().unwrap()
}
