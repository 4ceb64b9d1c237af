//! Tasks, as they are leased.

use chomp_proto::v1::{self, task};
use chomp_store::Merged;
use chomp_store::part::{self, Placed};
use chomp_table::Head;

use super::LeaseId;
use crate::job::JobDescription;
use crate::link::CallFailure;

/// A leased task.
#[derive(Clone, Debug)]
pub(crate) struct LeasedTask {
    pub(crate) lease: LeaseId,
    /// All segments of the journal below this number have to be known.
    pub(crate) journal: u64,
    pub(crate) work: TaskWork,
}

/// The work of a task.
#[derive(Clone, Debug)]
pub(crate) enum TaskWork {
    /// Ranges of one layer are to be evaluated, heads ascending.
    Evaluate { layer: u32, heads: Vec<Head> },
    /// A shard is to be written, which begins after `skip` stored words of the range `head`. Or it is to be read, if it
    /// was written.
    Merge {
        shard: u32,
        head: Head,
        skip: u64,
        written: Option<Box<WrittenShard>>,
    },
}

/// A shard that another participant has written.
#[derive(Clone, Debug)]
pub(crate) struct WrittenShard {
    /// The writer's result.
    pub(crate) said: Merged,
}

impl LeasedTask {
    /// The task in a message about `job`.
    pub(super) fn read(message: v1::Task, job: &JobDescription) -> Result<LeasedTask, CallFailure> {
        let work = match message.work {
            Some(task::Work::Evaluate(v1::Evaluate { layer, heads })) => TaskWork::Evaluate {
                layer,
                heads: of_layer(layer, heads, job)?,
            },
            Some(task::Work::Merge(v1::Merge {
                shard,
                head,
                skip,
                written,
            })) => {
                let head = Head(head);
                if !is_of(head, job) {
                    return Err(wrong("a shard that begins beyond the table"));
                }
                let written = written.map(|written| WrittenShard::read(&written, shard, job));
                TaskWork::Merge {
                    shard,
                    head,
                    skip,
                    written: written.transpose()?.map(Box::new),
                }
            }
            None => return Err(wrong("a task without content")),
        };
        Ok(LeasedTask {
            lease: LeaseId(message.lease),
            journal: message.journal,
            work,
        })
    }
}

impl WrittenShard {
    fn read(
        message: &v1::Written,
        shard: u32,
        job: &JobDescription,
    ) -> Result<WrittenShard, CallFailure> {
        let said = Merged::parse(&message.json, job.bits);
        let said = said.map_err(|error| wrong(&format!("a shard to read, and says: {error}")))?;
        if said.number != shard {
            return Err(wrong("a shard to read, and speaks of another one"));
        }
        Ok(WrittenShard { said })
    }
}

fn is_of(head: Head, job: &JobDescription) -> bool {
    head.0 < job.range_bits.heads(job.bits)
}

fn wrong(what: &str) -> CallFailure {
    CallFailure::Protocol(format!("it leases {what}"))
}

/// Ranges of one layer, as they are sent.
fn of_layer(layer: u32, heads: Vec<u64>, job: &JobDescription) -> Result<Vec<Head>, CallFailure> {
    let heads: Vec<Head> = heads.into_iter().map(Head).collect();
    let fits = |head: &Head| head.layer() == layer && is_of(*head, job);
    let sound = (1..=part::RANGES_MAX).contains(&heads.len())
        && heads.is_sorted_by(|one, next| one < next)
        && heads.iter().all(fits);
    if !sound {
        return Err(wrong("ranges to evaluate that are not those of a layer"));
    }
    Ok(heads)
}

/// A range as it is sent.
pub(super) fn summary(placed: &Placed) -> v1::Summary {
    v1::Summary {
        head: placed.summary.head.0,
        count: placed.summary.count,
        stored: placed.summary.stored,
        digest: placed.summary.digest.0.to_vec(),
        offset: placed.offset,
        length: placed.length,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use chomp_table::RangeBits;

    use super::*;

    fn job() -> JobDescription {
        JobDescription {
            bits: 32,
            range_bits: RangeBits::new(12).unwrap(),
            table: 1,
            lease: Duration::from_secs(30),
            store: String::new(),
            checkpoint: None,
            epoch: 0,
        }
    }

    fn read(work: task::Work) -> Result<LeasedTask, CallFailure> {
        let message = v1::Task {
            lease: 1,
            attempt: 1,
            lease_ms: 30_000,
            journal: 1,
            work: Some(work),
        };
        LeasedTask::read(message, &job())
    }

    fn evaluate(layer: u32, heads: &[u64]) -> Result<LeasedTask, CallFailure> {
        let heads = heads.to_vec();
        read(task::Work::Evaluate(v1::Evaluate { layer, heads }))
    }

    #[test]
    fn ranges_are_of_one_layer_ascend_and_fit_into_a_part() {
        let mut layers = BTreeMap::<u32, Vec<u64>>::new();
        for head in 0..1 << 20 {
            layers.entry(Head(head).layer()).or_default().push(head);
        }
        let largest = layers.into_iter().max_by_key(|(_, heads)| heads.len());
        let (layer, heads) = largest.unwrap();
        assert!(heads.len() > part::RANGES_MAX, "{}", heads.len());
        let most = &heads[..part::RANGES_MAX];
        assert!(evaluate(layer, most).is_ok());
        assert!(evaluate(layer, &heads[..=part::RANGES_MAX]).is_err());
        let (first, second) = (heads[0], heads[1]);
        let other = (0..9).find(|&head| Head(head).layer() != layer);
        let beyond = (1 << 20..1 << 21).find(|&head| Head(head).layer() == layer);
        for wrong in [
            &[][..],
            &[first, first],
            &[second, first],
            &[other.unwrap()],
            &[first, beyond.unwrap()],
        ] {
            assert!(evaluate(layer, wrong).is_err(), "{wrong:?}");
        }
        assert!(evaluate(layer + 1, &[first]).is_err());
    }

    #[test]
    fn a_shard_to_read_is_the_one_that_is_spoken_of() {
        let of_none = |number| Merged {
            number,
            shard: None,
            leaf: chomp_table::fingerprint::Leaf::default(),
            sums: Vec::new(),
        };
        let merge = |json: Vec<u8>| {
            let written = v1::Written { json };
            read(task::Work::Merge(v1::Merge {
                shard: 3,
                head: 0,
                skip: 0,
                written: Some(written),
            }))
        };
        assert!(merge(of_none(3).to_json()).is_ok());
        assert!(merge(of_none(4).to_json()).is_err());
        assert!(merge(b"{}".to_vec()).is_err());
    }
}
