//! A board as lines of text.

use chomp_table::Position;

/// The poison, the cells that win, and all others.
const CELLS: [char; 3] = ['x', 'O', '.'];

/// The board of `position`, a row a line, the poison in the first corner: `x` is the poison, `O` a
/// move that wins, `.` one that does not.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boards_are_drawn() {
        let draw = |rows: &str, moves: &[(u32, u32)]| draw(&rows.parse().unwrap(), moves);
        assert_eq!(draw("0", &[]), "");
        assert_eq!(draw("1", &[]), "x\n");
        assert_eq!(draw("3,2", &[(2, 2)]), "x . .\n. O\n");
        assert_eq!(draw("2x2", &[(1, 2), (2, 1)]), "x O\nO .\n");
    }
}
