//! All answers about one position.

use chomp_table::{Cell, Position, TableError, Word};
use serde::Serialize;

use crate::Losing;

/// A position, and whether it is losing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PositionVerdict {
    /// The lengths of its rows from the poisoned corner outwards. None for the empty position.
    pub rows: Vec<u32>,
    /// The even number that stands for the position; none if it has more than 53 bits, as many programs round larger
    /// numbers in JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub word: Option<u64>,
    /// First row + number of rows.
    pub bits: u32,
    /// The number of its cells.
    pub area: u32,
    /// Whether the player to move loses against perfect play. The empty position is not losing: the other player has
    /// just taken the poison.
    pub losing: bool,
}

/// A position, whether it is losing, and its winning moves. A move is the cell `[row, column]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Answer {
    /// The position, and whether it is losing.
    #[serde(flatten)]
    pub verdict: PositionVerdict,
    /// The moves that leave a losing position, by row, then by column.
    pub winning_moves: Vec<(u32, u32)>,
    /// The rows of the positions that these moves leave, in the same order: all losing positions that are
    /// one move away.
    pub losing_positions: Vec<Vec<u32>>,
    /// The move of a perfect player: the first winning move, or else the single cell that is farthest from the edges.
    /// Null for the empty position.
    pub reply: Option<(u32, u32)>,
}

/// Whether each of `positions` is losing, in their order. Fails if the table does not cover one, or if the part that
/// holds the answer cannot be read or is damaged.
pub fn verdicts(
    table: &impl Losing,
    positions: &[Position],
) -> Result<Vec<PositionVerdict>, TableError> {
    let words: Vec<Word> = positions.iter().map(Word::from).collect();
    let losing = table.are_losing(&words)?;
    let verdict = |((position, word), losing): ((&Position, Word), bool)| PositionVerdict {
        rows: position.rows().to_vec(),
        word: number(word),
        bits: word.bits(),
        area: word.area(),
        losing,
    };
    Ok(positions
        .iter()
        .zip(words)
        .zip(losing)
        .map(verdict)
        .collect())
}

/// The answer of `table` about `position`.
pub fn answer(table: &impl Losing, position: &Position) -> Result<Answer, TableError> {
    let mut answers = answers(table, std::slice::from_ref(position))?;
    Ok(answers.pop().expect("one answer for one position"))
}

/// The answers of `table` about `positions`, in their order. The moves of all are looked up together.
pub fn answers(table: &impl Losing, positions: &[Position]) -> Result<Vec<Answer>, TableError> {
    let verdicts = verdicts(table, positions)?;
    // No two losing positions are one move apart, so the moves of a losing position are not looked up.
    let moved = verdicts.iter().zip(positions).map(|(verdict, position)| {
        if verdict.losing {
            Word::EMPTY
        } else {
            Word::from(position)
        }
    });
    let moved: Vec<Word> = moved.collect();
    let winning = winning_moves(table, &moved)?;
    let answers = positions.iter().zip(verdicts).zip(winning);
    let answers = answers.map(|((position, verdict), winning)| {
        let cells: Vec<Cell> = winning.iter().map(|&(cell, _)| cell).collect();
        let left = winning.into_iter();
        Answer {
            verdict,
            reply: reply(position.rows(), &cells).map(pair),
            winning_moves: cells.into_iter().map(pair).collect(),
            losing_positions: left
                .map(|(_, next)| Position::from(next).rows().to_vec())
                .collect(),
        }
    });
    Ok(answers.collect())
}

/// For each of `words`, which are winning or empty, the moves that leave a losing position, with that position, by row,
/// then by column. Fails if the table contradicts itself about them.
pub fn winning_moves(
    table: &impl Losing,
    words: &[Word],
) -> Result<Vec<Vec<(Cell, Word)>>, TableError> {
    let moves: Vec<Vec<(Cell, Word)>> = words.iter().map(|word| word.moves().collect()).collect();
    let nexts: Vec<Word> = moves.iter().flatten().map(|&(_, next)| next).collect();
    let mut losing = table.are_losing(&nexts)?.into_iter();
    let winning = words.iter().zip(moves).map(|(&word, mut moves)| {
        moves.retain(|_| losing.next().expect("an answer for each question"));
        check_moves(word, &moves)?;
        Ok(moves)
    });
    winning.collect()
}

