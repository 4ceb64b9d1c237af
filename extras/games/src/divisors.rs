//! The game of divisors (Schuh 1952): of a number's divisors a move takes one and its multiples. Who takes 1 loses.
//!
//! The order is divisibility. The number is a multiple of all its divisors, so from 2 on who begins wins. For two
//! primes the divisors of p^a q^b are the cells of a board of Chomp of a+1 rows and b+1 columns; for three they are a
//! box.
//!
//! A position is a number, as `360`, or its divisors but for multiples of some, as `360/12,30`. A move is a divisor.

use std::collections::BTreeSet;

use crate::answer::{Choice, GameAnswer};
use crate::error::GameError;
use crate::game::Move;
use crate::orders::Elements;
use crate::text::{list, number, numbers};

const FORM: &str = "a number, as 360, or without the multiples of some divisors, as 360/12,30";

#[derive(Debug)]
pub(crate) struct Divisors;

fn divisors(number: u32) -> BTreeSet<u32> {
    let small = (1..=number.isqrt()).filter(|&divisor| number.is_multiple_of(divisor));
    small.flat_map(|small| [small, number / small]).collect()
}

fn common_divisor(one: u32, other: u32) -> u32 {
    match other {
        0 => one,
        _ => common_divisor(other, one % other),
    }
}

impl Elements for Divisors {
    const NAME: &'static str = "divisors";
    const WORD: &'static str = "divisors";
    const SIZE_MAX: (usize, &'static str) = (1_000_000_000, "for the number");
    const LARGEST: &'static str = "N";

    fn parse(&self, text: &str) -> Result<Vec<Move>, GameError> {
        let (whole, gone) = match text.split_once('/') {
            Some((whole, gone)) => (whole, numbers(gone, u32::MAX)),
            None => (text, Some(Vec::new())),
        };
        let whole = number(whole.trim(), u32::MAX).filter(|&whole| whole > 0);
        let found = whole.zip(gone).filter(|(whole, gone)| {
            let mut gone = gone.iter();
            gone.all(|&gone| whole.is_multiple_of(gone))
        });
        let (whole, gone) = found.ok_or_else(|| GameError::syntax(text, FORM))?;
        GameError::check(whole as usize, Self::SIZE_MAX.0, Self::SIZE_MAX.1)?;
        let all = divisors(whole).into_iter();
        let left = all.filter(|divisor| gone.iter().all(|gone| divisor % gone > 0));
        Ok(left.map(|divisor| vec![divisor]).collect())
    }

    /// The least number that has all these divisors, and the gone ones that are multiples of no other gone one.
    fn text(left: &[&Move]) -> String {
        let whole = left.iter().map(|divisor| divisor[0]);
        let whole = whole.fold(1, |all, one| all / common_divisor(all, one) * one);
        let mut gone: Vec<u32> = Vec::new();
        for divisor in divisors(whole) {
            let is_left = left.iter().any(|left| left[0] == divisor);
            if !is_left && gone.iter().all(|gone| divisor % gone > 0) {
                gone.push(divisor);
            }
        }
        match &gone[..] {
            [] => whole.to_string(),
            gone => format!("{whole}/{}", list(gone)),
        }
    }

    fn takes(lower: &[u32], upper: &[u32]) -> bool {
        upper[0].is_multiple_of(lower[0])
    }

    /// The divisors, and in brackets those that win.
    fn draw(answer: &GameAnswer) -> Vec<String> {
        let name = |choice: &Choice| match (choice.name[0], choice.losing) {
            (divisor, true) => format!("[{divisor}]"),
            (divisor, false) => divisor.to_string(),
        };
        let all: Vec<String> = answer.moves.iter().map(name).collect();
        all.join(" ").lines().map(str::to_owned).collect()
    }
}
