//! The commands of jobs: `run`, `coordinator`, `worker`, `plan`, `status`.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use bytesize::ByteSize;
use chomp_store::location::Location;
use chomp_table::RangeBits;
use chomp_table::partition::AREA_MAX;

use super::shared::{
    BITS_MAX, BITS_MIN, MachineArgs, ReachArgs, TABLE, TableArgs, TablePlace, WantedTable, address,
    count, flag, location, path, place, range_bits, size,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  chomp run --bits 32
  chomp run --bits 40 --memory 4GiB --table /data/chomp")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) wanted: WantedTable,
    #[command(flatten)]
    pub(crate) table: TableArgs,
    #[command(flatten)]
    pub(crate) machine: MachineArgs,

    /// Serve pages with the job's progress and the finished tables at this address while it runs, to everybody who can
    /// reach it
    #[arg(long, value_parser = address, value_name = "ADDR")]
    pub(crate) http: Option<SocketAddr>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The value of a position is the least number that no move leads to; the poison is never taken, so the
single poisoned cell has the value 0. All values are in memory, a byte each: 0.2 GB for 82 tiles,
1.7 GB for 100, 17.3 GB for 120. On the disk they take as much until the table is published.

Examples:
  chomp grundy --tiles 60
  chomp grundy --tiles 100 --table /data/values
  chomp query --table chomp-values 5,4,2,1")]
pub(crate) struct GrundyArgs {
    /// Compute all positions of at most this many tiles, from 1 to 120
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u32).range(1..=i64::from(AREA_MAX)))]
    pub(crate) tiles: u32,

    /// The directory of the table; made if it is not there
    #[arg(long, value_name = "DIR", default_value = "chomp-values", value_parser = path())]
    pub(crate) table: PathBuf,

    #[command(flatten)]
    pub(crate) machine: MachineArgs,

    /// Print the summary as one JSON object, and events to stderr, one JSON object a line
    #[arg(long, value_parser = flag)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  chomp coordinator --bits 36 --listen 0.0.0.0:7171
  chomp coordinator --bits 40 --replicas 2 --listen 0.0.0.0:7171 --http 0.0.0.0:8080
  chomp coordinator --bits 44 --store s3://my-bucket/chomp --listen 0.0.0.0:7171")]
pub(crate) struct CoordinatorArgs {
    #[command(flatten)]
    pub(crate) wanted: WantedTable,
    #[command(flatten)]
    pub(crate) table: TableArgs,

    /// Where to listen for workers, downloads and questions, with TLS
    #[arg(long, value_parser = address, value_name = "ADDR", default_value = "127.0.0.1:7171")]
    pub(crate) listen: SocketAddr,

    /// A second address to listen at, for downloads, questions and browsers, but not for workers
    #[arg(long, value_parser = address, value_name = "ADDR")]
    pub(crate) http: Option<SocketAddr>,

    /// Show the job's progress, with the names of workers, to everybody, not only to those who have a token
    #[arg(long, value_parser = flag)]
    pub(crate) public_status: bool,

    /// Count a range as done when this many participants have found the same
    #[arg(long, value_name = "N", default_value = "1",
        value_parser = clap::value_parser!(u32).range(1..=16))]
    pub(crate) replicas: u32,

    /// Have one participant more find the same in one of N ranges before the range counts; 0: none [default: 4; 16
    /// while all workers are one participant's]
    #[arg(long, value_name = "N")]
    pub(crate) check_one_in: Option<u32>,

    /// The name or address by which workers reach this machine [default: that of --listen, or the
    /// machine's name]
    #[arg(long, value_name = "HOST")]
    pub(crate) advertise: Option<String>,

    /// Where to write the access file for workers [default: access.json in the table's directory]
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) access: Option<PathBuf>,

    /// Listen without TLS. Others on the network can then read and change tokens and data. On loopback only a process that
    /// takes the port after this one has ended can
    #[arg(long, value_parser = flag)]
    pub(crate) no_tls: bool,

    /// End when the table is published, instead of serving it
    #[arg(long, value_parser = flag)]
    pub(crate) exit_when_done: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  chomp worker --access access.json
  chomp worker --coordinator https://localhost:7171 --threads 4 --memory 8GiB
  kill -USR2 PID      has a worker do the tasks in its hands, take no more, and end")]
pub(crate) struct WorkerArgs {
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
    #[command(flatten)]
    pub(crate) machine: MachineArgs,

    /// Where this machine reaches the store, if not where the coordinator says; `coordinator` to go through the
    /// coordinator
    #[arg(long, value_name = "URL", value_parser = way)]
    pub(crate) store: Option<Way>,

    /// The name of this worker in the coordinator's status [default: the machine's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// End after this many seconds without contact to the coordinator [default: 10 at the start,
    /// 1800 later]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) patience: Option<u64>,

    /// Print what was done as one JSON object, and events to stderr, one JSON object a line
    #[arg(long, value_parser = flag)]
    pub(crate) json: bool,
}

/// How a worker reaches the store.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    /// By itself.
    Direct(Location),
    /// Through the coordinator.
    Coordinator,
}

fn way(text: &str) -> Result<Way, String> {
    if text == "coordinator" {
        return Ok(Way::Coordinator);
    }
    location(text).map(Way::Direct)
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  chomp plan --bits 40
  chomp plan --bits 41 --from 40
  chomp plan --bits 44 --workers 20 --threads 16 --memory 32GiB --bandwidth 1GiB")]
pub(crate) struct PlanArgs {
    /// Plan for all positions of at most this many bits (first row + number of rows)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(i64::from(BITS_MIN)..=i64::from(BITS_MAX)))]
    pub(crate) bits: u32,

    /// Plan for a job beside the published table of this many bits, which it extends
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u32).range(i64::from(BITS_MIN)..=i64::from(BITS_MAX)))]
    pub(crate) from: Option<u32>,

    /// Plan for this many workers, each with the threads and the memory given here, and a coordinator
    /// on a machine like this one [default: for `chomp run` on this machine]
    #[arg(long, value_name = "W", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) workers: Option<u32>,

    /// Work on ranges of 2^B numbers, half of which are words, from 2^12 to 2^32 [default: what the job would choose]
    #[arg(long, value_name = "B", value_parser = range_bits)]
    pub(crate) range_bits: Option<RangeBits>,

    #[command(flatten)]
    pub(crate) machine: MachineArgs,

    /// The number of threads of the coordinator's machine [default: one for each CPU of this one]
    #[arg(long, value_parser = count, value_name = "C", requires = "workers")]
    pub(crate) coordinator_threads: Option<NonZeroUsize>,

    /// The bandwidth of each worker's link in bytes a second, as 1GiB [default: unlimited]
    #[arg(long, value_parser = size, value_name = "SIZE")]
    pub(crate) bandwidth: Option<ByteSize>,

    /// Print it as one JSON object
    #[arg(long, value_parser = flag)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  chomp status
  chomp status --table s3://bucket/tables
  chomp status --access access.json --json")]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) reach: ReachArgs,

    /// Look at the table in this directory or bucket, when no coordinator is named
    #[arg(long, value_name = "DIR|URL", default_value = TABLE, value_parser = place())]
    pub(crate) table: TablePlace,

    /// Print it as one JSON object
    #[arg(long, value_parser = flag)]
    pub(crate) json: bool,
}
