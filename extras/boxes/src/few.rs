//! All losing positions of three, four or five rows, to thousands of columns.
//!
//! # The mathematics
//!
//! A position of m rows is p₀ ≥ p₁ ≥ … ≥ p₍ₘ₋₁₎ ≥ 0; rows of length 0 are not there. A move in row k to a length c < pₖ
//! cuts that row and all behind it to c. Call (p₁, …, p₍ₘ₋₁₎) the **lower rows**.
//!
//! **For given lower rows at most one first row is losing**: of two, the longer could move to the shorter. So all losing
//! positions are a function f of lower rows, or nothing. f(p₁, …) is the least p ≥ p₁, p ≥ 1, that no move excludes:
//!
//! * A move in a lower row k ≥ 1 to c leaves p₀ as it is. It leads to a losing position exactly if p₀ is f of the lower rows
//!   that it leaves. So it excludes one p₀ at the most.
//! * A move in row 0 to c ≥ p₁ leaves the lower rows. It leads to a losing position exactly if c is f of them: no p₀ that
//!   is larger than f is losing, which is the first sentence.
//! * A move in row 0 to c < p₁ leaves (c, min(p₁, c), min(p₂, c), …), whatever p₀ was. If one of these is losing, the lower
//!   rows are **dead**: there is no f of them.
//!
//! That the least p that is not excluded is losing needs no more: no move from it leads to a losing position, as those in
//! row 0 to p₁ ≤ c < p would make c = f, while c is excluded.
//!
//! # How it is computed
//!
//! Lower rows come in lexicographic order, p₁ in the outermost loop. What moves in row k exclude is kept from one pₖ to the
//! next: E(k, k) has for each tail (p₍ₖ₊₁₎, …) the set of f(p₁, …, pₖ₋₁, c, p₍ₖ₊₁₎, …) for all c with p₍ₖ₊₁₎ ≤ c < pₖ, which
//! are the moves that cut row k alone, and also those for c < p₍ₖ₊₁₎, which cut others as well. The latter do not depend on
//! pₖ, so they are put in once, when pₖ = p₍ₖ₊₁₎ begins: E(k, j), for j > k, has for each tail (p₍ⱼ₊₁₎, …) the set of f for
//! pₖ = … = pⱼ = c < the present pⱼ, again with those for c < p₍ⱼ₊₁₎. So where pₖ = … = pⱼ = p₍ⱼ₊₁₎ = x, E(k, j) of the
//! tail (x, …) begins as a copy of E(k, j + 1) of the rest of the tail. Whether lower rows are dead is kept likewise: D(j)
//! tells for each tail (p₍ⱼ₊₁₎, …) whether some (c, …, c, p₍ⱼ₊₁₎, …) with p₀ = … = pⱼ = c was losing.
//!
//! So f is the first zero from p₁ on of the union of m − 1 bitmaps, E(1, 1) to E(m − 1, m − 1).
//!
//! E(1, ·) and D are kept for all p₂, …; the others belong to one p₁. Threads take one p₁ after the other, and each stays
//! behind the thread with the p₁ before by some p₂: for these all is done that it needs.

#![expect(
    clippy::needless_range_loop,
    reason = "a row or a length is an index into several tables"
)]

use std::io::{self, Read, Write};
use std::num::NonZeroUsize;
use std::ops::{Range, RangeInclusive};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The fewest and the most rows.
pub const FEW_ROWS: RangeInclusive<usize> = 3..=5;

/// The tails that belong to one step of a thread: their number at the least.
const STEP: usize = 1 << 9;

/// The losing positions with the same second row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecondRow {
    /// The second row.
    pub second: usize,
    /// For each position the third row and all after it, then the first row. Ascending.
    pub positions: Vec<([u32; 3], u32)>,
}

/// All positions of few rows within some lengths.
#[derive(Clone, Debug)]
pub struct Few {
    /// The largest length of each row; they descend.
    most: Vec<usize>,
    /// Index d: the tails (`p_d`, …); one at index m, the empty one.
    depths: Vec<Tails>,
    /// The words of a bitmap of first rows.
    words: usize,
}

