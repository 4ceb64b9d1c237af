//! `chomp query`: looks up positions in a table.

mod few;
mod line;
mod lines;
mod sum;

use std::fmt::Write;
use std::io::{self, IsTerminal, Read};
use std::str::FromStr;
use std::sync::mpsc;
use std::{iter, thread};

use anyhow::Context;
use chomp_query::{
    Answer, PositionVerdict, ValueAnswer, Valued, answers, drawing, value_answers, valued, verdicts,
};
use chomp_table::position::PositionError;
use chomp_table::values::Values;
use chomp_table::{Partition, Position, TableError};
use serde::Serialize;

use crate::exit::usage;
use crate::flags::{SourceArgs, flag};
use crate::progress::{Display, blocking};
use crate::source::{self, LosingTable, QueriedTable};
pub(crate) use line::{INSIDE_MAX, too_many};
use line::{Play, PlayArgs};
use lines::Positions;

/// The meaning of the numbers in a position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Numbers {
    /// The length of a row; a rectangle is rows x columns
    #[default]
    Rows,
    /// The length of a column; a rectangle is columns x rows
    Columns,
    /// The word of the position
    Words,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A position is its rows, longest first, as 5,4,2,1 or 5 4 2 1 or [5, 4, 2, 1]; a rectangle, as 8x10; \
or a word, as 0b110100 or 0x34. On stdin there may also be drawings, one row of ooo a line with an \
empty line after the last, and what chomp export writes in the formats rows and, with --numbers \
words, words. A move is the (row, column) of the cell that is taken, counted from the poison at (1,1). \
A table of Grundy values tells the value, and the moves to each smaller one.
Boards side by side are a sum, in quotes, as \"5,4,2,1 + 3,2 + 4x4\": a move takes a cell of one of \
them, but no poison, and who finds only poisons loses. Its value is the XOR of the Grundy values of the \
boards, that of the poison alone being 0; it needs no table. A text of nothing but single numbers, 3+2, \
is no sum but one position; in a sum a single row is [3]. With --numbers words each number is a board.
Positions on the command line need no table if all have at most 5 rows of at most 200,000 cells each, \
or as few columns: 3x20000 takes seconds; 3x100000, 4x2500 and 5x500 take minutes.

Examples:
  chomp query 8x10
  chomp query --table shard-0000.zst 5,4,2,1 0b110100
  chomp query --table chomp-values 5,4,2,1
  chomp query --table http://127.0.0.1:7172 8x10
  chomp query --table s3://bucket/tables 8x10
  chomp query --depth --line 8x10
  chomp query 3000,1200,700,12
  chomp query \"5,4,2,1 + 3,2 + 4x4\"
  chomp query --numbers columns 4,3,2,2,1
  chomp query --numbers words 346
  chomp query --json < positions.txt
  chomp export --format rows --out - | chomp query --no-moves")]
pub(crate) struct QueryArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// The positions [default: those on stdin, one a line]
    #[arg(value_name = "POSITION")]
    pub(crate) positions: Vec<String>,

    /// The meaning of a position's numbers
    #[arg(long, value_enum, default_value_t)]
    pub(crate) numbers: Numbers,

    /// Say only whether a position is losing, or its value, without the moves; much faster for many positions
    #[arg(long, value_parser = flag)]
    pub(crate) no_moves: bool,

    #[command(flatten)]
    pub(crate) play: PlayArgs,

    /// Print one JSON object for each position, one a line
    #[arg(long, value_parser = flag)]
    pub(crate) json: bool,
}

/// How many positions are looked up together. A group reads each part of the table that it needs once.
const TOGETHER: usize = 1 << 18;
/// How many are looked up together with their moves, which take 5 KB a position.
const TOGETHER_WITH_MOVES: usize = 1 << 14;

