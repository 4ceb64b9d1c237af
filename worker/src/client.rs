//! The worker's calls to the coordinator. The coordinator's answers are checked here.

mod task;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use chomp_proto::v1::complete_request::Result as TaskResult;
use chomp_proto::v1::{self, complete_reply, lease_reply};
use chomp_store::RangeRow;
use chomp_table::Head;

pub(crate) use task::{LeasedTask, TaskWork, evaluated};

use crate::error::ClientError;
use crate::link::{CONTROL_TIMEOUT, CallFailure, JobDescription, Link, Session, within};

/// The deadline of a request for a task: the coordinator answers within ten seconds.
const LEASE_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the verdict on a result may take: the result has to be in the journal first.
const VERDICT_TIMEOUT: Duration = Duration::from_mins(2);

/// The calls of a worker. Each is repeated until it has an answer, over any number of outages. Clones share the link.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) link: Arc<Link>,
}

#[derive(Clone, Debug)]
pub(crate) enum TaskAnswer {
    Task(LeasedTask),
    /// Nothing now: ask again.
    Wait,
    Finished,
}

/// The report of a record that is missing, or is not what the journal says.
pub(crate) fn lost_record(head: Head, row: &RangeRow, reason: String) -> v1::LostRecord {
    v1::LostRecord {
        head: head.0,
        digest: row.digest.0.to_vec(),
        reason,
        lease: row.lease,
    }
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

/// Whether a worker accepts `reply` as an answer, in a job of these bits.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub fn is_answer(reply: v1::LeaseReply, range_bits: chomp_table::RangeBits, bits: u32) -> bool {
    let job = JobDescription::of(bits, range_bits, 0);
    TaskAnswer::read(reply, &job).is_ok()
}

impl Client {
    pub(crate) async fn join(link: Link) -> Result<Client, ClientError> {
        link.join().await?;
        let link = Arc::new(link);
        Ok(Client { link })
    }

    pub(crate) fn job(&self) -> Arc<JobDescription> {
        self.link.job()
    }

    pub(crate) fn worker(&self) -> u64 {
        self.link.join_request.worker
    }

    /// Asks for a task; waits some seconds at the most.
    pub(crate) async fn lease(&self) -> Result<TaskAnswer, ClientError> {
        let worker = self.worker();
        let call = async |session: Arc<Session>| {
            let request = v1::LeaseRequest { worker };
            let reply = within(LEASE_TIMEOUT, session.rpc().lease(request)).await?;
            TaskAnswer::read(reply.into_inner(), &session.job)
        };
        self.link.call(call).await
    }

    /// Sends a heartbeat that renews these leases; returns those that have ended.
    pub(crate) async fn renew(&self, leases: Vec<u64>) -> Result<Vec<u64>, ClientError> {
        let request = v1::RenewRequest {
            worker: self.worker(),
            leases,
        };
        let call = async |session: Arc<Session>| {
            let reply = within(CONTROL_TIMEOUT, session.rpc().renew(request.clone())).await?;
            Ok(reply.into_inner().lost)
        };
        self.link.call(call).await
    }

    /// Returns a lease. `failure` is why this worker cannot do the task; it is empty if the worker only stops.
    pub(crate) async fn give_back(&self, lease: u64, failure: &str) -> Result<(), ClientError> {
        let request = v1::ReturnRequest {
            worker: self.worker(),
            lease,
            failure: failure.to_owned(),
        };
        let call = async |session: Arc<Session>| {
            within(CONTROL_TIMEOUT, session.rpc().r#return(request.clone()))
                .await
                .map(drop)
        };
        self.link.call(call).await
    }

    /// Submits a result whose objects are in the store. If `next`, asks for a task in the same call, and waits some
    /// seconds for it.
    pub(crate) async fn complete(
        &self,
        lease: u64,
        result: &TaskResult,
        next: bool,
    ) -> Result<TaskAnswer, ClientError> {
        let request = v1::CompleteRequest {
            worker: self.worker(),
            lease,
            result: Some(result.clone()),
            next,
        };
        let call = async |session: Arc<Session>| {
            let reply = within(VERDICT_TIMEOUT, session.rpc().complete(request.clone())).await?;
            let v1::CompleteReply { verdict, next } = reply.into_inner();
            match verdict {
                Some(complete_reply::Verdict::Rejected(v1::Rejected { reason })) => {
                    tracing::warn!("the coordinator has no use for a result: {reason}");
                }
                // The coordinator has the result, from this call or an earlier one: the worker need not keep it.
                Some(_) => {}
                None => {
                    return Err(CallFailure::Protocol(
                        "a verdict without content".to_owned(),
                    ));
                }
            }
            next.map_or(Ok(TaskAnswer::Wait), |next| {
                TaskAnswer::read(next, &session.job)
            })
        };
        self.link.call(call).await
    }

    /// Reports lost records; returns what the coordinator has found.
    pub(crate) async fn report(
        &self,
        records: Vec<v1::LostRecord>,
    ) -> Result<v1::ReportReply, ClientError> {
        let worker = self.worker();
        let request = v1::ReportRequest { worker, records };
        let call = async |session: Arc<Session>| {
            let reply = within(CONTROL_TIMEOUT, session.rpc().report(request.clone())).await?;
            Ok(reply.into_inner())
        };
        self.link.call(call).await
    }

    /// Returns whether the coordinator knows. Without contact, the coordinator notices when the leases expire.
    pub(crate) async fn leave(&self) -> bool {
        let request = v1::LeaveRequest {
            worker: self.worker(),
        };
        let call = async |session: Arc<Session>| {
            within(CONTROL_TIMEOUT, session.rpc().leave(request)).await
        };
        self.link.once(call).await.is_some()
    }
}
