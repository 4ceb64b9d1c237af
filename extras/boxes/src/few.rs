//! All losing positions of three, four or five rows, to thousands of columns.
//!
//! # The mathematics
//!
//! A position of m rows is p₀ ≥ p₁ ≥ … ≥ p₍ₘ₋₁₎ ≥ 0; rows of length 0 are not there. A move in row k to a length c < pₖ
//! cuts that row and all behind it to c. Call (p₁, …, p₍ₘ₋₁₎) the **lower rows**, and those from p₂ on their **tail**.
//!
//! **For given lower rows at most one first row is losing**: of two, the longer could move to the shorter. So all losing
//! positions are a function f of lower rows, or nothing. f(p₁, …) is the least p ≥ p₁, p ≥ 1, that no move excludes:
//!
//! * A move in a lower row leaves p₀, and excludes it exactly if it is f of the lower rows left: one p₀ at the most.
//! * A move in row 0 to c ≥ p₁ leaves the lower rows: no p₀ larger than f is losing, which is the first sentence.
//! * A move in row 0 to c < p₁ leaves (c, c, min(p₂, c), …). If one is losing, the lower rows are **dead**, without f.
//!
//! The least p that is not excluded is losing, as a move in row 0 to p₁ ≤ c < p would make c = f, while c is excluded.
//!
//! # How it is computed
//!
//! Tails come in lexicographic order, and for each tail all p₁ ≥ p₂ one after the other. What moves in row k exclude is
//! kept from one pₖ to the next: E(k, k) has for each p₁ and each (p₍ₖ₊₁₎, …) the set of f(p₁, …, pₖ₋₁, c, p₍ₖ₊₁₎, …)
//! for all c with p₍ₖ₊₁₎ ≤ c < pₖ, which are the moves that cut row k alone, and also those for c < p₍ₖ₊₁₎, which cut
//! others as well. The latter do not depend on pₖ, so they are put in once, when pₖ = p₍ₖ₊₁₎ begins: E(k, j), for j >
//! k, has for each (p₍ⱼ₊₁₎, …) the set of f for pₖ = … = pⱼ = c < the present pⱼ, again with those for c < p₍ⱼ₊₁₎. So
//! where pₖ = … = pⱼ = p₍ⱼ₊₁₎ = x, E(k, j) of (x, …) begins as a copy of E(k, j + 1) of the rest of it. Whether lower
//! rows are dead is kept likewise: D(j) tells for each (p₍ⱼ₊₁₎, …) whether some (c, …, c, p₍ⱼ₊₁₎, …) with p₀ = … = pⱼ =
//! c was losing.
//!
//! So f is the first zero from p₁ on of the union of m − 1 sets, E(1, 1) to E(m − 1, m − 1).
//!
//! E(1, 1) belongs to one tail: it is one bitmap of first rows, and all below its first zero from p₁ on need not be
//! looked at. The others have a bitmap for each p₁, without the words below that of p₁ itself. Those of successive p₁
//! lie one behind the other, so a tail goes through them in the order of the memory.
//!
//! E(1, j), D and E(2, ·) are kept for all p₂; the others belong to one p₂. Threads take one p₂ after the other, and
//! each stays behind the thread with the p₂ before by some tails, or of three rows by some p₁: for these all is done
//! that it needs.

mod set;

use std::io::{self, ErrorKind, Read, Write};
use std::num::NonZeroUsize;
use std::ops::{Range, RangeInclusive};

use parking_lot::{Condvar, Mutex};

use self::set::Set;
use crate::hooks::descending;

/// The fewest and the most rows.
pub const FEW_ROWS: RangeInclusive<usize> = 3..=5;

/// The lower rows that belong to one step of a thread: their number at the least. Few in tests, so that there are many
/// steps.
const STEP: usize = if cfg!(test) { 16 } else { 1 << 14 };

/// With three rows and third rows up to about this the sets lie in the caches.
const CACHED_ROW: f64 = 20_000.0;

