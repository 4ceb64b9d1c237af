//! The command line. An environment variable can set each flag of a command.

use std::ffi::OsString;
use std::io::Write;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, CommandFactory, FromArgMatches, Parser, Subcommand, ValueHint};

use crate::signals::Ending;
use crate::stderr::without_passwords;
use crate::{
    access, boxes, certify, coordinator, download, export, game, grundy, manual, oeis, openings,
    plan, query, run, serve, site, status, verify, worker,
};

/// Computes tables of the losing positions of Chomp, answers questions from them and checks them.
#[derive(Debug, Parser)]
#[command(
    name = "chomp",
    version,
    after_help = "\
Exit codes: 0 done; 1 failed; 2 wrong usage; 3 damaged data or a failed check; 4 coordinator \
unreachable; 5 refused (other version or parameters, table in use, not in the table); 75 stopped \
early, run it again to go on.

Examples:
  chomp run --bits 32     compute the table of all positions of at most 32 bits
  chomp query 8x10        which first moves win on 8 rows and 10 columns
  chomp help query        all about a command"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The variable for `--table` of all commands, as that flag means the same in all of them.
const TABLE_VARIABLE: &str = "CHOMP_TABLE";

impl Args {
    /// Ends the process if the arguments are wrong, or if they ask for help.
    pub(crate) fn read() -> (Command, String) {
        let given: Vec<OsString> = std::env::args_os().collect();
        let matches = Args::with_variables().try_get_matches_from(&given);
        let matches = matches.unwrap_or_else(|error| end(&naming_variables(error, &given)));
        let mut args = Args::from_arg_matches(&matches).unwrap_or_else(|error| end(&error));
        if let (Command::Query(query), Some((_, given))) = (&mut args.command, matches.subcommand())
        {
            query.source.is_named = given.value_source("table") != Some(ValueSource::DefaultValue);
        }
        let name = matches.subcommand_name().unwrap_or_default();
        (args.command, name.to_owned())
    }

    /// The command line, with an environment variable for each flag: `CHOMP_<COMMAND>_<FLAG>`, but `CHOMP_TABLE` for
    /// `--table` of all commands. Other variables affect only their own command, and an empty one has no effect.
    pub(crate) fn with_variables() -> clap::Command {
        Args::command().mut_subcommands(|command| of_command(command, "CHOMP"))
    }
}

/// Ends the program with the help that was wanted, or an error without passwords.
#[expect(clippy::disallowed_methods, reason = "nothing has begun")]
fn end(error: &clap::Error) -> ! {
    let text = error.render().to_string();
    let shown = without_passwords(&text);
    if shown == text {
        error.exit();
    }
    // Without standard error, no error can be reported.
    std::io::stderr().write_all(shown.as_bytes()).unwrap_or(());
    std::process::exit(error.exit_code())
}

fn of_command(command: clap::Command, above: &str) -> clap::Command {
    let start = format!("{above}_{}", command.get_name());
    let command = command.mut_args(|arg| {
        let name = match arg.get_long() {
            Some("table") => TABLE_VARIABLE.to_owned(),
            Some(flag) => format!("{start}_{flag}").to_uppercase().replace('-', "_"),
            None => return arg,
        };
        let arg = with_hint(arg);
        if std::env::var_os(&name).is_some_and(|value| value.is_empty()) {
            return arg;
        }
        // Names live as long as the program, and there are not many.
        arg.env(&*name.leak())
    });
    command.mut_subcommands(|below| of_command(below, &start))
}

/// Tells shells whether to complete the value of a flag as the name of a file or of a folder.
fn with_hint(arg: Arg) -> Arg {
    if !arg.get_action().takes_values() || !arg.get_possible_values().is_empty() {
        return arg;
    }
    let names = arg.get_value_names().unwrap_or_default();
    let names = |name| names.iter().any(|one| one.contains(name));
    let hint = match (names("FILE"), names("DIR")) {
        (true, _) => ValueHint::FilePath,
        (false, true) => ValueHint::DirPath,
        (false, false) => ValueHint::Other,
    };
    arg.value_hint(hint)
}

