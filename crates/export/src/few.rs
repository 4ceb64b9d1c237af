//! Losing positions of three to five rows, with any number of columns: the lengths of all rows of each, 0 for missing
//! rows, in ascending order.

use std::io::Write;
use std::path::Path;

use chomp_table::Digest;

use crate::text::push_rows;
use crate::{ExportError, ExportReport, Format, Pieces, npy, parquet, written};

/// A consumer of positions, piece by piece.
pub type TakesPositions<'a> = dyn FnMut(&[[u32; 5]]) -> Result<(), ExportError> + 'a;

/// A producer, which passes all positions, in ascending order, to the consumer.
pub type GivesPositions<'a> =
    dyn FnMut(&mut TakesPositions<'_>) -> Result<(), ExportError> + Send + 'a;

/// The positions of an export.
#[derive(Clone, Copy, Debug)]
pub struct FewPositions {
    /// The number of rows that are written of each position.
    pub rows: usize,
    /// The number of positions.
    pub count: u64,
    /// The digest that a Parquet file names.
    pub digest: Digest,
}

struct GivenPositions<'a> {
    of: FewPositions,
    give: &'a mut GivesPositions<'a>,
}

impl Pieces for GivenPositions<'_> {
    type Item = [u32; 5];

    fn for_each_piece(
        &mut self,
        mut visit: impl FnMut(&[[u32; 5]]) -> Result<(), ExportError>,
    ) -> Result<u64, ExportError> {
        (self.give)(&mut visit)?;
        Ok(self.of.count)
    }
}

/// The format of a file by the end of its name.
pub fn format_of(path: &Path) -> Option<Format> {
    Format::of_name(path).filter(|&format| format != Format::Roaring)
}

/// Writes positions as CSV with the column `rows`, as a `NumPy` array of unsigned 32-bit numbers with a line for each
/// position, or as Parquet with a column for each row. Fails if the format is another one.
pub fn export_few(
    format: Format,
    of: FewPositions,
    give: &mut GivesPositions<'_>,
    out: &mut (dyn Write + Send),
) -> Result<ExportReport, ExportError> {
    let rows = of.rows;
    let positions = &mut GivenPositions { of, give };
    written(out, |out| match format {
        Format::Rows => {
            out.write_all(b"rows\n")?;
            positions.write_each(out, |bytes, position| {
                let lengths = position[..rows].iter().copied();
                push_rows(bytes, lengths.take_while(|&length| length > 0))?;
                bytes.push(b'\n');
                Ok(())
            })
        }
        Format::Npy => {
            let shape = format!("({}, {rows})", of.count);
            out.write_all(&npy::preamble("'<u4'", &shape))?;
            positions.write_each(out, |bytes, position| {
                let lengths = position[..rows].iter();
                bytes.extend(lengths.flat_map(|length| length.to_le_bytes()));
                Ok(())
            })
        }
        Format::Parquet => parquet::write_few((rows, of.digest), positions, out),
        _ => Err(ExportError::Unsuited {
            format,
            what: "is for tables: take rows, npy or parquet",
        }),
    })
}
