//! The worker's calls to the coordinator. The wire types end here.

mod task;

use std::sync::Arc;
use std::time::Duration;

use chomp_proto::v1::complete_request::Result as WireResult;
use chomp_proto::v1::{self, complete_reply, lease_reply};
use chomp_store::Placed;
use chomp_table::{Digest, Head};

pub(crate) use task::{LeasedTask, TaskWork, WrittenShard};

use crate::error::ClientError;
use crate::job::JobDescription;
use crate::link::{CONTROL, CallFailure, Link, Session, within};

/// The deadline of a request for a task: the coordinator answers within ten seconds.
const LEASE: Duration = Duration::from_secs(20);
/// How long the verdict on a result may take: it has to be in the journal.
const VERDICT: Duration = Duration::from_mins(2);

/// The calls of a worker. Each is repeated until it has an answer, over any number of outages.
/// Clones share the link.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    link: Arc<Link>,
    job: Arc<JobDescription>,
}

/// A lease, by the coordinator's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LeaseId(pub(crate) u64);

/// The answer to the request for a task.
#[derive(Clone, Debug)]
pub(crate) enum TaskAnswer {
    Task(LeasedTask),
    /// Nothing now: ask again.
    Wait,
    /// The job is done.
    Finished,
}

/// The result of a task.
#[derive(Clone, Debug)]
pub(crate) enum TaskResult {
    /// The part is in the store, with these ranges.
    Evaluated(Vec<Placed>),
    /// The shard is in the store; this is its description, as JSON.
    Merged(Vec<u8>),
}

/// A record that is missing, or has another digest than the journal names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LostRecord {
    pub(crate) head: Head,
    /// The digest that it should have.
    pub(crate) digest: Digest,
    pub(crate) reason: String,
}

/// The coordinator's verdict on a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ResultVerdict {
    /// The coordinator has taken it in, now or before: the worker need not keep it.
    Taken,
    /// The coordinator has no use for it, for this reason.
    Rejected(String),
}

/// The state of a worker's cache of ranges, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stats {
    pub(crate) bytes: u64,
    /// How many sources were found there, and how many had to be fetched.
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

impl TaskAnswer {
    fn read(reply: v1::LeaseReply, job: &JobDescription) -> Result<TaskAnswer, CallFailure> {
        match reply.answer {
            Some(lease_reply::Answer::Task(task)) => {
                LeasedTask::read(task, job).map(TaskAnswer::Task)
            }
            Some(lease_reply::Answer::Wait(v1::Wait {})) => Ok(TaskAnswer::Wait),
            Some(lease_reply::Answer::Finished(v1::Finished {})) => Ok(TaskAnswer::Finished),
            Some(lease_reply::Answer::Stopped(v1::Stopped { reason })) => {
                Err(CallFailure::Stopped(reason))
            }
            None => Err(CallFailure::Protocol(
                "an answer without content".to_owned(),
            )),
        }
    }
}

impl TaskResult {
    fn write(&self) -> WireResult {
        match self {
            TaskResult::Evaluated(ranges) => WireResult::Evaluated(v1::Evaluated {
                ranges: ranges.iter().map(task::summary).collect(),
            }),
            TaskResult::Merged(json) => WireResult::Merged(v1::Merged { json: json.clone() }),
        }
    }
}

/// Whether a worker of this job takes this answer for one.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub fn is_answer(reply: v1::LeaseReply, range_bits: chomp_table::RangeBits, bits: u32) -> bool {
    let job = JobDescription {
        bits,
        range_bits,
        table: 0,
        lease: Duration::ZERO,
        store: String::new(),
        checkpoint: None,
        epoch: 0,
    };
    TaskAnswer::read(reply, &job).is_ok()
}

impl Client {
    /// Joins the job at the other end of `link`.
    pub(crate) async fn join(link: Link) -> Result<Client, ClientError> {
        link.join().await?;
        let job = link.job().expect("known from the first session on");
        let link = Arc::new(link);
        Ok(Client { link, job })
    }

    /// The job, as the coordinator described it last.
    pub(crate) fn job(&self) -> Arc<JobDescription> {
        self.link.job().unwrap_or_else(|| Arc::clone(&self.job))
    }

    /// The link to the coordinator.
    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    fn worker(&self) -> u64 {
        self.link.hello().worker
    }

    /// Asks for a task; waits some seconds at the most.
    pub(crate) async fn lease(&self) -> Result<TaskAnswer, ClientError> {
        let worker = self.worker();
        let call = |session: Arc<Session>| async move {
            let request = v1::LeaseRequest { worker };
            let reply = within(LEASE, session.rpc().lease(request)).await?;
            TaskAnswer::read(reply.into_inner(), &session.job)
        };
        self.link.call(call).await
    }

