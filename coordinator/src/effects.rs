//! Effects: what the [plan](chomp_plan) wants to be done and takes time, done on the store, and
//! told as the events that the plan expects for it.

use std::collections::HashSet;
use std::error::Error;
use std::ops::Range;

use chomp_plan::{Event, SubmissionId, Unit, WorkerId};
use chomp_store::{Entry, Key, Merged, RecordPlace, StoreError, part, published};
use chomp_table::format::describe;
use chomp_table::manifest::Manifest;
use chomp_table::reader::ShardFileInfo;
use chomp_table::{Digest, Head};

use crate::arbiter::Arbitrated;
use crate::contradiction::wrong_range;
use crate::error::JobError;
use crate::publish::{PublishError, publish};
use crate::tools::Tools;
use crate::tools::WorkerResult;

/// Work that takes time.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Writes the next segment of the journal.
    Append(SegmentContent),
    /// Decides what is in a unit that workers disagree about.
    Arbitrate {
        submission: SubmissionId,
        unit: Unit,
        /// The description of the file, if it is a shard.
        said: Option<Box<Merged>>,
    },
    /// Finds out whether the record of a range is lost, as a worker says.
    Audit {
        worker: WorkerId,
        head: Head,
        place: RecordPlace,
    },
    /// Publishes the table, after a look at the files of its shards.
    Publish,
    /// Removes parts that nobody has use for.
    Remove { orphans: Vec<Key> },
    /// Removes the parts of these merged ranges, after a look at the files of the shards.
    RemoveMerged { ranges: Range<Head> },
}

/// The content of a segment, which becomes durable as a whole.
#[derive(Debug, Default)]
pub(crate) struct SegmentContent {
    pub(crate) entries: Vec<Entry>,
    /// The submissions that the entries are of.
    pub(crate) submissions: Vec<SubmissionId>,
}

/// The outcome of an effect.
#[derive(Debug)]
pub(crate) enum EffectResult {
    /// A segment of the journal, with the content of these submissions, was to be written.
    Appended {
        submissions: Vec<SubmissionId>,
        written: Result<(), StoreError>,
    },
    /// The arbiter has decided, and the plan hears the event.
    Arbitrated {
        submission: SubmissionId,
        arbitrated: Arbitrated,
        event: Event,
    },
    /// The coordinator has tried to read a record that a worker could not read.
    Audited {
        worker: WorkerId,
        head: Head,
        /// The digest of the record, if it is lost.
        lost: Option<Digest>,
    },
    /// The table is published.
    Published(Manifest),
    /// The plan hears these events.
    Other {
        events: Vec<Event>,
        /// Why the effect failed, if the job may have to end for it.
        fault: Option<JobError>,
    },
}

impl EffectResult {
    /// Nothing but these events.
    fn of(events: Vec<Event>) -> EffectResult {
        let fault = None;
        EffectResult::Other { events, fault }
    }

    fn failed(event: Event, fault: JobError) -> EffectResult {
        EffectResult::Other {
            events: vec![event],
            fault: Some(fault),
        }
    }
}

impl Effect {
    /// Does the work. The events say success only when all of it is durable.
    pub(crate) async fn perform(self, tools: &Tools) -> EffectResult {
        match self {
            Effect::Append(batch) => append(tools, batch).await,
            Effect::Arbitrate {
                submission,
                unit,
                said,
            } => arbitrate(tools, submission, unit, said.as_deref()).await,
            Effect::Audit {
                worker,
                head,
                place,
            } => audit(tools, worker, head, &place).await,
            Effect::Publish => publish_table(tools).await,
            Effect::Remove { orphans } => removed(tools.storage.delete(&orphans).await),
            Effect::RemoveMerged { ranges } => removed(remove_merged(tools, ranges).await),
        }
    }
}

async fn publish_table(tools: &Tools) -> EffectResult {
    // A file that was compared may have changed since.
    let mut compared = tools.compared.lock().await;
    compared.clear();
    match lost_shards(tools, &mut compared).await {
        Ok(shards) if shards.is_empty() => {}
        Ok(shards) => return merge_again(shards, "files are not what was said of them"),
        // Nothing is known of the shards, and the job ends.
        Err(error) => {
            let reason = describe(&error);
            return EffectResult::failed(Event::PublishFailed { reason }, JobError::Store(error));
        }
    }
    let error = match publish(&*tools.storage, &tools.journal, tools.bits).await {
        Ok(published) => return EffectResult::Published(published),
        Err(error) => error,
    };
    let reason = describe(&error);
    let wrong = if matches!(error, PublishError::Asymmetric { .. }) {
        tracing::warn!(
            "the table is not published yet, for {reason}; looking for the range that is wrong"
        );
        wrong_range(tools).await
    } else {
        Ok(None)
    };
    let event = match wrong {
        Ok(Some(head)) => Event::Unpublished { head, reason },
        Ok(None) => {
            let shards = found_by_one(tools);
            if error.is_contradiction() && !shards.is_empty() {
                return merge_again(shards, &reason);
            }
            Event::PublishFailed { reason }
        }
        Err(fault) => {
            let found = describe(&fault);
            tracing::warn!("{found}");
            if let Some(lost) = fault.lost() {
                return evaluate_again(tools, lost).await;
            }
            Event::PublishFailed {
                reason: format!("{reason} (and {found})"),
            }
        }
    };
    EffectResult::failed(event, error.into())
}

