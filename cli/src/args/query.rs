//! The commands that ask a table: `query` and `openings`.

use super::shared::{SourceArgs, flag};

/// The meaning of the numbers in a position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Numbers {
    /// The length of a row; a rectangle is rows x columns
    #[default]
    Rows,
    /// The length of a column; a rectangle is columns x rows
    Columns,
    /// The word of the position
    Words,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A position is its rows, longest first, as 5,4,2,1 or 5 4 2 1 or [5, 4, 2, 1]; a rectangle, as 8x10;
or a word, as 0b110100 or 0x34. On stdin there may also be drawings, one row of ooo a line with an
empty line after the last, and what chomp export writes in the formats rows and, with --numbers words,
words.
A move is the (row, column) of the cell that is taken, counted from the poison at (1,1).
A table of Grundy values tells the value, and the moves to each smaller one.

Examples:
  chomp query 8x10
  chomp query --table shard-0000.zst 5,4,2,1 0b110100
  chomp query --table chomp-values 5,4,2,1
  chomp query --table http://127.0.0.1:7172 8x10
  chomp query --table s3://bucket/tables 8x10
  chomp query --depth 8x10
  chomp query --numbers columns 4,3,2,2,1
  chomp query --numbers words 346
  chomp query --json < positions.txt
  chomp export --format rows --out - | chomp query --no-moves")]
pub(crate) struct QueryArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// The positions [default: those on stdin, one a line]
    #[arg(value_name = "POSITION")]
    pub(crate) positions: Vec<String>,

    /// The meaning of a position's numbers
    #[arg(long, value_enum, default_value_t)]
    pub(crate) numbers: Numbers,

    /// Say only whether a position is losing, or its value, without the moves; much faster for many positions
    #[arg(long, value_parser = flag)]
    pub(crate) no_moves: bool,

    /// Say after how many moves the game ends if the winner hurries and the loser delays; of positions with at most 2^24
    /// positions inside, as 12x12
    #[arg(long, value_parser = flag)]
    pub(crate) depth: bool,

    /// Print one JSON object for each position, one a line
    #[arg(long, value_parser = flag)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Boards are rows x columns, with rows <= columns: the mirror image of a board has the mirror images
of its moves.

Examples:
  chomp openings
  chomp openings 8x10 9x10
  chomp openings --json | jq -c 'select(.moves | length > 1)'")]
pub(crate) struct OpeningsArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// The boards, as 8x10 [default: all that the table covers, or a file box-….json beside it]
    #[arg(value_name = "BOARD")]
    pub(crate) boards: Vec<String>,

    /// Print one JSON object for each board, one a line
    #[arg(long, value_parser = flag)]
    pub(crate) json: bool,
}
