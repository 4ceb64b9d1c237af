//! The Python module `chomp_table._native`: a table, its questions, and its words as bytes, and what is solved without
//! one. `chomp_table/__init__.py` makes arrays of these and describes everything to people.

use std::path::PathBuf;
use std::time::Duration;

use chomp_download::{Reach, ServerPatience};
use chomp_query::{INSIDE_MAX, Inside};
use chomp_table::position::{LENGTH_MAX, parse_rows};
use chomp_table::reader::AnyTable;
use chomp_table::{Position, TableError, Word};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyFileNotFoundError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tokio::runtime::Runtime;

/// How long a server may be silent.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most positions that are looked up at once: each part of the table is read once for them.
const TOGETHER: usize = 1 << 20;

create_exception!(
    chomp_table,
    Damaged,
    PyException,
    "The bytes of a table are not those that were published."
);

/// A table, and what fetches it if it is on a server.
#[pyclass(frozen)]
struct Table {
    table: chomp_table::Table,
    _runtime: Option<Runtime>,
}

fn refused(error: &TableError) -> PyErr {
    let text = chomp_table::format::describe(error);
    match error {
        TableError::Damaged { .. }
        | TableError::Contradiction { .. }
        | TableError::Openings { .. } => Damaged::new_err(text),
        TableError::NotFound { .. } => PyFileNotFoundError::new_err(text),
        TableError::Beyond { .. }
        | TableError::BeyondTiles { .. }
        | TableError::NotInShard { .. }
        | TableError::NotAShard { .. }
        | TableError::Newer { .. } => PyValueError::new_err(text),
        TableError::Io { .. } => PyOSError::new_err(text),
    }
}

/// A position as people write it: the list of its rows, or a text as `chomp query` takes it.
#[derive(FromPyObject)]
enum PositionText {
    Text(String),
    Rows(Vec<u32>),
}

fn wrong(error: &impl ToString) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The rows of a position of any size.
fn any_rows(written: PositionText) -> PyResult<Vec<u32>> {
    let text = match written {
        PositionText::Text(text) => text,
        PositionText::Rows(rows) => format!("{rows:?}"),
    };
    parse_rows(&text, LENGTH_MAX).map_err(|error| wrong(&error))
}

fn position(written: PositionText) -> PyResult<Position> {
    Position::new(any_rows(written)?).map_err(|error| wrong(&error))
}

/// The words in bytes, 8 little-endian ones each.
fn words(bytes: &[u8]) -> PyResult<Vec<Word>> {
    let (words, rest) = bytes.as_chunks();
    if !rest.is_empty() {
        return Err(PyValueError::new_err("words have eight bytes each"));
    }
    let word = |bytes: &[u8; 8]| match u64::from_le_bytes(*bytes) {
        odd if odd % 2 == 1 => Err(PyValueError::new_err(format!("the word {odd} is not even"))),
        word => Ok(Word::new(word)),
    };
    words.iter().map(word).collect()
}

