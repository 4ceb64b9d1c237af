//! `chomp download`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::builder::TypedValueParser;

use super::shared::{TablePlace, count, flag, path, place};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  chomp download --from https://localhost:7171 --out my-table
  chomp download --from https://example.org/chomp/table-40 --out my-table
  chomp download --from s3://bucket/tables --out my-table
  chomp download --from http://127.0.0.1:7172 --tiles 82 --out my-values")]
pub(crate) struct DownloadArgs {
    /// Where the table is: a coordinator, the folder of a table on any server, or a bucket
    #[arg(long, value_name = "URL", value_parser = from())]
    pub(crate) from: String,

    /// The directory to put it in; afterwards it can be given to --table
    #[arg(long, value_name = "DIR", value_parser = path())]
    pub(crate) out: PathBuf,

    /// Download the table of this many bits [default: the largest]
    #[arg(long, value_name = "N", conflicts_with = "tiles")]
    pub(crate) bits: Option<u32>,

    /// Download the table of the Grundy values of this many tiles [default: the largest, if there is no other table]
    #[arg(long, value_name = "T")]
    pub(crate) tiles: Option<u32>,

    /// The access file of the coordinator, for its certificate
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) access: Option<PathBuf>,

    /// Download this many files at a time
    #[arg(long, value_parser = count, value_name = "N", default_value = "4")]
    pub(crate) parallel: NonZeroUsize,

    /// Print the summary as one JSON object, and events to stderr, one JSON object a line
    #[arg(long, value_parser = flag)]
    pub(crate) json: bool,
}

/// The address of a server or of a bucket.
fn from() -> impl TypedValueParser<Value = String> {
    place().try_map(|place| match place {
        TablePlace::Elsewhere(address) => Ok(address),
        TablePlace::Here(_) => Err("an address looks like https://host:7171 or s3://bucket/tables"),
    })
}
