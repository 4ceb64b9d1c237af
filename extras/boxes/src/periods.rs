//! How the first row follows the second one when the rows below stay as they are.
//!
//! # The mathematics
//!
//! For a tail T = (p₂, …) let v(q) = f(q, T) − q, with f as in [`few`](crate::few). If T is not dead, f is there for
//! all q: a move excludes one first row at the most, and there are finitely many that do not shorten the first one. S.
//! Byrnes (Poset game periodicity, Integers 3, 2003, G3) proved that v is periodic in the end. Where it begins is found
//! like this.
//!
//! v(q) is the least number that is neither in S(q) = {f(c, …) − q : c < q}, which moves in the second row exclude, nor
//! among the v′(q) of the tails that a move in a lower row leaves. S(q + 1) follows from S(q) and v(q). Suppose that
//! for all q ≥ a the v′ of those tails are periodic with a number M, or not there. If S(q) = S(q + M) for one q ≥ a,
//! then v(q + M) = v(q), so S(q + 1) = S(q + M + 1), and so on: v is periodic with M from q on. Let V be the largest v
//! up to q + M. Then S(q) has only f(c, …) − q of c ≥ q − V, and of such c < p₂ as have f(c, …) ≥ q. So **if v(c) =
//! v(c + M) for V values of c in a row, and what follows them is neither less than a nor than any f of the second kind, v
//! is periodic with M for ever.** (The longest f(p₂, …) of all tails before is at least as long as those of the second
//! kind.) Where v has the period P, and P divides M, from some place on to the end of such M values, it has it for
//! ever, too.
//!
//! So periods are proved for one tail after the other, in lexicographic order: M is a multiple of P and of the periods
//! of the tails before. If one of these is not proved, or second rows end too early, a period is only seen.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::few::{Few, Tail};

/// The behaviour of a tail as the second row grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Ending {
    /// The least period of the difference of the first two rows. None if nothing is losing in the end, or none was
    /// seen.
    pub period: Option<u32>,
    /// The first second row that has it, or with which nothing is losing any more. None if no period was seen.
    pub from: Option<u32>,
    /// Whether that is known of all second rows, or only of those that were looked at.
    pub proved: bool,
}

impl Ending {
    /// Whether nothing is losing in the end.
    pub fn is_dead(&self) -> bool {
        self.period.is_none() && self.from.is_some()
    }
}

/// The tails so far.
#[derive(Debug)]
pub struct Periods {
    few: Few,
    /// Index: the number of a tail.
    endings: Vec<Ending>,
    /// The longest first row of a position whose second row is as long as the third one.
    longest: u32,
}

impl Periods {
    /// Of no tail.
    pub fn new(few: Few) -> Periods {
        Periods {
            endings: Vec::new(),
            longest: 0,
            few,
        }
    }

    /// The tails so far, in lexicographic order.
    pub fn endings(&self) -> &[Ending] {
        &self.endings
    }

    /// How many tails have a period: proved, and only seen.
    pub fn counts(&self) -> BTreeMap<u32, (u64, u64)> {
        let mut counts = BTreeMap::<u32, (u64, u64)>::new();
        for ending in &self.endings {
            if let Some(period) = ending.period {
                let (proved, seen) = counts.entry(period).or_default();
                *if ending.proved { proved } else { seen } += 1;
            }
        }
        counts
    }

    /// Adds the next tail in lexicographic order, and says what becomes of it.
    pub fn add(&mut self, tail: &Tail) -> Ending {
        let ending = self.ending(tail);
        self.endings.push(ending);
        let first = tail.firsts.first().copied();
        self.longest = first.unwrap_or(0).max(self.longest);
        ending
    }

    fn ending(&self, tail: &Tail) -> Ending {
        let third = tail.rows[0];
        let end = |values: usize| third + u32::try_from(values).expect("a length");
        if tail.is_dead {
            return Ending {
                period: None,
                from: Some(end(tail.firsts.len())),
                proved: true,
            };
        }
        let found = (third..).zip(&tail.firsts);
        let found = found.take_while(|&(_, &first)| first > 0);
        let values: Vec<u32> = found.map(|(second, first)| first - second).collect();
        let largest = values.iter().copied().max().unwrap_or(0);
        let Some((length, repeats)) = period(&values, largest as usize) else {
            return Ending {
                period: None,
                from: None,
                proved: false,
            };
        };
        let start = end(values.len() - repeats);
        let (multiple, from) = self.below(tail).unwrap_or((u32::MAX, u32::MAX));
        let multiple = lcm(multiple, length);
        let from = from.max(self.longest + 1).max(start + largest);
        Ending {
            period: Some(length),
            from: Some(start),
            proved: from.saturating_add(multiple) <= end(values.len()),
        }
    }

