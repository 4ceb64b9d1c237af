//! Ranges in memory, of tables of any kind.

use chomp_kernel::Source;
use chomp_table::format::{Damage, FormatError};
use chomp_table::{Division, Head};

/// A range in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Its losing words.
    Words(Source),
    /// Its values.
    Values { head: Head, values: Vec<u8> },
}

impl Known {
    /// The range `head`, of which this is the record.
    ///
    /// # Errors
    ///
    /// If it is no record, or that of another range.
    pub(crate) fn decode(
        head: Head,
        record: &[u8],
        division: Division,
    ) -> Result<Known, FormatError> {
        match division {
            Division::Words(bits) => {
                let source = Source::decode(record, bits)?;
                if source.head() != head {
                    let what = format!("it is of range {}", source.head());
                    return Err(Damage::new(what).into());
                }
                Ok(Known::Words(source))
            }
            Division::Ranks(bits) => {
                let values = bits.decode(head, record)?;
                Ok(Known::Values { head, values })
            }
        }
    }

    /// Which range it is.
    pub(crate) fn head(&self) -> Head {
        match self {
            Known::Words(source) => source.head(),
            Known::Values { head, .. } => *head,
        }
    }

    /// The bytes that it takes.
    pub(crate) fn memory(&self) -> u64 {
        match self {
            Known::Words(source) => source.memory(),
            Known::Values { values, .. } => values.capacity() as u64,
        }
    }

    /// Its losing words, if it has words.
    pub(crate) fn words(&self) -> Option<&Source> {
        match self {
            Known::Words(source) => Some(source),
            Known::Values { .. } => None,
        }
    }

    /// Its values, if it has values.
    pub(crate) fn values(&self) -> Option<&[u8]> {
        match self {
            Known::Values { values, .. } => Some(values),
            Known::Words(_) => None,
        }
    }
}
