//! `chomp box`: all rectangles of few rows and many columns.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use chomp_access::local;
use chomp_boxes::few::FEW_ROWS;
use chomp_boxes::{Bounds, BoxSummary, COLUMNS_MAX, Memory, Scratch, Solver};
use chomp_plan::forecast::as_f64;
use chomp_query::Opening;
use indicatif::{HumanBytes, HumanCount};
use serde::Serialize;

use crate::exit::{Interruption, usage};
use crate::flags::{ShareArgs, flag, number, path, sides};
use crate::machine;
use crate::openings;
use crate::progress::{Display, Teller};
use crate::summary::{Meter, TextReport};

mod few;
mod opening;
mod periods;
mod scratch;
mod space;

use scratch::Folder;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
All rectangles of at most R rows and C columns are solved together, columns one after the other. \
Memory follows from both: 0.5 GB for 10x42, 11 GB for 12x42. With --scratch the work goes on after it \
was stopped, also for more columns, and if the memory does not hold it, the files there do. Of 3 to 5 \
rows with more than 250 columns the third rows come one after the other; there --scratch goes on with \
the same rows and columns only, and the digest is another one: docs/FORMAT.md. So it is with \
--positions.
--periods also prints for each third row, and those after it, first row - second row for second rows from \
the third row on: the differences before the period, and one period in parentheses. A ? stands for a first \
row that is too long for the search. The differences before the period are left out if there may be more \
than 2^24 (up to 3x4000, 4x300 and 5x90 there are not), and the periods beyond 2^20 tails.

Examples:
  chomp box 10x42
  chomp box 10x42 --json | jq -c '.openings[] | select(.moves | length > 1)'
  chomp box 12x42 --memory 7GiB --scratch /var/tmp/box-12
  chomp box 4x1000
  chomp box 4x500 --positions losing.csv
  chomp box 4x1000 --periods
  chomp box 1000x1000 --opening 3,3
  chomp box --space 4x4x8

Exit codes: 0 done; 2 too little memory, or beyond the limits; 5 the folder is in use, or has boards \
of other rows; 75 stopped early, with --scratch run the same command again to go on.")]
pub(crate) struct BoxArgs {
    /// The most rows and columns, as 10x42: up to 32 rows and 250 columns, to 200,000 columns of 3, 4 or 5 rows, and to
    /// 10000x10000 with --opening
    #[arg(value_name = "RxC", value_parser = sides, required_unless_present_any = ["columns", "space"])]
    pub(crate) sides: Option<(u32, u32)>,

    /// The most rows, as the argument has them
    #[arg(long, hide = true, value_name = "M", value_parser = number::<u32>(1..=32), requires = "columns", conflicts_with = "sides")]
    pub(crate) rows: Option<u32>,

    /// The most columns, as the argument has them
    #[arg(long, hide = true, value_name = "N", value_parser = number::<u32>(1..=200_000), conflicts_with = "sides")]
    pub(crate) columns: Option<u32>,

    /// List the boards of at most these rows and columns on which this first move wins: ROW,COLUMN, at most 8 together
    #[arg(long, value_name = "I,J", conflicts_with_all = ["rows", "space", "scratch"])]
    opening: Option<opening::FirstCell>,

    /// Solve all boxes of three dimensions inside this one, as 4x4x8
    #[arg(long, value_name = "AxBxC", conflicts_with_all = ["sides", "rows", "columns", "scratch"])]
    space: Option<space::Sides>,

    /// Of 3 to 5 rows: write all losing positions to this file, sorted, as the end of its name says: .csv, .npy,
    /// .parquet
    #[arg(long, value_name = "FILE", value_parser = path(), conflicts_with_all = ["opening", "space", "periods"])]
    positions: Option<PathBuf>,

    /// Replace the file of --positions if it is there
    #[arg(long, value_parser = flag, requires = "positions")]
    force: bool,

    /// Of 3 to 5 rows: say for each third row, and those after it, with which period first row − second row of the
    /// losing positions ends, for second rows up to C
    #[arg(long, value_parser = flag, conflicts_with_all = ["opening", "space", "scratch"])]
    periods: bool,

