use std::fmt;

/// A cell, which also stands for the move that takes it. The poison is at (1, 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell {
    /// Row, counted from the poisoned corner.
    pub row: u32,
    /// Column, counted from the poisoned corner.
    pub column: u32,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({},{})", self.row, self.column)
    }
}
