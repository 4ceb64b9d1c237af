//! Grundy values: the ranges of a task, and the shards of a table.
//!
//! A range draws on all lower areas, more than the memory may hold. So its sources come in groups; what is known of it between
//! two groups are the sets of values that its moves lead to.

use std::sync::Arc;

use bytes::Bytes;
use chomp_kernel::grundy::{Evaluation, Lower};
use chomp_store::Placed;
use chomp_store::merge::values::ValueMerger;
use chomp_store::part::PartBuilder;
use chomp_table::{Head, RankBits};

use crate::cache::TaskSources;
use crate::gather::Gathered;
use crate::lane::Lane;
use crate::loaded::LoadedRange;
use crate::merge::Merge;
use crate::store::Store;
use crate::trouble::Trouble;

/// What a value takes of the memory for sources: a byte, and not quite another in its record.
const BYTES_PER_VALUE: u64 = 2;
/// So many groups fit into the memory for sources.
const GROUPS: u64 = 8;

/// The memory of an evaluation: the set of each rank, its value and its record.
pub(crate) fn evaluation_bytes(rank_bits: RankBits) -> u64 {
    18 << rank_bits.get()
}

impl Lane {
    /// Evaluates ranges of one area, one after the other. Their part, and where they are in it.
    pub(crate) async fn evaluate_values(
        &self,
        store: &Store,
        heads: Vec<Head>,
        rank_bits: RankBits,
    ) -> Result<(Bytes, Vec<Placed>), Trouble> {
        let mut part = PartBuilder::default();
        for head in heads {
            let evaluation = self.evaluate_range(store, head, rank_bits).await?;
            let encode = move |_: &mut _| {
                let values = evaluation.finish();
                let (summary, record) = rank_bits.encode(head, &values);
                (summary, record, values)
            };
            let (summary, record, values) = self.pool.run(true, encode).await?;
            part.push(summary, &record);
            let known = Arc::new(LoadedRange::Values { head, values });
            self.cache.insert(summary.digest, known);
            self.pool.note_evaluated();
        }
        Ok(part.finish())
    }

    /// All moves of a range.
    async fn evaluate_range(
        &self,
        store: &Store,
        head: Head,
        rank_bits: RankBits,
    ) -> Result<Evaluation, Trouble> {
        let (area, ranks) = rank_bits
            .ranks(head)
            .ok_or_else(|| Trouble::Failed(format!("range {head} is of no table")))?;
        let mut evaluation = Evaluation::new(area, ranks);
        let group = self.gatherer.memory.bytes() / GROUPS / (BYTES_PER_VALUE << rank_bits.get());
        let group = usize::try_from(group).unwrap_or(usize::MAX).max(1);
        let mut sources: Vec<Head> = rank_bits.sources(head).collect();
        sources.sort_unstable();
        for group in sources.chunks(group) {
            let gathered = self.gatherer.gather(store, group.iter().copied());
            let Gathered { sources, memory } = self.unless_stopped(gathered).await?;
            let apply = move |_: &mut _| {
                evaluation.apply(&lower(&sources, rank_bits));
                evaluation
            };
            evaluation = self.pool.run_timed(apply).await?;
            drop(memory);
        }
        Ok(evaluation)
    }
}

/// The values of sources, by area.
fn lower(sources: &TaskSources, rank_bits: RankBits) -> Lower<'_> {
    let mut lower = Lower::new(rank_bits.get());
    for known in sources.iter() {
        if let Some(values) = known.values() {
            let (area, number) = rank_bits.place(known.head());
            lower.add(area, number, values);
        }
    }
    lower
}

impl Merge<'_> {
    /// Writes a shard of values; returns what is to be said of it, as JSON.
    pub(crate) async fn run_values(
        &self,
        shard: u32,
        rank_bits: RankBits,
    ) -> Result<Vec<u8>, Trouble> {
        let mut merger = ValueMerger::new(self.job.bits, rank_bits, shard)?;
        while let Some(head) = merger.next() {
            if self.stop.is_cancelled() {
                return Err(Trouble::Stopped);
            }
            let Gathered { sources, memory } = self.gatherer.gather(self.store, [head]).await?;
            let push = move |_: &mut _| {
                for values in sources.iter().filter_map(|known| known.values()) {
                    merger.push(head, values);
                }
                merger
            };
            merger = self.pool.run(false, push).await?;
            drop(memory);
        }
        let finish = move |_: &mut _| merger.finish();
        let (shard, bytes) = self.pool.run(false, finish).await?;
        self.put(&shard.into(), Some(bytes)).await
    }
}
