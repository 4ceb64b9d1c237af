//! The losing positions of four rows by their first row: how many there are, and the medians of the other rows.
//!
//! ```text
//! cargo run --release -p chomp-boxes --example medians -- 1000 > medians.csv
//! ```
//!
//! A line for each first row a from 1 on. Of an even number of positions the median is the greater of the middle two.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example prints what it finds"
)]

use std::num::NonZeroUsize;

use chomp_boxes::few::{Few, FewSolver, Tail};

/// For each first row, how often another row has each length.
struct Lengths {
    most: usize,
    counts: Vec<u32>,
}

impl Lengths {
    fn new(most: usize) -> Lengths {
        Lengths {
            most,
            counts: vec![0; (most + 1) * (most + 1)],
        }
    }

    fn add(&mut self, first: u32, length: u32) {
        self.counts[first as usize * (self.most + 1) + length as usize] += 1;
    }

    fn of(&self, first: usize) -> &[u32] {
        &self.counts[first * (self.most + 1)..][..=self.most]
    }

    fn count(&self, first: usize) -> u64 {
        self.of(first).iter().copied().map(u64::from).sum()
    }

    fn median(&self, first: usize) -> usize {
        let (half, mut sum) = (self.count(first) / 2, 0);
        let reached = self.of(first).iter().position(|&count| {
            sum += u64::from(count);
            sum > half
        });
        reached.expect("a losing position with each first row")
    }
}

fn main() {
    let most = std::env::args().nth(1).and_then(|most| most.parse().ok());
    let most: usize = most.expect("the longest first row");
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let mut rows = [1, 2, 3].map(|_| Lengths::new(most));
    let mut told = 0;
    FewSolver::new(Few::new(&[most; 4])).advance(usize::MAX, threads, |tails, done| {
        for [a, lower @ .., _] in tails.iter().flat_map(Tail::positions) {
            for (lengths, length) in rows.iter_mut().zip(lower) {
                lengths.add(a, length);
            }
        }
        if 100.0 * done >= f64::from(told) {
            eprint!("\r{told} %");
            told += 1;
        }
        true
    });
    eprintln!();
    println!("a,losing,b,c,d");
    for a in 1..=most {
        let [b, c, d] = rows.each_ref().map(|row| row.median(a));
        println!("{a},{},{b},{c},{d}", rows[0].count(a));
    }
}
