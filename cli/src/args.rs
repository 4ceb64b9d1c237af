//! The command line. Every flag may come from the environment.

mod download;
mod job;
mod query;
mod shared;

use clap::{Parser, Subcommand};

pub(crate) use download::DownloadArgs;
pub(crate) use job::{CoordinatorArgs, PlanArgs, RunArgs, StatusArgs, WorkerArgs};
pub(crate) use query::{OpeningsArgs, QueryArgs, SourceArgs};
pub(crate) use shared::{ReachArgs, TableArgs};

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
    /// Tell whether positions are losing, and all moves that win
    Query(QueryArgs),
    /// List every winning first move of every rectangle that the table covers
    Openings(OpeningsArgs),
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
            Command::Query(_) => "query",
            Command::Openings(_) => "openings",
        }
    }

    /// Whether it goes on for a while and programs listen.
    pub(crate) fn tells_events(&self) -> bool {
        match self {
            Command::Run(args) => args.table.json,
            Command::Coordinator(args) => args.table.json,
            Command::Worker(args) => args.json,
            Command::Plan(_) | Command::Status(_) | Command::Query(_) | Command::Openings(_) => {
                false
            }
            Command::Download(args) => args.json,
        }
    }
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
