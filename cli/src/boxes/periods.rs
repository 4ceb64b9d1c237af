//! `chomp box --periods`: how the first row follows the second one.

use std::fmt::Write;

use chomp_boxes::few::{Few, FewSolver};
use chomp_boxes::periods::{Ending, Periods};
use indicatif::HumanCount;
use serde::Serialize;

use super::{BoxArgs, enough, run_and_print};
use crate::progress::{Display, Teller};
use crate::summary::TextReport;

/// The most differences of rows that are printed.
const DIFFERENCES_MAX: usize = 1 << 24;
/// The most tails whose periods are printed with their differences, where [`DIFFERENCES_MAX`] is too few for all.
const REPEATS_MAX: usize = 1 << 20;
/// About the bytes that the differences of one period take.
const REPEATS_BYTES: usize = 64;

/// The longest first row of the search, as a multiple of the longest second row.
const FIRST_ROWS: usize = 2;

#[derive(Debug, Serialize)]
struct FoundPeriods {
    rows: usize,
    /// The longest second row.
    columns: usize,
    /// The number of tails with no losing position from some second row on.
    dead: u64,
    /// The number of tails without a period so far.
    unknown: u64,
    /// For each period the tails that have it: proved, and only seen.
    periods: Vec<(u32, u64, u64)>,
    tails: Vec<TailPeriod>,
}

/// The behaviour of the positions with the same rows from the third on.
#[derive(Debug, Serialize)]
struct TailPeriod {
    tail: Vec<u32>,
    #[serde(flatten)]
    ending: Ending,
    /// First row − second row of the losing positions. `before` has it for second rows from the length of the third row
    /// on, until the period begins, and `repeats` for one period. Null is more than was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Vec<Option<u32>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repeats: Option<Vec<Option<u32>>>,
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
    let differences = few.tails().saturating_mul(columns + 1);
    let has_differences = differences <= DIFFERENCES_MAX;
    let told = few
        .tails()
        .saturating_mul(size_of::<(Ending, TailPeriod)>());
    let has_repeats = few.tails() <= REPEATS_MAX;
    let listed = if has_differences { differences } else { 0 } * size_of::<Option<u32>>();
    let repeats = if has_repeats { few.tails() } else { 0 } * REPEATS_BYTES;
    let told = told.saturating_add(listed + repeats) as u64;
    enough(&args.share, few.memory(threads).saturating_add(told), "")?;
    let solve = move |teller: &Teller| {
        let (mut periods, mut tails) = (Periods::new(few.clone()), Vec::new());
        let goes_on = FewSolver::new(few).advance(usize::MAX, threads, |found, done| {
            for tail in found {
                let ending = periods.add(&tail);
                let [before, repeats] = [has_differences, has_repeats].map(|is_listed| {
                    let from = ending.from.filter(|_| is_listed)?;
                    let seconds = (tail.rows[0]..).zip(&tail.firsts);
                    let all = seconds.map(|(second, &first)| first.checked_sub(second));
                    Some((all, (from - tail.rows[0]) as usize))
                });
                let before = before.map(|(all, until)| all.take(until).collect());
                let period = ending.period.unwrap_or(0) as usize;
                let repeats = repeats.map(|(all, from)| all.skip(from).take(period).collect());
                let tail = tail.rows[..rows - 2].to_vec();
                tails.push(TailPeriod {
                    tail,
                    ending,
                    before,
                    repeats,
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
    run_and_print(args, display, solve, FoundPeriods::lines).await
}

impl FoundPeriods {
    fn lines(&self) -> TextReport {
        let mut text = String::new();
        for TailPeriod {
            tail,
            ending,
            before,
            repeats,
        } in &self.tails
        {
            let seen = if ending.proved { "" } else { ", seen only" };
            let told = match (ending.period, ending.from) {
                (Some(period), Some(from)) => format!("period {period} from {from}{seen}"),
                (None, Some(from)) => format!("no losing position from {from} on"),
                _ => "no period seen".to_owned(),
            };
            let tail: Vec<String> = tail.iter().map(u32::to_string).collect();
            let list = |all: &Option<Vec<Option<u32>>>| {
                let all = all.iter().flatten();
                let all = all.map(|one| one.map_or("?".to_owned(), |one| one.to_string()));
                all.collect::<Vec<_>>().join(" ")
            };
            let differences = match [list(before), list(repeats)] {
                [before, repeats] if repeats.is_empty() => before,
                [before, repeats] => format!("{before} ({repeats})"),
            };
            let line = format!("{}: {told}: {}", tail.join(","), differences.trim_start());
            writeln!(text, "{}", line.trim_end_matches(": ")).expect("a string takes any text");
        }
        let mut lines = TextReport::after(text);
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
