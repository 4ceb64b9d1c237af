//! Goes through all first rows, one after the other.

#[cfg(test)]
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::atomic::AtomicU64;

use crate::ThinError;
use crate::bounds::Bounds;
use crate::layout::{Layout, SLACK};
use crate::scratch::{RowReader, Scratch};
use crate::summary::BoxSummary;
use crate::sweep::{SharedTables, Sweep};
use crate::tally::RowPair;

mod column;

use column::Column;
use parking_lot::Mutex;

/// The fewest rows of boards whose first three rows are gone through in steps, by several threads.
const ROWS_STEPPED: usize = 7;

/// Hears how many positions are done, and says whether to go on.
pub type Control<'a> = &'a (dyn Fn(u64) -> bool + Sync);

type OptionalBitmap = Mutex<Vec<u8>>;

/// The most bytes that a solver takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// With F of the first row in memory.
    pub whole: u64,
    /// With F of the first row in a scratch.
    pub streamed: u64,
}

impl Memory {
    /// The memory for these boards with `threads` threads.
    pub fn of(bounds: &Bounds, threads: NonZeroUsize) -> Memory {
        Memory::of_tables(
            &SharedTables::new(bounds.clone()),
            bounds.columns(),
            threads,
        )
    }

    fn of_tables(tables: &SharedTables, columns: usize, threads: NonZeroUsize) -> Memory {
        let rows = tables.inner.rows();
        if rows < ROWS_STEPPED {
            let whole = tables.sweep_bytes(0, columns) as u64;
            return Memory {
                whole,
                streamed: whole,
            };
        }
        let size = |level: usize, bound: usize| tables.layout.size(level, bound);
        let first = size(rows - 1, columns - 1);
        let second = size(rows - 2, columns - 1);
        let copies = size(rows - 3, columns).saturating_mul(2);
        let sweeps = tables.sweep_bytes(3, columns).saturating_mul(threads.get());
        let rest = second.saturating_add(copies).saturating_add(sweeps) as u64;
        let in_hand =
            (second as u64).saturating_add((copies as u64).saturating_mul(threads.get() as u64));
        Memory {
            whole: rest.saturating_add(first as u64),
            streamed: rest.saturating_add(in_hand),
        }
    }
}

/// Finds all losing positions within some [`Bounds`].
#[derive(Debug)]
pub struct Solver {
    tables: SharedTables,
    threads: NonZeroUsize,
    memory: u64,
    scratch: Option<Box<dyn Scratch>>,
    summary: BoxSummary,
    /// F of the first row, for each second and third one; if it is streamed, only that for the next second row.
    first: Vec<Vec<OptionalBitmap>>,
    is_streamed: bool,
    /// F of the second row, for each third one.
    second: Vec<OptionalBitmap>,
    /// The columns whose state is in the scratch.
    saved: usize,
    done: AtomicU64,
    #[cfg(test)]
    pub(crate) ranks: BTreeSet<u64>,
}

impl Solver {
    /// A solver for these boards. With a scratch, it continues from the state there, and streams F of the first row
    /// through the scratch if the memory is too small. Fails if the scratch cannot be used.
    pub fn new(
        bounds: Bounds,
        threads: NonZeroUsize,
        memory: u64,
        scratch: Option<Box<dyn Scratch>>,
    ) -> Result<Solver, ThinError> {
        let columns = bounds.columns();
        let left = scratch
            .as_ref()
            .map_or(Ok(None), |scratch| scratch.summary())?;
        if let Some(BoxSummary { rows: found, .. }) = left
            && found != bounds.rows()
        {
            return Err(ThinError::Rows { found });
        }
        let first =
            (0..=columns).map(|second| (0..=second).map(|_| OptionalBitmap::default()).collect());
        let mut solver = Solver {
            summary: left.unwrap_or_else(|| BoxSummary::new(&bounds)),
            threads,
            memory,
            scratch,
            first: first.collect(),
            is_streamed: false,
            second: (0..=columns).map(|_| OptionalBitmap::default()).collect(),
            saved: 0,
            done: AtomicU64::new(0),
            #[cfg(test)]
            ranks: BTreeSet::new(),
            tables: SharedTables::new(bounds),
        };
        solver.saved = solver.summary.columns();
        if solver.is_finished() {
            return Ok(solver);
        }
        let rows = solver.tables.bounds.rows();
        let done = solver.tables.bounds.sequences(rows, solver.saved + 1);
        solver.done = AtomicU64::new(done);
        solver.is_streamed = solver.saved > 0 && solver.must_stream();
        if solver.saved == 0 {
            *solver.first[0][0].lock() = Layout::empty();
        } else if !solver.is_streamed {
            solver.load()?;
        }
        Ok(solver)
    }