fn naming_variables(mut error: clap::Error, given: &[OsString]) -> clap::Error {
    let mut program = Args::with_variables();
    program.build();
    let words = || given.iter().skip(1).filter_map(|word| word.to_str());
    let mut command = &program;
    while let Some(below) = words().find_map(|word| command.find_subcommand(word)) {
        command = below;
    }
    let is_given = |arg: &Arg| {
        let mut flags = words().filter_map(|word| word.strip_prefix("--")?.split('=').next());
        let own = arg.get_all_aliases().unwrap_or_default();
        flags.any(|flag| arg.get_long() == Some(flag) || own.contains(&flag))
    };
    for arg in command.get_arguments().filter(|arg| !is_given(arg)) {
        let Some(name) = arg
            .get_env()
            .filter(|name| std::env::var_os(name).is_some())
        else {
            continue;
        };
        let (name, flag) = (name.display(), arg.to_string());
        for kind in [ContextKind::InvalidArg, ContextKind::PriorArg] {
            if error.get(kind) == Some(&ContextValue::String(flag.clone())) {
                let named = format!("{name}, the environment variable of {flag}");
                error.insert(kind, ContextValue::String(named));
            }
        }
        // Errors of these kinds do not name the flag that the variable has set.
        let kinds = [ErrorKind::InvalidUtf8, ErrorKind::MissingRequiredArgument];
        if kinds.contains(&error.kind()) {
            let set = StyledStr::from(format!("the environment sets {name}"));
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![set]));
        }
    }
    error
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compute the table on this machine: start, continue or extend it
    Run(run::RunArgs),
    /// Compute the Sprague-Grundy value of every position up to a number of tiles
    Grundy(grundy::GrundyArgs),
    /// Lease the work to workers on any number of machines, and serve the finished table
    Coordinator(coordinator::CoordinatorArgs),
    /// Compute for a coordinator until its table is finished; workers may join and leave at any time
    Worker(worker::WorkerArgs),
    /// Manage who may work for a coordinator: one credential for each participant
    Access(access::AccessArgs),
    /// Estimate the time, memory, disk and network that a table needs, and how many workers help
    Plan(plan::PlanArgs),
    /// Show the progress of a job, or what a directory holds of a table
    Status(status::StatusArgs),
    /// Download a finished table and check every byte; resumes after an interruption
    Download(download::DownloadArgs),
    /// Check a finished table: every byte, random positions, or every position
    Verify(verify::VerifyArgs),
    /// Write the losing positions or Grundy values of a finished table to a file for other programs
    Export(export::ExportArgs),
    /// Say whether positions are losing or what their Grundy values are, and list all winning moves
    Query(query::QueryArgs),
    /// List every winning first move of every rectangle that the table covers
    Openings(openings::OpeningsArgs),
    /// List every winning first move of all rectangles of few rows and many columns, without a table
    Box(boxes::BoxArgs),
    /// Write or check a proof that a first move wins, which needs no table to be checked
    Certify(certify::CertifyArgs),
    /// Print the terms of integer sequences about Chomp, as the b-files of the OEIS have them
    Oeis(oeis::OeisArgs),
    /// Say who wins a small game, and how: iChomp, Nim, Chomp with poisons, in space, on divisors, transfinite, and
    /// others
    Game(game::GameArgs),
    /// Serve a finished table over HTTP: pages to play and explore, JSON, and its files
    Serve(serve::ServeArgs),
    /// Write a finished table as a folder of plain files with pages to play and explore, for any web space
    Site(site::SiteArgs),
    /// Print the completions of commands and flags for a shell
    Completions(manual::CompletionsArgs),
    /// Print the manual
    Man(manual::ManArgs),
}

