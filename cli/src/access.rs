//! `chomp access`: adds, lists and revokes the participants of a table.

use std::path::{Path, PathBuf};

use anyhow::Context;
use chomp_access::participants::{OWNER, Participant};
use chomp_access::{Access, Certificate, Hosts, Participants, Secrets, Token};
use serde_json::{Value, json};

use crate::connect::is_there;
use crate::exit::{Exit, usage};
use crate::flags::{TABLE, flag, path};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  chomp access add ann       write ann.access.json, for Ann's workers
  chomp access list
  chomp access revoke ann    its workers are turned away within a second
  chomp access add ann       a new file, in place of one that was lost or stolen")]
pub(crate) struct AccessArgs {
    #[command(subcommand)]
    pub(crate) what: AccessCommand,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum AccessCommand {
    /// Give somebody a token of their own, and write it into an access file. Somebody who was revoked is a new
    /// participant
    Add(AddArgs),
    /// List who has access, and who had it
    List {
        #[command(flatten)]
        directory: DirectoryArgs,

        /// Print one JSON object
        #[arg(long, value_parser = flag)]
        json: bool,
    },
    /// Take somebody's access back at once; what too few others have found is computed again
    Revoke {
        /// The name of the participant
        name: String,

        #[command(flatten)]
        directory: DirectoryArgs,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct AddArgs {
    /// The name of the participant: letters, digits, `.`, `_` and `-`. `owner` is the owner of the table
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) directory: DirectoryArgs,

    /// The access file that the coordinator wrote, which says how it is reached [default: access.json in the table's
    /// directory]
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) from: Option<PathBuf>,

    /// The access file to write, readable by you alone; `-` to print it instead, for a program that keeps secrets
    /// [default: NAME.access.json; that of the owner in place of the one it had]
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) out: Option<PathBuf>,

    /// Replace the file even if it is no access file of this coordinator
    #[arg(long, value_parser = flag)]
    pub(crate) force: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DirectoryArgs {
    /// The directory of the table, where its coordinator keeps its secrets
    #[arg(long, value_name = "DIR", default_value = TABLE, value_parser = path())]
    pub(crate) table: PathBuf,
}

/// The names of three files in the directory of a table: this one and the next two.
const SECRETS_NAME: &str = "secrets.json";
const PARTICIPANTS_NAME: &str = "participants.json";
/// The access file of the owner.
pub(crate) const ACCESS_NAME: &str = "access.json";
const STDOUT: &str = "-";

/// The secrets and the certificate in `home`; makes new ones if there are none. Clients reach the coordinator by
/// `hosts`.
pub(crate) fn secrets(home: &Path, hosts: &Hosts) -> anyhow::Result<(Secrets, Certificate)> {
    Ok(Secrets::open(&home.join(SECRETS_NAME), hosts)?)
}

pub(crate) fn list_file(home: &Path) -> PathBuf {
    home.join(PARTICIPANTS_NAME)
}

/// The token of the owner of the table in `home`: the token in the access file `known` of an earlier start or, if that
/// file has no valid token or others could read it, a new token.
pub(crate) fn keep_or_renew_owner_token(home: &Path, known: &Path) -> anyhow::Result<Token> {
    let known = Access::read(known).ok().and_then(|access| access.token);
    Ok(Participants::change(&list_file(home), |list| {
        list.keep_or_renew_owner_token(known)
    })?)
}

pub(crate) fn run(args: AccessArgs) -> anyhow::Result<()> {
    let text = match args.what {
        AccessCommand::Add(args) => add(&args)?,
        AccessCommand::Revoke { name, directory } => {
            let home = owned(&directory.table)?;
            Participants::change(&list_file(home), |list| list.revoke(&name))?;
            format!(
                "{name} has no access any more; a running coordinator turns it away within a second\n"
            )
        }
        AccessCommand::List { directory, json } => {
            let list = Participants::read(&list_file(owned(&directory.table)?))?;
            if json {
                let one = |one: &Participant| json!({ "name": one.name, "number": one.number, "revoked": one.revoked });
                let participants: Vec<Value> = list.iter().map(one).collect();
                format!("{}\n", json!({ "participants": participants }))
            } else {
                let line = |one: &Participant| {
                    let state = if one.revoked { "revoked" } else { "has access" };
                    format!("{:<24} {state}\n", one.name)
                };
                list.iter().map(line).collect()
            }
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

/// Adds a participant, and writes its access file. It has no access unless the file is written.
fn add(args: &AddArgs) -> anyhow::Result<String> {
    let home = owned(&args.directory.table)?;
    let owners = args.from.clone().unwrap_or_else(|| home.join(ACCESS_NAME));
    let read = Access::read(&owners);
    let mut access = read.context("--from names the access file that the coordinator wrote")?;
    let out = args.out.clone().unwrap_or_else(|| {
        if args.name == OWNER {
            owners
        } else {
            PathBuf::from(format!("{}.access.json", args.name))
        }
    });
    let to_stdout = out == Path::new(STDOUT);
    let is_own = || Access::read(&out).is_ok_and(|old| old.coordinator == access.coordinator);
    if !to_stdout && !args.force && is_there(&out)? && !is_own() {
        return Err(Exit::Refused.error(format!(
            "{} is there, and is no access file of this coordinator: it is replaced with --force only",
            out.display()
        )));
    }
    Participants::change(&list_file(home), |list| {
        access.token = Some(list.add(&args.name)?);
        if !to_stdout {
            access.write(&out)?;
        }
        Ok(())
    })?;
    if to_stdout {
        return Ok(access.to_text());
    }
    let (out, name) = (out.display(), &args.name);
    Ok(format!(
        "{out}: give it to {name} over a safe way, and to nobody else; workers join with: chomp worker --access {out}\n"
    ))
}
