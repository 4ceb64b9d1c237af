//! `chomp query`: says which positions are losing, and what wins.

mod board;
mod columns;
mod input;
mod losing;
mod play;
mod sum;
mod typed;

use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::sync::mpsc;
use std::{iter, thread};

use anyhow::Context;
use chomp_query::{ValueAnswer, Valued, drawing, value_answers, valued};
use chomp_table::Partition;
use chomp_table::partition::AREA_MAX;
use chomp_table::position::{PositionError, TooManyTiles};
use chomp_table::values::Values;
use serde::Serialize;

use crate::exit::{Exit, usage};
use crate::failure;
use crate::flags::{SourceArgs, flag};
use crate::progress::{Display, blocking};
use crate::source::{self, NoTable, QueriedTable};
use board::Boards;
use input::Positions;
use losing::LosingAnswers;
use play::PlayArgs;

/// The meaning of the numbers in a position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Notation {
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
A position is its rows, longest first: 5,4,2,1, \"5 4 2 1\", [5, 4, 2, 1], {5,4,2,1}, 5+4+2+1, or 3^2,1 \
for 3,3,1; a rectangle: 8x10, or 8*10; or a word: 0b110100, or 0x34. In the shell, 5 4 2 1 is one \
position too.
On stdin each line is a position, and # begins a comment. If the first line names columns, the \
positions are in the column rows, or else word, of CSV with commas, semicolons or tabs, as chomp export \
and chomp box write it. Lines of --json are read back. A drawing has one row a line, and an empty line \
after the last. It begins with the poison, x, X, p or P, and has one character for each other cell, such \
as xoo, P## or x * *; or it is as chomp query draws. A cell that is taken has no character.
A move is the (row, column) of the cell that is taken, counted from the poison at (1,1). \
A table of Grundy values tells the value, and the moves to each smaller one.
Boards side by side are a sum, in quotes, as \"5,4,2,1 + 3,2 + 4x4\": a move takes a cell of one of \
them, but no poison, and who finds only poisons loses. Its value is the XOR of the Grundy values of the \
boards, that of the poison alone being 0; it needs no table, and may stand among positions, on stdin \
too. A text of nothing but single numbers, 3+2, is no sum but one position; in a sum a single row is [3]. \
With --numbers words each number is a board.
Positions that the table does not have, or all if there is none, are solved on the spot. Of more than 5 \
rows and columns these are the positions with at most 2^24 others inside, as 10x14, 8x24 or 13x13, and \
fewer if they have more than 256 cells: a few seconds at most. Of at most 5 rows or columns, 3x20000 \
takes seconds; 3x100000, 4x2500 and 5x500 take minutes; 200,000 cells in a row are the most.
With --keep-going the exit code is that of the first position without an answer: 2 if it is no position, \
5 if it is beyond the table, 1 if there is no table.

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
  chomp query --json --keep-going < positions.txt
  chomp export --format rows --out - | chomp query --no-moves")]
pub(crate) struct QueryArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// The positions [default: those on stdin, one a line]
    #[arg(value_name = "POSITION")]
    pub(crate) positions: Vec<String>,

    /// The meaning of a position's numbers
    #[arg(long, value_enum, default_value_t)]
    pub(crate) numbers: Notation,

    /// Say only whether a position is losing, or its value, without the moves; much faster for many positions
    #[arg(long, value_parser = flag)]
    pub(crate) no_moves: bool,

    #[command(flatten)]
    pub(crate) play: PlayArgs,

    /// Answer the other positions too if there is no answer to some: each of those gets a line on stderr
    #[arg(long, value_parser = flag)]
    pub(crate) keep_going: bool,

    /// Print one JSON object for each position, one a line
    #[arg(long, value_parser = flag)]
    pub(crate) json: bool,
}

/// The most positions of a group. A group reads each frame of the table that it needs once.
const TOGETHER: usize = 1 << 18;
/// The most positions of a group with their moves, which take 5 KB a position.
const TOGETHER_WITH_MOVES: usize = 1 << 14;