/// The tails that begin at one row, in lexicographic order, and where their bitmaps lie: those that begin with x have no
/// word for first rows below x.
#[derive(Clone, Debug, Default)]
struct Tails {
    /// Index x: the tails that begin with less than x.
    starts: Vec<usize>,
    /// Index x: the words of their bitmaps.
    places: Vec<usize>,
}

impl Tails {
    fn count(&self) -> usize {
        *self.starts.last().expect("at least one length")
    }

    fn words(&self) -> usize {
        *self.places.last().expect("at least one length")
    }
}

impl Few {
    /// All positions whose rows have at most these lengths.
    ///
    /// # Panics
    ///
    /// If there are not as many rows as [`FEW_ROWS`] has.
    pub fn new(most: &[usize]) -> Few {
        assert!(FEW_ROWS.contains(&most.len()), "few rows");
        let rows = most.len();
        let mut most = most.to_vec();
        for row in 1..rows {
            most[row] = most[row].min(most[row - 1]);
        }
        let words = most[0] / 64 + 1;
        let mut depths = vec![Tails::default(); rows + 1];
        depths[rows] = Tails {
            starts: vec![0, 1],
            places: vec![0, words],
        };
        for depth in (1..rows).rev() {
            let (mut starts, mut places) = (vec![0], vec![0]);
            for length in 0..=most[depth] {
                let rest = match most.get(depth + 1) {
                    Some(&next) => depths[depth + 1].starts[length.min(next) + 1],
                    None => 1,
                };
                starts.push(starts[length] + rest);
                places.push(places[length] + rest * (words - length / 64));
            }
            depths[depth] = Tails { starts, places };
        }
        Few {
            most,
            depths,
            words,
        }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.most.len()
    }

    /// The longest first row.
    pub fn columns(&self) -> usize {
        self.most[0]
    }

    /// The positions, the empty one included; 2^64 − 1 if there are more.
    ///
    /// # Panics
    ///
    /// If the rows do not all have the same limit.
    pub fn positions(&self) -> u64 {
        assert!(
            self.most.iter().all(|&most| most == self.most[0]),
            "a rectangle"
        );
        // binom(columns + rows, rows): each product is divided as soon as it can be.
        let choose = (1..=self.rows() as u128)
            .fold(1_u128, |all, row| all * (self.most[0] as u128 + row) / row);
        u64::try_from(choose).unwrap_or(u64::MAX)
    }

    /// The number of lower rows, of which each is looked at once.
    pub fn lower_rows(&self) -> u64 {
        self.depths[1].count() as u64
    }

    /// The bytes that solving takes with so many threads, beside what is done with the positions.
    pub fn memory(&self, threads: NonZeroUsize) -> u64 {
        let of_row = |row: usize| -> usize {
            let tails = &self.depths[row + 1..];
            tails
                .iter()
                .map(|tails| tails.words() * 8 + tails.count())
                .sum()
        };
        let own: usize = (2..self.rows()).map(of_row).sum();
        (of_row(1) + own * threads.get()) as u64
    }

    /// For the lower rows (p₁, …): where the bitmap of each tail lies among those of its depth, from the empty one at index
    /// m down to 2, and the number of the tail.
    fn places(&self, lower: &[usize; 4]) -> ([usize; 6], [usize; 6]) {
        let (mut places, mut numbers) = ([0; 6], [0; 6]);
        for depth in (2..self.rows()).rev() {
            let length = lower[depth - 1];
            let tails = &self.depths[depth];
            let rest = if depth + 1 == self.rows() {
                0
            } else {
                numbers[depth + 1]
            };
            numbers[depth] = tails.starts[length] + rest;
            places[depth] = tails.places[length] + rest * (self.words - length / 64);
        }
        (places, numbers)
    }
}

/// What moves in one row exclude: index j − k has E(k, j).
#[derive(Debug)]
struct Excluded(Vec<Vec<u64>>);

/// E(1, 1) and D(1) for the third rows of one step.
#[derive(Debug)]
struct Slab {
    thirds: Range<usize>,
    sets: Vec<u64>,
    dead: Vec<bool>,
}

