//! In which order the chunks of a block are solved, and what each takes from those before it.
//!
//! Within its block a chunk has a number, a string of bits. By Lemma 1, a move that starts at a 1 of the number
//!
//! * and ends at a 0 of it leads to the chunk whose number has this span sorted, and leaves what is within the chunk;
//! * and ends within the chunk leads to the half of the block whose numbers begin with the bits before the 1
//!   and a 0. The number of 1s after the start says which entry of the half's [base](crate::bases) has these moves.
//!
//! The search for a losing position has to wait for the one before. So two chunks are solved at a time, neither of
//! which has a move to the other, and a CPU searches both at once. Most chunks have such a partner.

use std::cmp::Reverse;
use std::ops::Range as Span;

use chomp_table::word::sort_span;

use crate::chunk::CHUNK_BITS;

/// The most bits of the number of a chunk in its block.
pub(crate) const BLOCK_BITS_MAX: usize = 6;

#[derive(Debug)]
pub(crate) struct Schedule {
    /// By the number of the chunk in its block.
    pub(crate) links: Vec<ChunkLinks>,
    /// One or two chunks that are solved together, after all chunks that they read.
    pub(crate) steps: Vec<(usize, Option<usize>)>,
    /// The number of entries of all bases of a block.
    pub(crate) entries: usize,
}

#[derive(Debug)]
pub(crate) struct ChunkLinks {
    /// The chunks that moves within the number lead to.
    pub(crate) inside: Vec<usize>,
    /// The entries for moves that end within the chunk.
    pub(crate) across: Vec<usize>,
    /// The entries to which the lists of its losing positions are added. The entry before them gets the losing
    /// positions themselves; for an even chunk it is an entry that nothing reads.
    pub(crate) lists: Span<usize>,
    /// The chunks that have to be solved before it, as bits.
    after: u64,
}

impl Schedule {
    /// For blocks of 2^`bits` chunks.
    pub(crate) fn new(bits: usize) -> Schedule {
        let chunks = 1 << bits;
        // The first entry of the base of the halves that begin with an even chunk.
        let mut bases = vec![0; chunks];
        let mut entries = 0;
        for first in (0..chunks).step_by(2) {
            bases[first] = entries + 1;
            entries += 1 + base_len(first, bits);
        }
        let links_of = |chunk| ChunkLinks::new(chunk, bits, &bases);
        let links: Vec<ChunkLinks> = (0..chunks).map(links_of).collect();
        Schedule {
            steps: steps(&links),
            links,
            entries,
        }
    }
}

/// The number of entries of a base that are used. The base that begins with the block has more, as it goes on in larger
/// halves.
fn base_len(first: usize, bits: usize) -> usize {
    match first {
        0 => bits + CHUNK_BITS - 1,
        _ => first.trailing_zeros() as usize,
    }
}

impl ChunkLinks {
    fn new(chunk: usize, bits: usize, bases: &[usize]) -> ChunkLinks {
        let (mut inside, mut across, mut after) = (Vec::new(), Vec::new(), 0u64);
        for start in (0..bits).filter(|start| chunk >> start & 1 == 1) {
            let within = chunk & ((1 << start) - 1);
            for end in (0..start).filter(|end| chunk >> end & 1 == 0) {
                let [start, end] = [start, end].map(|bit| u32::try_from(bit).expect("few bits"));
                let sorted = sort_span(chunk as u64, start, end);
                inside.push(usize::try_from(sorted).expect("a chunk of the block"));
            }
            let first = chunk - within - (1 << start);
            let ones = within.count_ones() as usize;
            across.push(bases[first] + ones);
            // The chunks that the entry is put together from; one of them may be in `inside` too.
            let parts = (0..=ones).map(|k| first + (1 << k) - 1);
            after |= parts.map(|part| 1 << part).sum::<u64>();
        }
        after |= inside.iter().fold(0, |all, from| all | 1 << from);
        let ones = chunk.trailing_ones() as usize;
        let first = chunk >> ones << ones;
        ChunkLinks {
            inside,
            across,
            lists: bases[first] + ones..bases[first] + base_len(first, bits),
            after,
        }
    }
}

/// The steps. A chunk on which a longer chain of other chunks depends comes first.
fn steps(links: &[ChunkLinks]) -> Vec<(usize, Option<usize>)> {
    let chunks = links.len();
    let mut heights = vec![0; chunks];
    for chunk in (0..chunks).rev() {
        let later = (chunk + 1..chunks).filter(|&later| links[later].after >> chunk & 1 == 1);
        heights[chunk] = later.map(|later| heights[later] + 1).max().unwrap_or(0);
    }
    let mut left: Vec<usize> = (0..chunks).collect();
    left.sort_by_key(|&chunk| Reverse(heights[chunk]));
    let mut done = 0;
    let mut steps = Vec::new();
    while !left.is_empty() {
        let is_ready = |chunk: &usize| links[*chunk].after & !done == 0;
        let step: Vec<usize> = left.iter().copied().filter(is_ready).take(2).collect();
        left.retain(|chunk| !step.contains(chunk));
        done |= step.iter().fold(0, |all, chunk| all | 1 << chunk);
        steps.push((step[0], step.get(1).copied()));
    }
    steps
}
