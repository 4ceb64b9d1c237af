//! What stands for [Parquet](crate::Format::Parquet) in a build without the feature `parquet`.

use std::io::Write;

use crate::ExportError;
use crate::rows::Rows;
use crate::words::Words;

pub(crate) fn write(_: &mut Words<'_>, _: &mut dyn Write) -> Result<u64, ExportError> {
    Err(ExportError::WithoutParquet)
}

pub(crate) fn write_values(_: &mut Rows<'_>, _: &mut dyn Write) -> Result<u64, ExportError> {
    Err(ExportError::WithoutParquet)
}