    #[command(flatten)]
    pub(crate) share: ShareArgs,

    /// Keep the state in this folder, which is made if it is not there
    #[arg(long, value_name = "DIR", value_parser = path())]
    pub(crate) scratch: Option<PathBuf>,

    /// Print one JSON object, and events to stderr, one JSON object a line
    #[arg(long, value_parser = flag)]
    pub(crate) json: bool,
}

/// The pause after a save, as a multiple of the time that the save took.
const SAVE_PAUSE_FACTOR: u32 = 10;

/// The memory that the program takes besides bitmaps.
const PROGRAM_BYTES: u64 = 32 << 20;

#[derive(Debug, Serialize)]
struct SolvedBox {
    rows: usize,
    columns: usize,
    positions: u64,
    losing: u64,
    /// Index m, then n: the losing positions of at most m rows and n columns.
    losing_by_rows_and_columns: Vec<Vec<u64>>,
    digest: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<few::PositionsFile>,
    openings: Vec<Opening>,
}

pub(crate) async fn run(args: BoxArgs, display: &Display) -> anyhow::Result<()> {
    if let Some(sides) = args.space {
        return space::run(&args, sides, display).await;
    }
    // With `--opening`, the old flag `--columns` limits the rows too.
    let rows = || args.rows.or_else(|| args.opening.and(args.columns));
    let sides = args.sides.or_else(|| rows().zip(args.columns));
    let (rows, columns) = sides.ok_or_else(|| usage("how many rows? Give RxC, as 10x42"))?;
    let (rows, columns) = (rows as usize, columns as usize);
    if let Some(opening) = args.opening {
        return opening::run(&args, opening, [rows, columns], display).await;
    }
    let is_few = FEW_ROWS.contains(&rows);
    let needs_few = args.periods || args.positions.is_some();
    if needs_few && !is_few {
        return Err(usage("--periods and --positions take 3 to 5 rows"));
    }
    if is_few && (columns > COLUMNS_MAX || needs_few) {
        let most = few::COLUMNS_MAX;
        if !(1..=most).contains(&columns) {
            return Err(usage(format!("3 to 5 rows have at most {most} columns")));
        }
        if args.periods {
            return periods::run(&args, (rows, columns), display).await;
        }
        return few::run(&args, (rows, columns), display).await;
    }
    let bounds = Bounds::new(rows, columns)?;
    let (threads, given) = (args.share.threads(), args.share.memory_bytes()?);
    let Memory { whole, streamed } = Memory::of(&bounds, threads);
    if args.scratch.is_some() {
        enough(&args.share, streamed.min(whole), "")?;
    } else {
        let streamed = streamed.saturating_add(PROGRAM_BYTES).div_ceil(1 << 20);
        let files = whole.div_ceil(1 << 19);
        let advice = format!(
            ", or --memory {streamed}MiB with --scratch DIR, where its files take up to {files} MiB"
        );
        enough(&args.share, whole, &advice)?;
    }
    let scratch = open_scratch(&args, rows)?;
    let scratch = scratch.map(|folder| Box::new(folder) as Box<dyn Scratch>);
    let solver = Solver::new(bounds.clone(), threads, given - PROGRAM_BYTES, scratch)?;
    let solve = move |teller: &Teller| {
        let summary = solve(solver, bounds.positions(), teller)?;
        Ok(summary.map(|summary| SolvedBox::new(&bounds, &summary)))
    };
    run_and_print(&args, display, solve, SolvedBox::lines).await
}

fn open_scratch(args: &BoxArgs, rows: usize) -> anyhow::Result<Option<Folder>> {
    let Some(folder) = &args.scratch else {
        return Ok(None);
    };
    let seal = local::seal().context("--scratch marks its files as this user's own")?;
    Ok(Some(Folder::open(folder, rows, seal)?))
}

