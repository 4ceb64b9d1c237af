//! `chomp game`: small games beside Chomp.

use clap::builder::PossibleValuesParser;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, IsTerminal};

use anyhow::{Context, bail};
use chomp_games::{Effort, GameAnswer, GameError, GameList, LosingList, Move, Poisons};

use crate::exit::usage;
use crate::flags::{flag, number};
use crate::lines::{Lines, without_comment};
use crate::progress::Display;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Games:
  NAME         POSITION     means
  ichomp       4x4/3,1/2    up to four boards, by rows; the last cell wins
  poisons      3x8@1,1@2,2  a board, and the cells (row, column) that lose
  nim          3,4,5        heaps; 3,4,5@misere if the last counter loses
  towers       1-8,3-5      each column: the row of your tower, and the other's
  horse        4,7          row and column of the piece, (1,1) being upper left
  space        3x3x4        a box, or heights by rows, 4,4,2/3,1; (1,1,1) loses
  divisors     360/12,30    all divisors, but no multiples of 12 or 30; 1 loses
  crossed      4x5@2,3@4,5  a board, and the cells not on it; (1,1) loses
  transfinite  w,w,5        rows, w for an endless one; w,1... goes on downwards

A move is (row, column) of a cell; of ichomp (quadrant, row, column), of space (row, column, layer), \
of nim (heap, what is left), of towers (column, new row), of divisors the divisor.

--losing N lists positions of at most 16 cells (ichomp), 1000 columns in three rows (poisons), 40 \
counters (nim), 8 columns (towers), 100 rows and columns (horse), 4 rows, columns and layers (space), \
10 rows and columns (crossed), 30 cells (transfinite, after the three without end); of divisors it \
lists those that come of N.

Examples:
  chomp game nim 3,4,5
  chomp game ichomp 4x4/3,1/2 4x4/4x4
  chomp game poisons 3x8@1,1@2,2 --json
  chomp game poisons < positions.txt
  chomp game divisors 360
  chomp game poisons @1,2@2,1 --losing 150
  chomp game poisons @1,1@2,2 --losing 150 --fix 1=50")]
pub(crate) struct GameArgs {
    /// The game
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(chomp_games::NAMES))]
    pub(crate) name: String,

    /// The positions [default: those on stdin, one a line]; with --losing the rules alone, as @misere
    #[arg(value_name = "POSITION")]
    pub(crate) positions: Vec<String>,

    /// List the losing positions up to this size
    #[arg(long, value_name = "N", value_parser = number::<u32>(0..=u32::MAX.into()))]
    pub(crate) losing: Option<u32>,

    /// Of poisons: draw the losing positions in which one row has this length, the others being the axes
    #[arg(long, value_name = "ROW=LENGTH", requires = "losing")]
    pub(crate) fix: Option<String>,

    /// Print one JSON object for each position, one a line, or one for the whole list
    #[arg(long, value_parser = flag)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &GameArgs, display: &Display) -> anyhow::Result<()> {
    if let Some(size) = args.losing {
        return crate::print(&list(args, size)?);
    }
    let is_typed = !args.positions.is_empty();
    let positions: Box<dyn Iterator<Item = (u64, anyhow::Result<String>)>> = if is_typed {
        Box::new(
            args.positions
                .iter()
                .map(|position| (0, Ok(position.clone()))),
        )
    } else {
        if io::stdin().is_terminal() {
            display.say("positions are read from here: write one a line, and end with Ctrl-D");
        }
        Box::new(Lines::new(io::stdin()))
    };
    // A game keeps what it has found out for the next position.
    let mut games = HashMap::new();
    for (line, position) in positions {
        let position = position?;
        let position = without_comment(&position);
        if position.is_empty() && !is_typed {
            continue;
        }
        let (rows, rules) = position.split_once('@').unwrap_or((position, ""));
        let wrong = || match line {
            0 => format!("the position \"{position}\""),
            line => format!("line {line} of stdin: the position \"{position}\""),
        };
        let game = match games.entry(rules.to_owned()) {
            Entry::Occupied(game) => game.into_mut(),
            Entry::Vacant(place) => {
                let game = chomp_games::open(&args.name, rules, Effort::USUAL);
                place.insert(game.with_context(wrong)?)
            }
        };
        let stray = chomp_games::stray_cell(&args.name, rows, rules).with_context(wrong)?;
        if let Some(stray) = stray {
            return Err(usage(format!("{}: {stray}", wrong())));
        }
        let answer = game.answer(rows).with_context(wrong)?;
        let text = if args.json {
            serde_json::to_string(&answer)? + "\n"
        } else {
            tell(&answer)
        };
        if !crate::try_print(&text)? {
            break;
        }
    }
    Ok(())
}

fn tell(answer: &GameAnswer) -> String {
    let said = match (answer.over, answer.losing) {
        (true, true) => "is lost: there is no move".to_owned(),
        (true, false) => "is won: the other one has lost".to_owned(),
        (false, true) => "is losing: no move wins".to_owned(),
        (false, false) => format!("is winning, with {}", moves(&answer.winning_moves)),
    };
    let mut lines = vec![format!("{} {said}", answer.position)];
    lines.extend(answer.value.map(|value| format!("value {value}")));
    lines.extend(answer.explanation.iter().cloned());
    lines.join("\n") + "\n"
}

/// The moves as one line of text, as `(1,4,9) (2,5,6)`.
fn moves(moves: &[Move]) -> String {
    let name = |numbers: &Move| {
        let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
        format!("({})", numbers.join(","))
    };
    moves.iter().map(name).collect::<Vec<_>>().join(" ")
}

/// The losing positions up to a size, or their picture.
fn list(args: &GameArgs, size: u32) -> anyhow::Result<String> {
    let form = "with --losing nothing but rules, as @misere or @1,1@2,2";
    let rules = match &args.positions[..] {
        [] => "",
        [rules] if rules.starts_with('@') => &rules[1..],
        [text, ..] => bail!(GameError::Syntax(text.clone(), form)),
    };
    let (game, fixed) = (&args.name, &args.fix);
    let largest = match game.as_str() {
        "poisons" => format!("3x{size}"),
        _ => format!("{size}x{size}"),
    };
    if let Ok(Some(stray)) = chomp_games::stray_cell(game, &largest, rules) {
        return Err(usage(format!(
            "the largest board of --losing {size} is {largest}: {stray}"
        )));
    }
    let (losing, lines) = if let Some(fix) = fixed {
        if game != "poisons" {
            bail!(GameError::Syntax(fix.clone(), "--fix with poisons only"));
        }
        let (rows, lines) = Poisons::parse(rules, Effort::USUAL)?.picture(size, fix)?;
        (LosingList::Rows(rows), lines)
    } else {
        let lines = chomp_games::open(game, rules, Effort::USUAL)?.list(size)?;
        (LosingList::Positions(lines.clone()), lines)
    };
    if args.json {
        let list = GameList {
            game: game.clone(),
            rules: rules.to_owned(),
            size,
            fixed: fixed.clone(),
            losing,
        };
        return Ok(serde_json::to_string(&list)? + "\n");
    }
    Ok(lines.into_iter().map(|line| line + "\n").collect())
}
