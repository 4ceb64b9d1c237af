//! `chomp game`.

use clap::builder::PossibleValuesParser;

use super::shared::flag;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
NAME     POSITION     means                                                 a move is
ichomp   4x4/3,1/2    up to four boards, by rows; the last cell wins        quadrant, row, column
poisons  3x8@1,1@2,2  a board, and the cells (row, column) that lose        row, column
nim      3,4,5        heaps; 3,4,5@misere if the last counter loses         heap, what is left
towers   1-8,3-5      each column: the row of your tower, and of the other  column, new row
horse    4,7          row and column of the piece, (1,1) being upper left   row, column

--losing N lists positions of at most 16 cells (ichomp), 1000 columns in three rows (poisons), 40
counters (nim), 8 columns (towers), 100 rows and columns (horse).

Examples:
  chomp game nim 3,4,5
  chomp game ichomp 4x4/3,1/2 4x4/4x4
  chomp game poisons 3x8@1,1@2,2 --json
  chomp game poisons < positions.txt
  chomp game poisons @1,2@2,1 --losing 150
  chomp game poisons @1,1@2,2 --losing 150 --fix 1=50")]
pub(crate) struct GameArgs {
    /// The game
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(chomp_games::NAMES))]
    pub(crate) name: String,

    /// The positions [default: those on stdin, one a line]; with --losing the rules alone, as @misere
    #[arg(value_name = "POSITION")]
    pub(crate) positions: Vec<String>,

    /// List the losing positions up to this size
    #[arg(long, value_name = "N")]
    pub(crate) losing: Option<u32>,

    /// Of poisons: draw the losing positions in which one row has this length, the others being the axes
    #[arg(long, value_name = "ROW=LENGTH", requires = "losing")]
    pub(crate) fix: Option<String>,

    /// Print one JSON object for each position, one a line, or one for the whole list
    #[arg(long, value_parser = flag)]
    pub(crate) json: bool,
}
