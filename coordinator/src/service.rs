//! The coordinator's side of the protocol. The wire types end here.

mod blocking;
mod fetches;
mod submissions;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use chomp_kernel::Isa;
use chomp_proto::PROTOCOL;
use chomp_proto::v1::coordinator_server::Coordinator;
use chomp_proto::v1::{self, lease_reply, submit_reply};
use chomp_table::{Digest, range};
use tokio::sync::OnceCell;
use tonic::{Request, Response, Status, Streaming};

use crate::audit::Audit;
use crate::http::metrics::Traffic;
use crate::job::{Handle, Over, Refusal, WorkerStats};
use crate::plan::{Answer, Event, LeaseId, Rejection, Verdict, WorkerId};
use crate::store::Store;
use blocking::blocking;
use fetches::Replies;
use submissions::Limits;

/// The most threads of a worker that are believed.
const THREADS_MAX: u32 = 1 << 16;
/// The most leases in one heartbeat: two for each thread of the largest worker.
const LEASES_MAX: usize = 1 << 17;
/// The longest name of a worker, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// What is kept of a text that a worker sends for people to read, in characters.
const TEXT_CHARS_MAX: usize = 500;

/// Answers the calls of workers. Clones share all.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    handle: Handle,
    store: Arc<Store>,
    audit: Arc<Audit>,
    table: u64,
    lease_ms: u64,
    limits: Arc<Limits>,
    kernel: Arc<OnceCell<Digest>>,
    pub(crate) traffic: Arc<Traffic>,
}

impl Service {
    /// For the job behind `handle`; `table` names the table to workers, and a lease lasts
    /// `lease_ms` unless renewed.
    pub(crate) fn new(
        handle: Handle,
        store: Arc<Store>,
        audit: Arc<Audit>,
        table: u64,
        lease_ms: u64,
    ) -> Service {
        Service {
            handle,
            store,
            audit,
            table,
            lease_ms,
            limits: Arc::default(),
            kernel: Arc::default(),
            traffic: Arc::default(),
        }
    }

    /// Checks that what `request` says of a worker makes it one whose results are of use.
    async fn admit(&self, request: &v1::JoinRequest) -> Result<(), Status> {
        if request.protocol != PROTOCOL || request.format != range::VERSION {
            return Err(Status::failed_precondition(format!(
                "this is chomp {} with protocol {PROTOCOL} and range format {}, the worker is {:?} with \
                 protocol {} and range format {}: run the same version on both",
                env!("CARGO_PKG_VERSION"),
                range::VERSION,
                excerpt(&request.software, NAME_BYTES_MAX),
                request.protocol,
                request.format,
            )));
        }
        let name = &request.name;
        if name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
            return Err(Status::invalid_argument(format!(
                "a worker's name has at most {NAME_BYTES_MAX} bytes and no control characters"
            )));
        }
        let threads = request.threads;
        if threads == 0 || threads > THREADS_MAX {
            return Err(Status::invalid_argument(format!(
                "{threads} threads are not possible"
            )));
        }
        let evaluate = || blocking(async { chomp_kernel::fingerprint(Isa::Portable) });
        let ours = self.kernel.get_or_try_init(evaluate).await?;
        if request.kernel != ours.0 {
            let theirs = <[u8; 32]>::try_from(&*request.kernel).map_or_else(
                |_| format!("{} bytes", request.kernel.len()),
                |theirs| Digest(theirs).to_string(),
            );
            return Err(Status::failed_precondition(format!(
                "known ranges have the fingerprint {ours} here and {theirs} on the worker, {:?}: run the same version \
                 on both; if they are the same, the worker's CPU or memory cannot be relied on",
                excerpt(&request.software, NAME_BYTES_MAX),
            )));
        }
        Ok(())
    }
}

impl From<Over> for Status {
    fn from(over: Over) -> Status {
        Status::unavailable(over.to_string())
    }
}

#[tonic::async_trait]
impl Coordinator for Service {
    async fn join(
        &self,
        request: Request<v1::JoinRequest>,
    ) -> Result<Response<v1::JoinReply>, Status> {
        let peer = request.remote_addr();
        let request = request.into_inner();
        if let Err(status) = self.admit(&request).await {
            let peer = peer.map_or_else(|| "an unknown address".to_owned(), |at| at.to_string());
            tracing::warn!(
                "refused the worker {:?} from {peer}: {}",
                excerpt(&request.name, NAME_BYTES_MAX),
                status.message()
            );
            return Err(status);
        }
        let worker = WorkerId(request.worker);
        let joined = self.handle.join(worker, request.name, request.threads);
        joined.await?.map_err(|refusal| refused(&refusal))?;
        let reply = v1::JoinReply {
            bits: self.store.bits(),
            range_bits: self.store.range_bits().get(),
            table: self.table,
            lease_ms: self.lease_ms,
        };
        Ok(Response::new(reply))
    }

