//! The pages, and the data of a table that they need, as plain files for hosts that run no program.

use std::ops::ControlFlow;
use std::path::Path;

use chomp_query::{openings_to, with_boxes};
use chomp_table::{Table, TableError};

use crate::answer::json_line;
use crate::open_table::{AreaCounts, TableSummary, count_by_area};
use crate::pages;

/// A file: its path, its bytes.
pub type PlainFile = (String, Vec<u8>);

/// The pages that need no server, and the data that they need, as files with their paths. The data are about the
/// positions of `table` with at most `bits` bits, and the openings in the files `box-….json` of `directory`. `about` is
/// the content of the page about the files, as HTML. `watch` gets the number of stored words counted so far. If it
/// returns `Break`, the result is None.
pub fn plain_files(
    table: &Table,
    directory: &Path,
    bits: u32,
    about: &str,
    watch: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Option<Vec<PlainFile>>, TableError> {
    let mut goes_on = true;
    let by_area = count_by_area(table, bits, |counted| {
        goes_on = watch(counted).is_continue();
        goes_on
    })?;
    if !goes_on {
        return Ok(None);
    }
    let openings = with_boxes(openings_to(table, bits)?, directory)?;
    let summary = TableSummary::new(table.manifest(), bits);
    let counts = AreaCounts {
        counted: summary.facts.stored,
        stored: summary.facts.stored,
        complete_to: bits.saturating_sub(1),
        losing_by_area: Some(by_area),
    };
    let data = [
        ("table", json_line(&summary)),
        ("openings", json_line(&openings)),
        ("counts", json_line(&counts)),
    ];
    let data = data.map(|(name, text)| (format!("data/{name}.json"), text.into_bytes()));
    Ok(Some(
        pages::without_server(about)
            .into_iter()
            .chain(data)
            .collect(),
    ))
}
