//! Refuses the formats that a build without the feature `formats` leaves out.

use crate::ExportError;

pub(crate) const PARQUET: ExportError = ExportError::LeftOut("Parquet");
pub(crate) const ROARING: ExportError = ExportError::LeftOut("Roaring bitmaps");

pub(crate) mod parquet {
    use std::io::Write;

    use chomp_table::Digest;

    use super::PARQUET;
    use crate::rows::RequestedRows;
    use crate::words::Words;
    use crate::{ExportError, Pieces};

    pub(crate) fn write(_: &mut Words<'_>, _: &mut dyn Write) -> Result<u64, ExportError> {
        Err(PARQUET)
    }

    pub(crate) fn write_values(
        _: &mut RequestedRows<'_>,
        _: &mut dyn Write,
    ) -> Result<u64, ExportError> {
        Err(PARQUET)
    }

    pub(crate) fn write_few(
        _: (usize, Digest),
        _: &mut impl Pieces<Item = [u32; 5]>,
        _: &mut dyn Write,
    ) -> Result<u64, ExportError> {
        Err(PARQUET)
    }
}

pub(crate) mod roaring {
    use std::io::Write;

    use super::ROARING;
    use crate::ExportError;
    use crate::words::Words;

    pub(crate) fn write(_: &mut Words<'_>, _: &mut dyn Write) -> Result<u64, ExportError> {
        Err(ROARING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_formats_the_command_that_builds_them_in_is_named() {
        for (error, name) in [(PARQUET, "Parquet"), (ROARING, "Roaring bitmaps")] {
            let message = error.to_string();
            let start = format!("this program was built without {name}; `cargo install ");
            assert!(message.starts_with(&start), "{message}");
            assert!(message.contains("--features full"), "{message}");
        }
    }
}