    /// The summary of the columns that are done.
    pub fn summary(&self) -> &BoxSummary {
        &self.summary
    }

    /// Whether all columns are done.
    pub fn is_finished(&self) -> bool {
        self.summary.columns() >= self.tables.bounds.columns()
    }

    /// Whether F of the first row is in the scratch.
    pub fn is_streamed(&self) -> bool {
        self.is_streamed
    }

    fn must_stream(&self) -> bool {
        let next = self.summary.columns() + 1;
        // The first column begins without files.
        next > 1
            && self.scratch.is_some()
            && Memory::of_tables(&self.tables, next, self.threads).whole > self.memory
    }

    /// Solves the next column, or all columns if there are few rows. False if `control` stopped it. After that the
    /// solver must not be used. Fails if the scratch fails.
    pub fn advance(&mut self, control: Control<'_>) -> Result<bool, ThinError> {
        if self.tables.inner.rows() < ROWS_STEPPED {
            let mut sweep = Sweep::new(&self.tables, 0);
            sweep.all();
            let pairs = sweep.tally.pairs();
            for columns in 1..=self.tables.bounds.columns() {
                let of_it: Vec<&RowPair> =
                    pairs.iter().filter(|pair| pair.first == columns).collect();
                self.add(&of_it);
            }
            return Ok(true);
        }
        if !self.is_streamed && self.must_stream() {
            self.save()?;
            let cells = self.first.iter().flatten();
            cells.for_each(|cell| drop(take(cell)));
            self.is_streamed = true;
        }
        let Some(pairs) = Column::new(self).run(control)? else {
            return Ok(false);
        };
        self.add(&pairs.iter().collect::<Vec<_>>());
        if self.is_streamed && !self.is_finished() {
            self.commit()?;
        }
        Ok(true)
    }

    fn add(&mut self, pairs: &[&RowPair]) {
        #[cfg(test)]
        self.ranks.extend(pairs.iter().flat_map(|pair| &pair.ranks));
        self.summary.add(pairs);
    }

    /// Saves the state in the scratch, if there is one and a later run could go on from it. Fails if the scratch does.
    pub fn save(&mut self) -> Result<(), ThinError> {
        let columns = self.summary.columns();
        let Some(scratch) = &self.scratch else {
            return Ok(());
        };
        if columns == 0 || columns == self.saved || self.is_finished() {
            return Ok(());
        }
        for (second, cells) in self.first.iter().enumerate().take(columns + 1) {
            let mut writer = scratch.writer(columns, second)?;
            for (third, cell) in cells.iter().enumerate() {
                writer.write(third, meaning(&cell.lock()))?;
            }
            writer.finish()?;
        }
        self.commit()
    }

    fn commit(&mut self) -> Result<(), ThinError> {
        if let Some(scratch) = &self.scratch {
            scratch.commit(&self.summary)?;
            self.saved = self.summary.columns();
        }
        Ok(())
    }

    fn load(&self) -> Result<(), ThinError> {
        let Some(scratch) = &self.scratch else {
            return Ok(());
        };
        for (second, cells) in self.first.iter().enumerate().take(self.saved + 1) {
            let mut reader = scratch.reader(self.saved, second)?;
            for (third, cell) in cells.iter().enumerate() {
                *cell.lock() = self.read(&mut *reader, third)?;
            }
        }
        Ok(())
    }

    fn read(&self, reader: &mut dyn RowReader, third: usize) -> Result<Vec<u8>, ThinError> {
        let size = self.tables.layout.size(self.tables.inner.rows() - 3, third);
        let mut bitmap = vec![0; size + SLACK];
        reader.read(third, &mut bitmap[..size])?;
        Ok(bitmap)
    }
}

/// The bytes of a bitmap without the slack behind it.
fn meaning(bitmap: &[u8]) -> &[u8] {
    &bitmap[..bitmap.len() - SLACK]
}

fn take(cell: &OptionalBitmap) -> Vec<u8> {
    std::mem::take(&mut cell.lock())
}