/// A tail, and the losing positions with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The third row and all after it.
    pub rows: [u32; 3],
    /// For each second row, from the third row on, the first row that makes it losing; 0 if there is none within the
    /// limits. The list ends where all longer second rows are dead.
    pub firsts: Vec<u32>,
    /// Whether all second rows behind the last one are dead.
    pub is_dead: bool,
}

impl Tail {
    /// The losing positions, by their second row.
    pub fn positions(&self) -> impl Iterator<Item = [u32; 5]> {
        let [third, fourth, fifth] = self.rows;
        let found = (third..).zip(&self.firsts).filter(|&(_, &first)| first > 0);
        found.map(move |(second, &first)| [first, second, third, fourth, fifth])
    }
}

/// All positions of few rows within some lengths.
#[derive(Clone, Debug)]
pub struct Few {
    /// The largest length of each row; they descend.
    most: Vec<usize>,
    /// Index d, then x: the number of (`p_d`, …) that begin with less than x, in lexicographic order. One at index m.
    starts: Vec<Vec<usize>>,
    /// Index: the third row. The lower rows with one that is no longer.
    lower: Vec<u64>,
}

impl Few {
    /// All positions whose rows have at most these lengths. Panics if there are not as many rows as [`FEW_ROWS`] has.
    pub fn new(most: &[usize]) -> Few {
        assert!(FEW_ROWS.contains(&most.len()), "few rows");
        let rows = most.len();
        let mut most = most.to_vec();
        for row in 1..rows {
            most[row] = most[row].min(most[row - 1]);
        }
        let mut starts = vec![vec![0, 1]; rows + 1];
        for depth in (2..rows).rev() {
            let mut sums = vec![0];
            for length in 0..=most[depth] {
                let rest = match most.get(depth + 1) {
                    Some(&next) => starts[depth + 1][length.min(next) + 1],
                    None => 1,
                };
                sums.push(sums[length] + rest);
            }
            starts[depth] = sums;
        }
        // The tails with one third row have all second rows that are no shorter.
        let of_third = (0..=most[2]).scan(0, |sum, third| {
            let tails: usize = starts[2][third + 1] - starts[2][third];
            let lower = tails.saturating_mul(most[1] + 1 - third) as u64;
            *sum = u64::saturating_add(*sum, lower);
            Some(*sum)
        });
        Few {
            lower: of_third.collect(),
            most,
            starts,
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

    /// The positions with the empty one; 2^64 − 1 if there are more. Panics if not all rows have the same limit.
    pub fn positions(&self) -> u64 {
        assert!(
            self.most.iter().all(|&most| most == self.most[0]),
            "a rectangle"
        );
        u64::try_from(descending(self.rows(), self.most[0])).unwrap_or(u64::MAX)
    }

    /// The number of tails.
    pub fn tails(&self) -> usize {
        self.count(2)
    }

    /// The number of lower rows, at each of which one looks once; 2^64 − 1 if there are more.
    pub fn lower_rows(&self) -> u64 {
        *self.lower.last().expect("a third row")
    }

    /// The number of a tail, in lexicographic order.
    pub fn number(&self, tail: &[usize; 3]) -> usize {
        self.numbers(tail)[2]
    }

    /// The most bytes of memory for solving with `threads` threads, without the use of the positions.
    pub fn memory(&self, threads: NonZeroUsize) -> u64 {
        let of_depth = |depth: usize| -> u128 {
            let lengths = if depth < self.rows() {
                self.most[depth]
            } else {
                0
            };
            let of_length = |length: usize| {
                let tails = self.starts[depth][length + 1] - self.starts[depth][length];
                let mut set = Set::new(length..self.most[1] + 1, self.most[0]);
                set.lay_out(usize::MAX);
                let bytes = set.len() * 8 + size_of::<Set>();
                tails as u128 * bytes as u128
            };
            (0..=lengths).map(of_length).sum()
        };
        let of_row = |row: usize| (row + 1..=self.rows()).map(of_depth).sum::<u128>();
        let squares = (3..=self.rows()).map(|depth| self.count(depth) as u128);
        let squares = squares.sum::<u128>() * (self.words() as u128 * 8 + 1);
        // A thread has the positions of one third row, and so has who takes them.
        let longest = 4 * self.count(3) as u128 * (self.most[1] as u128 + 1) / 2;
        let own = (3..self.rows()).map(of_row).sum::<u128>() + 2 * longest;
        let all = of_row(2) + squares + own * threads.get() as u128;
        u64::try_from(all).unwrap_or(u64::MAX)
    }

    fn count(&self, depth: usize) -> usize {
        *self.starts[depth].last().expect("at least one length")
    }

    /// Index d: the number of (`p_d`, …) of a tail, from 2 to m.
    fn numbers(&self, tail: &[usize; 3]) -> [usize; 6] {
        let mut numbers = [0; 6];
        for depth in (2..self.rows()).rev() {
            numbers[depth] = self.starts[depth][tail[depth - 2]] + numbers[depth + 1];
        }
        numbers
    }

    /// The words of a bitmap of first rows: some more, so that it has zeros behind the longest.
    fn words(&self) -> usize {
        self.most[0] / 64 + 3
    }

    /// Empty sets for all (`p_d`, …), or those that begin with some lengths.
    fn sets(&self, depth: usize, lengths: Range<usize>) -> Vec<Set> {
        let of_length = |length: usize| {
            let tails = self.starts[depth][length + 1] - self.starts[depth][length];
            let seconds = length..self.most[1] + 1;
            std::iter::repeat_n(seconds, tails)
        };
        let lengths = lengths.start..lengths.end.min(self.starts[depth].len() - 1);
        let seconds = lengths.flat_map(of_length);
        seconds
            .map(|seconds| Set::new(seconds, self.most[0]))
            .collect()
    }

    /// E(k, j) for one k and all j ≥ `from`: index j − `from`.
    fn sets_from(&self, from: usize) -> Vec<Vec<Set>> {
        let depths = from + 1..=self.rows();
        depths
            .map(|depth| self.sets(depth, 0..usize::MAX))
            .collect()
    }
}

/// The sets of E(2, 2) that one step of a thread needs.
#[derive(Debug)]
struct StepSets {
    /// The fourth rows; one of length 0 if there are three rows.
    fourths: Range<usize>,
    seconds: Range<usize>,
    sets: Mutex<Vec<Set>>,
}

/// The sets that are needed only for tails whose rows are equal, or begin. Index j − 2 or j − 3, then (p₍ⱼ₊₁₎, …).
#[derive(Debug)]
struct Diagonal {
    /// E(1, j) for j ≥ 2: bitmaps of first rows.
    squares: Vec<Vec<u64>>,
    /// D(j) for j ≥ 2.
    dead: Vec<Vec<bool>>,
    /// E(2, j) for j ≥ 3.
    sets: Vec<Vec<Set>>,
}

/// Finds all losing positions within [`Few`], third row after third row.
#[derive(Debug)]
pub struct FewSolver {
    few: Few,
    next: usize,
    steps: Vec<StepSets>,
    diagonal: Mutex<Diagonal>,
}

impl FewSolver {
    /// A solver that has found nothing yet.
    pub fn new(few: Few) -> FewSolver {
        let seconds = few.most[1] + 1;
        let mut steps = Vec::new();
        if few.rows() == 3 {
            for start in (0..seconds).step_by(STEP) {
                let seconds = start..seconds.min(start + STEP);
                steps.push(StepSets {
                    fourths: 0..1,
                    sets: Mutex::new(vec![Set::new(seconds.clone(), few.most[0])]),
                    seconds,
                });
            }
        } else {
            let (starts, mut first) = (&few.starts[3], 0);
            while first <= few.most[3] {
                let full = starts[first] + STEP / seconds + 1;
                let end = starts.partition_point(|&count| count < full);
                let fourths = first..end.min(few.most[3] + 1);
                first = fourths.end;
                steps.push(StepSets {
                    sets: Mutex::new(few.sets(3, fourths.clone())),
                    seconds: 0..seconds,
                    fourths,
                });
            }
        }
        let counts = (3..=few.rows()).map(|depth| few.count(depth));
        let diagonal = Diagonal {
            squares: counts
                .clone()
                .map(|count| vec![0; count * few.words()])
                .collect(),
            dead: counts.map(|count| vec![false; count]).collect(),
            sets: few.sets_from(3),
        };
        FewSolver {
            next: 0,
            steps,
            diagonal: Mutex::new(diagonal),
            few,
        }
    }

    /// The limits of positions.
    pub fn few(&self) -> &Few {
        &self.few
    }

    /// Whether all third rows are done.
    pub fn is_finished(&self) -> bool {
        self.next > self.few.most[2]
    }

    /// Solves the next `thirds` third rows, and gives the tails of each to `take`, in lexicographic order, with how
    /// much of the work is done after it, from 0 to 1. False if `take` said that it shall end: after that the solver
    /// must not be used.
    pub fn advance(
        &mut self,
        thirds: usize,
        threads: NonZeroUsize,
        take: impl FnMut(Vec<Tail>, f64) -> bool + Send,
    ) -> bool {
        let end = self.next.saturating_add(thirds).min(self.few.most[2] + 1);
        let threads = threads.get().min(end - self.next).max(1);
        let batch = Batch {
            solver: self,
            thirds: self.next..end,
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
        let goes_on = batch.take.lock().is_some();
        self.next = end;
        goes_on
    }

    /// The share of the work up to the third row `third`: that of the tails. But with three rows the sets outgrow the
    /// caches, and a tail takes a time in proportion to [`CACHED_ROW`]² + its third row²: measured for
    /// 200,000 columns, and within a third of the truth.
    #[expect(clippy::cast_precision_loss, reason = "it is shown as a bar")]
    fn share(&self, third: usize) -> f64 {
        if self.few.rows() > 3 {
            return self.few.lower[third] as f64 / self.few.lower_rows() as f64;
        }
        let columns = (self.few.most[1] + 1) as f64;
        let (x, flat) = ((third + 1) as f64 / columns, (CACHED_ROW / columns).powi(2));
        // Of the (1 - x) n tails with the third row x n.
        let work = |x: f64| flat * (x - x.powi(2) / 2.0) + x.powi(3) / 3.0 - x.powi(4) / 4.0;
        work(x) / work((self.few.most[2] + 1) as f64 / columns)
    }

    /// Writes all that is needed to continue.
    pub fn save(&mut self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&(self.next as u64).to_le_bytes())?;
        self.each_list(|_, words| {
            out.write_all(&(words.len() as u64).to_le_bytes())?;
            for words in words.chunks(1 << 12) {
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                out.write_all(&bytes)?;
            }
            Ok(())
        })
    }

    /// Reads what [`save`](FewSolver::save) wrote for the same limits; that the bytes are those, the caller knows at
    /// the end at the latest. Fails with [`ErrorKind::InvalidData`] if they cannot be.
    pub fn load(few: Few, from: &mut dyn Read) -> io::Result<FewSolver> {
        let mut solver = FewSolver::new(few);
        let mut number = [0; 8];
        from.read_exact(&mut number)?;
        solver.next = usize::try_from(u64::from_le_bytes(number)).unwrap_or(usize::MAX);
        solver.each_list(|most, words| {
            from.read_exact(&mut number)?;
            let length = usize::try_from(u64::from_le_bytes(number)).unwrap_or(usize::MAX);
            if length > most {
                return Err(ErrorKind::InvalidData.into());
            }
            words.resize(length, 0);
            let mut bytes = Vec::new();
            for words in words.chunks_mut(1 << 12) {
                bytes.resize(words.len() * 8, 0);
                from.read_exact(&mut bytes)?;
                for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
                    *word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
                }
            }
            Ok(())
        })?;
        Ok(solver)
    }

    /// Gives `each` the state to read or change: lists of words in a fixed order, each with its largest length.
    fn each_list(
        &mut self,
        mut each: impl FnMut(usize, &mut Vec<u64>) -> io::Result<()>,
    ) -> io::Result<()> {
        let Diagonal {
            squares,
            dead,
            sets,
        } = self.diagonal.get_mut();
        for words in squares {
            each(words.len(), words)?;
        }
        for dead in dead {
            let mut words = dead.iter().map(|&dead| dead.into()).collect();
            each(dead.len(), &mut words)?;
            dead.iter_mut()
                .zip(words)
                .for_each(|(dead, word)| *dead = word > 0);
        }
        let steps = self.steps.iter_mut();
        let steps = steps.map(|step| step.sets.get_mut());
        for set in sets.iter_mut().chain(steps).flatten() {
            let most = self.few.words() * set.seconds.len();
            each(most, &mut set.words)?;
            if !set.fit(set.words.len()) {
                return Err(ErrorKind::InvalidData.into());
            }
        }
        Ok(())
    }
}

struct Batch<'a, T> {
    solver: &'a FewSolver,
    thirds: Range<usize>,
    /// For each thread the third row that it is at, and the steps that are done of it.
    reached: Mutex<Vec<(usize, usize)>>,
    moved: Condvar,
    /// None when it shall end.
    take: Mutex<Option<T>>,
}

