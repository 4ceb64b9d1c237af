//! Looks positions up in a finished table.
//!
//! ```sh
//! cargo run --release -p chomp-table --example lookup -- chomp-table 8x10 5,4,2,1
//! ```
//!
//! Without positions, counts the stored words by their number of cells.

#![expect(clippy::print_stdout, reason = "it is a program for the command line")]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use chomp_table::{Position, Table, Word};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which table? Give its directory")?;
    let table = Table::open(Path::new(&path))?;
    let positions = arguments
        .map(|text| text.parse())
        .collect::<Result<Vec<Position>, _>>()?;
    for position in &positions {
        look_up(&table, position)?;
    }
    if positions.is_empty() {
        count(&table)?;
    }
    Ok(())
}

/// Prints whether a position is losing, or else the moves that win.
fn look_up(table: &Table, position: &Position) -> Result<(), Box<dyn Error>> {
    let word = Word::from(position);
    if table.is_losing(word)? {
        println!("{position}: losing");
        return Ok(());
    }
    println!("{position}: winning");
    for (cell, left) in word.moves() {
        if table.is_losing(left)? {
            let left = Position::from(left);
            println!("  take ({},{}), which leaves {left}", cell.row, cell.column);
        }
    }
    Ok(())
}

/// Prints how many words the table stores, by the number of cells of their positions.
fn count(table: &Table) -> Result<(), Box<dyn Error>> {
    let mut by_area: BTreeMap<u32, u64> = BTreeMap::new();
    for piece in table.words() {
        for word in piece? {
            *by_area.entry(Word::new(word).area()).or_default() += 1;
        }
    }
    for (area, count) in by_area {
        println!("{area:4} cells {count:12}");
    }
    Ok(())
}
