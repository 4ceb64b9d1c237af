//! The losing positions of a published table in the file formats of other programs.
//!
//! A table need not fit into the memory of an export. `docs/EXPORT.md` describes the files for people who read them.
//!
//! | module | holds |
//! |---|---|
//! | [`filter`] | which positions are exported: by bits, by cells, inside a box; one or both of a mirror pair |
//! | [`words`] | turns the stored words of a table into the words of an export, ascending |
//! | [`few`] | positions of few rows and many columns, which are in no table |
//! | [`values`], `rows` | the export of tables of Grundy values, and the positions of such an export |
//! | [`lookup`] | small files in which a browser looks a position up |
//! | [`text`], [`npy`], [`parquet`], [`roaring`], [`chomp_fast`] | the formats |
//!
//! # What always holds
//!
//! * Words ascend in every format, so the same request gives the same bytes. Mirror images are
//!   sorted in passes over the table, as many as the memory asks for.
//! * An export reads only the manifest of a table and the stream of its words. It holds the words
//!   that it sorts, one piece of the stream, and what a format needs: a block of a bitmap, a row group.
//! * No network, no threads, no clock, no async.

use std::error::Error;
use std::fmt;
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::str::FromStr;

use chomp_table::digest::Hashed;
use chomp_table::{Digest, Table, TableError};

pub mod few;
pub mod filter;
pub mod lookup;

mod chomp_fast;
#[cfg(not(feature = "formats"))]
mod left_out;
mod npy;
#[cfg(feature = "formats")]
mod parquet;
#[cfg(feature = "formats")]
mod roaring;
mod rows;
mod text;
pub mod values;
mod words;

pub use filter::{AreaRange, Filter, Rectangle};
pub use lookup::write_lookup_files;
pub use values::export_values;

use filter::Selection;
#[cfg(not(feature = "formats"))]
use left_out::{parquet, roaring};
use words::Words;

const BUFFER_BYTES: usize = 1 << 18;

/// The form of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// CSV with the word of each position.
    Words,
    /// CSV with word, bits, area and rows.
    Rows,
    /// An array of `NumPy` with the words.
    Npy,
    /// Apache Parquet with word, bits, area and rows.
    Parquet,
    /// A Roaring bitmap of 64 bits with the words.
    Roaring,
    /// The catalogue of the program chomp-fast: all losing positions of a box.
    ChompFast,
    /// The checkpoint of the program chomp-fast: the positions of a square that chomp-fast has to find.
    ChompFastCheckpoint,
}

impl Format {
    /// All formats with their names.
    pub const ALL: [(Format, &'static str); 7] = [
        (Format::Words, "words"),
        (Format::Rows, "rows"),
        (Format::Npy, "npy"),
        (Format::Parquet, "parquet"),
        (Format::Roaring, "roaring"),
        (Format::ChompFast, "chomp-fast"),
        (Format::ChompFastCheckpoint, "chomp-fast-checkpoint"),
    ];

    /// The endings of file names that say a format.
    pub const ENDINGS: [(Format, &'static str); 4] = [
        (Format::Rows, "csv"),
        (Format::Npy, "npy"),
        (Format::Parquet, "parquet"),
        (Format::Roaring, "roaring"),
    ];

    /// The format that the end of a file's name says.
    pub fn of_name(path: &Path) -> Option<Format> {
        let ending = path.extension()?.to_ascii_lowercase();
        let mut endings = Format::ENDINGS.into_iter();
        let named = endings.find(|(_, name)| ending == *name);
        named.map(|(format, _)| format)
    }

    /// Whether the file is text with a line for each position. A part of such a file is of use.
    pub fn is_text(self) -> bool {
        matches!(self, Format::Words | Format::Rows)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Format::ALL.iter().find(|(format, _)| format == self);
        let (_, name) = named.expect("all formats have names");
        f.write_str(name)
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Format, String> {
        let named = Format::ALL.iter().find(|(_, name)| *name == text);
        match named {
            Some((format, _)) => Ok(*format),
            None => Err(format!("no such format: {text}")),
        }
    }
}

/// The format, the positions and the memory of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportRequest {
    /// The form of the file.
    pub format: Format,
    /// The positions to export.
    pub filter: Filter,
    /// Bytes for the words that are sorted at a time; fewer mean more passes over the table. The words of one place
    /// (one of 65,536 parts, or a class of a checkpoint) are sorted together even if they take more. Words that are in
    /// order already are not sorted.
    pub memory: u64,
}

/// How far an export has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportProgress {
    /// The stored words read so far, in all passes.
    pub read: u64,
    /// The stored words that will be read, as far as known. It grows if more passes are needed.
    pub total: u64,
}

/// The size and the digest of a finished export.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportReport {
    pub positions: u64,
    pub bytes: u64,
    pub sha256: Digest,
}

