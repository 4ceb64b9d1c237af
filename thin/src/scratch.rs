//! What keeps F of the first row between two columns, if the memory does not: somewhere outside of this crate.

use std::fmt::Debug;

use crate::ThinError;
use crate::summary::Summary;

/// Keeps, for some number n of columns, what is known of them, and for each second row from 0 to n the bitmaps of the third
/// rows from 0 to that one.
pub trait Scratch: Debug + Send + Sync {
    /// What was committed last, if anything was.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is not what was written.
    fn summary(&self) -> Result<Option<Summary>, ThinError>;

    /// Says that all bitmaps of so many columns are there; those of other columns are of no more use.
    ///
    /// # Errors
    ///
    /// If it cannot be written. Then what was committed before still holds.
    fn commit(&self, summary: &Summary) -> Result<(), ThinError>;

    /// Reads the bitmaps of a second row.
    ///
    /// # Errors
    ///
    /// If they are not there.
    fn reader(&self, columns: usize, second: usize) -> Result<Box<dyn RowReader>, ThinError>;

    /// Writes the bitmaps of a second row.
    ///
    /// # Errors
    ///
    /// If that cannot begin.
    fn writer(&self, columns: usize, second: usize) -> Result<Box<dyn RowWriter>, ThinError>;
}

/// Reads the bitmaps of a second row, in the order of the third ones.
pub trait RowReader {
    /// Fills this with the bitmap of the next third row.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is not what was written.
    fn read(&mut self, third: usize, bitmap: &mut [u8]) -> Result<(), ThinError>;
}

/// Writes the bitmaps of a second row, in the order of the third ones.
pub trait RowWriter {
    /// Adds the bitmap of the next third row.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    fn write(&mut self, third: usize, bitmap: &[u8]) -> Result<(), ThinError>;

    /// Makes what was written last.
    ///
    /// # Errors
    ///
    /// If it cannot.
    fn finish(self: Box<Self>) -> Result<(), ThinError>;
}
