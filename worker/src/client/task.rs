//! Tasks, as they are leased.

use chomp_proto::v1::{self, task};
use chomp_store::ShardSummary;
use chomp_store::part::{self, PlacedRange};
use chomp_table::Head;

use super::TaskResult;
use crate::link::{CallFailure, JobDescription};

#[derive(Clone, Debug)]
pub(crate) struct LeasedTask {
    pub(crate) lease: u64,
    /// All segments of the journal below this number have to be read before the task is begun.
    pub(crate) journal_end: u64,
    pub(crate) work: TaskWork,
}

#[derive(Clone, Debug)]
pub(crate) enum TaskWork {
    /// Ranges of one layer are to be evaluated, heads ascending. If it is a check, no part is written.
    Evaluate {
        layer: u32,
        heads: Vec<Head>,
        is_check: bool,
    },
    /// A shard is to be written. If `known_summary` describes it, another worker has written it, and its file is to be
    /// compared.
    Merge {
        /// Its number, its first range, and the number of stored words of that range that it skips.
        start: (u32, Head, u64),
        known_summary: Option<Box<ShardSummary>>,
    },
}

impl LeasedTask {
    pub(super) fn read(message: v1::Task, job: &JobDescription) -> Result<LeasedTask, CallFailure> {
        let is_of_job = |head: Head| head.0 < job.range_bits.head_count(job.bits);
        let work = match message.work {
            Some(task::Work::Evaluate(v1::Evaluate {
                layer,
                heads,
                is_check,
            })) => {
                let heads: Vec<Head> = heads.into_iter().map(Head).collect();
                let fits = |&head: &Head| head.layer() == layer && is_of_job(head);
                let sound = (1..=part::RANGES_MAX).contains(&heads.len())
                    && heads.is_sorted_by(|one, next| one < next)
                    && heads.iter().all(fits);
                if !sound {
                    return Err(wrong("ranges to evaluate that are not those of a layer"));
                }
                TaskWork::Evaluate {
                    layer,
                    heads,
                    is_check,
                }
            }
            Some(task::Work::Merge(merge)) => {
                let start = (merge.shard, Head(merge.head), merge.skip);
                if !is_of_job(start.1) {
                    return Err(wrong("a shard that begins beyond the table"));
                }
                let said = |written: v1::Written| match ShardSummary::parse(&written.json, job.bits)
                {
                    Ok(said) if said.number == merge.shard => Ok(Box::new(said)),
                    Ok(_) => Err(wrong("a shard to read, and speaks of another one")),
                    Err(error) => Err(wrong(&format!("a shard to read, and says: {error}"))),
                };
                let known_summary = merge.written.map(said).transpose()?;
                TaskWork::Merge {
                    start,
                    known_summary,
                }
            }
            None => return Err(wrong("a task without content")),
        };
        Ok(LeasedTask {
            lease: message.lease,
            journal_end: message.journal,
            work,
        })
    }
}

fn wrong(what: &str) -> CallFailure {
    CallFailure::Protocol(format!("it leases {what}"))
}

pub(crate) fn evaluated(ranges: &[PlacedRange]) -> TaskResult {
    let summary = |placed: &PlacedRange| v1::Summary {
        head: placed.summary.head.0,
        count: placed.summary.count,
        stored: placed.summary.stored,
        digest: placed.summary.digest.0.to_vec(),
        offset: placed.offset,
        length: placed.length,
    };
    let ranges = ranges.iter().map(summary).collect();
    TaskResult::Evaluated(v1::Evaluated { ranges })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use chomp_table::RangeBits;

    use super::*;

    #[test]
    fn ranges_are_of_one_layer_ascend_and_fit_into_a_part() {
        let job = JobDescription::of(32, RangeBits::new(12).unwrap(), 1);
        let is_read = |layer, heads: &[u64]| {
            let heads = heads.to_vec();
            let message = v1::Task {
                work: Some(task::Work::Evaluate(v1::Evaluate {
                    layer,
                    heads,
                    is_check: false,
                })),
                ..v1::Task::default()
            };
            LeasedTask::read(message, &job).is_ok()
        };
        let mut layers = BTreeMap::<u32, Vec<u64>>::new();
        for head in 0..1 << 20 {
            layers.entry(Head(head).layer()).or_default().push(head);
        }
        let largest = layers.into_iter().max_by_key(|(_, heads)| heads.len());
        let (layer, heads) = largest.unwrap();
        assert!(heads.len() > part::RANGES_MAX, "{}", heads.len());
        assert!(is_read(layer, &heads[..part::RANGES_MAX]));
        let (first, second) = (heads[0], heads[1]);
        let other = (0..9).find(|&head| Head(head).layer() != layer);
        let beyond = (1 << 20..1 << 21).find(|&head| Head(head).layer() == layer);
        for wrong in [
            &heads[..=part::RANGES_MAX],
            &[],
            &[first, first],
            &[second, first],
            &[other.unwrap()],
            &[first, beyond.unwrap()],
        ] {
            assert!(!is_read(layer, wrong), "{wrong:?}");
        }
        assert!(!is_read(layer + 1, &[first]));
    }
}
