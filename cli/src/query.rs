//! `chomp query`: what a table says of positions.

use std::fmt::Write;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::str::FromStr;

use anyhow::Context;
use chomp_query::{
    Answer, Losing, ValueAnswer, Verdict, answers, drawing, value_answers, valued, verdicts,
};
use chomp_table::position::PositionError;
use chomp_table::values::Values;
use chomp_table::{Partition, Position, TableError};
use serde::Serialize;

use crate::args::QueryArgs;
use crate::exit::Exit;
use crate::source::{Asked, Source};

/// The positions that are looked up together.
const TOGETHER: usize = 1024;
/// The longest line of stdin: no position of a table takes a hundredth of it.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// What is read of stdin at a time.
const BUFFER_BYTES: usize = 64 << 10;

/// A line that is no position.
#[derive(Debug, thiserror::Error)]
#[error("line {0} of stdin has more than {LINE_BYTES_MAX} bytes")]
pub(crate) struct LongLine(u64);

pub(crate) async fn run(args: QueryArgs) -> anyhow::Result<Exit> {
    let asked = Asked::open(&args.source).await?;
    let told = tokio::task::spawn_blocking(move || match asked {
        Asked::Losing(source) => all(&source, &args),
        Asked::Values(table) => all(&*table, &args),
    });
    told.await??;
    Ok(Exit::Done)
}

/// What is told of positions by a table of some kind.
trait Tells {
    type Position: FromStr<Err = PositionError>;

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

fn all<T: Tells>(source: &T, args: &QueryArgs) -> anyhow::Result<()> {
    let style = Style {
        json: args.json,
        moves: !args.no_moves,
        drawn: io::stdout().is_terminal(),
    };
    if args.positions.is_empty() {
        return from_lines(source, style, io::stdin().lock());
    }
    let parse = |text: &String| {
        let position = text.parse::<T::Position>();
        position.with_context(|| format!("the position \"{text}\""))
    };
    let positions = args.positions.iter().map(parse);
    let positions = positions.collect::<anyhow::Result<Vec<_>>>()?;
    for group in positions.chunks(TOGETHER) {
        if !tell(source, style, group)? {
            break;
        }
    }
    Ok(())
}

/// Answers one position a line, as soon as no more lines are there.
fn from_lines<T: Tells>(source: &T, style: Style, input: impl Read) -> anyhow::Result<()> {
    let mut input = BufReader::with_capacity(BUFFER_BYTES, input);
    let mut positions = Vec::new();
    let mut line = String::new();
    for number in 1_u64.. {
        line.clear();
        let read = input.by_ref().take(LINE_BYTES_MAX + 1).read_line(&mut line);
        let bytes = read.context("cannot read stdin")?;
        if bytes as u64 > LINE_BYTES_MAX {
            tell(source, style, &positions)?;
            return Err(LongLine(number).into());
        }
        let text = line.trim();
        let parsed = if text.is_empty() || text.starts_with('#') {
            Ok(None)
        } else {
            text.parse::<T::Position>().map(Some)
        };
        match parsed {
            Ok(position) => positions.extend(position),
            Err(error) => {
                tell(source, style, &positions)?;
                return Err(error).with_context(|| format!("line {number} of stdin"));
            }
        }
        let last = bytes == 0;
        let waits = !input.buffer().contains(&b'\n');
        if last || waits || positions.len() == TOGETHER {
            if !tell(source, style, &positions)? || last {
                break;
            }
            positions.clear();
        }
    }
    Ok(())
}

/// Prints what the table says of `positions`; false if nobody listens any more.
fn tell<T: Tells>(source: &T, style: Style, positions: &[T::Position]) -> anyhow::Result<bool> {
    match source.texts(style, positions) {
        Ok(text) => crate::try_print(&text),
        // What can be told is told, up to the first position that cannot.
        Err(_) if positions.len() > 1 => {
            for position in positions {
                if !tell(source, style, std::slice::from_ref(position))? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Err(error) => {
            Err(error).with_context(|| format!("cannot tell about {}", T::name(&positions[0])))
        }
    }
}

fn texts(source: &impl Losing, style: Style, positions: &[Position]) -> Result<String, TableError> {
    let mut text = String::new();
    if style.moves {
        for (position, answer) in positions.iter().zip(answers(source, positions)?) {
            if style.json {
                tell_json(&mut text, &answer);
            } else {
                tell_answer(&mut text, position, &answer, style.drawn);
            }
        }
    } else {
        for (position, verdict) in positions.iter().zip(verdicts(source, positions)?) {
            if style.json {
                tell_json(&mut text, &verdict);
            } else {
                tell_verdict(&mut text, position, &verdict);
            }
        }
    }
    Ok(text)
}

fn value_texts(
    table: &Values,
    style: Style,
    positions: &[Partition],
) -> Result<String, TableError> {
    let mut text = String::new();
    if style.moves {
        for (position, answer) in positions.iter().zip(value_answers(table, positions)?) {
            if style.json {
                tell_json(&mut text, &answer);
            } else {
                tell_value(&mut text, position, &answer);
            }
        }
    } else {
        for (position, valued) in positions.iter().zip(valued(table, positions)?) {
            if style.json {
                tell_json(&mut text, &valued);
            } else {
                let name = drawing::name_of(position);
                writeln!(text, "{name} has the value {}", valued.value)
                    .expect("a string takes any text");
            }
        }
    }
    Ok(text)
}

fn tell_json(text: &mut String, answer: &impl Serialize) {
    *text += &serde_json::to_string(answer).expect("numbers and lists become JSON");
    text.push('\n');
}

fn tell_value(text: &mut String, position: &Partition, answer: &ValueAnswer) {
    let (name, value) = (drawing::name_of(position), answer.valued.value);
    let told = match value {
        0 => "losing, no move wins",
        _ => "winning, with moves to",
    };
    writeln!(text, "{name} has the value {value}: it is {told}").expect("a string takes any text");
    for (value, moves) in answer.moves_by_value.iter().enumerate() {
        let moves = drawing::moves(moves);
        writeln!(text, "  {value:<3} {moves}").expect("a string takes any text");
    }
}

fn tell_verdict(text: &mut String, position: &Position, verdict: &Verdict) {
    let said = if verdict.losing { "losing" } else { "winning" };
    writeln!(text, "{} is {said}", drawing::name(position)).expect("a string takes any text");
}

fn tell_answer(text: &mut String, position: &Position, answer: &Answer, drawn: bool) {
    let name = drawing::name(position);
    let mut told = if answer.verdict.losing {
        format!("{name} is losing: no move wins")
    } else if answer.winning_moves.is_empty() {
        format!("{name} is won: the other one took the poison")
    } else {
        let moves = drawing::moves(&answer.winning_moves);
        format!("{name} is winning, with {moves}")
    };
    told.push('\n');
    if drawn {
        told += &drawing::draw(position, &answer.winning_moves);
    }
    text.push_str(&told);
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
