//! One thread's way through the positions that begin with given rows.

use crate::bounds::Bounds;
use crate::last::{self, Last, MASK_WORDS, SMALL, load, store};
use crate::layout::{ATOM, Layout, SLACK};
use crate::tally::{FirstMove, Tally};

/// The rows of a block. A sweep decides all positions at once that differ in their last `BLOCK` rows only.
pub(crate) const BLOCK: usize = ATOM + 1;
/// How many bytes of bitmaps are united at a time.
const PIECE: usize = 32;

#[derive(Debug)]
pub(crate) struct SharedTables {
    /// The positions that are asked for.
    pub(crate) bounds: Bounds,
    /// The positions that are computed: at least as many rows as a block has.
    pub(crate) inner: Bounds,
    pub(crate) layout: Layout,
    last: Last,
}

impl SharedTables {
    pub(crate) fn new(bounds: Bounds) -> SharedTables {
        let (rows, columns) = (bounds.rows().max(BLOCK), bounds.columns());
        let inner = Bounds::new(rows, columns).expect("four rows are few");
        SharedTables {
            layout: Layout::new(rows, columns),
            last: Last::new(columns),
            bounds,
            inner,
        }
    }

    /// The bytes of a sweep that begins with `first` rows given.
    pub(crate) fn sweep_bytes(&self, first: usize, columns: usize) -> usize {
        let rows = self.inner.rows();
        let levels = BLOCK..=rows - first.max(1);
        let own: usize = levels.map(|level| self.layout.size(level, columns)).sum();
        own + 2 * self.layout.size(BLOCK, columns) + 3 * last::bits(columns) / 8
    }
}

pub(crate) struct Sweep<'a> {
    tables: &'a SharedTables,
    pub(crate) tally: Tally<'a>,
    /// The lengths of the rows before the block.
    rows: Vec<u8>,
    /// F of those rows that only this sweep changes, from row `own_from` on; the last is that of an atom.
    own: Vec<Vec<u8>>,
    own_from: usize,
    /// For each row before the block: where in F the bits of the present rows begin.
    at: Vec<usize>,
    taken: Vec<u8>,
    losing: Vec<u8>,
    atom: Vec<u64>,
    /// The losing positions of a block: how many of its positions come before.
    found: Vec<u32>,
    /// How many of them have a row of an atom's first, second, third rank.
    by_rows: [u64; ATOM + 1],
    /// F of the rows before this one is no longer written, as nobody reads it again.
    pub(crate) write_from: usize,
}

