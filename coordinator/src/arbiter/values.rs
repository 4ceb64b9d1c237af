//! The arbiter of Grundy values.

use chomp_kernel::grundy::{Evaluation, Lower};
use chomp_store::MergedValues;
use chomp_store::merge::values::ValueMerger;
use chomp_table::range::RangeSummary;
use chomp_table::{Head, RankBits};

use super::{Arbiter, ArbiterError, wrong};

/// So many values of lower areas are in memory at a time.
const VALUES_MAX: usize = 1 << 26;

impl Arbiter {
    pub(super) async fn evaluate_values(
        &self,
        head: Head,
        rank_bits: RankBits,
    ) -> Result<(RangeSummary, Vec<u8>), ArbiterError> {
        let (area, ranks) = rank_bits.ranks(head).expect("a range of the table");
        let mut evaluation = Evaluation::new(area, ranks);
        let sources: Vec<Head> = rank_bits.sources(head).collect();
        for sources in sources.chunks((VALUES_MAX >> rank_bits.get()).max(1)) {
            let mut known = Vec::with_capacity(sources.len());
            for &source in sources {
                known.push((source, self.values(source, rank_bits).await?));
            }
            let mut lower = Lower::new(rank_bits.get());
            for (source, values) in &known {
                let (area, number) = rank_bits.place(*source);
                lower.add(area, number, values);
            }
            evaluation.apply(&lower);
        }
        Ok(rank_bits.encode(head, &evaluation.finish()))
    }

    pub(super) async fn merge_values(
        &self,
        shard: u32,
        rank_bits: RankBits,
    ) -> Result<(MergedValues, Vec<u8>), ArbiterError> {
        let mut merger = ValueMerger::new(self.bits, rank_bits, shard)?;
        while let Some(head) = merger.next() {
            merger.push(head, &self.values(head, rank_bits).await?);
        }
        Ok(merger.finish())
    }

    /// The values of a range that is done.
    async fn values(&self, head: Head, rank_bits: RankBits) -> Result<Vec<u8>, ArbiterError> {
        let (place, record) = self.read(head).await?;
        let values = rank_bits.decode(head, &record);
        values.map_err(|error| wrong(head, &place, error))
    }
}
