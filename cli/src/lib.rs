//! The program `chomp`: arguments, progress, printing.
//!
//! Results go to stdout, everything else to stderr. [`exit`] has the exit codes, and `failure` chooses the code for an
//! error.
//! Each command has a module of its name, with its flags; `box` is in `boxes`, `completions` and `man` are in `manual`.
//! The commands share these modules:
//!
//! | module | holds |
//! |---|---|
//! | `args`, `flags` | the command line, and the flags that several commands have |
//! | `owned_store`, `local` | the store of a table, opened for a job; a coordinator for a worker of this process |
//! | `trial` | measurements of what a job costs on this machine |
//! | `progress`, `summary`, `stderr` | the progress of a command and its summary, for people and programs |
//! | `connect`, `source` | how to reach a coordinator or a server; a table to query, wherever it is |
//! | `lines` | the lines of standard input |
//! | `machine`, `slurm` | the CPUs and memory of this computer, and the part that Slurm grants this process |
//! | `signals` | stopping on SIGINT and SIGTERM |
//!
//! # What always holds
//!
//! * No other crate needs code of this one. Errors become exit codes in one place, `failure`.
//! * No control character of others reaches a terminal or a log: `format::escape_control` escapes them.

mod access;
mod args;
mod boxes;
mod certify;
mod connect;
mod coordinator;
mod download;
pub mod exit;
mod export;
mod failure;
mod flags;
mod game;
mod grundy;
mod lines;
mod local;
mod machine;
mod manual;
mod oeis;
mod openings;
mod owned_store;
mod plan;
mod progress;
mod query;
mod restore;
mod run;
mod serve;
mod signals;
mod site;
mod slurm;
mod source;
mod status;
mod stderr;
mod summary;
mod trial;
mod verify;
mod worker;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use chomp_kernel::Isa;
use chomp_table::format::escape_control;
use serde_json::json;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use args::{Args, Command};
use exit::{Exit, Interruption};
use progress::Display;
use signals::stop_on_signals;

/// The allocator of musl has one lock for all threads, and returns large pieces to the system at once: a job takes a
/// seventh more CPU time with it.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// This program with its version, as files and reports name it.
const SOFTWARE: &str = concat!("chomp ", env!("CARGO_PKG_VERSION"));

/// The most threads for calls and the store, except in a server or a coordinator. Evaluation has threads of its own.
const IO_THREADS: usize = 2;

/// The threads that the runtime may start besides, for files and other short work.
const SPARE_THREADS: usize = 4;

/// How long the program waits at its end for work in the background.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The control characters with which results and messages are laid out.
const LAYOUT: &[char] = &['\n', '\t'];

/// Overrides for tests: shorter times, a fixed rate of checks, and an instruction set.
#[derive(Clone, Copy, Debug)]
pub struct TestOverrides {
    /// The divisor of the durations of leases, of the times after which a worker counts as silent or slow, and of the
    /// pauses between lines of progress.
    pub lease_haste: u32,
    /// The divisor of the time limits of connections and questions, and of the patience with servers.
    pub limit_haste: u32,
    /// Of 1,000 ranges, the number that a coordinator selects for a check; by default, as the plan chooses.
    pub checks_per_1000: Option<u32>,
    /// The widest instruction set to evaluate positions with; by default, the CPU's widest.
    pub isa: Option<Isa>,
}

impl TestOverrides {
    /// No overrides.
    pub const NONE: TestOverrides = TestOverrides {
        lease_haste: 1,
        limit_haste: 1,
        checks_per_1000: None,
        isa: None,
    };

    fn isa(self) -> Isa {
        self.isa.unwrap_or_else(Isa::detect)
    }
}

/// Runs the program with the arguments of this process.
pub fn main() -> ExitCode {
    main_with(TestOverrides::NONE)
}

/// Runs the program with `overrides`.
pub fn main_with(overrides: TestOverrides) -> ExitCode {
    let (command, name) = Args::read();
    let display = Display::new(command.tells_events(), overrides);
    display.tell("started", json!({ "command": name }));
    start_log(&display, &command);
    let exit = conclude(execute(command, &display), &display);
    display.finish();
    exit.into()
}

fn conclude(done: anyhow::Result<()>, display: &Display) -> Exit {
    let Err(error) = done else {
        display.tell("finished", json!({}));
        return Exit::Done;
    };
    let Some(interruption) = error.downcast_ref::<Interruption>() else {
        display.error(&error);
        return failure::exit_of(&error);
    };
    if *interruption != Interruption::Silent {
        display.say(&interruption.to_string());
    }
    display.tell("interrupted", json!({}));
    Exit::Stopped
}

