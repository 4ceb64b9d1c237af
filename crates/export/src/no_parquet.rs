//! Refuses [Parquet](crate::Format::Parquet) in a build without the feature `parquet`.

use std::io::Write;

use chomp_table::Digest;

use crate::rows::RequestedRows;
use crate::words::Words;
use crate::{ExportError, Pieces};

pub(crate) fn write(_: &mut Words<'_>, _: &mut dyn Write) -> Result<u64, ExportError> {
    Err(ExportError::WithoutParquet)
}

pub(crate) fn write_values(
    _: &mut RequestedRows<'_>,
    _: &mut dyn Write,
) -> Result<u64, ExportError> {
    Err(ExportError::WithoutParquet)
}

pub(crate) fn write_few(
    _: (usize, Digest),
    _: &mut impl Pieces<Item = [u32; 5]>,
    _: &mut dyn Write,
) -> Result<u64, ExportError> {
    Err(ExportError::WithoutParquet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_parquet_the_command_that_builds_it_in_is_named() {
        let told = ExportError::WithoutParquet.to_string();
        assert!(told.starts_with("this program was built without Parquet; `cargo install "));
        assert!(told.contains("--features full"), "{told}");
    }
}
