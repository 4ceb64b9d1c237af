//! Records on their way from a worker.
//!
//! A submission says first how many bytes it has. It waits until these are free, of all that
//! submissions may take together, and only then is it read: so any number of workers cost
//! bounded memory, and none of them gets less of it than another.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::available_parallelism;
use std::time::Duration;

use bytes::Bytes;
use chomp_proto::v1;
use chomp_table::format::{FormatError, describe};
use chomp_table::pieces::{Joiner, Piece};
use chomp_table::range::{self, max_record_len};
use chomp_table::{Head, RangeBits};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tonic::{Status, Streaming};

use super::blocking::blocking;
use super::{Service, check_count};
use crate::audit::AuditError;
use crate::job::{Over, Records};
use crate::plan::{Event, LeaseId, Verdict, WorkerId};
use crate::store::{PART_RANGES_MAX, PART_RECORDS_BYTES_MAX};

/// The most bytes of records in one submission. A task's have about a tenth of it.
const SUBMISSION_BYTES_MAX: u64 = 64 << 20;
/// The most bytes of records in all submissions that are being received, checked and written.
const IN_FLIGHT_BYTES_MAX: u64 = 128 << 20;
/// The unit in which these are counted.
const UNIT: u64 = 1 << 10;
/// No record is shorter than its header.
const RECORD_BYTES_MIN: usize = 80;
/// How long the next message of a submission may take.
const MESSAGE_TIME: Duration = Duration::from_secs(30);
/// How long all of a submission may take, the wait for memory included.
const SUBMISSION_TIME: Duration = Duration::from_mins(10);

const _: () = assert!(SUBMISSION_BYTES_MAX <= PART_RECORDS_BYTES_MAX);

/// What all submissions share.
#[derive(Debug)]
pub(super) struct Limits {
    /// The memory for records, in units.
    pub(super) memory: Arc<Semaphore>,
    /// The right to check records.
    checks: Semaphore,
}

impl Default for Limits {
    fn default() -> Limits {
        let units = usize::try_from(IN_FLIGHT_BYTES_MAX / UNIT).expect("a small number");
        Limits {
            memory: Arc::new(Semaphore::new(units)),
            checks: Semaphore::new(available_parallelism().map_or(1, usize::from)),
        }
    }
}

/// A submission whose records are what records should be.
#[derive(Debug)]
pub(super) struct Received {
    worker: WorkerId,
    lease: LeaseId,
    records: Records,
    memory: OwnedSemaphorePermit,
}

impl Service {
    /// Reads a submission and checks the form of its records.
    pub(super) async fn receive(
        &self,
        messages: Streaming<v1::SubmitRequest>,
    ) -> Result<Received, Status> {
        match timeout(SUBMISSION_TIME, self.read(messages)).await {
            Ok(received) => received,
            Err(_) => Err(late("the submission", SUBMISSION_TIME)),
        }
    }

