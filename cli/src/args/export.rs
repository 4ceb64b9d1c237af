//! `chomp export`.

use std::path::PathBuf;

use bytesize::ByteSize;
use chomp_export::{AreaRange, ExportRequest, Filter, Format, Rectangle};
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::shared::{SourceArgs, flag, path, size};

/// The most bits of a table.
const BITS_MAX: i64 = u64::BITS as i64;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  chomp export --format rows --out positions.csv
  chomp export --format parquet --both --out positions.parquet
  chomp export --format rows --area 20-30 --out - | head
  chomp export --format chomp-fast --box 16x16 --out catalogue.bin
  chomp export --table chomp-values --format npy --out values.npy
  chomp export --table s3://bucket/tables --format rows --out positions.csv
Tables of Grundy values are for rows, npy and parquet.
docs/EXPORT.md describes the formats, and how other programs read them.")]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// The format of the file
    #[arg(long, value_name = "F", value_parser = format_parser())]
    pub(crate) format: Format,

    /// The file to write; - is stdout. FILE.json beside it tells what is in it; a Parquet file tells that itself
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) out: PathBuf,

    /// Export only positions of at most this many bits (first row + number of rows)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=BITS_MAX))]
    pub(crate) bits: Option<u32>,

    /// Export only positions of this many cells
    #[arg(long, value_name = "A or A-B")]
    pub(crate) area: Option<AreaRange>,

    /// Export only positions inside a rectangle of this many rows and columns
    #[arg(long = "box", value_name = "RxC")]
    pub(crate) within: Option<Rectangle>,

    /// Export both of each mirror pair, not only the one with the smaller word, or rank
    #[arg(long, value_parser = flag)]
    pub(crate) both: bool,

    /// Sort mirror images within this much memory, as 4GiB; less is slower
    #[arg(long, value_parser = size, value_name = "SIZE", default_value = "1GiB")]
    pub(crate) memory: ByteSize,

    /// Replace the file if it is there
    #[arg(long, value_parser = flag)]
    pub(crate) force: bool,

    /// Print the summary as one JSON object, and events to stderr, one JSON object a line
    #[arg(long, value_parser = flag)]
    pub(crate) json: bool,
}

fn format_parser() -> impl TypedValueParser<Value = Format> {
    let names = Format::ALL.map(|(_, name)| name);
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Format>())
}

impl ExportArgs {
    pub(crate) fn request(&self) -> ExportRequest {
        ExportRequest {
            format: self.format,
            filter: Filter {
                bits: self.bits,
                areas: self.area,
                within: self.within,
                both: self.both,
            },
            memory: self.memory.as_u64(),
        }
    }
}
