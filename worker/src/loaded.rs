//! Ranges in memory, of a table of either kind.

use chomp_kernel::Source;
use chomp_table::format::{Damage, FormatError};
use chomp_table::{Division, Head};

/// A range in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LoadedRange {
    /// Its losing words.
    Words(Source),
    /// Its values.
    Values { head: Head, values: Vec<u8> },
}

impl LoadedRange {
    /// Decodes the record of the range `head`.
    ///
    /// # Errors
    ///
    /// If these bytes are no record, or the record of another range.
    pub(crate) fn decode(
        head: Head,
        record: &[u8],
        division: Division,
    ) -> Result<LoadedRange, FormatError> {
        match division {
            Division::Words(bits) => {
                let source = Source::decode(record, bits)?;
                if source.head() != head {
                    let what = format!("it is of range {}", source.head());
                    return Err(Damage::new(what).into());
                }
                Ok(LoadedRange::Words(source))
            }
            Division::Ranks(bits) => {
                let values = bits.decode(head, record)?;
                Ok(LoadedRange::Values { head, values })
            }
        }
    }

    /// The number of the range.
    pub(crate) fn head(&self) -> Head {
        match self {
            LoadedRange::Words(source) => source.head(),
            LoadedRange::Values { head, .. } => *head,
        }
    }

    /// The bytes that it takes.
    pub(crate) fn memory(&self) -> u64 {
        match self {
            LoadedRange::Words(source) => source.memory(),
            LoadedRange::Values { values, .. } => values.capacity() as u64,
        }
    }

    /// Its losing words, if it has words.
    pub(crate) fn words(&self) -> Option<&Source> {
        match self {
            LoadedRange::Words(source) => Some(source),
            LoadedRange::Values { .. } => None,
        }
    }

    /// Its values, if it has values.
    pub(crate) fn values(&self) -> Option<&[u8]> {
        match self {
            LoadedRange::Values { values, .. } => Some(values),
            LoadedRange::Words(_) => None,
        }
    }
}
