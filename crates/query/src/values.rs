//! Answers from a table of Grundy values.

use chomp_table::values::Values;
use chomp_table::{Cell, Partition, TableError};
use serde::Serialize;

/// A position and its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Valued {
    /// The lengths of its rows, from the poisoned corner outwards.
    pub rows: Vec<u32>,
    /// First row + number of rows.
    pub bits: u32,
    /// The number of its cells.
    pub area: u32,
    /// The least number that is not the value of a position after one move. The poison alone has the value 0.
    pub value: u8,
    /// Whether the value is 0: the player to move loses against perfect play.
    pub losing: bool,
}

/// A position, its value, and the moves to each smaller value. A move is the cell `[row, column]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ValueAnswer {
    /// The position and its value.
    #[serde(flatten)]
    pub valued: Valued,
    /// The moves that leave a losing position, by row, then by column.
    pub winning_moves: Vec<(u32, u32)>,
    /// Index v holds the moves that leave a position with the value v, for each v below the value of the position.
    /// There is at least one for each v.
    pub moves_by_value: Vec<Vec<(u32, u32)>>,
}

/// The values of `positions`, in their order. Fails if the table does not cover one, or if the part that holds the
/// answer cannot be read or is damaged.
pub fn valued(table: &Values, positions: &[Partition]) -> Result<Vec<Valued>, TableError> {
    let found = table.values(positions)?;
    let valued = positions.iter().zip(found);
    let valued = valued.map(|(position, value)| {
        let rows = position.rows().to_vec();
        let sides = rows
            .first()
            .map_or(0, |first| first + position.mirror().rows()[0]);
        Valued {
            bits: sides,
            area: position.area(),
            rows,
            value,
            losing: value == 0,
        }
    });
    Ok(valued.collect())
}

/// The answers of `table` about `positions`, in their order. The moves of all are looked up together.
pub fn value_answers(
    table: &Values,
    positions: &[Partition],
) -> Result<Vec<ValueAnswer>, TableError> {
    let valued = valued(table, positions)?;
    let moves: Vec<Vec<(Cell, Partition)>> = positions
        .iter()
        .map(|position| position.moves().collect())
        .collect();
    let left = moves.iter().flatten().map(|(_, left)| left.clone());
    let mut found = table.values(&left.collect::<Vec<_>>())?.into_iter();
    let answers = valued.into_iter().zip(moves);
    let answers = answers.map(|(valued, moves)| {
        let mut by_value = vec![Vec::new(); usize::from(valued.value)];
        for ((cell, _), value) in moves.iter().zip(&mut found) {
            if let Some(moves) = by_value.get_mut(usize::from(value)) {
                moves.push((cell.row, cell.column));
            }
        }
        ValueAnswer {
            valued,
            winning_moves: by_value.first().cloned().unwrap_or_default(),
            moves_by_value: by_value,
        }
    });
    Ok(answers.collect())
}

#[cfg(test)]
mod tests {
    use chomp_testing::values as made;

    use super::*;

    /// The value by its definition, from nothing but the rows.
    fn by_definition(rows: &[u32]) -> u8 {
        let mut led_to = std::collections::BTreeSet::new();
        for row in 0..rows.len() {
            for kept in 0..rows[row] {
                let cut = |(index, &length): (usize, &u32)| {
                    if index < row {
                        length
                    } else {
                        length.min(kept)
                    }
                };
                let mut left: Vec<u32> = rows.iter().enumerate().map(cut).collect();
                left.retain(|&length| length > 0);
                if !left.is_empty() {
                    led_to.insert(by_definition(&left));
                }
            }
        }
        (0..=u8::MAX).find(|value| !led_to.contains(value)).unwrap()
    }

    #[test]
    fn every_small_position_agrees_with_the_definition() {
        let directory = tempfile::tempdir().unwrap();
        let tiles = 9;
        let folder = made::publish(directory.path(), made::SMALL, &made::areas(tiles));
        let table = Values::open(&folder).unwrap();
        for area in 1..=tiles {
            let positions = (0..chomp_table::partition::count(area))
                .map(|rank| Partition::at(area, rank))
                .collect::<Vec<_>>();
            let answers = value_answers(&table, &positions).unwrap();
            for (position, answer) in positions.iter().zip(answers) {
                let value = by_definition(position.rows());
                let ValueAnswer {
                    valued,
                    winning_moves,
                    moves_by_value,
                } = answer;
                assert_eq!((valued.value, valued.area), (value, area), "{position}");
                assert_eq!(
                    (&valued.rows[..], valued.losing),
                    (position.rows(), value == 0)
                );
                let sides = position.rows()[0] as usize + position.rows().len();
                assert_eq!(valued.bits as usize, sides);
                assert_eq!(moves_by_value.len(), usize::from(value));
                for (led_to, moves) in (0..).zip(&moves_by_value) {
                    let expected = position.moves();
                    let expected =
                        expected.filter(|(_, left)| by_definition(left.rows()) == led_to);
                    let expected = expected.map(|(cell, _)| (cell.row, cell.column));
                    assert!(expected.eq(moves.iter().copied()), "{position}");
                    assert!(!moves.is_empty() && (led_to > 0 || winning_moves == *moves));
                }
                assert_eq!(winning_moves.is_empty(), value == 0);
            }
        }
        let beyond = valued(&table, &["10".parse().unwrap()]).unwrap_err();
        assert!(matches!(beyond, TableError::BeyondTiles { tiles: 10, .. }));
    }
}
