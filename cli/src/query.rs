//! `chomp query`: looks up positions in a table.

mod lines;

use std::fmt::Write;
use std::io::{self, IsTerminal, Read};
use std::str::FromStr;
use std::sync::mpsc;
use std::{iter, thread};

use anyhow::Context;
use chomp_query::{
    Answer, Losing, ValueAnswer, Valued, Verdict, answers, drawing, value_answers, valued, verdicts,
};
use chomp_table::position::PositionError;
use chomp_table::values::Values;
use chomp_table::{Partition, Position, TableError};
use serde::Serialize;

use crate::args::QueryArgs;
use crate::exit::Exit;
use crate::progress::Display;
use crate::source::{Asked, Source};
use lines::Positions;

/// How many positions are looked up together. A group reads each part of the table that it needs once.
const TOGETHER: usize = 1 << 18;
/// How many are looked up together with their moves, which take 5 KB a position.
const TOGETHER_WITH_MOVES: usize = 1 << 14;
pub(crate) async fn run(args: QueryArgs, display: &Display) -> anyhow::Result<Exit> {
    let asked = Asked::open(&args.source, display.haste()).await?;
    if args.positions.is_empty() && io::stdin().is_terminal() {
        display.say("positions are read from here: write one a line, as 5,4,2,1 or 8x10, and end with Ctrl-D");
    }
    let told = tokio::task::spawn_blocking(move || match asked {
        Asked::Losing(source) => all(&source, &args),
        Asked::Values(table) => all(&*table, &args),
    });
    told.await??;
    Ok(Exit::Done)
}

/// A table of some kind that answers queries.
trait Tells {
    type Position: FromStr<Err = PositionError> + ToString + Send + 'static;

    fn name(position: &Self::Position) -> String;

    fn texts(&self, style: Style, positions: &[Self::Position]) -> Result<String, TableError>;
}

impl Tells for Source {
    type Position = Position;

    fn name(position: &Position) -> String {
        drawing::name(position)
    }

    fn texts(&self, style: Style, positions: &[Position]) -> Result<String, TableError> {
        texts(self, style, positions)
    }
}

impl Tells for Values {
    type Position = Partition;

    fn name(position: &Partition) -> String {
        drawing::name_of(position)
    }

    fn texts(&self, style: Style, positions: &[Partition]) -> Result<String, TableError> {
        value_texts(self, style, positions)
    }
}

/// How answers are told.
#[derive(Clone, Copy, Debug)]
struct Style {
    json: bool,
    moves: bool,
    drawn: bool,
}

impl Style {
    fn together(self) -> usize {
        if self.moves {
            TOGETHER_WITH_MOVES
        } else {
            TOGETHER
        }
    }
}

fn all<T: Tells>(source: &T, args: &QueryArgs) -> anyhow::Result<()> {
    let style = Style {
        json: args.json,
        moves: !args.no_moves,
        drawn: io::stdout().is_terminal(),
    };
    if args.positions.is_empty() {
        let positions = Positions::new(io::stdin(), args.numbers);
        return from_lines(source, style, positions);
    }
    let parse = |text: &String| {
        let position = args.numbers.parse(text);
        position.with_context(|| format!("the position \"{text}\""))
    };
    let positions = args.positions.iter().map(parse);
    let positions = positions.collect::<anyhow::Result<Vec<_>>>()?;
    for group in positions.chunks(style.together()) {
        if !tell(source, style, group)? {
            break;
        }
    }
    Ok(())
}

/// Answers one position a line. While a group is looked up, another thread reads the next one. So a slow writer gets
/// each answer at once, and a fast writer gets large groups.
fn from_lines<T: Tells>(
    source: &T,
    style: Style,
    positions: Positions<impl Read + Send + 'static, T::Position>,
) -> anyhow::Result<()> {
    let (sender, receiver) = mpsc::sync_channel(style.together());
    let reader = thread::spawn(move || {
        for line in positions {
            let is_last = line.is_err();
            if sender.send(line).is_err() || is_last {
                break;
            }
        }
    });
    while let Ok(first) = receiver.recv() {
        let more = receiver.try_iter().take(style.together() - 1);
        let mut positions = Vec::new();
        let mut failed = None;
        for line in iter::once(first).chain(more) {
            match line {
                Ok(position) => positions.push(position),
                Err(error) => failed = Some(error),
            }
        }
        if !tell(source, style, &positions)? {
            return Ok(());
        }
        if let Some(error) = failed {
            return Err(error);
        }
    }
    reader.join().expect("reading lines does not panic");
    Ok(())
}