pub(crate) async fn run(args: QueryArgs, display: &Display) -> anyhow::Result<()> {
    if let Some(sums) = sum::sums(&args)? {
        return sum::run(sums, &args, display).await;
    }
    let asked = source::queried(&args.source, display.haste()).await;
    let covered = match &asked {
        Ok(QueriedTable::Losing(table)) => table.0.bits(),
        Err(error) if source::is_missing(error) => 0,
        _ => u32::MAX,
    };
    if let Some(positions) = few::beyond(&args, covered) {
        return few::run(positions, &args, display).await;
    }
    let asked = asked.or_else(|error| args.check().and(Err(error)))?;
    if args.positions.is_empty() && io::stdin().is_terminal() {
        display.say("positions are read from here: write one a line, as 5,4,2,1 or 8x10, and end with Ctrl-D");
    }
    blocking(move || match asked {
        QueriedTable::Losing(table) => all(&table, &args),
        QueriedTable::Values(_) if args.play.is_wanted() => Err(usage(
            "--depth and --line are told of positions in a table of losing positions",
        )),
        QueriedTable::Values(table) => all(&*table, &args),
    })
    .await
}

impl QueryArgs {
    /// The position of an argument.
    fn position<P>(&self, text: &str) -> anyhow::Result<P>
    where
        P: FromStr<Err = PositionError> + ToString,
    {
        let position = self.numbers.parse(text);
        position.with_context(|| format!("the position \"{text}\""))
    }

    /// Refuses arguments that are positions of no table.
    fn check(&self) -> anyhow::Result<()> {
        let of_losing = |text: &str| self.position::<Position>(text).map(drop);
        let of_values = |text: &str| self.position::<Partition>(text).map(drop);
        let check =
            |text: &String| of_losing(text).or_else(|error| of_values(text).map_err(|_| error));
        self.positions.iter().try_for_each(check)
    }
}

/// A table of some kind that answers queries.
trait Tells {
    type Position: FromStr<Err = PositionError> + ToString + Send + 'static;

    fn name(position: &Self::Position) -> String;

    fn texts(&self, style: Style, positions: &[Self::Position]) -> Result<String, TableError>;
}

impl Tells for LosingTable {
    type Position = Position;

    fn name(position: &Position) -> String {
        drawing::name(position)
    }

    fn texts(&self, style: Style, positions: &[Position]) -> Result<String, TableError> {
        let play = |position: &Position| style.play.find(position.rows());
        Ok(if style.moves {
            let answers = answers(self, positions)?;
            let text = |position: &Position, answer: &Answer| {
                let moves = &answer.winning_moves;
                let text = answer_text(&drawing::name(position), answer.verdict.losing, moves);
                match style.form {
                    Form::Drawn => text + &drawing::draw(position, moves),
                    Form::Json | Form::Text => text,
                }
            };
            told(style, positions, answers, text, play)
        } else {
            let verdicts = verdicts(self, positions)?;
            let text = |position: &Position, verdict: &PositionVerdict| {
                verdict_text(&drawing::name(position), verdict.losing)
            };
            told(style, positions, verdicts, text, play)
        })
    }
}

impl Tells for Values {
    type Position = Partition;

    fn name(position: &Partition) -> String {
        drawing::name_of(position)
    }

    fn texts(&self, style: Style, positions: &[Partition]) -> Result<String, TableError> {
        let no_play = |_: &Partition| None;
        Ok(if style.moves {
            let answers = value_answers(self, positions)?;
            told(style, positions, answers, value_answer_text, no_play)
        } else {
            let values = valued(self, positions)?;
            told(style, positions, values, value_text, no_play)
        })
    }
}

/// How answers are told.
#[derive(Clone, Copy, Debug)]
struct Style {
    form: Form,
    moves: bool,
    play: PlayArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Json,
    Text,
    /// With a drawing of each board.
    Drawn,
}

impl Style {
    fn together(self) -> usize {
        if self.play.is_wanted() {
            1
        } else if self.moves {
            TOGETHER_WITH_MOVES
        } else {
            TOGETHER
        }
    }
}

