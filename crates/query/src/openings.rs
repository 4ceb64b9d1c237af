//! The winning first moves of rectangles.

use std::collections::BTreeMap;
use std::path::Path;

use chomp_table::{Digest, Position, TableError, Word};
use serde::{Deserialize, Serialize};

use crate::Losing;
use crate::answer::{pair, winning_moves};

/// The winning first moves of a rectangle. A move is the cell `[row, column]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Opening {
    /// The number of rows.
    pub rows: u32,
    /// The number of columns.
    pub columns: u32,
    /// The winning moves, by row, then by column. There is at least one on any board but 1x1.
    pub moves: Vec<(u32, u32)>,
}

/// The winning first moves of a board. Fails if the table does not cover it, or the part that holds the answer cannot
/// be read or is damaged. Panics if a number is 0, or the two are more than 64 together.
pub fn opening(table: &impl Losing, rows: u32, columns: u32) -> Result<Opening, TableError> {
    // The board itself has to be covered, whatever its moves leave.
    table.are_losing(&[board(rows, columns)])?;
    let mut only = of_boards(table, [(rows, columns)].into_iter())?;
    Ok(only.pop().expect("an opening of the board"))
}

/// The boards that a table of `bits` bits covers, with rows <= columns: by rows, then by columns.
pub fn boards(bits: u32) -> impl Iterator<Item = (u32, u32)> + Clone {
    (1..=bits / 2).flat_map(move |rows| (rows..=bits - rows).map(move |columns| (rows, columns)))
}

/// The winning first moves of all [`boards`] of a table. Fails if a part of the table cannot be read or is damaged.
pub fn openings(table: &impl Losing) -> Result<Vec<Opening>, TableError> {
    openings_to(table, table.bits())
}

/// As [`openings`], of the [`boards`] of at most `bits` bits. Fails, too, if the table does not cover them.
pub fn openings_to(table: &impl Losing, bits: u32) -> Result<Vec<Opening>, TableError> {
    of_boards(table, boards(bits))
}

/// All moves of all boards are looked up at once, so that each part of the table is read once.
fn of_boards(
    table: &impl Losing,
    boards: impl Iterator<Item = (u32, u32)> + Clone,
) -> Result<Vec<Opening>, TableError> {
    // Every board but 1x1 is winning.
    let words = boards.clone().map(|sides| match sides {
        (1, 1) => Word::EMPTY,
        (rows, columns) => board(rows, columns),
    });
    let words: Vec<Word> = words.collect();
    let winning = winning_moves(table, &words)?;
    let openings = boards.zip(winning).map(|((rows, columns), moves)| Opening {
        rows,
        columns,
        moves: moves.into_iter().map(|(cell, _)| pair(cell)).collect(),
    });
    Ok(openings.collect())
}

impl Opening {
    /// The opening of the board with rows and columns exchanged.
    #[must_use]
    pub fn mirror(self) -> Opening {
        let mut moves: Vec<_> = self.moves.into_iter().map(|(r, c)| (c, r)).collect();
        moves.sort_unstable();
        Opening {
            rows: self.columns,
            columns: self.rows,
            moves,
        }
    }

    /// Whether the moves are cells of the board and ascend. Only 1x1 may have none.
    fn is_possible(&self) -> bool {
        let is_there = |&(row, column): &(u32, u32)| {
            (1..=self.rows).contains(&row) && (1..=self.columns).contains(&column)
        };
        self.moves.iter().all(is_there)
            && self.moves.is_sorted_by(|a, b| a < b)
            && self.moves.is_empty() == (self.rows == 1 && self.columns == 1)
    }
}

/// The part about openings of the output of `chomp box --json`.
#[derive(Debug, Deserialize)]
struct Solved {
    rows: u32,
    columns: u32,
    /// The digest of the losing positions. Boxes with the same digest have the same openings.
    #[serde(rename = "digest")]
    _digest: Digest,
    openings: Vec<Opening>,
}

