//! The coordinator's side of the protocol. The wire types end here.

use std::pin::Pin;
use std::sync::Arc;

use chomp_proto::PROTOCOL;
use chomp_proto::v1::coordinator_server::Coordinator;
use chomp_proto::v1::{self, lease_reply, submit_reply};
use chomp_table::Head;
use chomp_table::format::describe;
use chomp_table::pieces::{self, Joiner, Piece};
use chomp_table::range::{self, RangeSummary};
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::job::{Handle, Over, Records, Refusal, WorkerStats};
use crate::plan::{Answer, Event, LeaseId, Verdict, WorkerId};
use crate::store::{PART_RECORDS_BYTES_MAX, Store, StoreError};

/// The most bytes of records in one submission: as one that is too large for a part would end the
/// job when it is written, it is refused here.
const SUBMISSION_BYTES_MAX: u64 = PART_RECORDS_BYTES_MAX;
/// The most ranges in one submission or request.
const RANGES_MAX: usize = 1 << 20;
/// The most threads of a worker that are believed.
const THREADS_MAX: u32 = 1 << 16;
/// The messages of a fetch that are read ahead of the network.
const FETCH_AHEAD: usize = 2;

/// Answers the calls of workers.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    pub(crate) handle: Handle,
    pub(crate) store: Arc<Store>,
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
        let v1::JoinRequest {
            protocol,
            format,
            software,
            threads,
            worker,
            name,
            kernel: _,
        } = request.into_inner();
        if protocol != PROTOCOL || format != range::VERSION {
            return Err(Status::failed_precondition(format!(
                "this is chomp {} with protocol {PROTOCOL} and range format {}, the worker is {software:?} with \
                 protocol {protocol} and range format {format}: run the same version on both",
                env!("CARGO_PKG_VERSION"),
                range::VERSION
            )));
        }
        if threads == 0 || threads > THREADS_MAX {
            return Err(Status::invalid_argument(format!(
                "{threads} threads are not possible"
            )));
        }
        self.handle
            .join(WorkerId(worker), name, threads)
            .await?
            .map_err(refused)?;
        let reply = v1::JoinReply {
            bits: self.store.bits(),
            range_bits: self.store.range_bits().get(),
            table: 0,
            lease_ms: 0,
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
            Some(Answer::Quarantined { reason }) => {
                return Err(Status::permission_denied(reason.to_string()));
            }
            Some(Answer::NotJoined) => {
                return Err(Status::not_found("this worker has not joined the job"));
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
        let v1::RenewRequest { worker, leases, .. } = request.into_inner();
        check_count(leases.len())?;
        let leases = leases.into_iter().map(LeaseId).collect();
        let stats = WorkerStats::default();
        let lost = self.handle.renew(WorkerId(worker), leases, stats).await?;
        let lost = lost.map_err(refused)?;
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
                reason,
            },
        })?;
        Ok(Response::new(v1::ReturnReply {}))
    }

    type FetchStream = Pin<Box<dyn Stream<Item = Result<v1::FetchReply, Status>> + Send>>;

    async fn fetch(
        &self,
        request: Request<v1::FetchRequest>,
    ) -> Result<Response<Self::FetchStream>, Status> {
        let heads = request.into_inner().heads;
        check_count(heads.len())?;
        let (replies, stream) = mpsc::channel(FETCH_AHEAD);
        let service = self.clone();
        #[expect(
            clippy::disallowed_methods,
            reason = "ends with the stream that it fills"
        )]
        tokio::spawn(async move {
            if let Err(status) = service.send_records(heads, &replies).await {
                // A worker that is gone needs no status.
                replies.send(Err(status)).await.unwrap_or(());
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }

    async fn submit(
        &self,
        request: Request<Streaming<v1::SubmitRequest>>,
    ) -> Result<Response<v1::SubmitReply>, Status> {
        let mut messages = request.into_inner();
        let Some(v1::SubmitRequest {
            header: Some(header),
            ..
        }) = messages.message().await?
        else {
            return Err(Status::invalid_argument(
                "a submission starts with a header",
            ));
        };
        let records = self.receive_records(&mut messages).await?;
        let (worker, lease) = (WorkerId(header.worker), LeaseId(header.lease));
        let verdict = match self.handle.submit(worker, lease, records).await? {
            Verdict::Accepted => submit_reply::Verdict::Accepted(v1::Accepted {}),
            Verdict::Duplicate => submit_reply::Verdict::Duplicate(v1::Duplicate {}),
            Verdict::Noted => submit_reply::Verdict::Noted(v1::Noted {}),
            Verdict::Rejected { reason } => submit_reply::Verdict::Rejected(v1::Rejected {
                reason: reason.to_string(),
            }),
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

impl Service {
    /// Sends the records of `heads`, as many in a message as fit.
    async fn send_records(
        &self,
        heads: Vec<u64>,
        replies: &mpsc::Sender<Result<v1::FetchReply, Status>>,
    ) -> Result<(), Status> {
        let mut waiting = Vec::new();
        let mut bytes = 0;
        for (i, head) in heads.iter().copied().map(Head).enumerate() {
            let record = self
                .store
                .read_record(head)
                .await
                .map_err(|error| self.cannot_read(error))?;
            bytes += record.len();
            waiting.push((head, record));
            if bytes < pieces::PIECE_BYTES_MAX && i + 1 < heads.len() {
                continue;
            }
            bytes = 0;
            for message in pieces::cut(std::mem::take(&mut waiting)) {
                let wire = |Piece { head, data, last }| v1::Piece {
                    head: head.0,
                    data,
                    last,
                };
                let reply = v1::FetchReply {
                    pieces: message.into_iter().map(wire).collect(),
                };
                if replies.send(Ok(reply)).await.is_err() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// What a worker is told when a record cannot be read. Damage ends the job: what is in the
    /// store cannot be trusted, and a person has to look.
    fn cannot_read(&self, error: StoreError) -> Status {
        if matches!(error, StoreError::Missing { .. }) {
            return Status::not_found(error.to_string());
        }
        let status = Status::data_loss(describe(&error));
        match self.handle.unreadable(error) {
            Ok(()) => status,
            Err(over) => over.into(),
        }
    }

    async fn receive_records(
        &self,
        messages: &mut Streaming<v1::SubmitRequest>,
    ) -> Result<Records, Status> {
        let range_bits = self.store.range_bits();
        let refuse = |error: &dyn std::error::Error| Status::invalid_argument(describe(error));
        let mut joiner = Joiner::new(range::max_record_len(range_bits).min(SUBMISSION_BYTES_MAX));
        let mut records = Records::new();
        let mut bytes = 0;
        while let Some(message) = messages.message().await? {
            for v1::Piece { head, data, last } in message.pieces {
                bytes += data.len() as u64;
                if bytes > SUBMISSION_BYTES_MAX {
                    return Err(Status::resource_exhausted("the submission is too large"));
                }
                let piece = Piece {
                    head: Head(head),
                    data,
                    last,
                };
                let Some((head, record)) = joiner.push(piece).map_err(|error| refuse(&error))?
                else {
                    continue;
                };
                check_count(records.len() + 1)?;
                let check = move || {
                    (
                        range::decode(&record, range_bits).map(|(summary, _)| summary),
                        record,
                    )
                };
                let (checked, record) = tokio::task::spawn_blocking(check)
                    .await
                    .map_err(|error| Status::internal(error.to_string()))?;
                let summary: RangeSummary = checked.map_err(|error| refuse(&error))?;
                if summary.head != head {
                    return Err(Status::invalid_argument(
                        "a record is of another range than it was sent as",
                    ));
                }
                records.push((summary, record));
            }
        }
        joiner.finish().map_err(|error| refuse(&error))?;
        Ok(records)
    }
}

fn refused(refusal: Refusal) -> Status {
    match refusal {
        Refusal::NotJoined => Status::not_found(refusal.to_string()),
        Refusal::Quarantined(_) => Status::permission_denied(refusal.to_string()),
    }
}

fn check_count(count: usize) -> Result<(), Status> {
    if count > RANGES_MAX {
        return Err(Status::resource_exhausted(format!(
            "more than {RANGES_MAX} ranges in one call"
        )));
    }
    Ok(())
}