    /// A common period of all tails that a move in a tail leaves, and its first second row. None if one is not proved.
    fn below(&self, tail: &Tail) -> Option<(u32, u32)> {
        let (mut multiple, mut from) = (1, 0);
        let rows = tail.rows.map(|length| length as usize);
        for row in 0..self.few.rows() - 2 {
            for cut in 0..rows[row] {
                let mut left = rows;
                for length in &mut left[row..] {
                    *length = cut.min(*length);
                }
                let ending = self.endings[self.few.number(&left)];
                if !ending.proved {
                    return None;
                }
                from = ending.from?.max(from);
                let period = ending.period.unwrap_or(1);
                if multiple % period > 0 {
                    multiple = lcm(multiple, period);
                }
            }
        }
        Some((multiple, from))
    }
}

/// The least period of more than `least` last values, three times at the least; and how many values at the end have it.
fn period(values: &[u32], least: usize) -> Option<(u32, usize)> {
    let end = values.len();
    // Index i: how many values before the last i are the same as the last ones.
    let mut same = vec![0; end / 3 + 1];
    // The last ones that were compared: they begin behind `begin`, and reach to `reach`, both counted from the end.
    let (mut begin, mut reach) = (0, 0);
    for length in 1..same.len() {
        let mut count = if length < reach {
            same[length - begin].min(reach - length)
        } else {
            0
        };
        while length + count < end && values[end - 1 - count] == values[end - 1 - length - count] {
            count += 1;
        }
        if length + count > reach {
            (begin, reach) = (length, length + count);
        }
        same[length] = count;
        if count >= least.max(2 * length) {
            return u32::try_from(length)
                .ok()
                .map(|period| (period, length + count));
        }
    }
    None
}

