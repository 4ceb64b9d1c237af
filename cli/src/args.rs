//! The command line. Every flag may come from the environment.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use bytesize::ByteSize;
use chomp_coordinator::plan::HEAD_BITS_MAX;
use chomp_kernel::Isa;
use chomp_table::RangeBits;
use clap::builder::BoolishValueParser;
use clap::{Parser, Subcommand};

/// The least bits of a table: the poison alone has two.
const BITS_MIN: u32 = 2;
/// The most bits of a table: beyond, even the largest ranges are more than a plan can hold.
const BITS_MAX: u32 = RangeBits::MAX + HEAD_BITS_MAX;

/// Builds tables of the losing positions of Chomp.
#[derive(Debug, Parser)]
#[command(
    name = "chomp",
    version,
    after_help = "\
Exit codes: 0 done; 1 failed; 2 wrong usage; 3 damaged data; 4 coordinator unreachable; 5 refused
(other version or parameters, table in use); 75 stopped early, run it again to go on."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Build the table on this machine: start it, continue it, or extend it
    Run(RunArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// Take all positions of at most so many bits (first row + number of rows)
    #[arg(long, env = "CHOMP_BITS", value_name = "N", value_parser = clap::value_parser!(u32).range(i64::from(BITS_MIN)..=i64::from(BITS_MAX)))]
    pub(crate) bits: u32,

    /// The directory of the table; made if it is not there
    #[arg(
        long,
        env = "CHOMP_TABLE",
        value_name = "DIR",
        default_value = "chomp-table"
    )]
    pub(crate) table: PathBuf,

    /// How many threads evaluate [default: one for each CPU]
    #[arg(long, env = "CHOMP_THREADS", value_name = "T")]
    pub(crate) threads: Option<NonZeroUsize>,

    /// Work on ranges of 2^B words, from 2^12 to 2^32 [default: the table's, or what suits bits,
    /// threads and memory]
    #[arg(long, env = "CHOMP_RANGE_BITS", value_name = "B", value_parser = range_bits)]
    pub(crate) range_bits: Option<RangeBits>,

    /// Keep ranges in so much memory at the most, as 4GiB [default: three quarters of what is free]
    #[arg(long, env = "CHOMP_MEMORY", value_name = "SIZE")]
    pub(crate) memory: Option<ByteSize>,

    /// Use no wider instruction set than this: portable, avx2 or avx512 [default: the CPU's widest]
    #[arg(long, env = "CHOMP_ISA", value_name = "ISA")]
    pub(crate) isa: Option<Isa>,

    /// Keep the finished ranges when the table is published; else they are made again from it when
    /// it is extended
    #[arg(long, env = "CHOMP_KEEP_PARTS", value_parser = BoolishValueParser::new())]
    pub(crate) keep_parts: bool,

    /// Print the summary as one JSON object
    #[arg(long, env = "CHOMP_JSON", value_parser = BoolishValueParser::new())]
    pub(crate) json: bool,
}

fn range_bits(text: &str) -> Result<RangeBits, String> {
    text.parse().ok().and_then(RangeBits::new).ok_or_else(|| {
        format!(
            "range bits are from {} to {}",
            RangeBits::MIN,
            RangeBits::MAX
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn wrong_values_are_refused() {
        for wrong in [
            "run",
            "run --bits 1",
            "run --bits 53",
            "run --bits 20 --range-bits 11",
            "run --bits 20 --range-bits 33",
            "run --bits 20 --threads 0",
            "run --bits 20 --memory lots",
            "run --bits 20 --isa mmx",
        ] {
            let args = std::iter::once("chomp").chain(wrong.split(' '));
            let error = Args::try_parse_from(args).expect_err(wrong);
            assert_eq!(error.exit_code(), 2, "{wrong}");
        }
    }
}