impl<T: FnMut(Vec<Tail>, f64) -> bool + Send> Batch<'_, T> {
    /// Solves each third row whose turn is this thread's.
    fn work(&self, number: usize) {
        let FewSolver {
            few,
            steps,
            diagonal,
            ..
        } = self.solver;
        let mut lane = Lane {
            few,
            diagonal,
            own: (3..few.rows()).map(|row| few.sets_from(row)).collect(),
            run: Run::new(few),
            found: Vec::new(),
        };
        let threads = self.reached.lock().len();
        for third in self.thirds.clone().skip(number).step_by(threads) {
            for (done, step) in steps.iter().enumerate() {
                self.wait(number, third, done);
                if step.fourths.start > third {
                    break;
                }
                if step.seconds.end > third {
                    lane.go(third, step);
                    self.note(number, third, done + 1);
                }
            }
            self.wait(number, third, steps.len());
            let tails = std::mem::take(&mut lane.found);
            let mut take = self.take.lock();
            let goes_on = take
                .as_mut()
                .is_some_and(|take| take(tails, self.solver.share(third)));
            if !goes_on {
                *take = None;
            }
            drop(take);
            self.note(number, third, steps.len() + 1);
            if !goes_on {
                return;
            }
        }
    }

    /// Waits until the third row before has done more than `steps` steps.
    fn wait(&self, number: usize, third: usize, steps: usize) {
        let mut reached = self.reached.lock();
        let before = (number + reached.len() - 1) % reached.len();
        while third > self.thirds.start && reached[before] < (third - 1, steps + 1) {
            self.moved.wait(&mut reached);
        }
    }

    fn note(&self, number: usize, third: usize, steps: usize) {
        self.reached.lock()[number] = (third, steps);
        self.moved.notify_all();
    }
}

