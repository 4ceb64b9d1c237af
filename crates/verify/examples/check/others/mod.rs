//! Comparisons of a table with what others have found, for the example `check` and the tests.

#![allow(
    dead_code,
    reason = "each program that has this module uses a part of it"
)]

pub(crate) mod catalogue;
pub(crate) mod openings;

use chomp_verify::CheckError;

/// `Wrong`, unless `holds`.
fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), CheckError> {
    if holds {
        Ok(())
    } else {
        Err(CheckError::Wrong(what()))
    }
}
