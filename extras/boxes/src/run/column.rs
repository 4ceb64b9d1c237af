//! The positions with the same first row, by threads that follow each other through the second ones.
//!
//! Each thread takes the next second row, and goes through the third ones in **steps**. A step needs F of the second
//! row as the step before left it that has the same third row; so it waits until the thread of the second row before
//! has made that step. The diagonals, on which rows are equal, are made from the last step of the row before.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;

use parking_lot::{Condvar, Mutex};

use crate::ThinError;
use crate::layout::Layout;
use crate::scratch::{RowReader, RowWriter};
use crate::sweep::Sweep;
use crate::tally::RowPair;

use super::{Control, Solver, meaning, take};

pub(super) struct Column<'a> {
    solver: &'a Solver,
    first: usize,
    next: AtomicUsize,
    steps: Mutex<Steps>,
    stepped: Condvar,
}

struct Steps {
    /// For each second row, how many third ones are done.
    done: Vec<usize>,
    is_stopped: bool,
}

/// Where F of the first row is read from and written to for one second row, if it is streamed.
struct ColumnFiles {
    reader: Option<Box<dyn RowReader>>,
    writer: Option<Box<dyn RowWriter>>,
}

impl<'a> Column<'a> {
    pub(super) fn new(solver: &'a Solver) -> Column<'a> {
        let first = solver.summary.columns() + 1;
        Column {
            solver,
            first,
            next: AtomicUsize::new(0),
            steps: Mutex::new(Steps {
                done: vec![0; first + 1],
                is_stopped: false,
            }),
            stepped: Condvar::new(),
        }
    }

    /// Solves the column. None if `control` stopped it.
    pub(super) fn run(self, control: Control<'_>) -> Result<Option<Vec<RowPair>>, ThinError> {
        let thread = || {
            let _guard = Guard(&self);
            let mut sweep = Sweep::new(&self.solver.tables, 3);
            let worked = self.work(&mut sweep, control);
            worked.inspect_err(|_| self.stop())?;
            Ok(sweep.tally.pairs())
        };
        let pairs = std::thread::scope(|scope| {
            let threads = 0..self.solver.threads.get();
            let threads: Vec<_> = threads.map(|_| scope.spawn(thread)).collect();
            let joined = threads.into_iter().map(ScopedJoinHandle::join);
            let joined = joined.map(|pairs| pairs.unwrap_or_else(|panic| resume_unwind(panic)));
            joined.collect::<Result<Vec<Vec<RowPair>>, ThinError>>()
        })?;
        let is_stopped = self.steps.lock().is_stopped;
        Ok((!is_stopped).then(|| pairs.concat()))
    }

    fn work(&self, sweep: &mut Sweep<'_>, control: Control<'_>) -> Result<(), ThinError> {
        let inner = &self.solver.tables.inner;
        loop {
            let second = self.next.fetch_add(1, Ordering::Relaxed);
            if second > self.first {
                return Ok(());
            }
            let mut files = self.files(second)?;
            for third in 0..=second {
                if !self.wait(second, third) {
                    return Ok(());
                }
                self.step(sweep, &mut files, second, third)?;
                let count = inner.sequences(inner.rows() - 3, third + 1);
                let done = self.solver.done.fetch_add(count, Ordering::Relaxed) + count;
                if !control(done) {
                    self.stop();
                    return Ok(());
                }
                self.steps.lock().done[second] += 1;
                self.stepped.notify_all();
            }
            files.writer.map_or(Ok(()), RowWriter::finish)?;
        }
    }

    fn is_last(&self) -> bool {
        self.first == self.solver.tables.bounds.columns()
    }

    fn step(
        &self,
        sweep: &mut Sweep<'_>,
        files: &mut ColumnFiles,
        second: usize,
        third: usize,
    ) -> Result<(), ThinError> {
        let Solver { tables, first, .. } = self.solver;
        let (layout, level) = (&tables.layout, tables.inner.rows() - 3);
        let mut of_first = match &mut files.reader {
            Some(reader) => self.solver.read(&mut **reader, third)?,
            None => take(&first[second][third]),
        };
        // With a second row as long as the first, S is that of both one shorter.
        let is_before_last = second + 1 == self.first;
        if is_before_last && third == second {
            *first[self.first][self.first].lock() = layout.grown(&of_first, level, third);
        }
        if is_before_last && !self.is_last() {
            first[self.first][third].lock().clone_from(&of_first);
        }
        let mut of_second = self.solver.second[third].lock();
        if second == 0 {
            *of_second = Layout::empty();
        }
        sweep.write_from = usize::from(self.is_last());
        sweep.step(
            &mut [&mut of_first, &mut of_second],
            [self.first, second, third],
            third < second,
        );
        if third == second && second < self.first {
            *self.solver.second[second + 1].lock() = layout.grown(&of_second, level, third);
        }
        if self.is_last() {
            // It has not changed, and nobody else asks for it.
            if is_before_last {
                *first[self.first][third].lock() = of_first;
            }
        } else if let Some(writer) = &mut files.writer {
            writer.write(third, meaning(&of_first))?;
        } else {
            *first[second][third].lock() = of_first;
        }
        Ok(())
    }

    /// The files of a second row. The last second row reads nothing: the row before it leaves its F in memory.
    fn files(&self, second: usize) -> Result<ColumnFiles, ThinError> {
        let scratch = self
            .solver
            .scratch
            .as_ref()
            .filter(|_| self.solver.is_streamed);
        let read = scratch.filter(|_| second < self.first);
        let written = scratch.filter(|_| !self.is_last());
        let reader = read.map(|scratch| scratch.reader(self.first - 1, second));
        let writer = written.map(|scratch| scratch.writer(self.first, second));
        Ok(ColumnFiles {
            reader: reader.transpose()?,
            writer: writer.transpose()?,
        })
    }

    /// Waits until the second row before has done this third row, or all it has. False if the column is stopped.
    fn wait(&self, second: usize, third: usize) -> bool {
        let waits = |steps: &mut Steps| {
            let before = second.checked_sub(1);
            !steps.is_stopped
                && before.is_some_and(|before| steps.done[before] < third.min(before) + 1)
        };
        let mut steps = self.steps.lock();
        self.stepped.wait_while(&mut steps, waits);
        !steps.is_stopped
    }

    fn stop(&self) {
        self.steps.lock().is_stopped = true;
        self.stepped.notify_all();
    }
}

/// Stops the other threads when this thread panics, as they would wait for it.
struct Guard<'a>(&'a Column<'a>);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}
