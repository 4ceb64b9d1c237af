//! `chomp box`.

use std::path::PathBuf;

use super::shared::{ShareArgs, flag, path};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
All rectangles of at most M rows and N columns are solved together, columns one after the other. Memory
follows from M and N: 0.5 GB for 10 rows and 42 columns, 11 GB for 12 and 42. With --scratch the work goes
on after it was stopped, also for more columns, and if the memory does not hold it, the files there do.

Examples:
  chomp box --rows 10 --columns 42
  chomp box --rows 10 --columns 42 --json | jq -c '.openings[] | select(.moves | length > 1)'
  chomp box --rows 12 --columns 42 --memory 7GiB --scratch /var/tmp/box-12

Exit codes: 0 done; 2 too little memory, or beyond the limits; 5 the folder is in use, or has boards of other
rows; 75 stopped early, with --scratch run the same command again to go on.")]
pub(crate) struct BoxArgs {
    /// The most rows, from 1 to 32
    #[arg(long, value_name = "M")]
    pub(crate) rows: usize,

    /// The most columns, from 1 to 250
    #[arg(long, value_name = "N")]
    pub(crate) columns: usize,

    #[command(flatten)]
    pub(crate) share: ShareArgs,

    /// Keep the state in this folder, which is made if it is not there
    #[arg(long, value_name = "DIR", value_parser = path())]
    pub(crate) scratch: Option<PathBuf>,

    /// Print one JSON object, and events to stderr, one JSON object a line
    #[arg(long, value_parser = flag)]
    pub(crate) json: bool,
}
