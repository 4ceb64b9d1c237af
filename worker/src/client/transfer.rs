//! The calls that move records.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use chomp_proto::FETCH_RANGES_MAX;
use chomp_proto::v1::{self, submit_reply};
use chomp_table::Head;
use chomp_table::pieces::{self, Joiner, Piece, PiecesError};
use chomp_table::range::max_record_len;
use tokio::time::Instant;
use tokio_stream::Stream;

use super::{Client, ClientError, LeaseId, Verdict};
use crate::link::{Failure, Session, within};

/// How long records may take that do not come on at all.
const PROGRESS: Duration = Duration::from_mins(1);
/// How long the verdict on a submission may take once all of it is sent: it has to be on disk.
const VERDICT: Duration = Duration::from_mins(2);

impl Client {
    /// Fetches the records of `heads`, in this order.
    pub(crate) async fn fetch(&self, heads: &[Head]) -> Result<Vec<(Head, Bytes)>, ClientError> {
        let worker = self.link.hello().worker;
        let mut records = Vec::with_capacity(heads.len());
        for heads in heads.chunks(FETCH_RANGES_MAX) {
            let fetched = self
                .link
                .call(|session| fetch(session, worker, heads))
                .await?;
            records.extend(fetched);
        }
        Ok(records)
    }

    /// Hands in the result of a task; returns when it is on disk, or of no use.
    pub(crate) async fn submit(
        &self,
        lease: LeaseId,
        records: &[(Head, Bytes)],
    ) -> Result<Verdict, ClientError> {
        let header = v1::SubmitHeader {
            worker: self.link.hello().worker,
            lease: lease.0,
            bytes: records.iter().map(|(_, record)| record.len() as u64).sum(),
        };
        self.link
            .call(|session| submit(session, header, records))
            .await
    }
}

async fn fetch(
    session: Arc<Session>,
    worker: u64,
    heads: &[Head],
) -> Result<Vec<(Head, Bytes)>, Failure> {
    let request = v1::FetchRequest {
        worker,
        heads: heads.iter().map(|head| head.0).collect(),
    };
    let mut stream = within(PROGRESS, session.data().fetch(request))
        .await?
        .into_inner();
    let mut joiner = Joiner::new(max_record_len(session.job.range_bits));
    let mut records = Vec::with_capacity(heads.len());
    let broken = |error: PiecesError| Failure::Protocol(error.to_string());
    let other = || Failure::Protocol("it sent other ranges than it was asked for".to_owned());
    while let Some(message) = within(PROGRESS, stream.message()).await? {
        for v1::Piece { head, data, last } in message.pieces {
            let head = Head(head);
            records.extend(joiner.push(Piece { head, data, last }).map_err(broken)?);
            if records.len() > heads.len() {
                return Err(other());
            }
        }
    }
    joiner.finish().map_err(broken)?;
    if !records.iter().map(|(head, _)| head).eq(heads) {
        return Err(other());
    }
    Ok(records)
}

async fn submit(
    session: Arc<Session>,
    header: v1::SubmitHeader,
    records: &[(Head, Bytes)],
) -> Result<Verdict, Failure> {
    let header = v1::SubmitRequest {
        header: Some(header),
        pieces: Vec::new(),
    };
    let wire = |Piece { head, data, last }| v1::Piece {
        head: head.0,
        data,
        last,
    };
    let pieces = pieces::cut(records.iter().cloned()).map(|message| v1::SubmitRequest {
        header: None,
        pieces: message.into_iter().map(wire).collect(),
    });
    let messages: Vec<_> = std::iter::once(header).chain(pieces).collect();
    let deadline = Arc::new(Mutex::new(Instant::now() + PROGRESS));
    let messages = Watched {
        messages: messages.into_iter(),
        deadline: Arc::clone(&deadline),
    };
    let mut rpc = session.data();
    let reply = tokio::select! {
        biased;
        reply = rpc.submit(messages) => reply?,
        failure = overdue(&deadline) => return Err(failure),
    };
    match reply.into_inner().verdict {
        Some(submit_reply::Verdict::Rejected(v1::Rejected { reason })) => {
            Ok(Verdict::Rejected(reason))
        }
        Some(
            submit_reply::Verdict::Accepted(v1::Accepted {})
            | submit_reply::Verdict::Duplicate(v1::Duplicate {})
            | submit_reply::Verdict::Noted(v1::Noted {}),
        ) => Ok(Verdict::Taken),
        None => Err(Failure::Protocol("a verdict without content".to_owned())),
    }
}

/// The messages of a submission, as the connection takes them. Each one puts the deadline off.
struct Watched {
    messages: std::vec::IntoIter<v1::SubmitRequest>,
    deadline: Arc<Mutex<Instant>>,
}

impl Stream for Watched {
    type Item = v1::SubmitRequest;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<v1::SubmitRequest>> {
        let message = self.messages.next();
        let more = if message.is_some() { PROGRESS } else { VERDICT };
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + more;
        Poll::Ready(message)
    }
}

/// Returns when the deadline has passed, wherever it was put meanwhile.
async fn overdue(deadline: &Mutex<Instant>) -> Failure {
    let begin = Instant::now();
    loop {
        let at = *deadline.lock().unwrap_or_else(PoisonError::into_inner);
        if at <= Instant::now() {
            return Failure::outage(crate::link::Overdue(at - begin));
        }
        tokio::time::sleep_until(at).await;
    }
}
