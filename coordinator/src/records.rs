//! The records of ranges that are done, read as the journal names them.

use chomp_store::part::read_records;
use chomp_store::{RangeRow, StoreError};
use chomp_table::format::{FormatError, describe};
use chomp_table::range;
use chomp_table::{Digest, Head, RangeBits};

use crate::tools::Tools;

/// Why a record was not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("range {head} is needed and is not done")]
    RangeNotDone { head: Head },
    /// A record is lost, or its bytes are not a range: the range has to be computed again.
    #[error("a record that is needed is lost")]
    Lost {
        head: Head,
        /// The digest that its record should have.
        digest: Digest,
        source: StoreError,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ReadError {
    pub(crate) fn lost(&self) -> Option<(Head, Digest)> {
        match self {
            ReadError::Lost { head, digest, .. } => Some((*head, *digest)),
            ReadError::RangeNotDone { .. } | ReadError::Store(_) => None,
        }
    }
}

impl Tools {
    /// Fails unless the record decodes, and is of this range with the counts in the journal.
    pub(crate) fn check_record(
        &self,
        head: Head,
        row: &RangeRow,
        record: &[u8],
    ) -> Result<(), StoreError> {
        let range = range::decode(record, self.range_bits());
        let range = range.map_err(|error| lost(head, row, describe(&error)))?;
        let (summary, _) = range::encode(&range, self.range_bits());
        if (summary.head, summary.count, summary.stored) == (head, row.count, row.stored) {
            return Ok(());
        }
        Err(lost(
            head,
            row,
            "it is of another range, or its counts are not those of the journal".to_owned(),
        ))
    }

    pub(crate) fn range_bits(&self) -> RangeBits {
        self.journal.ledger().range_bits
    }

    /// The ranges that are done among the first `head_count`, ascending.
    pub(crate) fn done_ranges(&self, head_count: u64) -> Vec<(Head, RangeRow)> {
        let ledger = self.journal.ledger();
        let done = ledger.done(head_count);
        done.map(|(head, row, _)| (head, *row)).collect()
    }

    pub(crate) fn done_range(&self, head: Head) -> Result<RangeRow, ReadError> {
        let row = self.journal.ledger().range(head).copied();
        row.ok_or(ReadError::RangeNotDone { head })
    }

    pub(crate) async fn read<T>(
        &self,
        head: Head,
        decode: impl Fn(&[u8]) -> Result<T, FormatError>,
    ) -> Result<T, ReadError> {
        let row = self.done_range(head)?;
        let mut read = self.read_all(&[(head, row)], decode).await?;
        Ok(read.pop().expect("one was read"))
    }

    pub(crate) async fn read_all<T>(
        &self,
        rows: &[(Head, RangeRow)],
        decode: impl Fn(&[u8]) -> Result<T, FormatError>,
    ) -> Result<Vec<T>, ReadError> {
        let records = read_records(&*self.storage, rows).await;
        let decoded = rows.iter().zip(records).map(|(&(head, row), record)| {
            let wrong = |error: FormatError| lost(head, &row, describe(&error));
            let decoded = record.and_then(|record| decode(&record).map_err(wrong));
            decoded.map_err(|error| match error {
                source @ StoreError::Lost { .. } => ReadError::Lost {
                    head,
                    digest: row.digest,
                    source,
                },
                other => other.into(),
            })
        });
        decoded.collect()
    }
}

fn lost(head: Head, row: &RangeRow, what: String) -> StoreError {
    let key = row.part().key();
    StoreError::Lost { head, key, what }
}
