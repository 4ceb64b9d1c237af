//! Exports the positions of a table of Grundy values with their values, by tiles, then by rank.
//!
//! The memory holds the values of one area at a time, a byte for each position. So the value of a mirror image is found
//! as fast as that of the stored position.
//!
//! | format | holds |
//! |---|---|
//! | CSV | `tiles`, `rank`, `rows`, `value` |
//! | `NumPy` | an array of `tiles`, one byte, `rank`, four, and `value`, one |
//! | Parquet | `tiles`, `rank`, `rows`, `value` |

use std::io::Write;
use std::ops::{ControlFlow, RangeInclusive};

use chomp_table::partition::count;
use chomp_table::values::Values;

use crate::filter::Filter;
use crate::rows::{RequestedRows, Row};
use crate::text::push_rows;
use crate::{
    ExportError, ExportProgress, ExportReport, ExportRequest, Format, Pieces, npy, parquet, written,
};

/// Writes the positions of the request to `out`. After each area, `watch` gets how much was read, and returns whether
/// to go on. What was written when it fails is of no use.
pub fn export_values(
    table: &Values,
    request: &ExportRequest,
    out: &mut (dyn Write + Send),
    watch: &mut dyn FnMut(ExportProgress) -> ControlFlow<()>,
) -> Result<ExportReport, ExportError> {
    let tiles = areas(&request.filter, table.manifest().tiles)?;
    let needed = tiles.clone().map(count).max().unwrap_or(0);
    if needed > request.memory {
        return Err(ExportError::Memory { needed });
    }
    let mut rows = RequestedRows {
        table,
        filter: request.filter,
        tiles,
        watch,
    };
    written(out, |out| match request.format {
        Format::Rows => write_rows(&mut rows, out),
        Format::Npy => write_npy(&mut rows, out),
        Format::Parquet => parquet::write_values(&mut rows, out),
        format => Err(ExportError::Unsuited {
            format,
            what: "is for losing positions: of a table of values there are rows, npy and parquet",
        }),
    })
}

/// The areas that the filter asks for, if a table of `table_tiles` tiles has them all.
fn areas(filter: &Filter, table_tiles: u32) -> Result<RangeInclusive<u32>, ExportError> {
    // A square has the most tiles of all that have as many bits.
    let of_bits = filter.bits.map(|bits| (bits / 2) * bits.div_ceil(2));
    let of_box = filter.within.map(|within| within.rows() * within.columns());
    let of_areas = filter.areas.map(|areas| areas.most);
    let wishes = [of_bits, of_box, of_areas];
    let needed = wishes.into_iter().flatten().min().unwrap_or(table_tiles);
    if needed > table_tiles {
        return Err(ExportError::BeyondTiles {
            needed,
            table_tiles,
        });
    }
    let least = filter.areas.map_or(1, |areas| areas.least);
    Ok(least..=needed)
}

fn write_rows(rows: &mut RequestedRows<'_>, out: &mut dyn Write) -> Result<u64, ExportError> {
    out.write_all(b"tiles,rank,rows,value\n")?;
    rows.write_each(out, |lines, row| {
        let Row {
            position,
            tiles,
            rank,
            value,
        } = row;
        write!(lines, "{tiles},{rank},")?;
        push_rows(lines, position.rows().iter().copied())?;
        writeln!(lines, ",{value}")
    })
}

fn write_npy(rows: &mut RequestedRows<'_>, out: &mut dyn Write) -> Result<u64, ExportError> {
    let fields = "[('tiles', '|u1'), ('rank', '<u4'), ('value', '|u1')]";
    out.write_all(&npy::preamble(fields, &format!("({},)", rows.len())))?;
    rows.write_each(out, |bytes, row| {
        bytes.push(row.tiles);
        bytes.extend(row.rank.to_le_bytes());
        bytes.push(row.value);
        Ok(())
    })
}
