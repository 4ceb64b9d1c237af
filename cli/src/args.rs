//! The command line. Every flag may come from the environment.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use bytesize::ByteSize;
use chomp_coordinator::plan::HEAD_BITS_MAX;
use chomp_kernel::Isa;
use chomp_table::RangeBits;
use clap::builder::BoolishValueParser;
use clap::{Parser, Subcommand};

use crate::machine;

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
    /// Do the same with workers anywhere, and give the finished table to everybody
    Coordinator(CoordinatorArgs),
    /// Compute for a coordinator until its table is finished; may come and go
    Worker(WorkerArgs),
    /// Tell beforehand what a table takes: time, memory, disk, network, and how many workers help
    Plan(PlanArgs),
    /// Show how a job gets on, or what there is of a table
    Status(StatusArgs),
    /// Fetch a finished table, and check every byte; goes on where it was interrupted
    Download(DownloadArgs),
}

impl Command {
    /// Its name on the command line.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Command::Run(_) => "run",
            Command::Coordinator(_) => "coordinator",
            Command::Worker(_) => "worker",
            Command::Plan(_) => "plan",
            Command::Status(_) => "status",
            Command::Download(_) => "download",
        }
    }

    /// Whether it goes on for a while and programs listen.
    pub(crate) fn tells_events(&self) -> bool {
        match self {
            Command::Run(args) => args.table.json,
            Command::Coordinator(args) => args.table.json,
            Command::Worker(args) => args.json,
            Command::Plan(_) | Command::Status(_) => false,
            Command::Download(args) => args.json,
        }
    }
}

/// The table to build.
#[derive(Debug, clap::Args)]
pub(crate) struct TableArgs {
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

    /// Work on ranges of 2^B words, from 2^12 to 2^32 [default: the table's, or what suits bits,
    /// threads and memory]
    #[arg(long, env = "CHOMP_RANGE_BITS", value_name = "B", value_parser = range_bits)]
    pub(crate) range_bits: Option<RangeBits>,

    /// Keep the finished ranges when the table is published; else they are made again from it when
    /// it is extended
    #[arg(long, env = "CHOMP_KEEP_PARTS", value_parser = BoolishValueParser::new())]
    pub(crate) keep_parts: bool,

    /// Print the summary as one JSON object, and what happens meanwhile to stderr, one a line
    #[arg(long, env = "CHOMP_JSON", value_parser = BoolishValueParser::new())]
    pub(crate) json: bool,
}

/// What to compute with.
#[derive(Debug, clap::Args)]
pub(crate) struct MachineArgs {
    /// How many threads evaluate [default: one for each CPU]
    #[arg(long, env = "CHOMP_THREADS", value_name = "T")]
    pub(crate) threads: Option<NonZeroUsize>,

    /// Stay within so much memory, as 4GiB; less is slower [default: three quarters of what is free]
    #[arg(long, env = "CHOMP_MEMORY", value_name = "SIZE")]
    pub(crate) memory: Option<ByteSize>,

    /// Use no wider instruction set than this: portable, avx2 or avx512 [default: the CPU's widest]
    #[arg(long, env = "CHOMP_ISA", value_name = "ISA")]
    pub(crate) isa: Option<Isa>,
}

impl MachineArgs {
    pub(crate) fn threads(&self) -> NonZeroUsize {
        self.threads.unwrap_or_else(machine::threads)
    }

    pub(crate) fn memory_bytes(&self) -> anyhow::Result<u64> {
        match self.memory {
            Some(memory) => Ok(memory.as_u64()),
            None => machine::memory_bytes(),
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CoordinatorArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,

    /// Where to listen for workers, downloads and questions. Beyond loopback TLS is on
    #[arg(
        long,
        env = "CHOMP_LISTEN",
        value_name = "ADDR",
        default_value = "127.0.0.1:7171"
    )]
    pub(crate) listen: SocketAddr,

    /// Where to listen for downloads and questions alone, besides
    #[arg(long, env = "CHOMP_HTTP", value_name = "ADDR")]
    pub(crate) http: Option<SocketAddr>,

    /// Count a range as done when so many workers have computed the same
    #[arg(long, env = "CHOMP_REPLICAS", value_name = "N", default_value = "1",
        value_parser = clap::value_parser!(u32).range(1..=16))]
    pub(crate) replicas: u32,

    /// The name or address by which workers reach this machine [default: that of --listen, or the
    /// machine's name]
    #[arg(long, env = "CHOMP_ADVERTISE", value_name = "HOST")]
    pub(crate) advertise: Option<String>,

    /// Where to write the access file for workers [default: access.json in the table's directory]
    #[arg(long, env = "CHOMP_ACCESS", value_name = "FILE")]
    pub(crate) access: Option<PathBuf>,

    /// Listen without TLS: the token and all data can be read and changed on the way
    #[arg(long, env = "CHOMP_NO_TLS", value_parser = BoolishValueParser::new())]
    pub(crate) no_tls: bool,

    /// End when the table is published, instead of serving it
    #[arg(long, env = "CHOMP_EXIT_WHEN_DONE", value_parser = BoolishValueParser::new())]
    pub(crate) exit_when_done: bool,
}