    /// Gives a submission to the job, and waits for what becomes of it.
    pub(super) async fn hand_in(&self, received: Received) -> Result<Verdict, Over> {
        let handle = self.handle.clone();
        let Received {
            worker,
            lease,
            records,
            memory,
        } = received;
        #[expect(
            clippy::disallowed_methods,
            reason = "ends with the job's answer: it holds the records, whether the worker waits or not"
        )]
        let answer = tokio::spawn(async move {
            let verdict = handle.submit(worker, lease, records).await;
            drop(memory);
            verdict
        });
        answer.await.unwrap_or(Err(Over))
    }

    async fn read(&self, mut messages: Streaming<v1::SubmitRequest>) -> Result<Received, Status> {
        let first = next(&mut messages).await?;
        let Some(header) = first.and_then(|message| message.header) else {
            return Err(Status::invalid_argument(
                "a submission starts with a header",
            ));
        };
        let (worker, lease) = (WorkerId(header.worker), LeaseId(header.lease));
        if header.bytes > SUBMISSION_BYTES_MAX {
            let wrong = Wrong::form(format!(
                "a submission of {} bytes, where {SUBMISSION_BYTES_MAX} are possible",
                header.bytes
            ));
            return Err(self.refuse(worker, lease, wrong));
        }
        let memory = self.memory(header.bytes).await;
        let records = self.read_records(&mut messages, header.bytes).await;
        let records = records.map_err(|wrong| self.refuse(worker, lease, wrong))?;
        let range_bits = self.store.range_bits();
        let audit = Arc::clone(&self.audit);
        let turn = self.limits.checks.acquire().await;
        let turn = turn.expect("the semaphore is never closed");
        let checked = blocking(async move {
            let records = check(records, range_bits).map_err(Wrong::Form)?;
            match audit.spot_check(worker, &records).await {
                // What is too early, the plan refuses.
                Ok(()) | Err(AuditError::NotReady { .. }) => Ok(records),
                Err(error) => Err(Wrong::Content(error)),
            }
        });
        let checked = checked.await?;
        drop(turn);
        let records = checked.map_err(|wrong| self.refuse(worker, lease, wrong))?;
        Ok(Received {
            worker,
            lease,
            records,
            memory,
        })
    }

    /// Tells the job of a submission that is of no use, and makes the answer to it.
    fn refuse(&self, worker: WorkerId, lease: LeaseId, wrong: Wrong) -> Status {
        let (event, status) = match wrong {
            Wrong::Form(status) => {
                let reason = status.message().to_owned();
                let event = Event::Failed {
                    worker,
                    lease,
                    reason,
                };
                (event, status)
            }
            Wrong::Broken(status) => return status,
            Wrong::Content(AuditError::Store(error)) => return self.cannot_read(error),
            Wrong::Content(error @ AuditError::Refuted { head, .. }) => {
                tracing::warn!("a result is wrong: {error}");
                let event = Event::Refuted {
                    worker,
                    lease,
                    head,
                };
                (event, Status::permission_denied(error.to_string()))
            }
            Wrong::Content(error) => {
                let reason = describe(&error);
                let status = Status::data_loss(reason.clone());
                (Event::Unreadable { reason }, status)
            }
        };
        match self.handle.tell(event) {
            Ok(()) => status,
            Err(over) => over.into(),
        }
    }

    async fn memory(&self, bytes: u64) -> OwnedSemaphorePermit {
        let units = u32::try_from(bytes.div_ceil(UNIT)).expect("a submission is small");
        let memory = Arc::clone(&self.limits.memory);
        let permit = memory.acquire_many_owned(units.max(1)).await;
        permit.expect("the semaphore is never closed")
    }

    /// The records in `messages`, which have so many bytes.
    async fn read_records(
        &self,
        messages: &mut Streaming<v1::SubmitRequest>,
        declared: u64,
    ) -> Result<Vec<(Head, Bytes)>, Wrong> {
        let mut joiner = Joiner::new(max_record_len(self.store.range_bits()).min(declared));
        let mut records = Vec::new();
        let mut bytes = 0;
        while let Some(message) = next(messages).await.map_err(Wrong::Broken)? {
            for v1::Piece { head, data, last } in message.pieces {
                bytes += data.len() as u64;
                let submitted = &self.traffic.submitted;
                submitted.fetch_add(data.len() as u64, Ordering::Relaxed);
                if bytes > declared {
                    return Err(Wrong::form(format!(
                        "a submission of over the {declared} bytes that its header says"
                    )));
                }
                let piece = Piece {
                    head: Head(head),
                    // A copy, since the original holds on to its whole message, whatever is in that.
                    data: Bytes::copy_from_slice(&data),
                    last,
                };
                let ended = joiner.push(piece);
                let Some((head, record)) = ended.map_err(|error| Wrong::Form(refuse(&error)))?
                else {
                    continue;
                };
                if record.len() < RECORD_BYTES_MIN {
                    return Err(Wrong::form(format!(
                        "the record of range {head} is cut short"
                    )));
                }
                records.push((head, record));
                check_count(records.len(), PART_RANGES_MAX, "ranges").map_err(Wrong::Form)?;
            }
        }
        if bytes < declared {
            // A call that is broken off ends as one that is complete.
            return Err(Wrong::Broken(Status::invalid_argument(format!(
                "a submission of {bytes} bytes whose header says {declared}"
            ))));
        }
        let finished = joiner.finish();
        finished.map_err(|error| Wrong::Form(refuse(&error)))?;
        Ok(records)
    }
}

/// What is wrong with a submission.
enum Wrong {
    /// It did not come, whoever is to blame for that.
    Broken(Status),
    /// It is none.
    Form(Status),
    /// It does not tell the truth, or that cannot be found out.
    Content(AuditError),
}

impl Wrong {
    fn form(what: String) -> Wrong {
        Wrong::Form(Status::invalid_argument(what))
    }
}

/// The next message of a submission, if it comes in time.
async fn next(
    messages: &mut Streaming<v1::SubmitRequest>,
) -> Result<Option<v1::SubmitRequest>, Status> {
    match timeout(MESSAGE_TIME, messages.message()).await {
        Ok(message) => message,
        Err(_) => Err(late("the next message of the submission", MESSAGE_TIME)),
    }
}

/// Checks everything about records but whether they tell the truth.
fn check(records: Vec<(Head, Bytes)>, range_bits: RangeBits) -> Result<Records, Status> {
    let check = |(head, record): (Head, Bytes)| {
        let (summary, _) =
            range::decode(&record, range_bits).map_err(|error: FormatError| refuse(&error))?;
        if summary.head != head {
            return Err(Status::invalid_argument(
                "a record is of another range than it was sent as",
            ));
        }
        Ok((summary, record))
    };
    records.into_iter().map(check).collect()
}

fn refuse(error: &dyn std::error::Error) -> Status {
    Status::invalid_argument(describe(error))
}

fn late(what: &str, time: Duration) -> Status {
    Status::deadline_exceeded(format!("{what} took over {} seconds", time.as_secs()))
}
