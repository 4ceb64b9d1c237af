//! Records on their way to a worker.
//!
//! Each stream has a task that reads records and puts messages into a short queue. A worker that
//! takes nothing out of it for some time is not waited for: its stream ends with an error.

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use chomp_proto::v1;
use chomp_table::Head;
use chomp_table::format::describe;
use chomp_table::pieces::{self, Piece};
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tonic::Status;

use super::Service;
use crate::store::StoreError;

/// The messages of a fetch, of a MiB each, that are read ahead of the network.
const FETCH_AHEAD: usize = 2;
/// How long a worker may take to make room for the next message.
const STALL_TIME: Duration = Duration::from_mins(1);

type Reply = Result<v1::FetchReply, Status>;
type Queue = Arc<Mutex<Option<mpsc::Receiver<Reply>>>>;

/// The answer to a fetch.
#[derive(Debug)]
pub(crate) struct Replies {
    /// Taken away from a worker that stalls.
    pub(super) queue: Queue,
    ended: bool,
}

/// Where the task of a stream puts its messages.
struct Sender {
    queue: Queue,
    replies: mpsc::Sender<Reply>,
}

/// Nobody takes messages any more.
struct Gone;

impl Stream for Replies {
    type Item = Reply;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Reply>> {
        let next = {
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            match &mut *queue {
                Some(queue) => queue.poll_recv(context),
                None if self.ended => Poll::Ready(None),
                None => Poll::Ready(Some(Err(Status::deadline_exceeded(format!(
                    "no message was taken for {} seconds",
                    STALL_TIME.as_secs()
                ))))),
            }
        };
        self.ended |= matches!(next, Poll::Ready(None | Some(Err(_))));
        next
    }
}

impl Sender {
    async fn send(&self, reply: Reply) -> Result<(), Gone> {
        let sending = tokio::time::timeout(STALL_TIME, self.replies.send(reply));
        if let Ok(sent) = sending.await {
            return sent.map_err(|_| Gone);
        }
        // With what waits in it.
        *self.queue.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Err(Gone)
    }
}

impl Service {
    /// The records of `heads`.
    pub(super) fn send_records(&self, heads: Vec<u64>) -> Replies {
        let (replies, queue) = mpsc::channel(FETCH_AHEAD);
        let queue = Arc::new(Mutex::new(Some(queue)));
        let sender = Sender {
            queue: Arc::clone(&queue),
            replies,
        };
        let service = self.clone();
        #[expect(
            clippy::disallowed_methods,
            reason = "ends with the stream that it fills, or when nobody takes from it"
        )]
        tokio::spawn(async move {
            let heads = heads.into_iter().map(Head);
            // A worker that is gone needs no more.
            service.pump(heads, &sender).await.unwrap_or(());
        });
        Replies {
            queue,
            ended: false,
        }
    }

    /// Reads the records of `heads` and sends them, as many in a message as fit.
    async fn pump(&self, heads: impl Iterator<Item = Head>, sender: &Sender) -> Result<(), Gone> {
        let mut waiting = Vec::new();
        let mut bytes = 0;
        for head in heads {
            let record = match self.store.read_record(head).await {
                Ok(record) => record,
                Err(error) => return sender.send(Err(self.cannot_read(error))).await,
            };
            bytes += record.len();
            waiting.push((head, record));
            if bytes >= pieces::PIECE_BYTES_MAX {
                bytes = 0;
                self.send(std::mem::take(&mut waiting), sender).await?;
            }
        }
        self.send(waiting, sender).await
    }

    async fn send(&self, records: Vec<(Head, Bytes)>, sender: &Sender) -> Result<(), Gone> {
        for message in pieces::cut(records) {
            let bytes: usize = message.iter().map(|piece| piece.data.len()).sum();
            let wire = |Piece { head, data, last }| v1::Piece {
                head: head.0,
                data,
                last,
            };
            let pieces = message.into_iter().map(wire).collect();
            sender.send(Ok(v1::FetchReply { pieces })).await?;
            self.traffic.sent.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    /// What a worker is told when a record cannot be read. Damage ends the job: what is in the
    /// store cannot be trusted, and a person has to look.
    fn cannot_read(&self, error: StoreError) -> Status {
        if matches!(error, StoreError::Missing { .. }) {
            return Status::out_of_range(error.to_string());
        }
        let status = Status::data_loss(describe(&error));
        match self.handle.fault(error) {
            Ok(()) => status,
            Err(over) => over.into(),
        }
    }
}