/// Fails unless `winning` may be all winning moves of a winning position. It has one. Of two, neither takes the cell of
/// the other: it would leave a losing position from which the other leads to a losing one. So from each to the next the
/// row rises and the column falls.
fn check_moves(word: Word, winning: &[(Cell, Word)]) -> Result<(), TableError> {
    let position = Position::from(word);
    let mut pairs = winning.windows(2).map(|pair| (pair[0].0, pair[1].0));
    let are_apart = |one: Cell, next: Cell| one.row < next.row && one.column > next.column;
    let what = if winning.is_empty() && word != Word::EMPTY {
        format!("it lists neither {position} nor a position that a move from there leaves")
    } else if let Some((one, next)) = pairs.find(|&(one, next)| !are_apart(one, next)) {
        format!(
            "from {position} the moves {one} and {next} leave positions that it lists, and from one of these a move \
             leads to the other"
        )
    } else {
        return Ok(());
    };
    Err(TableError::Contradiction { what })
}

/// The move of a perfect player: the first of the `winning` moves. If every move loses, it is a single cell, so that
/// the other player has most chances to go wrong, and the one that is farthest from the edges: the corner of the border
/// with the largest min(row, column), then the largest row + column, then the smallest row.
pub fn reply(rows: &[u32], winning: &[Cell]) -> Option<Cell> {
    let corner = |(index, &column): (usize, &u32)| {
        let below = rows.get(index + 1).copied().unwrap_or(0);
        let row = u32::try_from(index).expect("as many rows as a cell has") + 1;
        (below < column).then_some(Cell { row, column })
    };
    let corners = rows.iter().enumerate().filter_map(corner);
    let inner = |cell: &Cell| {
        let depth = cell.row.min(cell.column);
        (depth, cell.row + cell.column, u32::MAX - cell.row)
    };
    winning
        .first()
        .copied()
        .or_else(|| corners.max_by_key(inner))
}

/// The word as a number of JSON, which many programs read as a float of 53 bits.
pub(crate) fn number(word: Word) -> Option<u64> {
    (word.bits() <= f64::MANTISSA_DIGITS).then_some(word.get())
}