pub(crate) async fn run(args: QueryArgs, display: &Display) -> anyhow::Result<()> {
    let texts = typed::positions(&args, display)?;
    let asked = source::queried(&args.source, display.overrides()).await;
    let table = match asked {
        Ok(table) => Ok(table),
        Err(error) => Err(error.downcast::<NoTable>()?),
    };
    if table.is_err() && args.source.is_named {
        let place = &args.source.table;
        display.say(&format!(
            "{place} has no table: positions are solved without one"
        ));
    }
    if texts.is_empty() && io::stdin().is_terminal() {
        display.say("positions are read from here: write one a line, as 5,4,2,1 or 8x10, and end with Ctrl-D");
    }
    let display = display.clone();
    blocking(move || {
        let table = match table {
            Ok(QueriedTable::Values(_)) if args.play.is_wanted() => {
                return Err(usage(
                    "--depth and --line are told of positions in a table of losing positions",
                ));
            }
            Ok(QueriedTable::Values(table)) => {
                return Answerer::new(&*table, &args, &display).answer(&texts);
            }
            Ok(QueriedTable::Losing(table)) => Ok(table),
            Err(missing) => Err(missing),
        };
        let display = &display;
        Answerer::new(&LosingAnswers { table, display }, &args, display).answer(&texts)
    })
    .await
}

trait AnswerSource {
    /// Whether the position can be looked up with others; positions that must be solved are answered one at a time.
    fn has(&self, board: &Boards) -> bool;

    fn texts(&self, style: Style, boards: &[Boards]) -> anyhow::Result<String>;
}

impl AnswerSource for Values {
    fn has(&self, _: &Boards) -> bool {
        true
    }

    fn texts(&self, style: Style, boards: &[Boards]) -> anyhow::Result<String> {
        let partition = |board: &Boards| Partition::new(board.rows().to_vec());
        let positions = boards.iter().map(partition).collect::<Option<Vec<_>>>();
        let positions = positions.ok_or_else(|| PositionError::from(TooManyTiles(AREA_MAX)))?;
        Ok(if style.moves {
            let answers = value_answers(self, &positions)?;
            told(style, boards, answers, value_answer_text)
        } else {
            told(style, boards, valued(self, &positions)?, value_text)
        })
    }
}

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
    /// As [`Form::Text`], with a drawing of each board.
    WithPicture,
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

struct Answerer<'a, T> {
    source: &'a T,
    args: &'a QueryArgs,
    style: Style,
    display: &'a Display,
    /// The number of positions without an answer so far, and the exit code for the first of them.
    unanswered: u64,
    code: Exit,
}

