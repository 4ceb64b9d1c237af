//! `chomp access`: gives, lists and revokes the credentials of a table.

use std::path::{Path, PathBuf};

use anyhow::Context;
use chomp_access::participants::{ChangeError, OWNER, Participant};
use chomp_access::{Access, Holder, Issuer, Participants};
use serde::Serialize;

use crate::connect::is_there;
use crate::exit::usage;
use crate::flags::{TABLE, flag, path};
use crate::machine;

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
    List {
        #[command(flatten)]
        place: PlaceArgs,

        /// Print one JSON object
        #[arg(long, value_parser = flag)]
        json: bool,
    },
    /// Revoke a credential at once; what too few others have found is computed again
    Revoke {
        /// Whose credential
        name: String,

        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Give a participant another credential instead of those that it had, and trust it from now on
    Renew(IssueArgs),
    /// Use secrets that you copied here from another disk; a coordinator refuses copies otherwise, as others may have
    /// them
    Adopt(PlaceArgs),
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
pub(crate) struct PlaceArgs {
    /// The directory of the table, where its coordinator keeps its secrets
    #[arg(long, value_name = "DIR", default_value = TABLE, value_parser = path())]
    pub(crate) table: PathBuf,
}

/// The secrets of a table's coordinator, in its directory.
const SECRETS_NAME: &str = "secrets.json";
/// The list of participants, in the same place.
const PARTICIPANTS_NAME: &str = "participants.json";
/// The access file of the owner, in the same place.
pub(crate) const ACCESS_NAME: &str = "access.json";
/// The name of stdout, in place of a file.
const STDOUT: &str = "-";
/// How many days the token of the owner is good.
const OWNER_DAYS: u32 = 365;
const DAY_SECONDS: u64 = 24 * 60 * 60;

/// The secrets of the coordinator of the table in `home`. New ones are made if there are none.
pub(crate) fn issuer(home: &Path) -> anyhow::Result<Issuer> {
    Ok(Issuer::open(&home.join(SECRETS_NAME))?)
}

/// The file with the list of participants.
pub(crate) fn list_file(home: &Path) -> PathBuf {
    home.join(PARTICIPANTS_NAME)
}

/// The access of the owner of the table in `home` to the coordinator at `url`.
pub(crate) fn of_owner(
    home: &Path,
    issuer: &Issuer,
    url: &str,
    tls: bool,
) -> anyhow::Result<Access> {
    let list = Participants::read(&list_file(home))?;
    let owner = list.of_name(OWNER).context("the owner is in every list")?;
    Ok(Access {
        coordinator: url.to_owned(),
        ca: tls.then(|| issuer.ca_pem().to_owned()),
        token: Some(issuer.issue(owner.holder(), Some(expiry(OWNER_DAYS)))),
    })
}

fn expiry(days: u32) -> u64 {
    machine::seconds_since_1970() + u64::from(days) * DAY_SECONDS
}

pub(crate) fn run(args: AccessArgs) -> anyhow::Result<()> {
    let text = match args.what {
        AccessCommand::Add(args) => write(&args, Participants::add)?,
        AccessCommand::Renew(args) => write(&args, Participants::renew)?,
        AccessCommand::Revoke { name, place } => {
            let home = owned(&place.table)?;
            Participants::change(&list_file(home), |list| list.revoke(&name))?;
            format!(
                "{name} has no access any more; a running coordinator turns it away within a second\n"
            )
        }
        AccessCommand::Adopt(place) => {
            let secrets = owned(&place.table)?.join(SECRETS_NAME);
            Issuer::adopt(&secrets)?;
            format!("a coordinator uses {} from now on\n", secrets.display())
        }
        AccessCommand::List { place, json } => {
            let list = Participants::read(&list_file(owned(&place.table)?))?;
            let participants = list.iter().collect();
            return crate::print_as(json, &Listing { participants }, Listing::text);
        }
    };
    crate::print(&text)
}

/// The directory of a table that had a coordinator.
fn owned(home: &Path) -> anyhow::Result<&Path> {
    if !is_there(&home.join(SECRETS_NAME))? {
        return Err(usage(format!(
            "no coordinator was ever started for the table in {}: start it first, or name the directory with --table",
            home.display()
        )));
    }
    Ok(home)
}

/// Writes an access file with the credential that `change` gives.
fn write(
    args: &IssueArgs,
    change: impl FnOnce(&mut Participants, &str) -> Result<Holder, ChangeError>,
) -> anyhow::Result<String> {
    let home = owned(&args.place.table)?;
    let issuer = issuer(home)?;
    let owners = args.from.clone().unwrap_or_else(|| home.join(ACCESS_NAME));
    let known = Access::read(&owners)?;
    let out = args.out.clone().unwrap_or_else(|| {
        if args.name == OWNER {
            owners
        } else {
            PathBuf::from(format!("{}.access.json", args.name))
        }
    });
    let holder = Participants::change(&list_file(home), |list| change(list, &args.name))?;
    let access = Access {
        token: Some(issuer.issue(holder, Some(expiry(args.days)))),
        ..known
    };
    if out == Path::new(STDOUT) {
        return Ok(access.to_text());
    }
    access.write(&out)?;
    let (out, name) = (out.display(), &args.name);
    Ok(format!(
        "{out}: give it to {name} over a safe way, and to nobody else; workers join with: chomp worker --access {out}\n"
    ))
}

#[derive(Serialize)]
struct Listing<'a> {
    participants: Vec<&'a Participant>,
}

impl Listing<'_> {
    fn text(&self) -> String {
        let line = |one: &&Participant| {
            let state = if one.revoked { "revoked" } else { "has access" };
            format!("{:<24} {state}\n", one.name)
        };
        self.participants.iter().map(line).collect()
    }
}
