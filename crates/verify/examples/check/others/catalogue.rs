//! The losing positions inside squares in the byte layouts of another program, compared with the
//! SHA-256 sums that were published with it.
//!
//! The program is georgeyanceyjr-hash/chomp-fast; `chomp-export` makes its **catalogues** and
//! **checkpoints**. It finds losing positions by another algorithm: class by class of equal rows and
//! columns.

use std::io;
use std::ops::ControlFlow;

use chomp_export::{ExportError, ExportRequest, Filter, Format, Rectangle, export};
use chomp_table::{Digest, Table};
use chomp_verify::CheckError;
use chomp_verify::survey::Survey;

use super::ensure;

/// SHA-256 sums of catalogues: the side of the square, and the sum. From `SHA256SUMS` (V5) and
/// `20x20_V11_MANIFEST.json`. (An older one for 18x18 is of a faulty version, 38,331,741 positions,
/// as its author says.)
pub(crate) const CATALOGUES: [(u32, &str); 2] = [
    (
        19,
        "7fd428e2381a464b588dcc6b631d021f4003a0b79b84945006929f7e21f7e0fb",
    ),
    (
        20,
        "b2d8e2bda7c158162fc61f14f294d5deeba0acbe96c1fd62ba1e765924a88ec4",
    ),
];

/// SHA-256 sums of checkpoints: the side of the square, and the sum. From `verify_v8_8.py`,
/// `18x18_V10_MANIFEST.json` and `SHA256SUMS` (V5).
pub(crate) const CHECKPOINTS: [(u32, &str); 3] = [
    (
        8,
        "9e1779f0056efce30ac104fb10fb321afb649a467d314c3e5c257859c6ccd491",
    ),
    (
        18,
        "a0cb64b2783f8a650e16ab25f8ab0696dbe3e6789728ac2d9fdcc213954e5b8a",
    ),
    (
        19,
        "723271af0730f423cd529f462907feb177f210fcc8ac9c38b01d5070fa99ed06",
    ),
];

/// A file of the other program that a table gives as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SameFile {
    /// "catalogue" or "checkpoint".
    pub(crate) kind: &'static str,
    /// The side of the square.
    pub(crate) side: u32,
    /// The length of the file in bytes.
    pub(crate) bytes: u64,
    /// Its digest, the published one.
    pub(crate) sha256: Digest,
}

/// Compares with all published sums for squares that the table covers, and calls `progress` with
/// each file that is the same.
///
/// Sorting takes up to `memory` bytes. Fails if the table cannot be read, gives another sum, or another number of
/// positions in a catalogue than the survey found. Panics if the survey is not that of the table.
pub(crate) fn check_published(
    table: &Table,
    survey: &Survey,
    memory: u64,
    mut progress: impl FnMut(&SameFile),
) -> Result<(), CheckError> {
    let bits = table.manifest().bits;
    assert!(survey.bits() == bits, "a survey of the table");
    let checkpoints =
        CHECKPOINTS.map(|(side, sum)| ("checkpoint", Format::ChompFastCheckpoint, side, sum));
    let catalogues = CATALOGUES.map(|(side, sum)| ("catalogue", Format::ChompFast, side, sum));
    for (kind, format, side, published) in checkpoints.into_iter().chain(catalogues) {
        if 2 * side > bits {
            continue;
        }
        let within = Rectangle::new(side, side);
        let filter = Filter {
            within,
            ..Filter::default()
        };
        let request = ExportRequest {
            format,
            filter,
            memory,
        };
        let go_on = &mut |_| ControlFlow::Continue(());
        let made =
            export(table, &request, &mut io::sink(), go_on).map_err(|error| match error {
                ExportError::Table(error) => error,
                error => unreachable!(
                    "a square that the table covers, and a sink that takes all: {error}"
                ),
            })?;
        ensure(made.sha256.to_string() == published, || {
            format!(
                "the table gives the {kind} for {side}x{side} the SHA-256 {}; chomp-fast published {published}",
                made.sha256
            )
        })?;
        let inside = survey.inside(side, side);
        ensure(
            kind != "catalogue" || inside == Some(made.positions),
            || {
                format!(
                    "the catalogue for {side}x{side} has {} positions, and the survey found {inside:?}",
                    made.positions
                )
            },
        )?;
        progress(&SameFile {
            kind,
            side,
            bytes: made.bytes,
            sha256: made.sha256,
        });
    }
    Ok(())
}
