//! Describes a wrong position in words: which one it is, where the table lists it, and what the definition says.

use chomp_table::format::describe;
use chomp_table::{Position, Table, Word};

use crate::CheckError;

/// For messages: its rows, its word, and the place in the table where the word is or would be.
pub(crate) fn name(table: &Table, word: Word) -> String {
    let (position, number) = (Position::from(word), word.get());
    let representative = word.representative().get();
    let stored = if representative == number {
        String::new()
    } else {
        format!(", stored as {representative}")
    };
    let location = match table.frame_of(word) {
        Ok(Some(frame)) => format!(", {}, frame {}", frame.shard, frame.frame),
        Ok(None) => String::new(),
        Err(error) => format!(", somewhere: {}", describe(&error)),
    };
    format!("the position {position} (word {number}{stored}{location})")
}

/// The error for a position about which the table contradicts itself. The table lists the position and
/// another one that a move leads to; or it lists neither the position nor any that a move leads to.
pub(crate) fn reexamine(table: &Table, word: Word, listed: bool) -> CheckError {
    let name = name(table, word);
    if word == Word::EMPTY {
        return CheckError::Wrong(format!("{name} is listed as losing; it is winning"));
    }
    let mut moves = 0;
    for (cell, next) in word.moves() {
        moves += 1;
        match table.is_losing(next) {
            Ok(false) => {}
            Ok(true) if listed => {
                let (row, column, next) = (cell.row, cell.column, self::name(table, next));
                return CheckError::Wrong(format!(
                    "{name} is listed as losing, but the move ({row},{column}) leads to {next}, which is listed too"
                ));
            }
            Ok(true) => return changed(&name),
            Err(error) => return error.into(),
        }
    }
    if listed {
        return changed(&name);
    }
    CheckError::Wrong(format!(
        "{name} is not listed, but none of its {moves} moves leads to a listed one, so that it is losing"
    ))
}

/// The error that the table was not the same when it was read a second time.
fn changed(name: &str) -> CheckError {
    CheckError::Wrong(format!(
        "reading the table twice gave different answers about {name} and its moves"
    ))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use chomp_table::Position;

    use super::*;

    /// Of a right table nothing can be wrong but that it was another when it was read before.
    #[test]
    fn a_table_that_now_is_right_was_read_differently() {
        let fixture = "../table/tests/fixtures/format-2/table-16";
        let table = Table::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join(fixture)).unwrap();
        for (rows, listed, twice) in [
            (vec![1], true, true),
            (vec![2], true, false),
            (vec![1], false, false),
            (vec![2], false, true),
        ] {
            let word = Word::from(&Position::new(rows).unwrap());
            let text = reexamine(&table, word, listed).to_string();
            assert_eq!(text.contains("reading the table twice"), twice, "{text}");
        }
    }
}