pub(crate) fn pair(cell: Cell) -> (u32, u32) {
    (cell.row, cell.column)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::tests::ByDefinition;

    /// A table of 9 bits with these words.
    struct Lists(BTreeSet<Word>);

    impl Losing for Lists {
        fn are_losing(&self, words: &[Word]) -> Result<Vec<bool>, TableError> {
            let representatives = words.iter().map(|word| word.representative());
            Ok(representatives.map(|word| self.0.contains(&word)).collect())
        }

        fn bits(&self) -> u32 {
            9
        }
    }

    fn of(text: &str) -> Answer {
        answer(&ByDefinition::new(14), &text.parse().unwrap()).unwrap()
    }

    #[test]
    fn small_positions() {
        let empty = of("0");
        assert!(!empty.verdict.losing);
        assert_eq!((empty.winning_moves, empty.reply), (vec![], None));

        let poison = of("1");
        assert!(poison.verdict.losing);
        assert_eq!(poison.reply, Some((1, 1)));

        let row = of("1x5");
        assert_eq!(row.winning_moves, [(1, 2)]);
        assert_eq!(row.losing_positions, [[1]]);
        assert_eq!(row.reply, Some((1, 2)));

        let square = of("4x4");
        assert_eq!((square.verdict.bits, square.verdict.area), (8, 16));
        assert_eq!(square.winning_moves, [(2, 2)]);
        assert_eq!(square.losing_positions, [[4, 1, 1, 1]]);
    }

    #[test]
    fn a_lost_game_goes_on_far_from_the_edges() {
        for (rows, expected) in [
            ("4,1,1,1", (1, 4)),
            ("2,1", (1, 2)),
            ("3,1,1", (1, 3)),
            ("5,3,3,2", (3, 3)),
            ("5,4,3,2,1", (3, 3)),
            ("4,3,2,1", (2, 3)),
            ("8,8,2,2", (2, 8)),
        ] {
            let position: Position = rows.parse().unwrap();
            let cell = reply(position.rows(), &[]).unwrap();
            assert_eq!(pair(cell), expected, "{rows}");
            let taken = Word::from(&position).moves();
            let left = taken.filter(|&(other, _)| other == cell);
            let left: Vec<u32> = left.map(|(_, next)| next.area()).collect();
            assert_eq!(
                left,
                [Word::from(&position).area() - 1],
                "one cell is taken"
            );
        }
    }

    /// Every position of 12 bits, against the rules of the game.
    #[test]
    fn every_small_position_agrees_with_the_definition() {
        let table = ByDefinition::new(12);
        for index in 0..1u64 << 11 {
            let word = Word::new(index * 2);
            let position = Position::from(word);
            let answer = answer(&table, &position).unwrap();
            assert_eq!(answer.verdict.losing, table.is_losing(word));
            assert_eq!(answer.verdict.word, Some(word.get()));
            assert_eq!(
                (answer.verdict.bits, answer.verdict.area),
                (word.bits(), position.rows().iter().sum())
            );
            let mut expected = Vec::new();
            for row in 1..=position.rows().len() {
                for column in 1..=position.rows()[row - 1] {
                    let mut rows = position.rows().to_vec();
                    for length in &mut rows[row - 1..] {
                        *length = (*length).min(column - 1);
                    }
                    rows.retain(|&length| length > 0);
                    if table.is_losing(Word::from(&Position::new(rows.clone()).unwrap())) {
                        expected.push(((u32::try_from(row).unwrap(), column), rows));
                    }
                }
            }
            let found = answer.winning_moves.iter().copied();
            let found: Vec<_> = found.zip(answer.losing_positions).collect();
            assert_eq!(found, expected, "{position}");
            if let Some(best) = expected.first() {
                assert_eq!(answer.reply, Some(best.0));
            }
            assert_eq!(answer.reply.is_none(), word == Word::EMPTY);
        }
    }

    /// Of any two positions that are a move apart, a table lists one at most, and of a position and those that its moves
    /// leave, one at least.
    #[test]
    fn a_table_that_contradicts_itself_is_refused() {
        let said = |text: &str, listed: &[&str]| {
            let words = |text: &&str| Word::from(&text.parse().unwrap()).representative();
            let table = Lists(listed.iter().map(words).collect());
            let told = answer(&table, &text.parse().unwrap());
            told.map(|answer| answer.winning_moves)
                .map_err(|error| error.to_string())
        };
        let neither = |text: &str| format!("it lists neither {text} nor a position");
        for (text, listed, expected) in [
            ("2,1", &["1", "2,1"][..], Ok(vec![])),
            ("2,2", &["1", "2,1"], Ok(vec![(2, 2)])),
            ("5,4,2,1", &["1", "5,4"], Ok(vec![(3, 1)])),
            ("5,4,2,1", &["5,4", "2,2,2,1"], Ok(vec![(1, 3), (3, 1)])),
            ("1", &[], Err(neither("1"))),
            ("3", &["2,1", "2,2"], Err(neither("3"))),
            ("2,1", &["2,2"], Err(neither("2,1"))),
            // The mirror image of a position is the same.
            ("3", &["1,1"], Ok(vec![(1, 3)])),
            (
                "3",
                &["1", "2"],
                Err("from 3 the moves (1,3) and (1,2) leave".into()),
            ),
            (
                "2,2",
                &["1,1", "2,1"],
                Err("from 2,2 the moves (1,2) and (2,2) leave".into()),
            ),
            (
                "3,3,3",
                &["3,3", "3,3,2"],
                Err("from 3,3,3 the moves (1,3) and (3,3) leave".into()),
            ),
        ] {
            match (said(text, listed), expected) {
                (Err(error), Err(what)) => {
                    assert!(error.contains("contradicts itself"), "{error}");
                    assert!(error.contains(&what), "{error}");
                }
                (told, expected) => assert_eq!(told, expected, "{text} {listed:?}"),
            }
        }
        let openings = crate::openings(&Lists(BTreeSet::new())).unwrap_err();
        assert!(openings.to_string().contains(&neither("2")), "{openings}");
    }

    #[test]
    fn larger_positions_are_refused() {
        let table = ByDefinition::new(8);
        let error = answer(&table, &"5x4".parse().unwrap()).unwrap_err();
        assert!(matches!(
            error,
            TableError::Beyond {
                bits: 9,
                table_bits: 8
            }
        ));
    }
}