/// E(1, j) and D(j) for j ≥ 2: only lower rows with p₁ = p₂ need them.
#[derive(Debug)]
struct Diagonal {
    sets: Excluded,
    dead: Vec<Vec<bool>>,
}

/// Finds all losing positions within [`Few`], second row after second row.
#[derive(Debug)]
pub struct FewSolver {
    few: Few,
    /// The second row that comes next.
    next: usize,
    slabs: Vec<Mutex<Slab>>,
    diagonal: Mutex<Diagonal>,
}

impl FewSolver {
    /// A solver that has found nothing yet.
    pub fn new(few: Few) -> FewSolver {
        let tails = &few.depths[2];
        let (mut slabs, mut first) = (Vec::new(), 0);
        while first <= few.most[2] {
            let full = tails.starts[first] + STEP;
            let end = tails.starts.partition_point(|&count| count < full);
            let thirds = first..end.min(few.most[2] + 1);
            let of = |sums: &[usize]| sums[thirds.end] - sums[thirds.start];
            slabs.push(Mutex::new(Slab {
                sets: vec![0; of(&tails.places)],
                dead: vec![false; of(&tails.starts)],
                thirds: thirds.clone(),
            }));
            first = thirds.end;
        }
        let further = few.depths[3..].iter();
        let diagonal = Diagonal {
            sets: Excluded(
                further
                    .clone()
                    .map(|tails| vec![0; tails.words()])
                    .collect(),
            ),
            dead: further.map(|tails| vec![false; tails.count()]).collect(),
        };
        FewSolver {
            next: 0,
            slabs,
            diagonal: Mutex::new(diagonal),
            few,
        }
    }

    /// The limits of positions.
    pub fn few(&self) -> &Few {
        &self.few
    }

    /// The second rows that are done.
    pub fn done(&self) -> usize {
        self.next
    }

    /// Whether all second rows are done.
    pub fn is_finished(&self) -> bool {
        self.next > self.few.most[1]
    }

    /// Solves the next `seconds` second rows, and gives the losing positions to `take`, one second row after the other. False if
    /// `take` said that it shall end: after that the solver must not be used.
    pub fn advance(
        &mut self,
        seconds: usize,
        threads: NonZeroUsize,
        take: impl FnMut(SecondRow) -> bool + Send,
    ) -> bool {
        let end = self.next.saturating_add(seconds).min(self.few.most[1] + 1);
        let threads = threads.get().min(end - self.next).max(1);
        let batch = Batch {
            solver: self,
            seconds: self.next..end,
            reached: Mutex::new(vec![(0, 0); threads]),
            moved: Condvar::new(),
            take: Mutex::new(Some(take)),
        };
        std::thread::scope(|scope| {
            for number in 1..threads {
                let batch = &batch;
                scope.spawn(move || batch.work(number));
            }
            batch.work(0);
        });
        let goes_on = lock(&batch.take).is_some();
        self.next = end;
        goes_on
    }

    /// Writes all that is needed to continue.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn save(&mut self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&(self.next as u64).to_le_bytes())?;
        self.each_word(|words| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            out.write_all(&bytes)
        })
    }

    /// Reads what [`save`](FewSolver::save) wrote for the same limits. The caller knows that the bytes are those.
    ///
    /// # Errors
    ///
    /// Those of `from`.
    pub fn load(few: Few, from: &mut dyn Read) -> io::Result<FewSolver> {
        let mut solver = FewSolver::new(few);
        let mut next = [0; 8];
        from.read_exact(&mut next)?;
        solver.next = usize::try_from(u64::from_le_bytes(next)).unwrap_or(usize::MAX);
        let mut bytes = Vec::new();
        solver.each_word(|words| {
            bytes.resize(words.len() * 8, 0);
            from.read_exact(&mut bytes)?;
            for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
                *word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
            }
            Ok(())
        })?;
        Ok(solver)
    }

    /// Gives all that is known from one second row to the next to `each`, as words in a fixed order, and takes what it makes
    /// of them.
    fn each_word(&mut self, mut each: impl FnMut(&mut [u64]) -> io::Result<()>) -> io::Result<()> {
        let mut flags = |dead: &mut [bool]| -> io::Result<()> {
            for dead in dead.chunks_mut(1 << 12) {
                let mut words: Vec<u64> = dead.iter().map(|&dead| dead.into()).collect();
                each(&mut words)?;
                dead.iter_mut()
                    .zip(words)
                    .for_each(|(dead, word)| *dead = word > 0);
            }
            Ok(())
        };
        let diagonal = self
            .diagonal
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        diagonal.dead.iter_mut().try_for_each(|dead| flags(dead))?;
        for slab in &mut self.slabs {
            flags(&mut slab.get_mut().unwrap_or_else(PoisonError::into_inner).dead)?;
        }
        let diagonal = self
            .diagonal
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        let sets = diagonal.sets.0.iter_mut();
        let slabs = self.slabs.iter_mut();
        let slabs =
            slabs.map(|slab| &mut slab.get_mut().unwrap_or_else(PoisonError::into_inner).sets);
        sets.chain(slabs)
            .flat_map(|sets| sets.chunks_mut(1 << 12))
            .try_for_each(each)
    }
}

