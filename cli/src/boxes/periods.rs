//! `chomp box --periods`: how the first row follows the second one.

use std::fmt::Write;

use chomp_boxes::few::{Few, FewSolver};
use chomp_boxes::periods::{Ending, Periods};
use indicatif::HumanCount;
use serde::Serialize;

use super::{BoxArgs, enough};
use crate::events::ProgramEvent;
use crate::exit::Interruption;
use crate::progress::Display;
use crate::signals::stop_on_signals;
use crate::summary::{Lines, Meter};

/// First rows are looked at up to as many times the longest second row.
const FIRST_ROWS: usize = 2;

#[derive(Debug, Serialize)]
struct FoundPeriods {
    rows: usize,
    /// The longest second row.
    columns: usize,
    /// The tails of which nothing more is losing in the end.
    dead: u64,
    /// Those without a period so far.
    unknown: u64,
    /// For each period the tails that have it: proved, and only seen.
    periods: Vec<(u32, u64, u64)>,
    seconds: f64,
    cpu_seconds: f64,
    tails: Vec<TailPeriod>,
}

/// What becomes of the positions with the same rows from the third on.
#[derive(Debug, Serialize)]
struct TailPeriod {
    /// The third row and those after it.
    tail: Vec<u32>,
    #[serde(flatten)]
    ending: Ending,
}

pub(super) async fn run(
    args: &BoxArgs,
    (rows, columns): (usize, usize),
    display: &Display,
) -> anyhow::Result<()> {
    let meter = Meter::start();
    let mut most = vec![columns; rows];
    most[0] *= FIRST_ROWS;
    let few = Few::new(&most);
    let threads = args.share.threads();
    let told = few.tails() * size_of::<(Ending, TailPeriod)>();
    enough(args, few.memory(threads) + told as u64)?;
    let stop = stop_on_signals()?;
    let solving = display.during(ProgramEvent::Solving, &stop, move |teller| {
        let (mut periods, mut tails) = (Periods::new(few.clone()), Vec::new());
        let goes_on = FewSolver::new(few).advance(usize::MAX, threads, |found, done| {
            for tail in found {
                tails.push(TailPeriod {
                    ending: periods.add(&tail),
                    tail: tail.rows[..rows - 2].to_vec(),
                });
            }
            teller.stage("third rows", done).is_continue()
        });
        goes_on.then_some((periods, tails))
    });
    let (periods, tails) = solving.await.ok_or(Interruption::Silent)?;
    let count = |is: fn(&Ending) -> bool| periods.endings().iter().filter(|&end| is(end)).count();
    let counts = periods.counts().into_iter();
    let told = FoundPeriods {
        rows,
        columns,
        dead: count(Ending::is_dead) as u64,
        unknown: count(|ending| ending.from.is_none()) as u64,
        periods: counts
            .map(|(length, (proved, seen))| (length, proved, seen))
            .collect(),
        seconds: meter.wall().as_secs_f64(),
        cpu_seconds: meter.cpu().as_secs_f64(),
        tails,
    };
    crate::print_as(args.json, &told, FoundPeriods::text)
}

impl FoundPeriods {
    fn text(&self) -> String {
        let mut text = String::new();
        for TailPeriod { tail, ending } in &self.tails {
            let rows: Vec<String> = tail.iter().map(u32::to_string).collect();
            let rows = rows.join(",");
            let seen = if ending.proved { "" } else { ", seen only" };
            match (ending.period, ending.from) {
                (Some(period), Some(from)) => {
                    writeln!(text, "{rows}: period {period} from {from}{seen}")
                }
                (None, Some(from)) => writeln!(text, "{rows}: none from {from}"),
                _ => writeln!(text, "{rows}: no period seen"),
            }
            .expect("a string takes any text");
        }
        let mut lines = Lines::after(text);
        for (period, proved, seen) in &self.periods {
            let (proved, seen) = (HumanCount(*proved), HumanCount(*seen));
            let told = format_args!("{proved} proved, {seen} seen only");
            lines.line(&format!("period {period}"), told);
        }
        lines.line("none in the end", HumanCount(self.dead));
        lines.line("no period seen", HumanCount(self.unknown));
        lines.time(self.seconds, self.cpu_seconds);
        lines.into_text()
    }
}