    async fn lease(
        &self,
        request: Request<v1::LeaseRequest>,
    ) -> Result<Response<v1::LeaseReply>, Status> {
        let worker = WorkerId(request.into_inner().worker);
        let answer = match self.handle.lease(worker).await? {
            None => lease_reply::Answer::Wait(v1::Wait {}),
            Some(Answer::Task(task)) => lease_reply::Answer::Task(v1::Task {
                lease: task.lease.0,
                attempt: task.attempt,
                layer: task.layer,
                heads: task.heads.into_iter().map(|head| head.0).collect(),
                lease_ms: task.lease_ms,
            }),
            Some(Answer::Finished) => lease_reply::Answer::Finished(v1::Finished {}),
            Some(Answer::Stopped { reason }) => lease_reply::Answer::Stopped(v1::Stopped {
                reason: reason.to_string(),
            }),
            Some(Answer::NotJoined) => return Err(refused(&Refusal::NotJoined)),
            Some(Answer::Quarantined { reason }) => {
                return Err(refused(&Refusal::Quarantined(reason)));
            }
        };
        Ok(Response::new(v1::LeaseReply {
            answer: Some(answer),
        }))
    }

    async fn renew(
        &self,
        request: Request<v1::RenewRequest>,
    ) -> Result<Response<v1::RenewReply>, Status> {
        let v1::RenewRequest {
            worker,
            leases,
            stats,
        } = request.into_inner();
        check_count(leases.len(), LEASES_MAX, "leases")?;
        let leases = leases.into_iter().map(LeaseId).collect();
        let stats = stats.unwrap_or_default();
        let stats = WorkerStats {
            cache_bytes: stats.cache_bytes,
            cache_hits: stats.cache_hits,
            cache_misses: stats.cache_misses,
        };
        let renewed = self.handle.renew(WorkerId(worker), leases, stats).await?;
        let lost = renewed.map_err(|refusal| refused(&refusal))?;
        Ok(Response::new(v1::RenewReply {
            lost: lost.into_iter().map(|lease| lease.0).collect(),
        }))
    }

    async fn r#return(
        &self,
        request: Request<v1::ReturnRequest>,
    ) -> Result<Response<v1::ReturnReply>, Status> {
        let v1::ReturnRequest {
            worker,
            lease,
            failure,
        } = request.into_inner();
        let (worker, lease) = (WorkerId(worker), LeaseId(lease));
        self.handle.tell(match failure {
            failure if failure.is_empty() => Event::Returned { worker, lease },
            reason => Event::Failed {
                worker,
                lease,
                reason: excerpt(&reason, TEXT_CHARS_MAX),
            },
        })?;
        Ok(Response::new(v1::ReturnReply {}))
    }

    type FetchStream = Replies;

    async fn fetch(&self, request: Request<v1::FetchRequest>) -> Result<Response<Replies>, Status> {
        let heads = request.into_inner().heads;
        check_count(heads.len(), chomp_proto::FETCH_RANGES_MAX, "ranges")?;
        Ok(Response::new(self.send_records(heads)))
    }

    async fn submit(
        &self,
        request: Request<Streaming<v1::SubmitRequest>>,
    ) -> Result<Response<v1::SubmitReply>, Status> {
        let received = self.receive(request.into_inner()).await?;
        let verdict = match self.hand_in(received).await? {
            Verdict::Accepted => submit_reply::Verdict::Accepted(v1::Accepted {}),
            Verdict::Duplicate => submit_reply::Verdict::Duplicate(v1::Duplicate {}),
            Verdict::Noted => submit_reply::Verdict::Noted(v1::Noted {}),
            Verdict::Rejected { reason } => match reason {
                Rejection::NotJoined => return Err(refused(&Refusal::NotJoined)),
                Rejection::Quarantined { reason } => {
                    return Err(refused(&Refusal::Quarantined(reason)));
                }
                reason => submit_reply::Verdict::Rejected(v1::Rejected {
                    reason: reason.to_string(),
                }),
            },
        };
        Ok(Response::new(v1::SubmitReply {
            verdict: Some(verdict),
        }))
    }

    async fn leave(
        &self,
        request: Request<v1::LeaveRequest>,
    ) -> Result<Response<v1::LeaveReply>, Status> {
        self.handle.tell(Event::Left {
            worker: WorkerId(request.into_inner().worker),
        })?;
        Ok(Response::new(v1::LeaveReply {}))
    }
}

fn refused(refusal: &Refusal) -> Status {
    match refusal {
        Refusal::NotJoined => Status::not_found(refusal.to_string()),
        Refusal::Quarantined(_) => Status::permission_denied(refusal.to_string()),
    }
}

fn check_count(count: usize, most: usize, what: &str) -> Result<(), Status> {
    if count > most {
        return Err(Status::invalid_argument(format!(
            "{count} {what} in one call, where {most} are possible"
        )));
    }
    Ok(())
}

/// The beginning of a text that may be long.
fn excerpt(text: &str, chars: usize) -> String {
    text.chars().take(chars).collect()
}