    /// Sends a heartbeat that renews these leases; returns those that have ended.
    pub(crate) async fn renew(
        &self,
        leases: &[LeaseId],
        stats: Stats,
    ) -> Result<Vec<LeaseId>, ClientError> {
        let worker = self.worker();
        let call = |session: Arc<Session>| async move {
            let request = v1::RenewRequest {
                worker,
                leases: leases.iter().map(|lease| lease.0).collect(),
                stats: Some(v1::WorkerStats {
                    cache_bytes: stats.bytes,
                    cache_hits: stats.hits,
                    cache_misses: stats.misses,
                }),
            };
            let reply = within(CONTROL, session.rpc().renew(request)).await?;
            Ok(reply.into_inner().lost.into_iter().map(LeaseId).collect())
        };
        self.link.call(call).await
    }

    /// Returns a lease. `failure` is why this worker cannot do the task; it is empty if the worker only stops.
    pub(crate) async fn give_back(&self, lease: LeaseId, failure: &str) -> Result<(), ClientError> {
        let worker = self.worker();
        let call = |session: Arc<Session>| async move {
            let request = v1::ReturnRequest {
                worker,
                lease: lease.0,
                failure: failure.to_owned(),
            };
            within(CONTROL, session.rpc().r#return(request)).await?;
            Ok(())
        };
        self.link.call(call).await
    }

    /// Submits the result of a task, whose objects are in the store; returns the coordinator's verdict.
    pub(crate) async fn complete(
        &self,
        lease: LeaseId,
        outcome: &TaskResult,
    ) -> Result<ResultVerdict, ClientError> {
        let (verdict, _) = self.hand_in(lease, outcome, false).await?;
        Ok(verdict)
    }

    /// Submits the result of a task and asks for the next one; waits some seconds more for it at the most.
    pub(crate) async fn complete_and_lease(
        &self,
        lease: LeaseId,
        outcome: &TaskResult,
    ) -> Result<(ResultVerdict, TaskAnswer), ClientError> {
        self.hand_in(lease, outcome, true).await
    }

    async fn hand_in(
        &self,
        lease: LeaseId,
        outcome: &TaskResult,
        next: bool,
    ) -> Result<(ResultVerdict, TaskAnswer), ClientError> {
        let worker = self.worker();
        let call = |session: Arc<Session>| async move {
            let request = v1::CompleteRequest {
                worker,
                lease: lease.0,
                result: Some(outcome.write()),
                next,
            };
            let reply = within(VERDICT, session.rpc().complete(request)).await?;
            let v1::CompleteReply { verdict, next } = reply.into_inner();
            let verdict = match verdict {
                Some(complete_reply::Verdict::Rejected(v1::Rejected { reason })) => {
                    ResultVerdict::Rejected(reason)
                }
                Some(
                    complete_reply::Verdict::Accepted(v1::Accepted {})
                    | complete_reply::Verdict::Duplicate(v1::Duplicate {})
                    | complete_reply::Verdict::Noted(v1::Noted {}),
                ) => ResultVerdict::Taken,
                None => {
                    return Err(CallFailure::Protocol(
                        "a verdict without content".to_owned(),
                    ));
                }
            };
            let next = next.map(|next| TaskAnswer::read(next, &session.job));
            Ok((verdict, next.unwrap_or(Ok(TaskAnswer::Wait))?))
        };
        self.link.call(call).await
    }

    /// Reports records that are missing or damaged.
    pub(crate) async fn report(&self, lost: &[LostRecord]) -> Result<(), ClientError> {
        let records = lost.iter().map(|lost| v1::LostRecord {
            head: lost.head.0,
            digest: lost.digest.0.to_vec(),
            reason: lost.reason.clone(),
        });
        let request = v1::ReportRequest {
            worker: self.worker(),
            records: records.collect(),
        };
        let call = |session: Arc<Session>| {
            let request = request.clone();
            async move {
                within(CONTROL, session.rpc().report(request)).await?;
                Ok(())
            }
        };
        self.link.call(call).await
    }

    /// Leaves the job, if there is contact; returns whether the coordinator knows. Else it notices when the leases expire.
    pub(crate) async fn leave(&self) -> bool {
        let worker = self.worker();
        let left = self.link.once(|session| async move {
            within(CONTROL, session.rpc().leave(v1::LeaveRequest { worker })).await
        });
        left.await.is_some()
    }
}