/// The least common multiple; the largest number instead of a larger one.
fn lcm(a: u32, b: u32) -> u32 {
    let (mut divisor, mut rest) = (a, b);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    (a / divisor).saturating_mul(b)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;
    use crate::few::FewSolver;

    /// All tails with third rows of at most `third` and second rows of at most `second` cells.
    fn tails(rows: usize, second: usize, third: usize) -> (Few, Vec<Tail>) {
        let mut most = vec![third; rows];
        (most[0], most[1]) = (2 * second, second);
        let few = Few::new(&most);
        let mut all = Vec::new();
        FewSolver::new(few.clone()).advance(usize::MAX, NonZeroUsize::MIN, |tails, _| {
            all.extend(tails);
            true
        });
        (few, all)
    }

    #[test]
    fn what_is_proved_holds_further_on() {
        for (rows, second, third, further) in [(3, 60, 30, 500), (4, 150, 12, 600), (5, 70, 6, 300)]
        {
            let (limits, some) = tails(rows, second, third);
            let (_, more) = tails(rows, further, third);
            let mut periods = Periods::new(limits);
            let mut proved = 0;
            for (tail, longer) in some.iter().zip(&more) {
                let ending = periods.add(tail);
                let place = |second: u32| (second - tail.rows[0]) as usize;
                let Ending {
                    from: Some(start),
                    proved: true,
                    ..
                } = ending
                else {
                    continue;
                };
                let Some(period) = ending.period else {
                    assert!(
                        longer.is_dead && longer.firsts.len() == place(start),
                        "{tail:?}"
                    );
                    continue;
                };
                let seconds = tail.rows[0]..;
                let values = seconds
                    .zip(&longer.firsts)
                    .map(|(second, first)| first - second);
                let values: Vec<u32> = values.collect();
                assert!(!longer.is_dead);
                let repeats = |place: usize| values[place] == values[place + period as usize];
                let end = values.len() - period as usize;
                assert!(
                    (place(start)..end).all(repeats),
                    "{:?} {ending:?}",
                    tail.rows
                );
                assert!(start == tail.rows[0] || !repeats(place(start) - 1));
                let last = &values[place(start)..];
                for shorter in 1..period as usize {
                    assert_ne!(last[shorter..], last[..last.len() - shorter], "{tail:?}");
                }
                proved += 1;
            }
            assert!(proved > 4, "{rows} rows: {proved}");
            let counted: u64 = periods.counts().values().map(|&(proved, _)| proved).sum();
            assert_eq!((counted, periods.endings().len()), (proved, some.len()));
        }
    }

    /// A third row, and the first rows for its second rows, as differences.
    fn tail(third: u32, values: impl IntoIterator<Item = u32>) -> Tail {
        let firsts = (third..).zip(values).map(|(second, value)| second + value);
        Tail {
            rows: [third, 0, 0],
            firsts: firsts.collect(),
            is_dead: false,
        }
    }

    /// The facts about made-up tails without which the period of the last one is not proved.
    #[test]
    fn a_period_is_proved_as_soon_as_it_follows() {
        let constant = |value| std::iter::repeat_n(value, 300);
        let dead = Tail {
            is_dead: true,
            ..tail(1, constant(1).take(39))
        };
        let late = constant(1)
            .take(19)
            .chain((0..300).map(|number| number % 3));
        let early = (0..300).map(|number| number % 3);
        let large = std::iter::once(59).chain(constant(1));
        let unproved = constant(200).take(100);
        for (before, values, end) in [
            // Behind the last second row that is not dead.
            (dead, constant(3).collect::<Vec<_>>(), Some(40 + 1)),
            // A whole period of what comes before.
            (tail(1, late.clone()), constant(3).collect(), Some(20 + 3)),
            // A whole one of both.
            (tail(1, late), [3, 4].repeat(150), Some(20 + 6)),
            // As many as the largest difference, and a period of what comes before.
            (tail(1, early), constant(30).collect(), Some(3 + 30 + 3)),
            // Behind the first rows of shorter second rows.
            (tail(1, large), constant(3).collect(), Some(61 + 1)),
            (tail(1, unproved), constant(3).collect(), None),
        ] {
            let before = [before, tail(2, constant(2))];
            assert_eq!(least_proved(&before, &values), end, "{before:?}");
        }
        // The second tail has a period that is seen: 33 values would prove it.
        let early = tail(1, (0..300).map(|number| number % 3));
        let shown = |count: usize| [early.clone(), tail(2, constant(30).take(count))];
        let last: Vec<u32> = constant(3).collect();
        assert_eq!(least_proved(&shown(32), &last), None);
        assert!(least_proved(&shown(33), &last).is_some());
    }

    /// The second row behind the values of the fourth tail with which its period is proved, after three others.
    fn least_proved(before: &[Tail; 2], values: &[u32]) -> Option<usize> {
        let is_proved = |count: &usize| {
            let mut periods = Periods::new(Few::new(&[900, 400, 3]));
            periods.add(&tail(0, std::iter::repeat_n(1, 300)));
            for tail in before {
                periods.add(tail);
            }
            let ending = periods.add(&tail(3, values[..*count].iter().copied()));
            ending.period.is_some() && ending.proved
        };
        let least = (0..300).find(is_proved)?;
        assert!((least..=300).all(|count| is_proved(&count)));
        Some(least + 3)
    }

    #[test]
    fn a_period_is_the_least_that_lasts() {
        let mut state = 7_u32;
        for case in 0..4000 {
            let values: Vec<u32> = (0..case % 23)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state >> 16) % 2
                })
                .collect();
            let least = case % 7;
            let by_definition = (1..=values.len() / 3).find_map(|length| {
                let end = values.len() - length;
                let pairs = (0..end)
                    .rev()
                    .take_while(|&at| values[at] == values[at + length]);
                let count = pairs.count();
                let lasts = count >= least && count >= 2 * length;
                lasts.then(|| (u32::try_from(length).unwrap(), length + count))
            });
            assert_eq!(period(&values, least), by_definition, "{values:?}");
        }
        assert_eq!((lcm(6, 4), lcm(u32::MAX, 2)), (12, u32::MAX));
    }
}
