//! The command of credentials: `access`.

use std::path::PathBuf;

use super::shared::{TABLE, flag, path};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  chomp access add ann                 write ann.access.json, for Ann's workers
  chomp access list
  chomp access revoke ann              its workers are turned away within a second
  chomp access renew ann               a new file instead of one that was lost or stolen
  chomp access adopt                   after you restored the table's directory from a backup")]
pub(crate) struct AccessArgs {
    #[command(subcommand)]
    pub(crate) what: AccessCommand,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum AccessCommand {
    /// Give somebody a credential of their own, and write it into an access file
    Add(IssueArgs),
    /// List who has a credential, and who had one
    List(ListArgs),
    /// Revoke a credential at once; what too few others have found is computed again
    Revoke(RevokeArgs),
    /// Give a participant another credential instead of those that it had, and trust it from now on
    Renew(IssueArgs),
    /// Use secrets that you copied here from another disk; a coordinator refuses copies otherwise, as others may have them
    Adopt(AdoptArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct IssueArgs {
    /// The name of the participant: letters, digits, `.`, `_` and `-`. `owner` is the owner of the table
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// The access file that the coordinator wrote, which says how it is reached [default: access.json in the table's
    /// directory]
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) from: Option<PathBuf>,

    /// The access file to write, readable by you alone; `-` to print it instead, for a program that keeps secrets
    /// [default: NAME.access.json; that of the owner in place of the one it had]
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) out: Option<PathBuf>,

    /// The number of days until the credential expires
    #[arg(long, value_name = "N", default_value = "365",
        value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub(crate) days: u32,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// Print one JSON object
    #[arg(long, value_parser = flag)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct AdoptArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RevokeArgs {
    /// Whose credential
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PlaceArgs {
    /// The directory of the table, where its coordinator keeps its secrets
    #[arg(long, value_name = "DIR", default_value = TABLE, value_parser = path())]
    pub(crate) table: PathBuf,
}