impl<'a> Sweep<'a> {
    /// A sweep that begins with `first` rows given: F of the others is its own, and that of the last given one too.
    pub(crate) fn new(tables: &'a SharedTables, first: usize) -> Sweep<'a> {
        let (rows, columns) = (tables.inner.rows(), tables.inner.columns());
        let block = tables.layout.size(BLOCK, columns) + SLACK;
        let own_from = first.max(1);
        let own = (own_from..=rows - BLOCK).map(|row| tables.layout.size(rows - row, columns));
        let mut own: Vec<_> = own.map(|size| vec![0; size + SLACK]).collect();
        own.push(vec![0; last::bits(columns).div_ceil(8) + SLACK]);
        Sweep {
            tables,
            tally: Tally::new(&tables.bounds),
            rows: vec![0; rows - BLOCK],
            own,
            own_from,
            at: vec![0; rows - BLOCK],
            taken: vec![0; block],
            losing: vec![0; block],
            atom: Vec::new(),
            found: Vec::new(),
            by_rows: [0; ATOM + 1],
            write_from: 0,
        }
    }

    /// Goes through all positions with these first three rows. `shared` is F of the first two for these.
    pub(crate) fn step(&mut self, shared: &mut [&mut [u8]], rows: [usize; 3], may_grow: bool) {
        let (level, third) = (self.tables.inner.rows() - 3, rows[2]);
        let mut rank = 0;
        for (row, &length) in rows.iter().enumerate() {
            rank += self.set(row, length);
        }
        self.at.fill(0);
        if third == 0 {
            self.own[0][0] = 0;
        }
        self.below(shared, 3, third, rank);
        if may_grow {
            let layout = &self.tables.layout;
            layout.grow(&mut self.own[0], 0, level, third);
        }
    }

    pub(crate) fn all(&mut self) {
        self.below(&mut [], 0, self.tables.inner.columns(), 0);
    }

    /// Sets the length of a row, and returns how many positions come before for that.
    fn set(&mut self, row: usize, length: usize) -> u64 {
        self.rows[row] = u8::try_from(length).expect("at most 250 columns");
        let left = self.tables.inner.rows() - row;
        self.tables.inner.sequences(left, length)
    }

    /// Goes through all positions that begin with the first `given` rows, the last of which has the length `bound`.
    fn below(&mut self, shared: &mut [&mut [u8]], given: usize, bound: usize, rank: u64) {
        let tables = self.tables;
        let level = tables.inner.rows() - given;
        if level == BLOCK {
            return self.block(shared, bound, rank);
        }
        let own = given + 1 - self.own_from;
        self.own[own][0] = 0;
        for length in 0..=bound {
            let before = self.set(given, length);
            let start = tables.layout.start(level, length);
            self.at[given] = 0;
            self.at[..given].iter_mut().for_each(|at| *at += start);
            self.below(shared, given + 1, length, rank + before);
            self.at[..given].iter_mut().for_each(|at| *at -= start);
            if length < bound {
                tables.layout.grow(&mut self.own[own], 0, level - 1, length);
            }
        }
    }

    fn block(&mut self, shared: &mut [&mut [u8]], bound: usize, rank: u64) {
        let size = self
            .tables
            .layout
            .size(BLOCK, bound)
            .next_multiple_of(PIECE);
        let streams = self.at.len();
        let (taken, losing) = (&mut self.taken[..size], &mut self.losing[..size]);
        taken.fill(0);
        for (row, &at) in self.at.iter().enumerate() {
            let stream = match shared.get(row) {
                Some(shared) => &**shared,
                None => &self.own[row + 1 - self.own_from],
            };
            unite(taken, &stream[at..at + size]);
        }
        losing.fill(0);
        self.found.clear();
        self.atoms(bound, rank);
        if self.found.is_empty() {
            return;
        }
        for row in self.write_from..streams {
            let at = self.at[row];
            let stream = match shared.get_mut(row) {
                Some(shared) => &mut **shared,
                None => &mut self.own[row + 1 - self.own_from],
            };
            unite(&mut stream[at..at + size], &self.losing[..size]);
        }
        self.tell(rank);
    }

    /// Finds the losing positions of a block, when `taken` has those that moves in the rows before it exclude.
    fn atoms(&mut self, bound: usize, rank: u64) {
        // Nothing is said of the empty position: the other player has just eaten the poison.
        let mut set = u64::from(rank == 0);
        let mut before = 0;
        for length in 0..=bound.min(SMALL) {
            let bits = last::bits(length);
            let at = self.tables.layout.start(BLOCK, length);
            let free = !(load(&self.taken, at) | set) & ((1 << bits) - 1);
            let losing = self.tables.last.solve_small(free, |index| {
                self.found.push((before + index) as u32);
                self.by_rows[self.tables.last.rows(index)] += u64::from(length > 0);
            });
            store(&mut self.losing, at, losing);
            if length == SMALL {
                store(
                    &mut self.own[self.at.len() + 1 - self.own_from],
                    0,
                    set | losing,
                );
            } else if length == 0 && rank == 0 {
                set = 0;
            } else {
                set = last::grow_small(set | losing, length);
            }
            before += bits;
        }
        for length in SMALL + 1..=bound {
            last::grow(self.own.last_mut().expect("that of atoms"), length - 1);
            self.atom(length, before);
            before += last::bits(length);
        }
    }

    /// Finds the losing positions of an atom that is larger than a word.
    fn atom(&mut self, length: usize, before: usize) {
        let (last, at) = (&self.tables.last, self.tables.layout.start(BLOCK, length));
        let set = self.own.last_mut().expect("that of atoms");
        let (bits, taken) = (last::bits(length), &self.taken);
        self.atom.clear();
        let words = bits.div_ceil(64);
        let all = (0..words).map(|word| load(taken, at + 8 * word) | load(set, 8 * word));
        self.atom.extend(all);
        if bits % 64 > 0 {
            self.atom[bits / 64] |= !0 << (bits % 64);
        }
        self.atom.resize(words.max(MASK_WORDS), 0);
        let put = |word: usize, losing: u64| {
            store(&mut self.losing, at + 8 * word, losing);
            let all = load(set, 8 * word) | losing;
            store(set, 8 * word, all);
        };
        last.solve(length, words, &mut self.atom, put, |index| {
            self.found.push((before + index) as u32);
            self.by_rows[last.rows(index)] += 1;
        });
    }

    fn tell(&mut self, rank: u64) {
        let ranks = self.found.iter().map(|&place| rank + u64::from(place));
        let by_rows = std::mem::take(&mut self.by_rows);
        let SharedTables { bounds, inner, .. } = self.tables;
        if inner.rows() < BLOCK + 2 {
            // The first two rows are not the same in all of a block.
            for rank in ranks {
                let position = inner.position(rank);
                let (rows, beyond) = position.split_at(bounds.rows());
                if beyond.iter().all(|&r| r == 0) {
                    self.tally.take(rows);
                }
            }
            return;
        }
        self.tally.begin(self.rows[0].into(), self.rows[1].into());
        if FirstMove::may_lead_to(&self.rows) {
            ranks
                .clone()
                .for_each(|rank| self.tally.look_at(&inner.position(rank)));
        }
        let shorter = self.found.len() as u64 - by_rows.iter().sum::<u64>();
        let rows = self.rows.iter().filter(|&&r| r > 0).count();
        self.tally.count(rows, shorter);
        for (more, &count) in by_rows.iter().enumerate() {
            self.tally.count(self.rows.len() + 1 + more, count);
        }
        self.tally.extend(ranks);
    }
}

fn unite(all: &mut [u8], more: &[u8]) {
    let (all, _) = all.as_chunks_mut::<PIECE>();
    let (more, _) = more.as_chunks::<PIECE>();
    for (all, more) in all.iter_mut().zip(more) {
        for (all, more) in all.iter_mut().zip(more) {
            *all |= more;
        }
    }
}
