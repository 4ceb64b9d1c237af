//! Effects: the slow actions of the [plan](chomp_plan), done on the store. Each ends with a call to the job.

use std::collections::HashSet;
use std::error::Error;
use std::fmt::Display;
use std::ops::Range;

use chomp_plan::{ParticipantId, PublishOutcome, WorkerId, WriteId, counted};
use chomp_store::{Entry, Key, RangeRow, StoreError, part, published};
use chomp_table::format::describe;
use chomp_table::manifest::Manifest;
use chomp_table::reader::ShardFileInfo;
use chomp_table::{Digest, Head};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

use crate::contradiction::suspects;
use crate::error::JobError;
use crate::job::JobFn;
use crate::publish::{PublishError, publish};
use crate::referee;
use crate::tools::Tools;

#[derive(Debug)]
pub(crate) enum Effect {
    /// Writes the next segment of the journal.
    Append(SegmentContent),
    /// Runs the referee until the job is over or `stop` is cancelled.
    Referee {
        calls: Routes,
        stop: CancellationToken,
    },
    /// Finds out whether these records are lost, as a worker reports.
    Audit {
        worker: WorkerId,
        records: Vec<(Head, RangeRow)>,
        /// The verdicts on other records of the report.
        audit: Audit,
        responder: oneshot::Sender<Audit>,
    },
    /// Publishes the table, after a look at the files of its shards.
    Publish,
    /// Removes parts that nobody has use for.
    Remove { orphans: Vec<Key> },
    /// Removes the parts of these merged ranges, after a look at the files of the shards.
    RemoveMerged { ranges: Range<Head> },
}

/// Verdicts on records that were read again. A record that could not be read has none.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Audit {
    pub(crate) lost: Vec<(Head, RangeRow)>,
    /// Those that the journal does not have, or has in another place: a worker that needs them looks again.
    pub(crate) outdated: Vec<Head>,
    pub(crate) in_order: Vec<Head>,
}

/// The content of a segment, which becomes durable as a whole.
#[derive(Debug, Default)]
pub(crate) struct SegmentContent {
    pub(crate) entries: Vec<Entry>,
    /// The writes of the plan that wait for it.
    pub(crate) writes: Vec<WriteId>,
}

/// The manifest, or why the table is not published yet; and the error behind that, for which the job may have to end.
pub(crate) type PublishResult = (Result<Manifest, PublishOutcome>, Option<JobError>);

impl Effect {
    /// Performs the effect. Returns the function by which the job handles the outcome. If the outcome is a success,
    /// everything that the effect has written is durable.
    pub(crate) async fn perform(self, tools: &Tools) -> JobFn {
        match self {
            Effect::Append(SegmentContent { entries, writes }) => {
                let outcome = tools.journal.append(entries).await;
                Box::new(|job| job.on_appended(writes, outcome))
            }
            Effect::Referee { calls, stop } => {
                let ended = referee::run(tools, calls, stop).await;
                Box::new(|job| job.on_referee_ended(ended))
            }
            Effect::Audit {
                worker,
                records,
                audit: known,
                responder,
            } => {
                let audit = audit(tools, worker.participant, &records, known).await;
                Box::new(move |job| job.on_audited(worker, audit, responder))
            }
            Effect::Publish => {
                let (published, fault) = publish_table(tools).await;
                Box::new(|job| job.on_published(published, fault))
            }
            Effect::Remove { orphans } => {
                warn_if_left(tools.storage.delete(&orphans).await);
                Box::new(|_| ())
            }
            Effect::RemoveMerged { ranges } => {
                warn_if_left(remove_merged(tools, ranges).await);
                Box::new(|_| ())
            }
        }
    }
}

