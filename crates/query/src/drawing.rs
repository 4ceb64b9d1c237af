//! Boards as lines of text, and positions and moves as a few words.

use std::fmt::Write;

use chomp_table::Position;

const CELLS: [char; 3] = ['x', 'O', '.'];

/// The board, a row a line: `x` is the poison, in the first corner, `O` a move that wins, `.` one that does not.
pub fn draw(position: &Position, winning_moves: &[(u32, u32)]) -> String {
    let [poison, winning, other] = CELLS;
    let mut text = String::new();
    for (row, &length) in (1..).zip(position.rows()) {
        for column in 1..=length {
            if column > 1 {
                text.push(' ');
            }
            text.push(if winning_moves.contains(&(row, column)) {
                winning
            } else if (row, column) == (1, 1) {
                poison
            } else {
                other
            });
        }
        text.push('\n');
    }
    text
}

/// The name of a position: `8x10` for a rectangle of several rows, else its rows.
pub fn name(rows: &[u32]) -> String {
    match rows {
        [] => "0".to_owned(),
        [columns, _, ..] if rows.iter().all(|length| length == columns) => {
            format!("{}x{columns}", rows.len())
        }
        _ => rows
            .iter()
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join(","),
    }
}

/// Moves on a line, as `(4,9) (5,6)`.
pub fn moves(moves: &[(u32, u32)]) -> String {
    let mut text = String::new();
    for (row, column) in moves {
        let space = if text.is_empty() { "" } else { " " };
        write!(text, "{space}({row},{column})").expect("a string takes any text");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_stand_on_a_line() {
        assert_eq!(moves(&[]), "");
        assert_eq!(moves(&[(4, 9), (5, 6)]), "(4,9) (5,6)");
    }

    #[test]
    fn names_are_positions() {
        for name in ["0", "1", "4", "2x2", "8x10", "3,3,2", "2,1"] {
            let position: Position = name.parse().unwrap();
            assert_eq!(super::name(position.rows()), name);
        }
    }

    #[test]
    fn boards_are_drawn() {
        let draw = |rows: &str, moves: &[(u32, u32)]| draw(&rows.parse().unwrap(), moves);
        assert_eq!(draw("0", &[]), "");
        assert_eq!(draw("1", &[]), "x\n");
        assert_eq!(draw("3,2", &[(2, 2)]), "x . .\n. O\n");
        assert_eq!(draw("2x2", &[(1, 2), (2, 1)]), "x O\nO .\n");
    }
}
