//! The worker's side of the protocol: its calls. The wire types end here.

mod transfer;

use std::sync::Arc;
use std::time::Duration;

use chomp_proto::v1::{self, lease_reply};
use chomp_table::{Head, RangeBits};

use crate::link::{CONTROL, Failure, Link, within};
use crate::transport::BoxError;

/// The deadline of a request for a task: the coordinator answers within ten seconds.
const LEASE: Duration = Duration::from_secs(20);

/// The calls of a worker. Each is repeated until it has an answer, over any number of outages.
/// Clones share the link.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    link: Arc<Link>,
    job: Job,
}

/// What the coordinator says of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// The bits of the table.
    pub bits: u32,
    /// The bits of a range.
    pub range_bits: RangeBits,
    /// Names the table.
    pub table: u64,
    /// How long a lease lasts unless renewed.
    pub lease: Duration,
}

/// A lease, by the coordinator's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LeaseId(u64);

/// A leased task.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) lease: LeaseId,
    /// The ranges to evaluate, ascending.
    pub(crate) heads: Vec<Head>,
}

/// The answer to the request for a task.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Task(Task),
    /// Nothing now: ask again.
    Wait,
    /// The job is done.
    Finished,
}

/// What becomes of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The coordinator has it.
    Taken,
    /// It has no use for it, for this reason.
    Rejected(String),
}

/// How a worker's cache of ranges is doing, for people to look at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stats {
    pub(crate) bytes: u64,
    /// How many sources were found there, and how many had to be fetched.
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

/// Why the coordinator is of no use.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ClientError {
    /// Its address, or what opens it, cannot be used.
    #[error("the coordinator's address {url} cannot be used")]
    Access {
        /// Its address.
        url: String,
        /// What is wrong.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// There is no connection, and there was none for as long as the worker waits for one.
    #[error(
        "the coordinator at {url} cannot be reached: check the address, and that it is running"
    )]
    Unreachable {
        /// Its address.
        url: String,
        /// What went wrong last.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The job has stopped, and was not started again for as long as the worker waits for that.
    #[error("the coordinator at {url} has stopped the job: {reason}")]
    Stopped {
        /// Its address.
        url: String,
        /// Why, as it says.
        reason: String,
    },
    /// It does not want this worker.
    #[error("the coordinator at {url} refuses: {reason}")]
    Refused {
        /// Its address.
        url: String,
        /// What it says.
        reason: String,
    },
    /// It does not want this call.
    #[error("the coordinator at {url} does not accept a call: {reason}")]
    Unfit {
        /// Its address.
        url: String,
        /// What it says.
        reason: String,
    },
    /// It has another job than before, which needs evaluators of another size.
    #[error(
        "the coordinator at {url} now has a job with {now} range bits instead of {before}: start the worker again"
    )]
    OtherJob {
        /// Its address.
        url: String,
        /// The range bits before.
        before: RangeBits,
        /// The range bits now.
        now: RangeBits,
    },
    /// It says something that it never should.
    #[error("the coordinator at {url} does not keep to the protocol: {what}")]
    Protocol {
        /// Its address.
        url: String,
        /// What is wrong.
        what: String,
    },
}

impl ClientError {
    pub(crate) fn access(url: String, source: BoxError) -> ClientError {
        ClientError::Access {
            url,
            source: Arc::from(source),
        }
    }
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
    pub(crate) fn job(&self) -> Job {
        self.link.job().unwrap_or(self.job)
    }

    /// Asks for a task; waits some seconds at the most.
    pub(crate) async fn lease(&self) -> Result<Answer, ClientError> {
        let worker = self.link.hello().worker;
        let call = |session: Arc<crate::link::Session>| async move {
            let request = v1::LeaseRequest { worker };
            let reply = within(LEASE, session.control().lease(request)).await?;
            match reply.into_inner().answer {
                Some(lease_reply::Answer::Task(task)) => Ok(Answer::Task(Task {
                    lease: LeaseId(task.lease),
                    heads: task.heads.into_iter().map(Head).collect(),
                })),
                Some(lease_reply::Answer::Wait(v1::Wait {})) => Ok(Answer::Wait),
                Some(lease_reply::Answer::Finished(v1::Finished {})) => Ok(Answer::Finished),
                Some(lease_reply::Answer::Stopped(v1::Stopped { reason })) => {
                    Err(Failure::Stopped(reason))
                }
                None => Err(Failure::Protocol("an answer without content".to_owned())),
            }
        };
        self.link.call(call).await
    }

    /// Keeps the worker known and its leases alive; returns those that no longer stand.
    pub(crate) async fn renew(
        &self,
        leases: &[LeaseId],
        stats: Stats,
    ) -> Result<Vec<LeaseId>, ClientError> {
        let worker = self.link.hello().worker;
        let call = |session: Arc<crate::link::Session>| async move {
            let request = v1::RenewRequest {
                worker,
                leases: leases.iter().map(|lease| lease.0).collect(),
                stats: Some(v1::WorkerStats {
                    cache_bytes: stats.bytes,
                    cache_hits: stats.hits,
                    cache_misses: stats.misses,
                }),
            };
            let reply = within(CONTROL, session.control().renew(request)).await?;
            Ok(reply.into_inner().lost.into_iter().map(LeaseId).collect())
        };
        self.link.call(call).await
    }

    /// Gives a lease back; `failure` is empty unless the task cannot be done here.
    pub(crate) async fn give_back(&self, lease: LeaseId, failure: &str) -> Result<(), ClientError> {
        let worker = self.link.hello().worker;
        let call = |session: Arc<crate::link::Session>| async move {
            let request = v1::ReturnRequest {
                worker,
                lease: lease.0,
                failure: failure.to_owned(),
            };
            within(CONTROL, session.control().r#return(request)).await?;
            Ok(())
        };
        self.link.call(call).await
    }

    /// Leaves the job, if there is contact: a coordinator that does not hear of it finds out.
    pub(crate) async fn leave(&self) {
        let worker = self.link.hello().worker;
        let left = self.link.once(|session| async move {
            within(
                CONTROL,
                session.control().leave(v1::LeaveRequest { worker }),
            )
            .await
        });
        if left.await.is_none() {
            tracing::debug!(
                "left without a word to the coordinator at {}",
                self.link.url()
            );
        }
    }
}