/// The openings of all boards of a box, by rows, then by columns. Fails if `json` is no output of `chomp box --json`.
pub fn of_box(json: &[u8]) -> Result<Vec<Opening>, String> {
    let solved: Solved = serde_json::from_slice(json)
        .map_err(|error| format!("it is not what chomp box --json prints: {error}"))?;
    let boards =
        (1..=solved.rows).flat_map(|rows| (1..=solved.columns).map(move |columns| (rows, columns)));
    let named = solved.openings.iter().map(|one| (one.rows, one.columns));
    if !named.eq(boards) {
        return Err("it does not have each board once, in order".into());
    }
    match solved.openings.iter().find(|one| !one.is_possible()) {
        Some(Opening { rows, columns, .. }) => {
            Err(format!("it has impossible moves of {rows}x{columns}"))
        }
        None => Ok(solved.openings),
    }
}

/// Adds the openings of boxes to those of a table. The directory of the table may have files `box-….json`, each with
/// the output of `chomp box --json`. The result has boards with rows <= columns, by rows, then by columns. Fails if
/// such a file cannot be read, is no such output, or contradicts the table or another file.
pub fn with_boxes(known: Vec<Opening>, directory: &Path) -> Result<Vec<Opening>, TableError> {
    let place = |opening: &Opening| (opening.rows, opening.columns);
    let mut all: BTreeMap<_, _> = known.into_iter().map(|one| (place(&one), one)).collect();
    for (file, bytes) in chomp_table::reader::boxes(directory)? {
        let refused = |what| {
            let file = file.clone();
            TableError::Openings { file, what }
        };
        for mut opening in of_box(&bytes).map_err(refused)? {
            if opening.rows > opening.columns {
                opening = opening.mirror();
            }
            let (rows, columns) = place(&opening);
            let known = all
                .entry((rows, columns))
                .or_insert_with(|| opening.clone());
            if *known != opening {
                let what = format!("it contradicts what is known of {rows}x{columns}");
                return Err(refused(what));
            }
        }
    }
    Ok(all.into_values().collect())
}

/// The opening of a board, from openings with rows <= columns.
pub fn of_board(all: &[Opening], rows: u32, columns: u32) -> Option<Opening> {
    let sides = (rows.min(columns), rows.max(columns));
    let found = all.iter().find(|one| (one.rows, one.columns) == sides)?;
    let found = found.clone();
    Some(if rows > columns {
        found.mirror()
    } else {
        found
    })
}