/// Why an export failed.
#[expect(missing_docs, reason = "the variants are named for what they are")]
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error(transparent)]
    Table(#[from] TableError),
    #[error(
        "this needs a table of {needed} bits, and there is one of {table_bits}: build or download a larger one, or ask for less with --bits"
    )]
    Beyond { needed: u32, table_bits: u32 },
    #[error(
        "this needs a table of the values of {needed} tiles, and there is one of {table_tiles}: make or download a larger one, or ask for less with --area"
    )]
    BeyondTiles { needed: u32, table_tiles: u32 },
    #[error("the values of the largest area take {} MiB: give more with --memory, or ask for less with --area", needed.div_ceil(1 << 20))]
    Memory {
        /// In bytes.
        needed: u64,
    },
    #[error("the format {format} {what}")]
    Unsuited {
        format: Format,
        /// The reason, which follows the name of the format in the message.
        what: &'static str,
    },
    #[error("no space left; free some and run again")]
    Full,
    #[error("the output failed")]
    Write(#[source] io::Error),
    #[error("cannot be put into Parquet")]
    Parquet(#[source] Box<dyn Error + Send + Sync>),
    /// The crate was built without the feature `formats`.
    #[error(
        "this program was built without {0}; `cargo install --path cli --profile dist --features full` builds it with {0}"
    )]
    LeftOut(&'static str),
    #[error("the export was stopped: run it again to have it")]
    Stopped,
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> ExportError {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ExportError::Full,
            _ => ExportError::Write(error),
        }
    }
}

fn selection(request: &ExportRequest, table_bits: u32) -> Result<Selection, ExportError> {
    check(request)?;
    let mut filter = request.filter;
    if let Format::ChompFast | Format::ChompFastCheckpoint = request.format {
        filter.both = true;
    }
    Selection::new(filter, table_bits)
}

/// Refuses a request whose format does not go with its filter, or was left out of this build, whatever the table.
pub fn check(request: &ExportRequest) -> Result<(), ExportError> {
    match request.format {
        Format::ChompFast | Format::ChompFastCheckpoint => chomp_fast::check(request),
        #[cfg(not(feature = "formats"))]
        Format::Parquet => Err(left_out::PARQUET),
        #[cfg(not(feature = "formats"))]
        Format::Roaring => Err(left_out::ROARING),
        _ => Ok(()),
    }
}

/// Writes the positions of the request to `out`. After each piece of the table, `watch` gets how much was read, and
/// returns whether to go on. What was written when it fails is of no use.
pub fn export(
    table: &Table,
    request: &ExportRequest,
    out: &mut (dyn Write + Send),
    watch: &mut dyn FnMut(ExportProgress) -> ControlFlow<()>,
) -> Result<ExportReport, ExportError> {
    let selection = selection(request, table.manifest().bits)?;
    let mut words = Words::new(table, selection, request.memory, watch);
    written(out, |out| match request.format {
        Format::Words => text::write_words(&mut words, out),
        Format::Rows => text::write_rows(&mut words, out),
        Format::Npy => npy::write(&mut words, out),
        Format::Parquet => parquet::write(&mut words, out),
        Format::Roaring => roaring::write(&mut words, out),
        Format::ChompFast => chomp_fast::write_catalogue(&mut words, out),
        Format::ChompFastCheckpoint => chomp_fast::write_checkpoint(&mut words, out),
    })
}

type Output<'a> = Hashed<&'a mut (dyn Write + Send)>;

/// Runs `write` on `to`, and reports the size and digest of the output, and the number of positions that it returns.
fn written(
    to: &mut (dyn Write + Send),
    write: impl FnOnce(&mut BufWriter<Output<'_>>) -> Result<u64, ExportError>,
) -> Result<ExportReport, ExportError> {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, Hashed::new(to));
    let positions = match write(&mut out) {
        Ok(positions) => positions,
        Err(error) => {
            // To write the rest of the buffer would only fail again.
            drop(out.into_parts());
            return Err(error);
        }
    };
    out.flush()?;
    let (bytes, sha256) = out.get_ref().digest();
    Ok(ExportReport {
        positions,
        bytes,
        sha256,
    })
}

/// The items of an export, in order.
trait Pieces {
    /// A word, or a position and its value.
    type Item;

    /// Calls `visit` with all items, in pieces. Returns their number.
    fn for_each_piece(
        &mut self,
        visit: impl FnMut(&[Self::Item]) -> Result<(), ExportError>,
    ) -> Result<u64, ExportError>;

    /// Writes to `out` the bytes that `put` appends for each item.
    fn write_each(
        &mut self,
        out: &mut dyn Write,
        mut put: impl FnMut(&mut Vec<u8>, &Self::Item) -> io::Result<()>,
    ) -> Result<u64, ExportError> {
        let mut bytes = Vec::new();
        self.for_each_piece(|piece| {
            bytes.clear();
            for item in piece {
                put(&mut bytes, item)?;
            }
            Ok(out.write_all(&bytes)?)
        })
    }
}
