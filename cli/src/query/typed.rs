//! Positions on a command line, which a shell may have split at their spaces.

use chomp_table::position::TIMES;

use super::{Notation, QueryArgs};
use crate::exit::usage;
use crate::progress::Display;

/// The positions in the arguments. Joins arguments that are only parts of a position, such as `[5,` and `4]` or `8`,
/// `x` and `10`, and single numbers. Says so where numbers may have been meant as several positions or boards.
pub(super) fn positions(args: &QueryArgs, display: &Display) -> anyhow::Result<Vec<String>> {
    if args.numbers == Notation::Words {
        return Ok(args.positions.clone());
    }
    let positions = joined(&args.positions);
    for text in &positions {
        let (sign, several) = if text.contains('+') {
            ('+', "a sum of boards")
        } else {
            (' ', "several positions")
        };
        let parts: Vec<&str> = text.split(sign).map(str::trim).collect();
        if parts.len() < 2 || !parts.iter().all(|part| is_number(part)) {
            continue;
        }
        let listed = parts.join(",");
        let single = match sign {
            '+' => format!("[{}]", parts.join("] + [")),
            _ => format!("{},0", parts.join(",0 ")),
        };
        if args.numbers.parse(text).is_err() {
            return Err(usage(format!(
                "{text} is no position: write the rows of one position longest first, as 5,4,2,1, or {several} as \
                 {single}"
            )));
        }
        display.say(&format!(
            "{text} is one position here, {listed}; write {single} for {several}"
        ));
    }
    Ok(positions)
}

fn joined(arguments: &[String]) -> Vec<String> {
    let mut positions = Vec::<String>::new();
    let mut before = "";
    for argument in arguments {
        let is_part = |last: &&mut String| goes_on(last, before, argument);
        match positions.last_mut().filter(is_part) {
            Some(last) => *last = format!("{last} {argument}"),
            None => positions.push(argument.clone()),
        }
        before = argument;
    }
    positions
}

/// Whether an argument belongs to the position that the ones before it began, of which `before` is the last.
fn goes_on(last: &str, before: &str, next: &str) -> bool {
    let is_sign = |sign: char| ",+^".contains(sign) || TIMES.contains(&sign);
    let count = |brackets| last.matches::<&[char]>(brackets).count();
    count(&['[', '(', '{']) > count(&[']', ')', '}'])
        || last.ends_with(is_sign)
        || next.starts_with(is_sign)
        || last.split(' ').all(is_number) && is_number(before) && is_number(next)
}

/// Whether a text is a number, which may be repeated, such as 3^2.
fn is_number(text: &str) -> bool {
    let is_digit = |char: char| char.is_ascii_digit() || char == '^';
    !text.is_empty() && text.chars().all(is_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_positions_are_put_together() {
        for (arguments, expected) in [
            ("5,4,2,1|8x10|0x34", "5,4,2,1|8x10|0x34"),
            ("[5,|4,|2,|1]|3,2|[1]", "[5, 4, 2, 1]|3,2|[1]"),
            ("(5|4)|{3,2|1}", "(5 4)|{3,2 1}"),
            ("5,|4,|2|8|x|10|8|×10|8*|10", "5, 4, 2|8 x 10|8 ×10|8* 10"),
            ("3|+|2|4,1|+|8x10", "3 + 2|4,1 + 8x10"),
            ("8x10|5|4|2|3,1|7", "8x10|5 4 2|3,1|7"),
            ("3^2|1|2,2", "3^2 1|2,2"),
            // In quotes each is a whole.
            ("5 4|2 1", "5 4|2 1"),
            ("5 4|2|1|3 1", "5 4|2 1|3 1"),
            ("5|4 2", "5|4 2"),
            ("|cake|", "|cake|"),
        ] {
            let arguments: Vec<String> = arguments.split('|').map(str::to_owned).collect();
            assert_eq!(joined(&arguments).join("|"), expected);
        }
    }
}