fn all<T: Tells>(source: &T, args: &QueryArgs) -> anyhow::Result<()> {
    let style = Style {
        form: match args.json {
            true => Form::Json,
            false if io::stdout().is_terminal() => Form::Drawn,
            false => Form::Text,
        },
        moves: !args.no_moves,
        play: args.play,
    };
    if args.positions.is_empty() {
        let positions = Positions::new(io::stdin(), args.numbers);
        return from_lines(source, style, positions);
    }
    let positions = args.positions.iter().map(|text| args.position(text));
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
        // Answers all positions before the first that fails.
        Err(_) if positions.len() > 1 => {
            let (first, rest) = positions.split_at(positions.len() / 2);
            Ok(tell(source, style, first)? && tell(source, style, rest)?)
        }
        Err(error) => {
            Err(error).with_context(|| format!("cannot tell about {}", T::name(&positions[0])))
        }
    }
}

/// The answers to all positions: a line of JSON each, or the text that `text` makes of it. With what `play` tells.
fn told<P, A: Serialize>(
    style: Style,
    positions: &[P],
    answers: Vec<A>,
    text: impl Fn(&P, &A) -> String,
    play: impl Fn(&P) -> Option<Play>,
) -> String {
    let told = positions.iter().zip(answers).map(|(position, answer)| {
        let play = play(position);
        if style.form == Form::Json {
            let line = match play {
                None => serde_json::to_string(&answer),
                Some(play) => serde_json::to_value(&answer).map(|mut told| {
                    play.add_to(&mut told);
                    told.to_string()
                }),
            };
            return line.expect("numbers and lists become JSON") + "\n";
        }
        text(position, &answer) + &play.map_or_else(String::new, |play| play.text())
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

fn verdict_text(name: &str, losing: bool) -> String {
    let said = if losing { "losing" } else { "winning" };
    format!("{name} is {said}\n")
}

fn answer_text(name: &str, losing: bool, winning_moves: &[(u32, u32)]) -> String {
    if losing {
        format!("{name} is losing: no move wins\n")
    } else if winning_moves.is_empty() {
        format!("{name} is won: the other one took the poison\n")
    } else {
        let moves = drawing::moves(winning_moves);
        format!("{name} is winning, with {moves}\n")
    }
}

#[cfg(test)]
mod tests {
    use chomp_query::Losing;

    use super::*;

    /// Positions of at most 4 cells in a row, by hand.
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
        let tell = |texts: [&str; 3], moves, form, depth| {
            let positions = texts.map(|text| text.parse().unwrap());
            let line = false;
            let play = PlayArgs { depth, line };
            let style = Style { form, moves, play };
            LosingTable(Box::new(Rows))
                .texts(style, &positions)
                .unwrap()
        };
        let told = |moves, form| tell(["4", "1", "0"], moves, form, false);
        assert_eq!(
            told(true, Form::Text),
            "4 is winning, with (1,2)\n1 is losing: no move wins\n\
             0 is won: the other one took the poison\n"
        );
        assert_eq!(
            told(true, Form::Drawn),
            "4 is winning, with (1,2)\nx O . .\n1 is losing: no move wins\nx\n\
             0 is won: the other one took the poison\n"
        );
        assert_eq!(
            told(false, Form::Drawn),
            "4 is winning\n1 is losing\n0 is winning\n"
        );
        let lines = told(true, Form::Json);
        let first: serde_json::Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
        let expected = serde_json::json!({
            "rows": [4], "word": 30, "bits": 5, "area": 4, "losing": false,
            "winning_moves": [[1, 2]], "losing_positions": [[1]], "reply": [1, 2],
        });
        assert_eq!(first, expected);
        assert_eq!(
            told(false, Form::Json).lines().nth(1).unwrap(),
            r#"{"rows":[1],"word":2,"bits":2,"area":1,"losing":true}"#
        );
        let deep = |form| tell(["4", "1", "16x16"], false, form, true);
        assert_eq!(
            deep(Form::Text),
            "4 is winning\n  2 moves to the end, if the winner hurries and the loser delays\n\
             1 is losing\n  1 move to the end, if the winner hurries and the loser delays\n\
             16x16 is winning\n  how many moves to the end is not told: 601,080,390 positions are inside, more than \
             16,777,216\n"
        );
        for (line, expected) in deep(Form::Json).lines().zip(["2", "1", "null"]) {
            let depth = format!("\"depth\":{expected},");
            assert!(line.contains(&depth), "{line}");
        }
    }
}
