//! The arbiter: evaluates a range, or merges a shard, that workers disagree about, fail at or do not check. It relies
//! on what the journal says is done, and on no worker's word for the unit itself.
//!
//! Like a worker, the arbiter puts a range into a part and a shard into the folder of the table.
//!
//! The arbiter keeps a CPU busy between reads. Callers run it on a thread that serves no calls.

use std::collections::HashMap;

use bytes::Bytes;
use chomp_kernel::{Evaluator, Isa, MissingSource, Source};
use chomp_plan::{Computed, Unit};
use chomp_store::merge::{MergeError, Merger, ShardBounds};
use chomp_store::part::{PartBuilder, read_records};
use chomp_store::{Difference, PartName, RangeRow, ShardSummary, StoreError, published};
use chomp_table::format::{FormatError, describe};
use chomp_table::manifest::folder_name;
use chomp_table::range::{self, RangeSummary};
use chomp_table::sources::sources;
use chomp_table::{Digest, Head, RangeBits};

use crate::tools::{Tools, UnitLocation};

/// The arbiter's parts are named for leases of its epoch from this number on: the plan gives out none so high.
const OWN_LEASES_START: u64 = 1 << 31;

/// Why the arbiter cannot decide.
#[expect(missing_docs, reason = "the variants are named for what they are")]
#[derive(Debug, thiserror::Error)]
pub enum ArbiterError {
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
    Merge(#[from] MergeError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ArbiterError {
    pub(crate) fn lost(&self) -> Option<(Head, Digest)> {
        match self {
            ArbiterError::Lost { head, digest, .. } => Some((*head, *digest)),
            ArbiterError::RangeNotDone { .. } | ArbiterError::Merge(_) | ArbiterError::Store(_) => {
                None
            }
        }
    }
}

impl Tools {
    /// Computes a unit and stores its record or file. `number` names the part, so no two calls have the same. `known`
    /// describes the file of a shard that is done.
    pub(crate) async fn compute(
        &self,
        number: u64,
        unit: Unit,
        known: Option<&ShardSummary>,
    ) -> Result<Computed<UnitLocation>, ArbiterError> {
        let head = match unit {
            Unit::Range(head) => head,
            Unit::Shard(shard) => return self.merge(shard, known).await,
        };
        let (summary, record) = self.evaluate(head).await?;
        let mut builder = PartBuilder::default();
        builder.push(summary, &record);
        let (bytes, placed) = builder.finish();
        let part = PartName {
            layer: head.layer(),
            lease: self.journal.epoch() << 32 | OWN_LEASES_START | number,
        };
        let created = self.storage.create(&part.key(), bytes).await;
        created.map_err(StoreError::from)?;
        Ok(Computed {
            range: Some(summary),
            digest: summary.digest,
            is_forged: false,
            location: UnitLocation::Record {
                lease: part.lease,
                placed: placed[0],
            },
        })
    }

    pub(crate) async fn evaluate(
        &self,
        head: Head,
    ) -> Result<(RangeSummary, Vec<u8>), ArbiterError> {
        let range_bits = self.range_bits();
        let mut known = HashMap::new();
        for source in sources(head, range_bits) {
            let decode = |record: &[u8]| Source::decode(record, range_bits);
            known.insert(source, self.read(source, decode).await?);
        }
        let range = Evaluator::new(range_bits, Isa::Portable)
            .evaluate(head, &known)
            .map_err(|MissingSource(head)| ArbiterError::RangeNotDone { head })?;
        Ok(range::encode(&range, range_bits))
    }

    /// Merges a shard. If the shard is done, `known` describes its file, and the words in the file are compared.
    pub(crate) async fn merge(
        &self,
        shard: u32,
        known: Option<&ShardSummary>,
    ) -> Result<Computed<UnitLocation>, ArbiterError> {
        let range_bits = self.range_bits();
        let bounds = self.bounds(shard)?;
        let mut filling = Merger::new(self.bits, range_bits, self.shard_size, bounds);
        while let Some(head) = filling.next_head() {
            let row = self.done_range(head)?;
            let decode = |record: &[u8]| range::decode(record, range_bits);
            let range = self.read(head, decode).await?;
            let pushed = filling.push(head, &range.losing, row.stored);
            pushed.map_err(|error| match error {
                MergeError::Stored { .. } => ArbiterError::Lost {
                    head,
                    digest: row.digest,
                    source: lost(head, &row, error.to_string()),
                },
                error => error.into(),
            })?;
        }
        let (summary, bytes) = filling.finish()?;
        let is_forged = match known {
            Some(known) => self.is_forged(known, &summary).await?,
            None => false,
        };
        if let (Some(file), Some(bytes)) = (summary.file(), bytes) {
            let folder = folder_name(self.bits);
            let key = published::key(&folder, &file.name);
            let key = key.expect("the name of a shard can be part of a key");
            published::put(&*self.storage, &folder, &key, bytes.into()).await?;
        }
        Ok(Computed {
            range: None,
            digest: summary.words_digest(),
            is_forged,
            location: UnitLocation::Shard(Box::new(summary)),
        })
    }

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

    /// Whether the file of a shard is as `known` describes it, but has other words than the ranges.
    async fn is_forged(
        &self,
        known: &ShardSummary,
        right: &ShardSummary,
    ) -> Result<bool, ArbiterError> {
        let file = match known.file() {
            Some(file) => published::read(&*self.storage, self.bits, &file).await?,
            None => Some(Bytes::new()),
        };
        let compare = |file: Bytes| right.compare(known.shard.as_ref(), &file);
        Ok(file.map(compare) == Some(Err(Difference::Forged)))
    }

    fn bounds(&self, shard: u32) -> Result<ShardBounds, MergeError> {
        let shard_words = self.shard_size.shard_words as u64;
        let mut skip = u64::from(shard) * shard_words;
        let ledger = self.journal.ledger();
        let mut rows = ledger.done(ledger.range_bits.head_count(self.bits));
        let begins = rows.find_map(|(head, row, _)| {
            let begins = skip < row.stored;
            if !begins {
                skip -= row.stored;
            }
            begins.then_some(head)
        });
        drop(rows);
        let head = begins.unwrap_or(Head(0));
        ShardBounds::new(&ledger, self.bits, shard_words, (shard, head, skip))
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

    pub(crate) fn done_range(&self, head: Head) -> Result<RangeRow, ArbiterError> {
        let row = self.journal.ledger().range(head).copied();
        row.ok_or(ArbiterError::RangeNotDone { head })
    }

    pub(crate) async fn read<T>(
        &self,
        head: Head,
        decode: impl Fn(&[u8]) -> Result<T, FormatError>,
    ) -> Result<T, ArbiterError> {
        let row = self.done_range(head)?;
        let mut read = self.read_all(&[(head, row)], decode).await?;
        Ok(read.pop().expect("one was read"))
    }

    pub(crate) async fn read_all<T>(
        &self,
        rows: &[(Head, RangeRow)],
        decode: impl Fn(&[u8]) -> Result<T, FormatError>,
    ) -> Result<Vec<T>, ArbiterError> {
        let records = read_records(&*self.storage, rows).await;
        let decoded = rows.iter().zip(records).map(|(&(head, row), record)| {
            let wrong = |error: FormatError| lost(head, &row, describe(&error));
            let decoded = record.and_then(|record| decode(&record).map_err(wrong));
            decoded.map_err(|error| match error {
                source @ StoreError::Lost { .. } => ArbiterError::Lost {
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