/// The coordinator to speak to.
#[derive(Debug, clap::Args)]
pub(crate) struct ReachArgs {
    /// Where the coordinator listens, as `https://host:7171` [default: as the access file says]
    #[arg(long, env = "CHOMP_COORDINATOR", value_name = "URL", value_parser = url)]
    pub(crate) coordinator: Option<String>,

    /// The access file that the coordinator wrote. For a coordinator of the same user on this
    /// machine it is found by itself
    #[arg(long, env = "CHOMP_ACCESS", value_name = "FILE")]
    pub(crate) access: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct WorkerArgs {
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
    #[command(flatten)]
    pub(crate) machine: MachineArgs,

    /// What to be called in the coordinator's status [default: the machine's name]
    #[arg(long, env = "CHOMP_NAME", value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Go on for so many seconds without contact to the coordinator [default: 10 at the start,
    /// 1800 later]
    #[arg(long, env = "CHOMP_PATIENCE", value_name = "SECONDS")]
    pub(crate) patience: Option<u64>,

    /// Print what was done as one JSON object, and what happens meanwhile to stderr, one a line
    #[arg(long, env = "CHOMP_JSON", value_parser = BoolishValueParser::new())]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PlanArgs {
    /// Take all positions of at most so many bits (first row + number of rows)
    #[arg(long, env = "CHOMP_BITS", value_name = "N", value_parser = clap::value_parser!(u32).range(i64::from(BITS_MIN)..=i64::from(BITS_MAX)))]
    pub(crate) bits: u32,

    /// Plan for so many workers, each with the threads and the memory given here, and a coordinator
    /// on a machine like this one [default: for `chomp run` on this machine]
    #[arg(long, env = "CHOMP_WORKERS", value_name = "W", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) workers: Option<u32>,

    /// Work on ranges of 2^B words, from 2^12 to 2^32 [default: what the job would choose]
    #[arg(long, env = "CHOMP_RANGE_BITS", value_name = "B", value_parser = range_bits)]
    pub(crate) range_bits: Option<RangeBits>,

    #[command(flatten)]
    pub(crate) machine: MachineArgs,

    /// How many threads the coordinator's machine has [default: one for each CPU of this one]
    #[arg(
        long,
        env = "CHOMP_COORDINATOR_THREADS",
        value_name = "C",
        requires = "workers"
    )]
    pub(crate) coordinator_threads: Option<NonZeroUsize>,

    /// So many bytes a second go through the coordinator's link, as 1GiB [default: any number]
    #[arg(long, env = "CHOMP_BANDWIDTH", value_name = "SIZE")]
    pub(crate) bandwidth: Option<ByteSize>,

    /// Print it as one JSON object
    #[arg(long, env = "CHOMP_JSON", value_parser = BoolishValueParser::new())]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) reach: ReachArgs,

    /// Look at the table in this directory, when no coordinator is named
    #[arg(
        long,
        env = "CHOMP_TABLE",
        value_name = "DIR",
        default_value = "chomp-table"
    )]
    pub(crate) table: PathBuf,

    /// Print it as one JSON object
    #[arg(long, env = "CHOMP_JSON", value_parser = BoolishValueParser::new())]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DownloadArgs {
    /// Where the table is: a coordinator, or the folder of a table on any server
    #[arg(long, env = "CHOMP_FROM", value_name = "URL", value_parser = url)]
    pub(crate) from: String,

    /// The directory to put it in; afterwards it can be given to --table
    #[arg(long, env = "CHOMP_OUT", value_name = "DIR")]
    pub(crate) out: PathBuf,

    /// Fetch the table of so many bits [default: the largest]
    #[arg(long, env = "CHOMP_BITS", value_name = "N")]
    pub(crate) bits: Option<u32>,

    /// The access file of the coordinator, for its certificate
    #[arg(long, env = "CHOMP_ACCESS", value_name = "FILE")]
    pub(crate) access: Option<PathBuf>,

    /// Fetch so many files at a time
    #[arg(long, env = "CHOMP_PARALLEL", value_name = "N", default_value = "4")]
    pub(crate) parallel: NonZeroUsize,

    /// Print what there is now as one JSON object, and what happens meanwhile to stderr, one a line
    #[arg(long, env = "CHOMP_JSON", value_parser = BoolishValueParser::new())]
    pub(crate) json: bool,
}

fn url(text: &str) -> Result<String, String> {
    let scheme = text.split_once("://").map(|(scheme, _)| scheme);
    match scheme {
        Some("http" | "https") => Ok(text.trim_end_matches('/').to_owned()),
        _ => Err("an address looks like https://host:7171".to_owned()),
    }
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
            "coordinator",
            "coordinator --bits 20 --listen 7171",
            "coordinator --bits 20 --replicas 0",
            "plan",
            "plan --bits 20 --workers 0",
            "worker --coordinator host:7171",
            "worker --coordinator http://host --threads 0",
            "download --from http://host",
            "download --out there",
        ] {
            let args = std::iter::once("chomp").chain(wrong.split(' '));
            let error = Args::try_parse_from(args).expect_err(wrong);
            assert_eq!(error.exit_code(), 2, "{wrong}");
        }
    }
}
