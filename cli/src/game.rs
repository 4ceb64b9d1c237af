//! `chomp game`: small games beside Chomp.

use anyhow::{Context, bail};
use chomp_games::{Answer, GameError, Move, Poisons};
use serde_json::json;

use crate::args::GameArgs;
use crate::exit::Exit;

pub(crate) fn run(args: &GameArgs) -> anyhow::Result<Exit> {
    if let Some(size) = args.losing {
        crate::print(&list(args, size)?)?;
        return Ok(Exit::Done);
    }
    for position in &args.positions {
        let answer = chomp_games::answer(&args.name, position);
        let answer = answer.with_context(|| format!("the position \"{position}\""))?;
        let text = if args.json {
            serde_json::to_string(&answer)? + "\n"
        } else {
            tell(&answer)
        };
        if !crate::try_print(&text)? {
            break;
        }
    }
    Ok(Exit::Done)
}

fn tell(answer: &Answer) -> String {
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

/// Moves on a line, as `(1,4,9) (2,5,6)`.
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
    let (losing, lines) = if let Some(fix) = fixed {
        if game != "poisons" {
            bail!(GameError::Syntax(fix.clone(), "--fix with poisons only"));
        }
        let (points, lines) = Poisons::parse(rules)?.picture(size, fix)?;
        (json!(points), lines)
    } else {
        let lines = chomp_games::open(game, rules)?.list(size)?;
        (json!(lines), lines)
    };
    if args.json {
        let told =
            json!({"game": game, "rules": rules, "size": size, "fixed": fixed, "losing": losing});
        return Ok(told.to_string() + "\n");
    }
    Ok(lines.into_iter().map(|line| line + "\n").collect())
}