/// Some second rows, and the threads that solve them.
struct Batch<'a, T> {
    solver: &'a FewSolver,
    seconds: Range<usize>,
    /// For each thread the second row that it is at, and the steps that are done of it.
    reached: Mutex<Vec<(usize, usize)>>,
    moved: Condvar,
    /// None when it shall end.
    take: Mutex<Option<T>>,
}

impl<T: FnMut(SecondRow) -> bool + Send> Batch<'_, T> {
    /// Solves each second row whose turn is this thread's.
    fn work(&self, number: usize) {
        let FewSolver {
            few,
            slabs,
            diagonal,
            ..
        } = self.solver;
        let of_row = |row: usize| {
            let tails = few.depths[row + 1..].iter();
            Excluded(tails.map(|tails| vec![0; tails.words()]).collect())
        };
        let mut own: Vec<Excluded> = (2..few.rows()).map(of_row).collect();
        let threads = lock(&self.reached).len();
        for second in self.seconds.clone().skip(number).step_by(threads) {
            let mut positions = Vec::new();
            for (step, slab) in slabs.iter().enumerate() {
                self.wait(number, second, step);
                let mut slab = lock(slab);
                if slab.thirds.start > second {
                    break;
                }
                let mut cells = Cells {
                    few,
                    slab: &mut slab,
                    diagonal,
                    own: &mut own,
                    positions: &mut positions,
                };
                cells.go(second);
                self.note(number, second, step + 1);
            }
            self.wait(number, second, slabs.len());
            let mut take = lock(&self.take);
            let goes_on = take
                .as_mut()
                .is_some_and(|take| take(SecondRow { second, positions }));
            if !goes_on {
                *take = None;
            }
            drop(take);
            self.note(number, second, slabs.len() + 1);
            if !goes_on {
                return;
            }
        }
    }

    /// Waits until the second row before has done more than `steps` steps.
    fn wait(&self, number: usize, second: usize, steps: usize) {
        let mut reached = lock(&self.reached);
        let before = (number + reached.len() - 1) % reached.len();
        while second > self.seconds.start && reached[before] < (second - 1, steps + 1) {
            reached = self
                .moved
                .wait(reached)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn note(&self, number: usize, second: usize, steps: usize) {
        lock(&self.reached)[number] = (second, steps);
        self.moved.notify_all();
    }
}

/// The lower rows of one second row and the third rows of one slab.
struct Cells<'a> {
    few: &'a Few,
    slab: &'a mut Slab,
    diagonal: &'a Mutex<Diagonal>,
    /// E(2, ·), E(3, ·), … of the second row.
    own: &'a mut [Excluded],
    positions: &'a mut Vec<([u32; 3], u32)>,
}

