//! `chomp box --space`: all boxes of three dimensions inside one.

use std::str::FromStr;

use chomp_boxes::space::{Space, TooLarge};
use indicatif::HumanCount;
use serde::Serialize;

use super::{BoxArgs, enough};
use crate::events::ProgramEvent;
use crate::exit::{Interruption, usage};
use crate::progress::Display;
use crate::signals::stop_on_signals;
use crate::summary::{Lines, Meter};

/// The sides of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sides([usize; 3]);

impl FromStr for Sides {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Sides, &'static str> {
        let sides: Option<Vec<usize>> = text.split('x').map(|side| side.parse().ok()).collect();
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
    seconds: f64,
    cpu_seconds: f64,
    /// All boxes inside, without those whose axes are exchanged.
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
    let meter = Meter::start();
    let space = Space::new(sides).map_err(|error: TooLarge| usage(error.to_string()))?;
    enough(args, space.memory())?;
    let (threads, stop) = (args.share.threads(), stop_on_signals()?);
    let solving = display.during(ProgramEvent::Solving, &stop, move |teller| {
        let all = space.surroundings();
        let control = |done: u64| {
            #[expect(clippy::cast_precision_loss, reason = "it is shown as a bar")]
            let done = done as f64 / all as f64;
            teller.stage("positions", done).is_continue()
        };
        let solved = space.solve(threads, &control)?;
        let [a, b, c] = sides;
        let inner =
            (1..=a).flat_map(|x| (1..=b).flat_map(move |y| (1..=c).map(move |z| [x, y, z])));
        // Of boxes whose axes are exchanged, the one whose sides ascend, or whichever of them lies inside.
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
        let boxes: Vec<InnerBox> = boxes.collect();
        Some((
            space.positions(),
            solved.losing(sides),
            solved.digest(),
            boxes,
        ))
    });
    let (positions, losing, digest, boxes) = solving.await.ok_or(Interruption::Silent)?;
    let told = SolvedSpace {
        sides,
        positions,
        losing,
        digest: digest.to_string(),
        seconds: meter.wall().as_secs_f64(),
        cpu_seconds: meter.cpu().as_secs_f64(),
        boxes,
    };
    crate::print_as(args.json, &told, SolvedSpace::text)
}

impl SolvedSpace {
    fn text(&self) -> String {
        let line = |InnerBox { sides, moves, .. }: &InnerBox| {
            let [a, b, c] = sides;
            let moves = moves.iter().map(|[x, y, z]| format!(" ({x},{y},{z})"));
            format!("{a}x{b}x{c}{}\n", moves.collect::<String>())
        };
        let text = self.boxes.iter().map(line).collect();
        let mut lines = Lines::after(text);
        lines.line("positions", HumanCount(self.positions));
        lines.line("losing", HumanCount(self.losing));
        lines.line("digest", &self.digest);
        lines.time(self.seconds, self.cpu_seconds);
        lines.into_text()
    }
}