struct Lane<'a> {
    few: &'a Few,
    diagonal: &'a Mutex<Diagonal>,
    /// E(3, ·), E(4, ·) of the third row.
    own: Vec<Vec<Vec<Set>>>,
    run: Run,
    found: Vec<Tail>,
}

impl Lane<'_> {
    /// All tails of a step with one third row.
    fn go(&mut self, third: usize, step: &StepSets) {
        let mut sets = step.sets.lock();
        let mut tail = [third, 0, 0];
        if self.few.rows() == 3 {
            self.tail(&tail, step, &mut sets);
            return;
        }
        for fourth in step.fourths.clone() {
            if fourth > third {
                return;
            }
            tail[1] = fourth;
            if fourth == 0 {
                self.begin(3);
            }
            self.below(4, &mut tail, step, &mut sets);
        }
    }

    /// Forgets what moves in a row exclude: the rows before it have other lengths now.
    fn begin(&mut self, row: usize) {
        let empty = self.own[row - 3].last_mut().expect("E(k, m − 1)");
        empty[0].clear();
    }

    /// All lengths of the rows from `row` on.
    fn below(&mut self, row: usize, tail: &mut [usize; 3], step: &StepSets, sets: &mut [Set]) {
        if row == self.few.rows() {
            self.tail(tail, step, sets);
            return;
        }
        self.begin(row);
        for length in 0..=tail[row - 3].min(self.few.most[row]) {
            tail[row - 2] = length;
            self.below(row + 1, tail, step, sets);
        }
    }

    /// Finds f of all lower rows with a tail, and notes what follows.
    fn tail(&mut self, tail: &[usize; 3], step: &StepSets, sets: &mut [Set]) {
        let few = self.few;
        let rows = few.rows();
        let numbers = few.numbers(tail);
        let place = numbers[3] - few.starts[3][step.fourths.start];
        // Row k is as long as those up to this one.
        let mut ends = [0; 5];
        for row in (2..rows).rev() {
            let is_same = row + 1 < rows && tail[row - 2] == tail[row - 1];
            ends[row] = if is_same { ends[row + 1] } else { row };
        }
        let begins = step.seconds.start <= tail[0];
        if begins {
            self.copy(&ends, &numbers, &mut sets[place]);
        }
        let seconds = step.seconds.start.max(tail[0])..step.seconds.end;
        let main = &mut sets[place];
        match &mut self.own[..] {
            [] => self.run.go(few, [main], seconds),
            [three] => self.run.go(few, [main, &mut three[0][numbers[4]]], seconds),
            [three, four, ..] => {
                let own = [&mut three[0][numbers[4]], &mut four[0][0]];
                let [third, fourth] = own;
                self.run.go(few, [main, third, fourth], seconds);
            }
        }
        let first = self.run.firsts.first().map_or(0, |&first| first as usize);
        if begins && first > 0 {
            self.note_square(&ends, &numbers, tail[0], first);
        }
        self.note_equal(&ends, &numbers, tail[0]);
        if step.seconds.end > few.most[1] {
            self.found.push(Tail {
                rows: tail.map(|length| u32::try_from(length).expect("a length")),
                firsts: std::mem::take(&mut self.run.firsts),
                is_dead: self.run.is_dead,
            });
        }
    }

    /// Where rows are as long as the next one, their sets begin as those of the rest. Begins E(1, 1).
    fn copy(&mut self, ends: &[usize; 5], numbers: &[usize; 6], main: &mut Set) {
        let words = self.few.words();
        let mut diagonal = self.diagonal.lock();
        let Diagonal {
            squares,
            dead,
            sets,
        } = &mut *diagonal;
        for last in (2..ends[2]).rev() {
            let (to, from) = (numbers[last + 1], numbers[last + 2]);
            dead[last - 2][to] = dead[last - 1][from];
            let [into, of] = squares
                .get_disjoint_mut([last - 2, last - 1])
                .expect("two rows");
            into[to * words..][..words].copy_from_slice(&of[from * words..][..words]);
            if last == 2 {
                main.copy(&sets[0][from]);
            } else {
                let [into, of] = sets.get_disjoint_mut([last - 3, last - 2]).expect("two");
                into[to].copy(&of[from]);
            }
        }
        let begin = &squares[0][numbers[3] * words..][..words];
        self.run.begin(begin, dead[0][numbers[3]]);
        drop(diagonal);
        for (row, own) in (3..).zip(&mut self.own) {
            for last in (row..ends[row]).rev() {
                let at = last - row;
                let [into, of] = own.get_disjoint_mut([at, at + 1]).expect("two rows");
                into[numbers[last + 1]].copy(&of[numbers[last + 2]]);
            }
        }
    }

    /// Notes f of lower rows that begin with as long a row as their tail.
    fn note_square(&self, ends: &[usize; 5], numbers: &[usize; 6], second: usize, first: usize) {
        let words = self.few.words();
        let mut diagonal = self.diagonal.lock();
        for last in 2..=ends[2] {
            let number = numbers[last + 1];
            diagonal.squares[last - 2][number * words + first / 64] |= 1 << (first % 64);
            diagonal.dead[last - 2][number] |= first == second;
        }
    }

    /// Notes f in E(k, j) where the rows from k to j > k are as long as each other.
    fn note_equal(&mut self, ends: &[usize; 5], numbers: &[usize; 6], third: usize) {
        let found = (third..).zip(&self.run.firsts);
        let found = found.filter(|&(_, &first)| first > 0);
        let note = |set: &mut Set| {
            for (second, &first) in found.clone() {
                set.insert(second, first as usize);
            }
        };
        if ends[2] > 2 {
            let mut diagonal = self.diagonal.lock();
            for last in 3..=ends[2] {
                note(&mut diagonal.sets[last - 3][numbers[last + 1]]);
            }
        }
        for (row, own) in (3..).zip(&mut self.own) {
            for last in row + 1..=ends[row] {
                note(&mut own[last - row][numbers[last + 1]]);
            }
        }
    }
}

