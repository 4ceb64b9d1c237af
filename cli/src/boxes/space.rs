//! `chomp box --space`: all boxes of three dimensions inside one.

use std::str::FromStr;

use chomp_boxes::space::{Space, TooLarge};
use chomp_plan::forecast::as_f64;
use chomp_table::position::TIMES;
use indicatif::HumanCount;
use serde::Serialize;

use super::{BoxArgs, enough, run_and_print};
use crate::exit::usage;
use crate::progress::{Display, Teller};
use crate::summary::TextReport;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sides([usize; 3]);

impl FromStr for Sides {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Sides, &'static str> {
        let sides: Option<Vec<usize>> = text.split(TIMES).map(|side| side.parse().ok()).collect();
        let sides = sides.and_then(|sides| sides.try_into().ok());
        sides
            .map(Sides)
            .ok_or("a box of three dimensions is AxBxC, as 4x4x8")
    }
}

#[derive(Debug, Serialize)]
struct SolvedSpace {
    sides: [usize; 3],
    positions: u64,
    losing: u64,
    digest: String,
    /// The boxes inside; of boxes that differ only in the order of their sides, one.
    boxes: Vec<InnerBox>,
}

/// A box, its losing positions, and the cells that win as a first move.
#[derive(Debug, Serialize)]
struct InnerBox {
    sides: [usize; 3],
    losing: u64,
    moves: Vec<[usize; 3]>,
}

pub(super) async fn run(
    args: &BoxArgs,
    Sides(sides): Sides,
    display: &Display,
) -> anyhow::Result<()> {
    let space = Space::new(sides).map_err(|error: TooLarge| usage(error.to_string()))?;
    enough(&args.share, space.memory(), "")?;
    let threads = args.share.threads();
    let solve = move |teller: &Teller| {
        let all = space.surroundings();
        let control = |done: u64| {
            let done = as_f64(done) / as_f64(all);
            teller.stage("positions", done).is_continue()
        };
        let Some(solved) = space.solve(threads, &control) else {
            return Ok(None);
        };
        let [a, b, c] = sides;
        let inner =
            (1..=a).flat_map(|x| (1..=b).flat_map(move |y| (1..=c).map(move |z| [x, y, z])));
        // Of the boxes that differ only in the order of their sides, the first one is listed: that with ascending
        // sides, if it lies inside.
        let mut seen = std::collections::BTreeSet::new();
        let inner = inner.filter(|inner| {
            let mut sorted = *inner;
            sorted.sort_unstable();
            seen.insert(sorted)
        });
        let boxes = inner.map(|sides| InnerBox {
            sides,
            losing: solved.losing(sides),
            moves: solved.openings(sides),
        });
        Ok(Some(SolvedSpace {
            sides,
            positions: space.positions(),
            losing: solved.losing(sides),
            digest: solved.digest().to_string(),
            boxes: boxes.collect(),
        }))
    };
    run_and_print(args, display, solve, SolvedSpace::lines).await
}

impl SolvedSpace {
    fn lines(&self) -> TextReport {
        let line = |InnerBox { sides, moves, .. }: &InnerBox| {
            let [a, b, c] = sides;
            let moves = moves.iter().map(|[x, y, z]| format!(" ({x},{y},{z})"));
            format!("{a}x{b}x{c}{}\n", moves.collect::<String>())
        };
        let text = self.boxes.iter().map(line).collect();
        let mut lines = TextReport::after(text);
        lines.line("positions", HumanCount(self.positions));
        lines.line("losing", HumanCount(self.losing));
        lines.line("digest", &self.digest);
        lines
    }
}