impl Command {
    pub(crate) fn threads(&self) -> usize {
        let share = match self {
            Command::Run(args) => &args.share,
            Command::Worker(args) => &args.share,
            Command::Verify(args) => &args.share,
            Command::Grundy(args) => &args.share,
            Command::Box(args) => &args.share,
            Command::Oeis(args) => &args.share,
            _ => return 1,
        };
        share.threads().get()
    }

    pub(crate) fn ending(&self) -> Ending {
        let only_answers = matches!(
            self,
            Command::Access(_)
                | Command::Plan(_)
                | Command::Status(_)
                | Command::Query(_)
                | Command::Openings(_)
                | Command::Completions(_)
                | Command::Man(_)
                | Command::Game(_)
        );
        Ending {
            in_good_order: !only_answers,
            drains: matches!(self, Command::Worker(_)),
        }
    }

    /// Whether the command prints events for programs: it takes long, and `--json` was given.
    pub(crate) fn tells_events(&self) -> bool {
        match self {
            Command::Run(args) => args.table.json,
            Command::Grundy(args) => args.json,
            Command::Coordinator(args) => args.table.json,
            Command::Worker(args) => args.json,
            Command::Download(args) => args.json,
            Command::Verify(args) => args.json,
            Command::Export(args) => args.json,
            Command::Site(args) => args.json,
            Command::Serve(args) => args.json,
            Command::Box(args) => args.json,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Args::with_variables().debug_assert();
    }

    /// The commands of the program in a line of a page: `$ chomp query 8x10 | head  # like this`.
    fn commands(line: &str) -> Vec<Vec<&str>> {
        let line = line.trim_start_matches("$ ").split(" #").next().unwrap();
        let line = line
            .replace("cargo run --release -- ", "chomp ")
            .replace("-n chomp", "")
            .leak();
        let parts = line
            .split(['|', '>', '&'])
            .map(|part| part.split_whitespace());
        let parts = parts.map(|words| {
            let is_program = |word: &&str| matches!(*word, "chomp" | "/chomp");
            words
                .skip_while(move |word| !is_program(word))
                .collect::<Vec<_>>()
        });
        parts.filter(|words| words.len() > 1).collect()
    }

    #[test]
    fn the_commands_in_the_documents_are_commands() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let docs = std::fs::read_dir(root.join("docs")).unwrap();
        let pages = docs.map(|entry| entry.unwrap().path());
        let pages = pages.filter(|path| path.extension() == Some("md".as_ref()));
        let mut program = Args::with_variables();
        program.build();
        let (mut parsed, mut named) = (0, 0);
        for page in pages.chain([root.join("README.md")]) {
            let text = std::fs::read_to_string(&page).unwrap();
            for (number, block) in text.split("```").enumerate() {
                if number % 2 == 1 && (block.starts_with("console\n") || block.starts_with("sh\n"))
                {
                    let lines = block.lines().skip(1);
                    let is_typed = |line: &&str| block.starts_with("sh") || line.starts_with("$ ");
                    for words in lines.filter(is_typed).flat_map(commands) {
                        let found = Args::with_variables().try_get_matches_from(&words);
                        found.unwrap_or_else(|error| panic!("{}: {error}", page.display()));
                        parsed += 1;
                    }
                }
                // In prose, commands may lack values, so only the names of their flags are checked.
                let spans = block.split('`').skip(1).step_by(2);
                for words in spans.filter(|_| number % 2 == 0).flat_map(commands) {
                    let mut command = &program;
                    for word in &words[1..] {
                        command = command.find_subcommand(word).unwrap_or(command);
                        let Some(flag) = word.strip_prefix("--").filter(|flag| !flag.is_empty())
                        else {
                            continue;
                        };
                        let flag = flag.split(['=', ',', '.', '\\']).next().unwrap();
                        let is_there = flag == "help"
                            || command
                                .get_arguments()
                                .any(|arg| arg.get_long() == Some(flag));
                        assert!(is_there, "{}: {words:?} has no --{flag}", page.display());
                        named += 1;
                    }
                }
            }
        }
        assert!(
            parsed > 25 && named > 50,
            "{parsed} commands, {named} flags"
        );
    }