/// The lower rows with one tail, second row after second row.
struct Run {
    /// E(1, 1): a bitmap of first rows.
    excluded: Vec<u64>,
    /// All first rows from the second one on that are less than this are excluded.
    low: usize,
    firsts: Vec<u32>,
    is_dead: bool,
}

impl Run {
    fn new(few: &Few) -> Run {
        Run {
            excluded: vec![0; few.words()],
            low: 0,
            firsts: Vec::new(),
            is_dead: false,
        }
    }

    fn begin(&mut self, excluded: &[u64], is_dead: bool) {
        self.excluded.copy_from_slice(excluded);
        // A first row of length 0 is no position.
        self.excluded[0] |= 1;
        (self.low, self.is_dead) = (0, is_dead);
        self.firsts.clear();
    }

    /// Finds f for some second rows, and puts it into the sets.
    fn go<const N: usize>(&mut self, few: &Few, mut sets: [&mut Set; N], seconds: Range<usize>) {
        for second in seconds {
            if self.is_dead {
                return;
            }
            if self.low < second {
                self.low = self.free(second);
            }
            let found = self.first(few, &sets, second);
            let first = u32::try_from(found.unwrap_or(0)).expect("a length");
            self.firsts.push(first);
            let Some(first) = found else {
                continue;
            };
            for set in &mut sets {
                set.insert(second, first);
            }
            self.excluded[first / 64] |= 1 << (first % 64);
            if first == self.low {
                self.low = self.free(first);
            }
            self.is_dead = first == second;
        }
    }