impl Cells<'_> {
    fn go(&mut self, second: usize) {
        let mut lower = [second, 0, 0, 0];
        for third in self.slab.thirds.clone() {
            if third > second {
                return;
            }
            lower[1] = third;
            if third == 0 {
                self.begin(2);
            }
            self.below(3, &mut lower);
        }
    }

    /// Forgets what moves in a row exclude: the rows before it have other lengths now.
    fn begin(&mut self, row: usize) {
        let sets = &mut self.own[row - 2].0;
        sets.last_mut().expect("the empty tail").fill(0);
    }

    /// All lengths of the rows from `row` on.
    fn below(&mut self, row: usize, lower: &mut [usize; 4]) {
        if row == self.few.rows() {
            self.cell(lower);
            return;
        }
        self.begin(row);
        for length in 0..=lower[row - 2].min(self.few.most[row]) {
            lower[row - 1] = length;
            self.below(row + 1, lower);
        }
    }

    /// Finds f of lower rows, and notes what follows from it.
    fn cell(&mut self, lower: &[usize; 4]) {
        let few = self.few;
        let rows = few.rows();
        let (mut places, mut numbers) = few.places(lower);
        let first_third = self.slab.thirds.start;
        places[2] -= few.depths[2].places[first_third];
        numbers[2] -= few.depths[2].starts[first_third];
        // Row k is as long as those up to this one.
        let mut ends = [0; 5];
        for row in (1..rows).rev() {
            let is_same = row + 1 < rows && lower[row - 1] == lower[row];
            ends[row] = if is_same { ends[row + 1] } else { row };
        }
        let is_new = (1..rows).any(|row| ends[row] > row);
        if is_new {
            self.copy(lower, &ends, &places, &numbers);
        }
        if self.slab.dead[numbers[2]] {
            return;
        }
        let Some(first) = self.first(lower, &places) else {
            return;
        };
        let tail = [1, 2, 3].map(|row| u32::try_from(lower[row]).expect("a length"));
        self.positions
            .push((tail, u32::try_from(first).expect("a length")));
        self.note(lower, &ends, &places, &numbers, first);
    }

    /// The least first row that nothing excludes.
    fn first(&self, lower: &[usize; 4], places: &[usize; 6]) -> Option<usize> {
        let few = self.few;
        let rows = few.rows();
        let least = lower[0].max(1);
        let mut word = least / 64;
        let mut below = (1 << (least % 64)) - 1;
        while word < few.words {
            let mut union = self.slab.sets[places[2] + word - lower[1] / 64] | below;
            for (row, own) in (2..rows).zip(self.own.iter()) {
                let begin = if row + 1 < rows { lower[row] / 64 } else { 0 };
                union |= own.0[0][places[row + 1] + word - begin];
            }
            if union != u64::MAX {
                let first = word * 64 + union.trailing_ones() as usize;
                return (first <= few.most[0]).then_some(first);
            }
            below = 0;
            word += 1;
        }
        None
    }

    /// Where rows are as long as the next one, their sets for this tail begin as those of the rest of the tail.
    fn copy(
        &mut self,
        lower: &[usize; 4],
        ends: &[usize; 5],
        places: &[usize; 6],
        numbers: &[usize; 6],
    ) {
        let few = self.few;
        let rows = few.rows();
        let begin = |tail: usize| if tail < rows { lower[tail - 1] / 64 } else { 0 };
        for row in 1..rows {
            for last in (row..ends[row]).rev() {
                let (to, from) = (last + 1, last + 2);
                let length = few.words - begin(to);
                let source = places[from] + begin(to) - begin(from);
                if row == 1 {
                    let mut diagonal = lock(self.diagonal);
                    let Diagonal { sets, dead } = &mut *diagonal;
                    let is_dead = dead[from - 3][numbers[from]];
                    if last == 1 {
                        self.slab.dead[numbers[2]] = is_dead;
                        let source = &sets.0[0][source..][..length];
                        self.slab.sets[places[2]..][..length].copy_from_slice(source);
                    } else {
                        dead[to - 3][numbers[to]] = is_dead;
                        let [into, of] = sets.0.get_disjoint_mut([to - 3, from - 3]).expect("two");
                        into[places[to]..][..length].copy_from_slice(&of[source..][..length]);
                    }
                } else {
                    let sets = &mut self.own[row - 2].0;
                    let at = last - row;
                    let [into, of] = sets.get_disjoint_mut([at, at + 1]).expect("two");
                    into[places[to]..][..length].copy_from_slice(&of[source..][..length]);
                }
            }
        }
    }

    /// Notes what a losing position excludes.
    fn note(
        &mut self,
        lower: &[usize; 4],
        ends: &[usize; 5],
        places: &[usize; 6],
        numbers: &[usize; 6],
        first: usize,
    ) {
        let rows = self.few.rows();
        let (word, bit) = (first / 64, 1 << (first % 64));
        let begin = |tail: usize| if tail < rows { lower[tail - 1] / 64 } else { 0 };
        let at = |tail: usize| places[tail] + word - begin(tail);
        self.slab.sets[at(2)] |= bit;
        let is_square = first == lower[0];
        self.slab.dead[numbers[2]] |= is_square;
        if ends[1] > 1 {
            let mut diagonal = lock(self.diagonal);
            for tail in 3..=ends[1] + 1 {
                diagonal.sets.0[tail - 3][at(tail)] |= bit;
                diagonal.dead[tail - 3][numbers[tail]] |= is_square;
            }
        }
        for row in 2..rows {
            for last in row..=ends[row] {
                self.own[row - 2].0[last - row][at(last + 1)] |= bit;
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The losing positions by the definition.
    fn by_definition(most: &[usize]) -> BTreeSet<Vec<usize>> {
        fn all(most: &[usize], rows: &mut Vec<usize>, losing: &mut BTreeSet<Vec<usize>>) {
            if rows.len() < most.len() {
                let longest = rows
                    .last()
                    .map_or(most[0], |&last| last.min(most[rows.len()]));
                for length in 0..=longest {
                    rows.push(length);
                    all(most, rows, losing);
                    rows.pop();
                }
                return;
            }
            let mut cuts = (0..rows.len()).flat_map(|row| (0..rows[row]).map(move |c| (row, c)));
            let wins = cuts.any(|(row, c)| {
                let cut = rows.iter().enumerate();
                let cut = cut.map(|(at, &length)| if at < row { length } else { length.min(c) });
                losing.contains(&cut.collect::<Vec<_>>())
            });
            if !wins && rows[0] > 0 {
                losing.insert(rows.clone());
            }
        }
        let mut losing = BTreeSet::new();
        all(most, &mut Vec::new(), &mut losing);
        losing
    }

    /// The losing positions that a solver finds which is saved and loaded after each `batch` second rows.
    fn solved(most: &[usize], threads: usize, batch: usize) -> BTreeSet<Vec<usize>> {
        let mut found = BTreeSet::new();
        let mut next = 0;
        let mut take = |row: SecondRow| {
            assert_eq!(row.second, next, "second rows ascend");
            next += 1;
            assert!(row.positions.is_sorted(), "lower rows ascend");
            for (tail, first) in row.positions {
                let tail = tail.map(|length| length as usize);
                let mut rows = vec![first as usize, row.second];
                rows.extend(&tail[..most.len() - 2]);
                assert!(found.insert(rows));
            }
            true
        };
        let mut solver = FewSolver::new(Few::new(most));
        while !solver.is_finished() {
            assert!(solver.advance(batch, NonZeroUsize::new(threads).unwrap(), &mut take));
            let mut state = Vec::new();
            solver.save(&mut state).unwrap();
            solver = FewSolver::load(Few::new(most), &mut &state[..]).unwrap();
        }
        assert_eq!(next, most[1].min(most[0]) + 1);
        found
    }

    #[test]
    fn all_losing_positions_are_found() {
        for most in [
            &[1, 1, 1][..],
            &[12, 12, 12],
            &[40, 40, 40],
            &[70, 30, 5],
            &[9, 9, 9, 9],
            &[14, 14, 14, 14],
            &[20, 15, 9, 3],
            &[8, 8, 8, 8, 8],
            &[10, 10, 9, 4, 2],
        ] {
            let expected = by_definition(most);
            for (threads, batch) in [(1, usize::MAX), (1, 3), (2, 7), (3, usize::MAX), (3, 4)] {
                assert_eq!(solved(most, threads, batch), expected, "{most:?}");
            }
        }
    }
}
