//! A store outside of this crate, which keeps F of the first row between two columns if the memory cannot.

use std::fmt::Debug;

use crate::ThinError;
use crate::summary::BoxSummary;

/// Keeps the state after n columns: their summary, and for each second row, from 0 to n, the bitmaps of its third rows.
pub trait Scratch: Debug + Send + Sync {
    /// The summary that was committed last, if any. Fails if it cannot be read, or is not what was written.
    fn summary(&self) -> Result<Option<BoxSummary>, ThinError>;

    /// Declares that all bitmaps of the summary's columns are written. Bitmaps of other columns may be removed. Fails
    /// if the summary cannot be written. Then the state that was committed before is still valid.
    fn commit(&self, summary: &BoxSummary) -> Result<(), ThinError>;

    /// Reads the bitmaps of a second row. Fails if they are not there.
    fn reader(&self, columns: usize, second: usize) -> Result<Box<dyn RowReader>, ThinError>;

    /// Writes the bitmaps of a second row. Fails if that cannot begin.
    fn writer(&self, columns: usize, second: usize) -> Result<Box<dyn RowWriter>, ThinError>;
}

/// Reads the bitmaps of a second row, in the order of the third ones.
pub trait RowReader {
    /// Fills this with the bitmap of the next third row. Fails if it cannot be read, or is not what was written.
    fn read(&mut self, third: usize, bitmap: &mut [u8]) -> Result<(), ThinError>;
}

/// Writes the bitmaps of a second row, in the order of the third ones.
pub trait RowWriter {
    /// Adds the bitmap of the next third row. Fails if it cannot be written.
    fn write(&mut self, third: usize, bitmap: &[u8]) -> Result<(), ThinError>;

    /// Makes the written bitmaps durable. Fails if it cannot.
    fn finish(self: Box<Self>) -> Result<(), ThinError>;
}