    /// The least first row from this one on that is not in E(1, 1).
    fn free(&self, from: usize) -> usize {
        let mut word = from / 64;
        let mut full = self.excluded[word] | ((1 << (from % 64)) - 1);
        while full == u64::MAX {
            word += 1;
            full = self.excluded[word];
        }
        word * 64 + full.trailing_ones() as usize
    }

    /// The least first row that nothing excludes.
    #[inline]
    fn first<const N: usize>(
        &self,
        few: &Few,
        sets: &[&mut Set; N],
        second: usize,
    ) -> Option<usize> {
        let sets = sets.each_ref().map(|set| set.of(second));
        let excluded = &self.excluded[second / 64..];
        let least = self.low - second / 64 * 64;
        let mut word = least / 64;
        let mut union = (1 << (least % 64)) - 1;
        loop {
            union |= excluded.get(word)?;
            for set in sets {
                union |= set.get(word).copied().unwrap_or(0);
            }
            if union != u64::MAX {
                let first = second / 64 * 64 + word * 64 + union.trailing_ones() as usize;
                return (first <= few.most[0]).then_some(first);
            }
            union = 0;
            word += 1;
            word += STRIDE * full_strides(excluded, sets, word);
        }
    }
}

const STRIDE: usize = 8;

/// How many strides of words from `from` on are full in the union of the first set and the others.
#[inline]
fn full_strides<const N: usize>(first: &[u64], others: [&[u64]; N], from: usize) -> usize {
    let end = others
        .iter()
        .fold(first.len(), |end, set| end.min(set.len()));
    if from >= end {
        return 0;
    }
    let strides = first[from..end].chunks_exact(STRIDE);
    let mut others = others.map(|set| set[from..end].chunks_exact(STRIDE));
    strides
        .take_while(|stride| {
            let mut union = <[u64; STRIDE]>::try_from(*stride).expect("a stride");
            for other in &mut others {
                let other = other.next().expect("as many");
                union
                    .iter_mut()
                    .zip(other)
                    .for_each(|(word, &other)| *word |= other);
            }
            union.iter().fold(u64::MAX, |all, word| all & word) == u64::MAX
        })
        .count()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The losing positions by the definition.
    pub(crate) fn by_definition(most: &[usize]) -> BTreeSet<Vec<usize>> {
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

    /// The losing positions that a solver finds which is saved and loaded after each `batch` third rows.
    fn solved(most: &[usize], threads: usize, batch: usize) -> BTreeSet<Vec<usize>> {
        let (mut found, mut number) = (BTreeSet::new(), 0);
        let few = Few::new(most);
        let mut take = |tails: Vec<Tail>, done: f64| {
            for tail in tails {
                let rows = tail.rows.map(|length| length as usize);
                assert_eq!(few.number(&rows), number, "tails come in their order");
                number += 1;
                for rows in tail.positions() {
                    let rows = rows[..most.len()].iter().map(|&length| length as usize);
                    assert!(found.insert(rows.collect()));
                }
            }
            assert!((number < few.tails()) == (done < 1.0));
            true
        };
        let mut solver = FewSolver::new(few.clone());
        while !solver.is_finished() {
            assert!(solver.advance(batch, NonZeroUsize::new(threads).unwrap(), &mut take));
            let mut state = Vec::new();
            solver.save(&mut state).unwrap();
            solver = FewSolver::load(few.clone(), &mut &state[..]).unwrap();
        }
        assert_eq!(number, few.tails());
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

    /// Of sets with several words for each second row.
    #[test]
    fn a_saved_state_is_as_good_as_a_kept_one() {
        for most in [&[2000, 2000, 2000][..], &[300; 4], &[400, 200, 30, 30, 20]] {
            let found = |batch: usize| {
                let mut found = Vec::new();
                let mut solver = FewSolver::new(Few::new(most));
                while !solver.is_finished() {
                    solver.advance(batch, NonZeroUsize::MIN, |tails, _| {
                        found.extend(tails);
                        true
                    });
                    let mut state = Vec::new();
                    solver.save(&mut state).unwrap();
                    solver = FewSolver::load(Few::new(most), &mut &state[..]).unwrap();
                }
                found
            };
            assert_eq!(found(usize::MAX), found(most[2] / 3), "{most:?}");
        }
    }

    /// A list that says it is longer than any such list takes no memory.
    #[test]
    fn no_list_of_a_state_is_longer_than_its_limit() {
        let load = |length: u64| {
            let state = [0, length].map(u64::to_le_bytes).concat();
            let loaded = FewSolver::load(Few::new(&[300; 4]), &mut &state[..]);
            loaded.unwrap_err().kind()
        };
        assert_eq!(load(1), ErrorKind::UnexpectedEof);
        for length in [1 << 40, u64::MAX] {
            assert_eq!(load(length), ErrorKind::InvalidData);
        }
    }
}