/// Prints the answers for `positions`. False if the reader of stdout went away.
fn tell<T: Tells>(source: &T, style: Style, positions: &[T::Position]) -> anyhow::Result<bool> {
    match source.texts(style, positions) {
        Ok(text) => crate::try_print(&text),
        // What can be told is told, up to the first position that cannot.
        Err(_) if positions.len() > 1 => {
            let (first, rest) = positions.split_at(positions.len() / 2);
            Ok(tell(source, style, first)? && tell(source, style, rest)?)
        }
        Err(error) => {
            Err(error).with_context(|| format!("cannot tell about {}", T::name(&positions[0])))
        }
    }
}

fn texts(source: &impl Losing, style: Style, positions: &[Position]) -> Result<String, TableError> {
    Ok(if style.moves {
        let answers = answers(source, positions)?;
        told(style, positions, answers, |position, answer| {
            answer_text(position, answer, style.drawn)
        })
    } else {
        told(style, positions, verdicts(source, positions)?, verdict_text)
    })
}

fn value_texts(
    table: &Values,
    style: Style,
    positions: &[Partition],
) -> Result<String, TableError> {
    Ok(if style.moves {
        let answers = value_answers(table, positions)?;
        told(style, positions, answers, value_answer_text)
    } else {
        told(style, positions, valued(table, positions)?, value_text)
    })
}

/// The answers to all positions: a line of JSON each, or the text that `text` makes of it.
fn told<P, A: Serialize>(
    style: Style,
    positions: &[P],
    answers: Vec<A>,
    text: impl Fn(&P, &A) -> String,
) -> String {
    let told = positions.iter().zip(answers).map(|(position, answer)| {
        if style.json {
            serde_json::to_string(&answer).expect("numbers and lists become JSON") + "\n"
        } else {
            text(position, &answer)
        }
    });
    told.collect()
}

fn value_text(position: &Partition, valued: &Valued) -> String {
    let name = drawing::name_of(position);
    format!("{name} has the value {}\n", valued.value)
}

fn value_answer_text(position: &Partition, answer: &ValueAnswer) -> String {
    let (name, value) = (drawing::name_of(position), answer.valued.value);
    let told = match value {
        0 => "losing, no move wins",
        _ => "winning, with moves to",
    };
    let mut text = format!("{name} has the value {value}: it is {told}\n");
    for (value, moves) in answer.moves_by_value.iter().enumerate() {
        let moves = drawing::moves(moves);
        writeln!(text, "  {value:<3} {moves}").expect("a string takes any text");
    }
    text
}

fn verdict_text(position: &Position, verdict: &Verdict) -> String {
    let said = if verdict.losing { "losing" } else { "winning" };
    format!("{} is {said}\n", drawing::name(position))
}

fn answer_text(position: &Position, answer: &Answer, drawn: bool) -> String {
    let name = drawing::name(position);
    let mut text = if answer.verdict.losing {
        format!("{name} is losing: no move wins\n")
    } else if answer.winning_moves.is_empty() {
        format!("{name} is won: the other one took the poison\n")
    } else {
        let moves = drawing::moves(&answer.winning_moves);
        format!("{name} is winning, with {moves}\n")
    };
    if drawn {
        text += &drawing::draw(position, &answer.winning_moves);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Positions of at most 4 cells in a row, by hand.
    #[derive(Debug)]
    struct Rows;

    impl Losing for Rows {
        fn are_losing(&self, words: &[chomp_table::Word]) -> Result<Vec<bool>, TableError> {
            Ok(words.iter().map(|word| word.get() == 2).collect())
        }

        fn bits(&self) -> u32 {
            5
        }
    }

    #[test]
    fn answers_are_told() {
        let told = |moves, json, drawn| {
            let positions = ["4", "1", "0"].map(|text| text.parse().unwrap());
            let style = Style { json, moves, drawn };
            texts(&Rows, style, &positions).unwrap()
        };
        assert_eq!(
            told(true, false, false),
            "4 is winning, with (1,2)\n1 is losing: no move wins\n\
             0 is won: the other one took the poison\n"
        );
        assert_eq!(
            told(true, false, true),
            "4 is winning, with (1,2)\nx O . .\n1 is losing: no move wins\nx\n\
             0 is won: the other one took the poison\n"
        );
        assert_eq!(
            told(false, false, true),
            "4 is winning\n1 is losing\n0 is winning\n"
        );
        let lines = told(true, true, false);
        let first: serde_json::Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
        let expected = serde_json::json!({
            "rows": [4], "word": 30, "bits": 5, "area": 4, "losing": false,
            "winning_moves": [[1, 2]], "losing_positions": [[1]], "reply": [1, 2],
        });
        assert_eq!(first, expected);
        assert_eq!(
            told(false, true, false).lines().nth(1).unwrap(),
            r#"{"rows":[1],"word":2,"bits":2,"area":1,"losing":true}"#
        );
    }
}
