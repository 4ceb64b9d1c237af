//! The coordinator's side of the protocol. The wire types end here.

mod incoming;
#[cfg(feature = "fuzzing")]
pub use incoming::is_result;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use chomp_kernel::Isa;
use chomp_plan::{LeaseAnswer, LeaseId, Rejection, Task, Verdict, Work, WorkerId, counted};
use chomp_proto::PROTOCOL;
use chomp_proto::v1::coordinator_server::Coordinator;
use chomp_proto::v1::{self, complete_reply, lease_reply, task};
use chomp_serve::net::Call;
use chomp_store::{Journal, ShardSummary};
use chomp_table::format::{Damage, describe, escape_control};
use chomp_table::{Digest, Head, range};
use tokio::sync::OnceCell;
use tonic::{Code, Request, Response, Status};

use crate::background;
use crate::error::Refusal;
use crate::job::{Job, JobHandle};
use crate::log_lines::LogLines;
use crate::participants::AuthenticatedParticipant;
use crate::tools::{Event, TaskAnswer, Tools};

/// The most threads that a worker may report.
const THREADS_MAX: u32 = 1 << 12;
/// The most leases in one heartbeat: two for each thread of the largest worker.
const LEASES_MAX: usize = 1 << 13;
/// The most lost records in one call.
const REPORTS_MAX: usize = 1 << 12;
const NAME_BYTES_MAX: usize = 64;
/// The most characters kept of a text from a worker; the rest is cut.
const TEXT_CHARS_MAX: usize = 500;

/// The job, as told to workers that join.
#[derive(Clone, Debug)]
pub(crate) struct JobDescription {
    pub(crate) bits: u32,
    pub(crate) lease_ms: u64,
    /// Where they find the store, if they may reach it.
    pub(crate) store: Option<String>,
}

/// Answers the calls of workers. Clones share all.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    handle: JobHandle,
    journal: Arc<Journal>,
    description: Arc<JobDescription>,
    kernel: Arc<OnceCell<Digest>>,
    log_lines: LogLines,
}

impl Service {
    pub(crate) fn new(handle: JobHandle, tools: &Tools, description: JobDescription) -> Service {
        Service {
            handle,
            journal: Arc::clone(&tools.journal),
            description: Arc::new(description),
            kernel: Arc::default(),
            log_lines: tools.log_lines.clone(),
        }
    }