#[derive(Serialize)]
struct Timed<T> {
    #[serde(flatten)]
    found: T,
    seconds: f64,
    cpu_seconds: f64,
}

/// Does `work`, shows its progress, and prints its result. `work` returns None if it was stopped.
async fn run_and_print<T: Serialize + Send + 'static>(
    args: &BoxArgs,
    display: &Display,
    work: impl FnOnce(&Teller) -> anyhow::Result<Option<T>> + Send + 'static,
    lines: fn(&T) -> TextReport,
) -> anyhow::Result<()> {
    let (meter, stop) = (Meter::start(), display.stop_token());
    let finding = display.during("solving", &stop, move |teller| work(&teller));
    let interruption = match &args.scratch {
        Some(_) => Interruption::Resumable,
        None => Interruption::Lost,
    };
    let told = Timed {
        found: finding.await?.ok_or(interruption)?,
        seconds: meter.wall().as_secs_f64(),
        cpu_seconds: meter.cpu().as_secs_f64(),
    };
    crate::print_as(args.json, &told, |told| {
        let mut lines = lines(&told.found);
        lines.time(told.seconds, told.cpu_seconds);
        lines.into_text()
    })
}

/// Fails if `bytes` bytes for the work, with those of the program, are more than the memory of the command.
pub(crate) fn enough(share: &ShareArgs, bytes: u64, advice: &str) -> anyhow::Result<()> {
    let (needed, given) = (bytes.saturating_add(PROGRAM_BYTES), share.memory_bytes()?);
    if needed <= given {
        return Ok(());
    }
    let error = machine::too_little_memory(given, needed, advice);
    Err(share.too_small(error))
}

/// Solves all columns. None if the solver was stopped.
#[expect(
    clippy::disallowed_methods,
    reason = "how often the state is saved depends on what that takes"
)]
pub(crate) fn solve(
    mut solver: Solver,
    positions: u64,
    teller: &Teller,
) -> anyhow::Result<Option<BoxSummary>> {
    let control = |done: u64| {
        let done = as_f64(done) / as_f64(positions);
        teller.stage("positions", done).is_continue()
    };
    let mut wait = Duration::ZERO;
    let mut saved = Instant::now();
    while !solver.is_finished() {
        if !solver.advance(&control)? {
            return Ok(None);
        }
        if saved.elapsed() >= wait {
            let before = Instant::now();
            solver.save()?;
            saved = Instant::now();
            wait = saved.duration_since(before) * SAVE_PAUSE_FACTOR;
        }
    }
    Ok(Some(solver.summary().clone()))
}

impl SolvedBox {
    fn new(bounds: &Bounds, summary: &BoxSummary) -> SolvedBox {
        let (rows, columns) = (bounds.rows(), bounds.columns());
        let counts = |m: usize| (0..=columns).map(|n| summary.losing(m, n)).collect();
        let number = |n: usize| u32::try_from(n).expect("at most 250");
        let boards = (1..=rows).flat_map(|m| (1..=columns).map(move |n| (m, n)));
        let openings = boards.map(|(m, n)| Opening {
            rows: number(m),
            columns: number(n),
            moves: summary.opening(m, n),
        });
        SolvedBox {
            rows,
            columns,
            positions: bounds.positions(),
            losing: summary.losing(rows, columns),
            losing_by_rows_and_columns: (0..=rows).map(counts).collect(),
            digest: summary.digests[columns].to_string(),
            file: None,
            openings: openings.collect(),
        }
    }

    /// The winning first moves, a rectangle a line, and then the counts.
    fn lines(&self) -> TextReport {
        let openings = self.openings.iter().map(openings::line);
        let mut lines = TextReport::after(openings.collect());
        lines.line("positions", HumanCount(self.positions));
        lines.line("losing", HumanCount(self.losing));
        lines.line("digest", &self.digest);
        if let Some(file) = &self.file {
            let (out, size) = (&file.out, HumanBytes(file.bytes));
            lines.line("file", format_args!("{out} ({size})"));
            lines.line("SHA-256", file.sha256);
        }
        lines
    }
}
