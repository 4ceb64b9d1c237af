//! `chomp box --periods`: how the first row follows the second one.

use std::fmt::Write;

use chomp_boxes::few::{Few, FewSolver};
use chomp_boxes::periods::{Ending, Periods};
use indicatif::HumanCount;
use serde::Serialize;

use super::{BoxArgs, enough, find};
use crate::progress::{Display, Teller};
use crate::summary::Lines;

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
    let mut most = vec![columns; rows];
    most[0] *= FIRST_ROWS;
    let few = Few::new(&most);
    let threads = args.share.threads();
    let told = few.tails() * size_of::<(Ending, TailPeriod)>();
    enough(args, few.memory(threads) + told as u64, "")?;
    let solve = move |teller: &Teller| {
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
        let endings = periods.endings().iter();
        let count = |is: fn(&Ending) -> bool| endings.clone().filter(|&end| is(end)).count() as u64;
        let counts = periods.counts().into_iter();
        Ok(goes_on.then(|| FoundPeriods {
            rows,
            columns,
            dead: count(Ending::is_dead),
            unknown: count(|ending| ending.from.is_none()),
            periods: counts
                .map(|(length, (proved, seen))| (length, proved, seen))
                .collect(),
            tails,
        }))
    };
    find(args, display, solve, FoundPeriods::lines).await
}

impl FoundPeriods {
    fn lines(&self) -> Lines {
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
        lines
    }
}
