//! Errands: what the [plan](crate::plan) wants to be done and takes time, done on the store, and
//! told as the event that the plan expects for it.

use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use chomp_table::format::describe;
use chomp_table::manifest::Manifest;
use chomp_table::{Head, RangeSummary};

use crate::audit::Audit;
use crate::job::JobError;
use crate::plan::{Event, SubmissionId};
use crate::publish::{PublishError, Steps, publish};
use crate::store::Store;

/// Something that the plan asked for.
#[derive(Clone, Debug)]
pub(crate) enum Errand {
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
    /// The content of a range, evaluated from its sources.
    Evaluate {
        submission: SubmissionId,
        head: Head,
    },
    /// The table.
    Publish,
}

/// What came of an errand.
#[derive(Debug)]
pub(crate) struct Done {
    /// What the plan is told.
    pub(crate) event: Event,
    /// What was evaluated.
    pub(crate) record: Option<(RangeSummary, Bytes)>,
    /// What was published.
    pub(crate) manifest: Option<Manifest>,
    /// Why it failed.
    pub(crate) fault: Option<JobError>,
}

impl Errand {
    /// Does it. The event says success only when all of it is durable.
    pub(crate) async fn perform(self, store: &Arc<Store>, audit: &Audit, steps: Steps) -> Done {
        match self {
            Errand::Commit {
                submission,
                layer,
                records,
            } => Done::of(
                store.commit(layer, records).await,
                Event::Committed { submission },
                |reason| Event::CommitFailed { submission, reason },
            ),
            Errand::Seal { layer, ranges } => Done::of(
                store.seal(layer, &ranges).await,
                Event::Sealed { layer },
                |reason| Event::SealFailed { layer, reason },
            ),
            Errand::Evaluate { submission, head } => match audit.evaluate(head).await {
                Ok((range, record)) => Done {
                    record: Some((range, record)),
                    ..Done::well(Event::Evaluated { submission, range })
                },
                Err(error) => {
                    Done::failed(error, |reason| Event::EvaluationFailed { head, reason })
                }
            },
            Errand::Publish => match publish(store, steps).await {
                Ok(manifest) => Done {
                    manifest: Some(manifest),
                    ..Done::well(Event::Published)
                },
                Err(PublishError::Stopped) => Done::well(Event::PublicationStopped),
                Err(error) => Done::failed(error, |reason| Event::PublishFailed { reason }),
            },
        }
    }
}

impl Done {
    fn of<E>(outcome: Result<(), E>, done: Event, failed: impl FnOnce(String) -> Event) -> Done
    where
        E: Error + Into<JobError>,
    {
        match outcome {
            Ok(()) => Done::well(done),
            Err(error) => Done::failed(error, failed),
        }
    }

    fn failed<E>(error: E, failed: impl FnOnce(String) -> Event) -> Done
    where
        E: Error + Into<JobError>,
    {
        let event = failed(describe(&error));
        Done {
            fault: Some(error.into()),
            ..Done::well(event)
        }
    }

    fn well(event: Event) -> Done {
        Done {
            event,
            record: None,
            manifest: None,
            fault: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use chomp_table::RangeBits;

    use super::*;
    use crate::ready;
    use crate::storage::{Fault, Moment, SimulatedStorage};

    #[test]
    fn a_publication_that_is_told_to_stop_is_no_failure() {
        let storage = Arc::new(SimulatedStorage::new(0));
        let range_bits = RangeBits::new(12).unwrap();
        let (store, _) = ready(Store::open(storage, range_bits, 12)).unwrap();
        let store = Arc::new(store);
        let audit = Audit::new(Arc::clone(&store), 0);
        let head = Head(0);
        let (range, record) = ready(audit.evaluate(head)).unwrap();
        ready(store.commit(0, vec![(range, record)])).unwrap();
        store.stop_publication();
        let done = ready(Errand::Publish.perform(&store, &audit, Steps::PUBLISHED));
        assert_eq!(done.event, Event::PublicationStopped);
        assert!(done.fault.is_none() && done.manifest.is_none());
        assert_eq!(store.merged(), 0);
        assert_eq!(ready(store.published(12)).unwrap(), None);
    }

    #[test]
    fn the_reason_of_a_failure_holds_its_causes() {
        let storage = Arc::new(SimulatedStorage::new(0));
        let range_bits = RangeBits::new(12).unwrap();
        let (store, _) = ready(Store::open(storage.clone(), range_bits, 13)).unwrap();
        let store = Arc::new(store);
        let audit = Audit::new(Arc::clone(&store), 0);
        let perform = |errand: Errand| ready(errand.perform(&store, &audit, Steps::PUBLISHED));
        storage.set_fault(Some(Fault {
            call: storage.calls(),
            sticky: true,
            moment: Moment::Before,
        }));
        let written = perform(Errand::Publish);
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
        let written = perform(Errand::Seal { layer, ranges });
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
