//! Positions on a command line, which a shell may have split at their spaces.

use chomp_table::position::TIMES;

use super::{Notation, QueryArgs};
use crate::exit::usage;
use crate::progress::Display;

/// The positions in the arguments. Joins arguments that are only parts of a position, as `[5,` and `4]` or `8`, `x` and
/// `10`. Joins single numbers too, and tells the user so.
pub(super) fn positions(args: &QueryArgs, display: &Display) -> anyhow::Result<Vec<String>> {
    if args.numbers == Notation::Words {
        return Ok(args.positions.clone());
    }
    let positions = joined(&args.positions);
    for text in positions
        .iter()
        .filter(|text| is_numbers(text) && text.contains(' '))
    {
        let listed = text.replace(' ', ",");
        let single: Vec<String> = text.split(' ').map(|part| format!("{part},0")).collect();
        let single = single.join(" ");
        if args.numbers.parse(text).is_err() {
            return Err(usage(format!(
                "{text} is no position: write the rows of one position longest first, as 5,4,2,1, or several \
                 positions as {single}"
            )));
        }
        display.say(&format!(
            "{text} is one position here, {listed}; write {single} for several positions"
        ));
    }
    Ok(positions)
}

fn joined(arguments: &[String]) -> Vec<String> {
    let mut positions = Vec::<String>::new();
    for argument in arguments {
        match positions.last_mut().filter(|last| goes_on(last, argument)) {
            Some(last) => *last = format!("{last} {argument}"),
            None => positions.push(argument.clone()),
        }
    }
    positions
}

/// Whether an argument belongs to the position that the one before it began.
fn goes_on(last: &str, next: &str) -> bool {
    let is_sign = |sign: char| ",+^".contains(sign) || TIMES.contains(&sign);
    let count = |brackets| last.matches::<&[char]>(brackets).count();
    count(&['[', '(', '{']) > count(&[']', ')', '}'])
        || last.ends_with(is_sign)
        || next.starts_with(is_sign)
        || is_numbers(last) && is_numbers(next)
}

/// Whether a text is a number, or several; each may be repeated, as 3^2.
fn is_numbers(text: &str) -> bool {
    let is_digit = |char: char| char.is_ascii_digit() || char == '^';
    text.split(' ')
        .all(|part| !part.is_empty() && part.chars().all(is_digit))
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
            ("|cake|", "|cake|"),
        ] {
            let arguments: Vec<String> = arguments.split('|').map(str::to_owned).collect();
            assert_eq!(joined(&arguments).join("|"), expected);
        }
    }
}