    /// Refuses a worker whose results would be of no use, by what `request` says of it.
    async fn admit(&self, request: &v1::JoinRequest) -> Result<(), Status> {
        if request.protocol != PROTOCOL || request.format != range::VERSION {
            return Err(Status::failed_precondition(format!(
                "this is chomp {} with protocol {PROTOCOL} and range format {}, the worker is \"{}\" with \
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
        let evaluate = || background::run_blocking(|| chomp_kernel::fingerprint(Isa::Portable));
        let ours = self.kernel.get_or_try_init(evaluate).await?;
        if request.kernel != ours.0 {
            let theirs = <[u8; 32]>::try_from(&*request.kernel).map_or_else(
                |_| format!("{} bytes", request.kernel.len()),
                |theirs| Digest(theirs).to_string(),
            );
            return Err(Status::failed_precondition(format!(
                "known ranges have the fingerprint {ours} here and {theirs} on the worker, \"{}\": run the same version \
                 on both; if they are the same, the worker's CPU or memory cannot be relied on",
                excerpt(&request.software, NAME_BYTES_MAX),
            )));
        }
        Ok(())
    }

    async fn tell(&self, event: Event) -> Result<(), Refusal> {
        self.handle.ask(|job| job.handle(event)).await
    }

    async fn next(&self, worker: WorkerId) -> Result<v1::LeaseReply, Status> {
        let answer = match self.handle.lease(worker).await? {
            None => lease_reply::Answer::Wait(v1::Wait {}),
            Some(TaskAnswer {
                answer,
                journal_end,
                known_summary,
            }) => match answer {
                LeaseAnswer::Task(task) => {
                    lease_reply::Answer::Task(wire(task, journal_end, known_summary.as_deref()))
                }
                LeaseAnswer::Finished => lease_reply::Answer::Finished(v1::Finished {}),
                LeaseAnswer::Stopped { reason } => lease_reply::Answer::Stopped(v1::Stopped {
                    reason: reason.to_string(),
                }),
                LeaseAnswer::NotJoined => return Err(Refusal::NotJoined.into()),
                LeaseAnswer::Out { reason } => {
                    return Err(Refusal::Out(reason).into());
                }
            },
        };
        Ok(v1::LeaseReply {
            answer: Some(answer),
        })
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Status {
        let code = match refusal {
            Refusal::ShuttingDown => Code::Unavailable,
            Refusal::NotJoined => Code::NotFound,
            Refusal::TooManyCalls | Refusal::TooManyWorkers => Code::ResourceExhausted,
            Refusal::Out(_) => Code::PermissionDenied,
        };
        Status::new(code, refusal.to_string())
    }
}

#[tonic::async_trait]
impl Coordinator for Service {
    async fn join(
        &self,
        request: Request<v1::JoinRequest>,
    ) -> Result<Response<v1::JoinReply>, Status> {
        let peer = request.extensions().get().map(Call::address);
        let worker = sender(&request, request.get_ref().worker)?;
        let request = request.into_inner();
        if let Err(status) = self.admit(&request).await {
            let peer = peer.map_or_else(|| "this process".to_owned(), |at| at.to_string());
            if let Some(end) = self.log_lines.next(worker.participant) {
                tracing::warn!(
                    "refused the worker \"{}\" from {peer}: {}{end}",
                    excerpt(&request.name, NAME_BYTES_MAX),
                    status.message()
                );
            }
            return Err(status);
        }
        let v1::JoinRequest { name, threads, .. } = request;
        let joined = format!(
            "worker {name} has joined with {}",
            counted(threads, "thread")
        );
        let join = move |job: &mut Job| job.join(worker, name, threads);
        let was_there = self.handle.ask(join).await??;
        if was_there {
            // A worker that joins again may have failed to read a segment: a new checkpoint lets it do without.
            let renewed = self.journal.renew_checkpoint().await;
            renewed.map_err(|error| Status::unavailable(describe(&error)))?;
        } else if let Some(end) = self.log_lines.next(worker.participant) {
            tracing::info!("{joined}{end}");
        }
        let (range_bits, table) = {
            let ledger = self.journal.ledger();
            (ledger.range_bits, ledger.table)
        };
        let reply = v1::JoinReply {
            bits: self.description.bits,
            range_bits: range_bits.get(),
            table,
            lease_ms: self.description.lease_ms,
            store: self.description.store.clone().unwrap_or_default(),
            checkpoint: self.journal.latest_checkpoint().unwrap_or(0),
            epoch: self.journal.epoch(),
            coordinator: self.journal.coordinator_secret(),
        };
        Ok(Response::new(reply))
    }

    async fn lease(
        &self,
        request: Request<v1::LeaseRequest>,
    ) -> Result<Response<v1::LeaseReply>, Status> {
        let worker = sender(&request, request.get_ref().worker)?;
        Ok(Response::new(self.next(worker).await?))
    }

    async fn renew(
        &self,
        request: Request<v1::RenewRequest>,
    ) -> Result<Response<v1::RenewReply>, Status> {
        let worker = sender(&request, request.get_ref().worker)?;
        let leases = request.into_inner().leases;
        require_at_most(leases.len(), LEASES_MAX, "leases")?;
        let leases: Vec<_> = leases.into_iter().map(LeaseId).collect();
        let renew = move |job: &mut Job| job.renew(worker, &leases);
        let lost = self.handle.ask(renew).await??;
        Ok(Response::new(v1::RenewReply {
            lost: lost.into_iter().map(|lease| lease.0).collect(),
        }))
    }

    async fn r#return(
        &self,
        request: Request<v1::ReturnRequest>,
    ) -> Result<Response<v1::ReturnReply>, Status> {
        let worker = sender(&request, request.get_ref().worker)?;
        let v1::ReturnRequest { lease, failure, .. } = request.into_inner();
        let failure = excerpt(&failure, TEXT_CHARS_MAX);
        self.tell(Event::Returned {
            worker,
            lease: LeaseId(lease),
            failure: (!failure.is_empty()).then_some(failure),
        })
        .await?;
        Ok(Response::new(v1::ReturnReply {}))
    }

    async fn complete(
        &self,
        request: Request<v1::CompleteRequest>,
    ) -> Result<Response<v1::CompleteReply>, Status> {
        let worker = sender(&request, request.get_ref().worker)?;
        let v1::CompleteRequest {
            lease,
            result,
            next,
            ..
        } = request.into_inner();
        let lease = LeaseId(lease);
        let range_bits = self.journal.ledger().range_bits;
        let result = match incoming::result(result, lease, range_bits, self.description.bits) {
            Ok(result) => result,
            Err(wrong) => {
                let reason = wrong.to_string();
                let failed = Event::Returned {
                    worker,
                    lease,
                    failure: Some(reason.clone()),
                };
                self.tell(failed).await?;
                return Err(Status::invalid_argument(reason));
            }
        };
        let verdict = match self.handle.complete(worker, lease, result).await? {
            Verdict::Accepted => complete_reply::Verdict::Accepted(v1::Accepted {}),
            Verdict::Duplicate => complete_reply::Verdict::Duplicate(v1::Duplicate {}),
            Verdict::Noted => complete_reply::Verdict::Noted(v1::Noted {}),
            Verdict::Rejected { reason } => match reason {
                Rejection::NotJoined => return Err(Refusal::NotJoined.into()),
                Rejection::Out { reason } => {
                    return Err(Refusal::Out(reason).into());
                }
                reason => complete_reply::Verdict::Rejected(v1::Rejected {
                    reason: reason.to_string(),
                }),
            },
        };
        let next = if next {
            // An error is dropped here: the worker asks again with its next call, and gets it there.
            self.next(worker).await.ok()
        } else {
            None
        };
        Ok(Response::new(v1::CompleteReply {
            verdict: Some(verdict),
            next,
        }))
    }

    async fn report(
        &self,
        request: Request<v1::ReportRequest>,
    ) -> Result<Response<v1::ReportReply>, Status> {
        let worker = sender(&request, request.get_ref().worker)?;
        let records = request.into_inner().records;
        require_at_most(records.len(), REPORTS_MAX, "records")?;
        let mut lost = Vec::new();
        for record in records {
            let wrong = |wrong: Damage| Status::invalid_argument(wrong.to_string());
            let digest = incoming::digest(&record.digest).map_err(wrong)?;
            tracing::debug!(
                "worker {worker} cannot read range {}: {}",
                Head(record.head),
                excerpt(&record.reason, TEXT_CHARS_MAX)
            );
            lost.push((Head(record.head), digest, LeaseId(record.lease)));
        }
        let audit = self.handle.report(worker, lost).await?;
        let lost = audit.lost.into_iter().map(|(head, _)| head);
        Ok(Response::new(v1::ReportReply {
            lost: lost.chain(audit.outdated).map(|head| head.0).collect(),
            in_order: audit.in_order.into_iter().map(|head| head.0).collect(),
        }))
    }

    async fn leave(
        &self,
        request: Request<v1::LeaveRequest>,
    ) -> Result<Response<v1::LeaveReply>, Status> {
        let worker = sender(&request, request.get_ref().worker)?;
        self.tell(Event::Left { worker }).await?;
        Ok(Response::new(v1::LeaveReply {}))
    }
}

/// The worker that makes a call: the token names the participant, and the worker chose its own number.
fn sender<T>(request: &Request<T>, number: u64) -> Result<WorkerId, Status> {
    let caller = request.extensions().get::<AuthenticatedParticipant>();
    let &AuthenticatedParticipant(participant) =
        caller.ok_or_else(|| Status::unauthenticated("no token"))?;
    Ok(WorkerId {
        participant,
        number,
    })
}

fn require_at_most(count: usize, most: usize, what: &str) -> Result<(), Status> {
    if count > most {
        return Err(Status::invalid_argument(format!(
            "{count} {what} in one call, where {most} are possible"
        )));
    }
    Ok(())
}

/// The beginning of a text that may be long, with escapes for what could garble a terminal or a log.
fn excerpt(text: &str, chars: usize) -> String {
    let start: String = text.chars().take(chars).collect();
    escape_control(&start, &[]).into_owned()
}

fn wire(task: Task, journal_end: u64, known_summary: Option<&ShardSummary>) -> v1::Task {
    let work = match task.work {
        Work::Evaluate {
            layer,
            heads,
            is_check,
        } => task::Work::Evaluate(v1::Evaluate {
            layer,
            heads: heads.into_iter().map(|head| head.0).collect(),
            is_check,
        }),
        Work::Merge {
            shard,
            head,
            skip,
            is_check: _,
        } => task::Work::Merge(v1::Merge {
            shard,
            head: head.0,
            skip,
            written: known_summary.map(|known_summary| v1::Written {
                json: known_summary.to_json(),
            }),
        }),
    };
    v1::Task {
        lease: task.lease.0,
        attempt: task.attempt,
        journal: journal_end,
        work: Some(work),
    }
}
