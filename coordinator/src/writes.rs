//! Writes: what the [plan](crate::plan) wants to be durable, done on the store, and told as the
//! event that the plan expects for it.

use std::error::Error;

use bytes::Bytes;
use chomp_table::RangeSummary;
use chomp_table::format::describe;
use chomp_table::manifest::Manifest;
use chomp_table::shard::ShardSize;

use crate::job::JobError;
use crate::plan::{Event, SubmissionId};
use crate::publish::publish;
use crate::store::Store;

/// A write that the plan asked for.
#[derive(Clone, Debug)]
pub(crate) enum Write {
    /// The records of a submission that are new.
    Commit {
        submission: SubmissionId,
        layer: u32,
        records: Vec<(RangeSummary, Bytes)>,
    },
    /// The seal of a layer of these ranges.
    Seal {
        layer: u32,
        ranges: Vec<RangeSummary>,
    },
    /// The table.
    Publish,
}

/// What came of a write.
#[derive(Debug)]
pub(crate) struct Written {
    /// What the plan is told.
    pub(crate) event: Event,
    /// What was published.
    pub(crate) manifest: Option<Manifest>,
    /// Why it failed.
    pub(crate) fault: Option<JobError>,
}

impl Write {
    /// Does it. The event says success only when all of it is durable.
    pub(crate) async fn perform(self, store: &Store, size: ShardSize) -> Written {
        match self {
            Write::Commit {
                submission,
                layer,
                records,
            } => Written::of(
                store.commit(layer, records).await,
                Event::Committed { submission },
                |reason| Event::CommitFailed { submission, reason },
            ),
            Write::Seal { layer, ranges } => Written::of(
                store.seal(layer, &ranges).await,
                Event::Sealed { layer },
                |reason| Event::SealFailed { layer, reason },
            ),
            Write::Publish => match publish(store, size).await {
                Ok(manifest) => Written {
                    event: Event::Published,
                    manifest: Some(manifest),
                    fault: None,
                },
                Err(error) => Written::failed(error, |reason| Event::PublishFailed { reason }),
            },
        }
    }
}

impl Written {
    fn of<E>(outcome: Result<(), E>, done: Event, failed: impl FnOnce(String) -> Event) -> Written
    where
        E: Error + Into<JobError>,
    {
        match outcome {
            Ok(()) => Written {
                event: done,
                manifest: None,
                fault: None,
            },
            Err(error) => Written::failed(error, failed),
        }
    }

    fn failed<E>(error: E, failed: impl FnOnce(String) -> Event) -> Written
    where
        E: Error + Into<JobError>,
    {
        Written {
            event: failed(describe(&error)),
            manifest: None,
            fault: Some(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use chomp_table::RangeBits;

    use super::*;
    use crate::ready;
    use crate::storage::{Fault, Moment, SimulatedStorage};

    #[test]
    fn the_reason_of_a_failure_holds_its_causes() {
        let storage = Arc::new(SimulatedStorage::new(0));
        let range_bits = RangeBits::new(12).unwrap();
        let (store, _) = ready(Store::open(storage.clone(), range_bits, 13)).unwrap();
        storage.set_fault(Some(Fault {
            call: storage.calls(),
            sticky: true,
            moment: Moment::Before,
        }));
        let written = ready(Write::Publish.perform(&store, ShardSize::PUBLISHED));
        let Event::PublishFailed { reason } = written.event else {
            panic!("{written:?}");
        };
        assert_eq!(reason, "range 0 is not committed");

        let layer = 0;
        let ranges = vec![RangeSummary {
            head: chomp_table::Head(0),
            count: 0,
            digest: chomp_table::Digest([0; 32]),
        }];
        let written = ready(Write::Seal { layer, ranges }.perform(&store, ShardSize::PUBLISHED));
        let Event::SealFailed { reason, .. } = written.event else {
            panic!("{written:?}");
        };
        assert_eq!(
            reason,
            "cannot read work/epochs/0000000002: failed before the effect"
        );
        assert!(matches!(written.fault, Some(JobError::Store(_))));
    }
}