/// The range whose record is lost is to be evaluated again, and with it those whose parts are gone.
async fn evaluate_again(tools: &Tools, lost: (Head, Digest)) -> EffectResult {
    // If they cannot be listed, the next search finds one more.
    let gone = tools.journal.without_part(tools.bits).await;
    let mut records = gone.unwrap_or_default();
    records.push(lost);
    tracing::warn!("{} lost ranges are evaluated again", records.len());
    EffectResult::of(vec![Event::RecordsLost { records }])
}

/// The coordinator is to merge these shards.
fn merge_again(shards: Vec<u32>, reason: &str) -> EffectResult {
    tracing::warn!("{} shards are merged again: {reason}", shards.len());
    EffectResult::of(vec![Event::ShardsLost { shards }])
}

/// The shards that one participant alone has found: also the owner, whose machine may be faulty.
fn found_by_one(tools: &Tools) -> Vec<u32> {
    let ledger = tools.journal.ledger();
    let found = ledger.found_shards(tools.bits);
    let of_one = found.filter(|(_, finders)| finders.iter().len() == 1);
    of_one.map(|(merged, _)| merged.number).collect()
}

async fn append(tools: &Tools, batch: SegmentContent) -> EffectResult {
    let written = tools.journal.append(batch.entries).await;
    let submissions = batch.submissions;
    EffectResult::Appended {
        submissions,
        written,
    }
}

async fn arbitrate(
    tools: &Tools,
    submission: SubmissionId,
    unit: Unit,
    said: Option<&Merged>,
) -> EffectResult {
    match tools.decide(submission, unit, said).await {
        Ok(arbitrated) => {
            let (range, digest) = match &arbitrated.result {
                WorkerResult::Ranges(ranges) => {
                    let range = ranges[0].summary;
                    (Some(range), range.digest)
                }
                WorkerResult::Merged(merged) => (None, merged.words_digest()),
            };
            let event = Event::Arbitrated {
                submission,
                unit,
                range,
                digest,
                is_forged: arbitrated.is_forged,
            };
            EffectResult::Arbitrated {
                submission,
                arbitrated,
                event,
            }
        }
        Err(error) => {
            let mut events = Vec::new();
            let reason = describe(&error);
            // A lost range is computed again, and then the plan asks once more.
            let lost = error.lost();
            if let Some((head, digest)) = lost {
                tracing::warn!("{reason}");
                events.push(Event::Lost {
                    worker: WorkerId::only(0),
                    head,
                    digest,
                });
            }
            events.push(Event::ArbitrationFailed { unit, reason });
            let fault = lost.is_none().then(|| error.into());
            EffectResult::Other { events, fault }
        }
    }
}

/// The shards whose files are not what the journal says, but for those that were `compared` before.
async fn lost_shards(
    tools: &Tools,
    compared: &mut HashSet<Digest>,
) -> Result<Vec<u32>, StoreError> {
    let files: Vec<(u32, ShardFileInfo)> = {
        let ledger = tools.journal.ledger();
        let shards = ledger.shards(tools.bits);
        let files = shards.filter_map(|merged| Some((merged.number, merged.file()?)));
        files
            .filter(|(_, file)| !compared.contains(&file.sha256))
            .collect()
    };
    tracing::info!(
        "comparing the files of {} shards with what was said of them",
        files.len()
    );
    let mut lost = Vec::new();
    for (shard, file) in files {
        let read = published::read(&*tools.storage, tools.bits, &file).await?;
        if read.is_none_or(|read| Digest::of(&read) != file.sha256) {
            lost.push(shard);
        } else {
            compared.insert(file.sha256);
        }
    }
    Ok(lost)
}

async fn remove_merged(tools: &Tools, ranges: Range<Head>) -> Result<(), StoreError> {
    let mut compared = tools.compared.lock().await;
    // Publication has shards that are lost merged again, from their parts.
    if lost_shards(tools, &mut compared).await?.is_empty() {
        tools.journal.remove_merged(tools.bits, ranges).await?;
    }
    Ok(())
}

fn removed<E: Error + 'static>(removed: Result<(), E>) -> EffectResult {
    // Publication removes what is still there.
    if let Err(error) = removed {
        tracing::warn!("parts of no use are not removed yet: {}", describe(&error));
    }
    EffectResult::of(Vec::new())
}

async fn audit(tools: &Tools, worker: WorkerId, head: Head, place: &RecordPlace) -> EffectResult {
    let read = part::read_record(&*tools.storage, head, place).await;
    let mut lost = None;
    match &read {
        Err(error @ StoreError::Lost { .. }) => {
            tracing::warn!("{error}: the range is computed again");
            lost = Some(place.digest);
        }
        Ok(_) => {
            tracing::warn!("a worker cannot read the record of range {head}, which is in order");
        }
        // A worker that needs the record reports it again.
        Err(error) => tracing::warn!(
            "cannot see whether the record of range {head} is lost: {}",
            describe(error)
        ),
    }
    EffectResult::Audited { worker, head, lost }
}