pub(crate) async fn publish_table(tools: &Tools) -> PublishResult {
    let _alone = tools.shard_puts.write().await;
    // A file that was compared may have changed since.
    let mut compared = tools.compared.lock().await;
    compared.clear();
    match lost_shards(tools, &mut compared).await {
        Ok(shards) if shards.is_empty() => {}
        Ok(shards) => return merge_again(shards, "files are not what was said of them"),
        // Nothing is known of the shards, and the job ends.
        Err(error) => {
            let reason = describe(&error);
            return (Err(PublishOutcome::Failed { reason }), Some(error.into()));
        }
    }
    let error = match publish(&*tools.storage, &tools.journal, tools.bits).await {
        Ok(manifest) => return (Ok(manifest), None),
        Err(error) => error,
    };
    let reason = describe(&error);
    let suspected = if matches!(error, PublishError::Asymmetric { .. }) {
        tracing::warn!(
            "the table is not published yet, for {reason}; looking for the range that is wrong"
        );
        suspects(tools).await
    } else {
        Ok(Vec::new())
    };
    let publication = match suspected {
        Ok(heads) if !heads.is_empty() => PublishOutcome::Wrong { heads, reason },
        Ok(_) => {
            let shards = found_by_one(tools);
            if error.is_contradiction() && !shards.is_empty() {
                return merge_again(shards, &reason);
            }
            PublishOutcome::Failed { reason }
        }
        Err(fault) => {
            let found = describe(&fault);
            tracing::warn!("{found}");
            if let Some(lost) = fault.lost() {
                return evaluate_again(tools, lost).await;
            }
            PublishOutcome::Failed {
                reason: format!("{reason} (and {found})"),
            }
        }
    };
    (Err(publication), Some(error.into()))
}

/// The range whose record is lost is to be evaluated again, and with it those whose parts are gone.
async fn evaluate_again(tools: &Tools, lost: (Head, Digest)) -> PublishResult {
    // If the parts cannot be listed, the next search reports the next lost record.
    let gone = tools.journal.ranges_without_part(tools.bits).await;
    let mut records = gone.unwrap_or_default();
    records.push(lost);
    tracing::warn!("evaluating {} again", counted(records.len(), "lost range"));
    (Err(PublishOutcome::RecordsLost { records }), None)
}

fn merge_again(shards: Vec<u32>, reason: &str) -> PublishResult {
    tracing::warn!("merging {} again: {reason}", counted(shards.len(), "shard"));
    (Err(PublishOutcome::MergeAgain { shards }), None)
}

/// The shards that one participant alone has found: also the owner, whose machine may be faulty.
fn found_by_one(tools: &Tools) -> Vec<u32> {
    let ledger = tools.journal.ledger();
    let found = ledger.shards(tools.bits);
    let of_one = found.filter(|(_, finders)| finders.participants().count() == 1);
    of_one.map(|(summary, _)| summary.number).collect()
}

/// The shards whose files are not what the journal says, but for those that were `compared` before.
async fn lost_shards(
    tools: &Tools,
    compared: &mut HashSet<Digest>,
) -> Result<Vec<u32>, StoreError> {
    let files: Vec<(u32, ShardFileInfo)> = {
        let ledger = tools.journal.ledger();
        let shards = ledger.shards(tools.bits);
        let files = shards.filter_map(|(summary, _)| Some((summary.number, summary.file()?)));
        files
            .filter(|(_, file)| !compared.contains(&file.sha256))
            .collect()
    };
    tracing::info!(
        "comparing the files of {} with what was said of them",
        counted(files.len(), "shard")
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
    // Lost shards are merged again before publication, and merging needs the parts of their ranges.
    if lost_shards(tools, &mut compared).await?.is_empty() {
        tools.journal.remove_merged(tools.bits, ranges).await?;
    }
    Ok(())
}

fn warn_if_left<E: Error + 'static>(removed: Result<(), E>) {
    // After publication all parts are removed (`Journal::prune`), unless they are kept.
    if let Err(error) = removed {
        tracing::warn!("parts of no use are not removed yet: {}", describe(&error));
    }
}

async fn audit(
    tools: &Tools,
    reported_by: ParticipantId,
    records: &[(Head, RangeRow)],
    mut audit: Audit,
) -> Audit {
    let warn = |what: &dyn Display| {
        if let Some(end) = tools.log_lines.next(reported_by) {
            tracing::warn!("{what}{end}");
        }
    };
    for &(head, row) in records {
        let record = part::read_record(&*tools.storage, head, &row).await;
        match record.and_then(|record| tools.check_record(head, &row, &record)) {
            Err(error @ StoreError::Lost { .. }) => {
                // The range may have been computed again meanwhile.
                if tools.done_range(head).ok() == Some(row) {
                    warn(&format_args!("{error}: the range is computed again"));
                }
                audit.lost.push((head, row));
            }
            Ok(()) => audit.in_order.push(head),
            // A worker that needs the record reports it again.
            Err(error) => warn(&format_args!(
                "cannot see whether the record of range {head} is lost: {}",
                describe(&error)
            )),
        }
    }
    audit
}
