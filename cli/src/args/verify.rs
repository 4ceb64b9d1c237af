//! `chomp verify`.

use std::path::PathBuf;

use chomp_verify::report::Level;

use super::shared::{ShareArgs, SourceArgs, flag, path};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Levels, each with the checks of those before it:
  quick   every byte: digests, order, counts, fingerprints, published results
  sample  random positions, decided by the rules of the game from what the table says of their moves
  full    every position, by a second algorithm; goes on where it was stopped
Of several tables in one place, the one of the most bits is checked or, if all have Grundy values,
that of the most tiles. A table on a server or in a bucket is downloaded to chomp-table first.
Of a table of Grundy values quick decides all positions of at most 40 tiles too, and full cannot resume.

Examples:
  chomp verify --table chomp-table
  chomp verify --table chomp-table/table-32 --level sample --sample 1000000
  chomp verify --table chomp-values/values-082 --level sample
  chomp verify --table https://example.org/tables
  chomp verify --level full --memory 8GiB --report ~/verify-40.json

Exit codes: 0 all checks passed; 3 the table is damaged or wrong, and the message says where;
75 stopped early, run the same command again to go on.")]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// How much to check: quick, sample or full
    #[arg(long, value_name = "LEVEL", default_value = "quick")]
    pub(crate) level: Level,

    /// Where to write the report; - for stdout [default: verify-BITS-LEVEL.json or verify-values-TILES-LEVEL.json beside the folder of the table, if that can be written]
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) report: Option<PathBuf>,

    /// Check this many random positions at the level sample
    #[arg(long, value_name = "N", default_value = "100000",
        value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) sample: u64,

    /// The seed of the random positions, to check the same ones again [default: random; the report
    /// has it]
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,

    #[command(flatten)]
    pub(crate) share: ShareArgs,

    /// Print the report as one JSON object, and events to stderr, one JSON object a line
    #[arg(long, value_parser = flag)]
    pub(crate) json: bool,
}