fn execute(command: Command, display: &Display) -> anyhow::Result<()> {
    // Every TLS connection of this process uses this provider.
    let provider = rustls::crypto::ring::default_provider();
    if provider.install_default().is_err() {
        anyhow::bail!("TLS was set up before");
    }
    let threads = match &command {
        // A server evaluates nothing, so its calls get a thread for each CPU.
        Command::Serve(_) => machine::threads().get(),
        // Calls are short: to pass one to another thread takes longer than the call. Half of the threads are enough for
        // the calls of many workers.
        Command::Coordinator(_) => machine::threads().get().div_ceil(2),
        Command::Worker(args) => args.share.threads().get().min(IO_THREADS),
        Command::Run(args) => args.share.threads().get().min(IO_THREADS),
        _ => IO_THREADS,
    };
    machine::check_threads(threads + command.threads() + SPARE_THREADS)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let done = runtime.block_on(async {
        let display = &display.with(stop_on_signals(command.ending())?);
        match command {
            Command::Run(args) => run::run(args, display).await,
            Command::Grundy(args) => grundy::run(args, display).await,
            Command::Coordinator(args) => coordinator::run(args, display).await,
            Command::Worker(args) => worker::run(args, display).await,
            Command::Access(args) => access::run(args),
            Command::Plan(args) => plan::run(args).await,
            Command::Status(args) => status::run(args, display).await,
            Command::Download(args) => download::run(args, display).await,
            Command::Verify(args) => verify::run(args, display).await,
            Command::Certify(args) => certify::run(args, display).await,
            Command::Export(args) => export::run(args, display).await,
            Command::Site(args) => site::run(args, display).await,
            Command::Query(args) => query::run(args, display).await,
            Command::Openings(args) => openings::run(args, display).await,
            Command::Completions(args) => manual::completions(&args, Args::with_variables()),
            Command::Man(args) => manual::man(&args, Args::with_variables()),
            Command::Box(args) => boxes::run(args, display).await,
            Command::Oeis(args) => oeis::run(args, display).await,
            Command::Game(args) => game::run(&args, display),
            Command::Serve(args) => serve::run(args, display).await,
        }
    });
    // Work in the background may be abandoned: nobody needs its results, and an unfinished file never gets its name.
    runtime.shutdown_timeout(LAST_WORDS);
    done
}

/// Sends log lines to stderr, above the progress bar. `CHOMP_LOG` chooses which.
fn start_log(display: &Display, command: &Command) {
    let level = match command {
        // Nobody watches these commands all the time, so their log says what happened.
        Command::Coordinator(_) | Command::Worker(_) | Command::Serve(_) => LevelFilter::INFO,
        _ => LevelFilter::WARN,
    };
    let wanted = std::env::var("CHOMP_LOG").unwrap_or_default();
    let parsed = wanted.parse::<Targets>();
    // The owner can do nothing about errors of peers over HTTP/2, and any stranger could fill the log with them.
    let usual = Targets::new()
        .with_default(level)
        .with_target("h2", LevelFilter::ERROR);
    let (filter, wrong) = match parsed {
        Ok(filter) if !wanted.is_empty() => (filter, None),
        Ok(_) => (usual, None),
        Err(wrong) => (usual, Some(wrong)),
    };
    // The values may have text from other machines, such as names of workers.
    let fields = format::debug_fn(|writer, field, value| {
        let value = format!("{value:?}");
        match (field.name(), escape_control(&value, &[])) {
            ("message", value) => writer.write_str(&value),
            (name, value) => write!(writer, "{name}={value}"),
        }
    });
    let fields = fields.delimited(" ");
    let writer = display.clone();
    let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let lines = tracing_subscriber::fmt::layer()
        .fmt_fields(fields)
        .with_writer(move || writer.clone())
        .with_target(false)
        .with_ansi(display.is_terminal() && !is_plain);
    tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .init();
    if let Some(wrong) = wrong {
        tracing::warn!("CHOMP_LOG={wanted} is ignored: {wrong}; give a level, or TARGET=LEVEL,…");
    }
}

/// Prints to stdout. A reader that has closed it, as `head` does, is no error.
fn print(text: &str) -> anyhow::Result<()> {
    try_print(text).map(|_| ())
}

fn print_as<T: serde::Serialize>(
    json: bool,
    result: &T,
    text: impl FnOnce(&T) -> String,
) -> anyhow::Result<()> {
    let text = if json {
        serde_json::to_string(result)? + "\n"
    } else {
        text(result)
    };
    print(&text)
}

/// Prints to stdout, with control characters escaped. False if the reader has closed it.
fn try_print(text: &str) -> anyhow::Result<bool> {
    let text = escape_control(text, LAYOUT);
    let mut stdout = std::io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("cannot write to stdout"),
        Ok(()) => Ok(true),
    }
}