fn board(rows: u32, columns: u32) -> Word {
    let rows = usize::try_from(rows).expect("rows fit in memory");
    Word::from(&Position::new(vec![columns; rows]).expect("a board of at most 64 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::ByDefinition;

    /// The openings of these boards by the definition, in the form of `chomp box --json`.
    fn solved(rows: u32, columns: u32) -> serde_json::Value {
        let table = ByDefinition::new(rows + columns);
        let boards = (1..=rows).flat_map(|rows| (1..=columns).map(move |columns| (rows, columns)));
        let openings = boards.map(|(rows, columns)| opening(&table, rows, columns).unwrap());
        serde_json::json!({
            "rows": rows, "columns": columns, "positions": 7, "digest": Digest::default(),
            "openings": openings.collect::<Vec<_>>(),
        })
    }

    fn put(file: &Path, text: &str) {
        chomp_durable_files::put(file, text.as_bytes()).unwrap();
    }

    #[test]
    fn boxes_are_added_to_a_table() {
        let folder = tempfile::tempdir().unwrap();
        let known = openings(&ByDefinition::new(8)).unwrap();
        assert_eq!(with_boxes(known.clone(), folder.path()).unwrap(), known);
        let none = folder.path().join("none");
        assert_eq!(with_boxes(known.clone(), &none).unwrap(), known);
        for (rows, columns) in [(3, 9), (6, 4)] {
            let name = format!("box-{rows}x{columns}.json");
            put(
                &folder.path().join(name),
                &solved(rows, columns).to_string(),
            );
        }
        put(&folder.path().join("box.json"), "something else");
        let all = with_boxes(known, folder.path()).unwrap();
        let table = ByDefinition::new(14);
        let expected = boards(14).filter(|&(rows, columns)| {
            rows + columns <= 8 || rows <= 3 && columns <= 9 || rows <= 4 && columns <= 6
        });
        let expected = expected.map(|(rows, columns)| opening(&table, rows, columns).unwrap());
        assert_eq!(all, expected.collect::<Vec<_>>());
        for (rows, columns) in [(3, 9), (9, 3), (6, 4)] {
            let expected = opening(&table, rows, columns).unwrap();
            assert_eq!(of_board(&all, rows, columns), Some(expected));
        }
        assert_eq!(of_board(&all, 4, 9), None);
    }

    #[test]
    fn boxes_that_were_changed_are_refused() {
        let known = openings(&ByDefinition::new(8)).unwrap();
        let whole = solved(3, 6);
        let change = |place: &str, value: serde_json::Value| {
            let mut changed = whole.clone();
            *changed.pointer_mut(place).unwrap() = value;
            changed.to_string()
        };
        let of_3x6 = "/openings/17/moves";
        let right = &whole["openings"][17]["moves"];
        assert_eq!(right.as_array().unwrap().len(), 1);
        for (changed, expected) in [
            (whole.to_string()[..200].to_owned(), "not what chomp box"),
            (change("/digest", 5.into()), "not what chomp box"),
            (change("/rows", 4.into()), "each board once"),
            (change("/columns", 5.into()), "each board once"),
            (change("/openings/17/columns", 5.into()), "each board once"),
            (
                change(of_3x6, serde_json::json!([])),
                "impossible moves of 3x6",
            ),
            (
                change(of_3x6, serde_json::json!([[1, 7]])),
                "impossible moves of 3x6",
            ),
            (
                change(of_3x6, serde_json::json!([[2, 0]])),
                "impossible moves of 3x6",
            ),
            (
                change(of_3x6, serde_json::json!([[2, 2], [2, 2]])),
                "impossible moves of 3x6",
            ),
            (
                change("/openings/0/moves", serde_json::json!([[1, 1]])),
                "impossible moves of 1x1",
            ),
            // The table has it too.
            (
                change("/openings/2/moves", serde_json::json!([[1, 3]])),
                "contradicts what is known of 1x3",
            ),
            // Only the mirror image in the same file does.
            (
                change("/openings/12/moves", serde_json::json!([[1, 1]])),
                "contradicts what is known of 1x3",
            ),
        ] {
            let folder = tempfile::tempdir().unwrap();
            put(&folder.path().join("box-a.json"), &changed);
            let error = with_boxes(known.clone(), folder.path())
                .unwrap_err()
                .to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn known_openings() {
        let table = ByDefinition::new(18);
        let moves = |rows, columns| opening(&table, rows, columns).unwrap().moves;
        assert_eq!(moves(1, 1), []);
        for n in 2..=9 {
            assert_eq!(moves(n, n), [(2, 2)]);
            assert_eq!(moves(1, n), [(1, 2)]);
            assert_eq!(moves(n, 1), [(2, 1)]);
            assert_eq!(moves(2, n), [(2, n)]);
        }
        assert_eq!(moves(8, 10), [(4, 9), (5, 6)]);
        assert_eq!(moves(10, 8), [(6, 5), (9, 4)]);
    }

    #[test]
    fn all_at_once_are_each_of_them() {
        for bits in 0..=14 {
            let table = ByDefinition::new(bits);
            let mut expected = Vec::new();
            for rows in 1..=bits {
                for columns in rows..=bits {
                    if rows + columns <= bits {
                        expected.push(opening(&table, rows, columns).unwrap());
                    }
                }
            }
            assert_eq!(openings(&table).unwrap(), expected, "{bits} bits");
        }
    }

    #[test]
    fn larger_boards_are_refused() {
        // All moves on a board of one row leave fewer bits.
        for (rows, columns) in [(4, 5), (1, 8), (8, 1)] {
            let error = opening(&ByDefinition::new(8), rows, columns).unwrap_err();
            assert!(matches!(error, TableError::Beyond { bits: 9, .. }));
        }
    }
}