    #[test]
    fn a_variable_means_one_thing() {
        let mut owners = BTreeMap::new();
        let program = Args::with_variables();
        let mut commands: Vec<_> = program
            .get_subcommands()
            .map(|one| (String::new(), one))
            .collect();
        while let Some((above, command)) = commands.pop() {
            let path = format!("{above}{}", command.get_name());
            let below = command.get_subcommands();
            commands.extend(below.map(|below| (format!("{path} "), below)));
            for arg in command.get_arguments() {
                let Some(flag) = arg.get_long() else {
                    continue;
                };
                let name = arg.get_env().expect("every flag has a variable");
                let name = name.to_str().unwrap().to_owned();
                let owner = match &name[..] {
                    TABLE_VARIABLE => ("every command".to_owned(), flag.to_owned()),
                    _ => (path.clone(), flag.to_owned()),
                };
                let other = owners.insert(name.clone(), owner.clone());
                assert!(other.is_none_or(|other| other == owner), "{name}");
            }
        }
        for (name, command, flag) in [
            ("CHOMP_TABLE", "every command", "table"),
            ("CHOMP_WORKER_ACCESS", "worker", "access"),
            ("CHOMP_COORDINATOR_ACCESS", "coordinator", "access"),
            ("CHOMP_SERVE_HTTP", "serve", "http"),
            ("CHOMP_ACCESS_ADD_OUT", "access add", "out"),
            ("CHOMP_RUN_RANGE_BITS", "run", "range-bits"),
        ] {
            assert_eq!(owners[name], (command.to_owned(), flag.to_owned()));
        }
    }

    #[test]
    fn addresses_are_taken_as_people_write_them() {
        for (text, address) in [
            ("10.0.0.1:80", "10.0.0.1:80"),
            ("[::1]:80", "[::1]:80"),
            ("localhost:7171", "127.0.0.1:7171"),
            ("7171", "127.0.0.1:7171"),
            (":7171", "0.0.0.0:7171"),
        ] {
            let args = ["chomp", "serve", "--http", text];
            let args = Args::try_parse_from(args).unwrap();
            let Command::Serve(args) = args.command else {
                panic!("another command");
            };
            let serve::HttpPlace::Port(found) = args.http else {
                panic!("a file");
            };
            assert_eq!(found.to_string(), address);
        }
    }

    #[test]
    fn wrong_values_are_refused() {
        for (command, wrong) in [
            (
                "run",
                "|--bits 1|--bits 53|--bits 20 --range-bits 11|--bits 20 --range-bits 33",
            ),
            ("run --bits 20", "--threads 0|--memory lots|--http host"),
            (
                "grundy",
                "|--tiles 121|--tiles 20 --rank-bits 25|--tiles 20 --bits 20",
            ),
            (
                "coordinator",
                "|--bits 20 --tiles 20|--tiles 20 --range-bits 20",
            ),
            (
                "coordinator --bits 20",
                "--rank-bits 20|--listen 7171:host|--replicas 0",
            ),
            ("plan", "|--bits 20 --workers 0"),
            (
                "worker",
                "--coordinator host:7171|--coordinator http://host --threads 0",
            ),
            ("download", "--from http://host|--out there"),
            ("verify", "--level all|--sample 0|--threads 0"),
            ("export", "|--format npy|--format xml --out there"),
            (
                "export --format npy --out there",
                "--bits 65|--bits 1|--area 9-8|--box 8|--memory lots",
            ),
            (
                "serve",
                "--http 65536|--http unix:|--trust-proxy here|--cache lots",
            ),
            (
                "game",
                "|chess 1|nim 1 --losing many|poisons --fix 1=50 3x8",
            ),
        ] {
            for wrong in wrong.split('|') {
                let wrong = format!("chomp {command} {wrong}");
                let error = Args::try_parse_from(wrong.split_whitespace()).expect_err(&wrong);
                assert_eq!(error.exit_code(), 2, "{wrong}");
            }
        }
    }
}