impl<'a, T: AnswerSource> Answerer<'a, T> {
    fn new(source: &'a T, args: &'a QueryArgs, display: &'a Display) -> Answerer<'a, T> {
        let style = Style {
            form: match args.json {
                true => Form::Json,
                false if io::stdout().is_terminal() => Form::WithPicture,
                false => Form::Text,
            },
            moves: !args.no_moves,
            play: args.play,
        };
        Answerer {
            source,
            args,
            style,
            display,
            unanswered: 0,
            code: Exit::Done,
        }
    }

    /// Answers the positions in these texts, or on stdin if there are none.
    fn answer(mut self, texts: &[String]) -> anyhow::Result<()> {
        if texts.is_empty() {
            self.answer_all(Positions::new(io::stdin(), self.args.numbers))?;
        } else {
            let parse = |text: &String| {
                let position = self.args.numbers.parse(text);
                position.with_context(|| format!("the position \"{text}\""))
            };
            let mut positions: Vec<_> = texts.iter().map(parse).collect();
            if let (false, Some(wrong)) = (
                self.args.keep_going,
                positions.iter().position(Result::is_err),
            ) {
                positions = vec![positions.swap_remove(wrong)];
            }
            self.answer_all(positions.into_iter().map(|position| (0, position)))?;
        }
        match self.unanswered {
            0 => Ok(()),
            1 => Err(self.code.error("one position has no answer")),
            many => Err(self.code.error(format!("{many} positions have no answer"))),
        }
    }

    /// Answers positions, each with the number of its line on stdin, or 0. While a group is looked up, another thread
    /// reads the next one. So a slow writer gets each answer at once, and a fast writer gets large groups.
    fn answer_all(
        &mut self,
        lines: impl Iterator<Item = (u64, anyhow::Result<Boards>)> + Send + 'static,
    ) -> anyhow::Result<()> {
        let (together, goes_on) = (self.style.together(), self.args.keep_going);
        let (sender, receiver) = mpsc::sync_channel(together);
        let reader = thread::spawn(move || {
            for (line, position) in lines {
                let is_last = position.is_err() && !goes_on;
                if sender.send((line, position)).is_err() || is_last {
                    break;
                }
            }
        });
        while let Ok(first) = receiver.recv() {
            let more = receiver.try_iter().take(together - 1);
            let mut positions = Vec::new();
            for (line, position) in iter::once(first).chain(more) {
                match position {
                    Ok(position) => positions.push((line, position)),
                    Err(error) => {
                        if !self.tell(std::mem::take(&mut positions))? {
                            return Ok(());
                        }
                        self.fail(error)?;
                    }
                }
            }
            if !self.tell(positions)? {
                return Ok(());
            }
        }
        reader.join().expect("reading lines does not panic");
        Ok(())
    }

    /// Prints the answers for positions, each with the number of its line on stdin, or 0. False if the reader of stdout
    /// went away.
    fn tell(&mut self, positions: Vec<(u64, Boards)>) -> anyhow::Result<bool> {
        let (lines, positions): (Vec<_>, Vec<_>) = positions.into_iter().unzip();
        let source = self.source;
        let mut start = 0;
        let is_found = |board: &Boards| !board.is_sum() && source.has(board);
        for group in positions.chunk_by(|one, next| is_found(one) && is_found(next)) {
            for group in group.chunks(self.style.together()) {
                let lines = &lines[start..][..group.len()];
                start += group.len();
                if !self.tell_group(lines, group)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn tell_group(&mut self, lines: &[u64], positions: &[Boards]) -> anyhow::Result<bool> {
        let texts = match positions {
            [boards] if boards.is_sum() => sum::text(self.style, boards),
            boards => self.source.texts(self.style, boards),
        };
        match texts {
            Ok(text) => crate::try_print(&text),
            // Answers all positions before the first that fails.
            Err(_) if positions.len() > 1 => {
                let half = positions.len() / 2;
                Ok(self.tell_group(&lines[..half], &positions[..half])?
                    && self.tell_group(&lines[half..], &positions[half..])?)
            }
            Err(error) => {
                let text = format!("cannot tell about {}", positions[0].name());
                self.fail(error.context(match lines[0] {
                    0 => text,
                    line => format!("line {line} of stdin: {text}"),
                }))?;
                Ok(true)
            }
        }
    }

    /// Fails with this error; with `--keep-going`, only reports it if it concerns one position.
    fn fail(&mut self, error: anyhow::Error) -> anyhow::Result<()> {
        let code = failure::exit_of(&error);
        let is_of_position =
            matches!(code, Exit::Usage | Exit::Refused) || source::is_missing(&error);
        if !self.args.keep_going || !is_of_position {
            return Err(error);
        }
        self.display.say_in_turn(&format!("{error:#}"));
        if self.unanswered == 0 {
            self.code = code;
        }
        self.unanswered += 1;
        Ok(())
    }
}

/// The answers to all positions, with perfect play if it is wanted: a line of JSON each, or the text that `text` makes.
fn told<A: Serialize>(
    style: Style,
    boards: &[Boards],
    answers: Vec<A>,
    text: impl Fn(&Boards, &A) -> String,
) -> String {
    let told = boards.iter().zip(answers).map(|(board, answer)| {
        let play = style.play.find(board.rows());
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
        text(board, &answer) + &play.map_or_else(String::new, |play| play.text())
    });
    told.collect()
}

fn value_text(board: &Boards, valued: &Valued) -> String {
    let name = board.name();
    format!("{name} has the value {}\n", valued.value)
}

fn value_answer_text(board: &Boards, answer: &ValueAnswer) -> String {
    let (name, value) = (board.name(), answer.valued.value);
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