#[pymethods]
impl Table {
    #[new]
    fn open(py: Python<'_>, place: &str) -> PyResult<Table> {
        if !place.contains("://") {
            let path = PathBuf::from(place);
            let table = py.detach(|| chomp_table::Table::open(&path));
            let table = table.map_err(|error| refused(&error))?;
            return Ok(Table {
                table,
                _runtime: None,
            });
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let reach = Reach {
            from: place.to_owned(),
            ca: None,
            token: None,
            patience: ServerPatience {
                first: PATIENCE,
                later: PATIENCE,
            },
        };
        let opened = py.detach(|| runtime.block_on(chomp_download::open(reach)));
        match opened {
            Ok(AnyTable::Losing(table)) => Ok(Table {
                table: *table,
                _runtime: Some(runtime),
            }),
            Ok(AnyTable::Values(_)) => Err(PyValueError::new_err(format!(
                "{place} has a table of Grundy values, and no table of losing positions"
            ))),
            Err(error) => Err(PyOSError::new_err(chomp_table::format::describe(&error))),
        }
    }

    /// The most bits of a position.
    #[getter]
    fn bits(&self) -> u32 {
        self.table.manifest().bits
    }

    /// The fingerprint, as hexadecimal digits.
    #[getter]
    fn fingerprint(&self) -> String {
        self.table.manifest().fingerprint.to_string()
    }

    /// The number of losing positions, both of each mirror pair.
    #[getter]
    fn losing(&self) -> u64 {
        self.table.manifest().losing
    }

    /// The number of shards.
    #[getter]
    fn shards(&self) -> usize {
        self.table.manifest().shards.len()
    }

    fn is_losing(&self, py: Python<'_>, rows: PositionText) -> PyResult<bool> {
        let word = Word::from(&position(rows)?);
        let losing = py.detach(|| self.table.is_losing(word));
        losing.map_err(|error| refused(&error))
    }

    fn winning_moves(&self, py: Python<'_>, rows: PositionText) -> PyResult<Vec<(u32, u32)>> {
        let position = position(rows)?;
        let answer = py.detach(|| chomp_query::answer(&self.table, &position));
        Ok(answer.map_err(|error| refused(&error))?.winning_moves)
    }

    /// A byte for each of the words, 1 if it is that of a losing position.
    fn are_losing<'py>(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let words = words(bytes)?;
        let losing = py.detach(|| {
            let mut all = Vec::with_capacity(words.len());
            for some in words.chunks(TOGETHER) {
                all.extend(self.table.are_losing(some)?.into_iter().map(u8::from));
            }
            Ok(all)
        });
        let losing = losing.map_err(|error: TableError| refused(&error))?;
        Ok(PyBytes::new(py, &losing))
    }

    /// The words of the shard with this number, 8 bytes each, after every byte of it was checked.
    fn shard<'py>(&self, py: Python<'py>, number: usize) -> PyResult<Bound<'py, PyBytes>> {
        if number >= self.shards() {
            return Err(PyValueError::new_err(format!("there is no shard {number}")));
        }
        let words = py.detach(|| self.table.read_shard(number));
        let words = words.map_err(|error| refused(&error))?;
        PyBytes::new_with(py, words.len() * 8, |bytes| {
            for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
                *bytes = word.to_le_bytes();
            }
            Ok(())
        })
    }
}

/// The word of the position with these rows.
#[pyfunction]
fn word_of(rows: PositionText) -> PyResult<u64> {
    Ok(Word::from(&position(rows)?).get())
}

/// The rows of the position with this word.
#[pyfunction]
fn rows_of(word: u64) -> PyResult<Vec<u32>> {
    let words = words(&word.to_le_bytes())?;
    Ok(Position::from(words[0]).rows().to_vec())
}

/// The moves of perfect play from a position on, without a table.
#[pyfunction]
fn perfect_play(py: Python<'_>, rows: PositionText) -> PyResult<Vec<(u32, u32)>> {
    let rows = any_rows(rows)?;
    let line = py.detach(|| Inside::depths(&rows, INSIDE_MAX).map(|depths| depths.line()));
    let line = line.map_err(|many| wrong(&many))?.into_iter();
    Ok(line.map(|cell| (cell.row, cell.column)).collect())
}

/// The fields of `Sum` in Python.
type SumParts = (u32, Vec<u32>, Vec<(u32, u32, u32)>);

/// The value of a sum, that of each of its boards, and the moves that win, without a table.
#[pyfunction]
fn solve_sum(py: Python<'_>, boards: Vec<PositionText>) -> PyResult<SumParts> {
    let boards: PyResult<Vec<_>> = boards.into_iter().map(any_rows).collect();
    let boards = boards?;
    let answer = py.detach(|| chomp_query::sum(&boards, INSIDE_MAX));
    let answer = answer.map_err(|error| wrong(&error))?;
    let values = answer.boards.iter().map(|board| board.value).collect();
    Ok((answer.value, values, answer.winning_moves().collect()))
}

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::{Damaged, Table, perfect_play, rows_of, solve_sum, word_of};
}
