//! The messages of gRPC calls on their way: all together, and those of a participant, are bounded in memory, and each
//! one in time.

use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use chomp_plan::ParticipantId;
use chomp_serve::net::{Share, Shares};
use tokio::time::timeout;
use tokio_stream::StreamExt;
use tonic::Status;

use crate::participants::{AuthenticatedParticipant, spare};

/// The largest message that is read: a heartbeat of the largest worker, or the description of a shard.
pub(crate) const MESSAGE_BYTES_MAX: usize = 2 << 20;
/// The bytes of all messages that have not come to their end. A worker sends a few at a time, of some KiB each.
pub(crate) const MESSAGES_BYTES: usize = 48 << 20;
/// How long a message may take from the head of its call to its last byte: the largest at 35 KiB/s.
pub(crate) const MESSAGE_TIME: Duration = Duration::from_mins(1);

#[derive(Clone, Debug)]
pub(crate) struct MessageBudget(Shares<ParticipantId>);

impl MessageBudget {
    pub(crate) fn new() -> MessageBudget {
        MessageBudget(Shares::new(MESSAGES_BYTES))
    }

    fn reserve(&self, of: ParticipantId, bytes: usize) -> Result<Share<ParticipantId>, Status> {
        let reserved = self.0.take(of, bytes, spare(of, MESSAGES_BYTES));
        reserved.ok_or_else(|| {
            let what = "too much of too many calls is on its way: come back in 1 s";
            Status::resource_exhausted(what)
        })
    }

    async fn read(&self, of: ParticipantId, body: Body) -> Result<Bytes, Status> {
        let mut held = Vec::new();
        let mut message = BytesMut::new();
        let mut pieces = body.into_data_stream();
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|error| Status::from_error(error.into()))?;
            if message.len() + piece.len() > MESSAGE_BYTES_MAX {
                let what = format!("a message has at most {MESSAGE_BYTES_MAX} bytes");
                return Err(Status::out_of_range(what));
            }
            held.push(self.reserve(of, piece.len())?);
            message.extend_from_slice(&piece);
        }
        Ok(message.freeze())
    }
}

/// Answers a call once its message is there. Fails when messages take too much memory, or this one too long.
pub(crate) async fn with_message(
    State(messages): State<MessageBudget>,
    Extension(AuthenticatedParticipant(of)): Extension<AuthenticatedParticipant>,
    call: Request,
    next: Next,
) -> Response {
    let (head, body) = call.into_parts();
    let read = timeout(MESSAGE_TIME, messages.read(of, body)).await;
    let late = "the message did not come to its end in time: come back in 1 s";
    match read.unwrap_or_else(|_| Err(Status::resource_exhausted(late))) {
        Ok(message) => next.run(Request::from_parts(head, message.into())).await,
        Err(refusal) => refusal.into_http(),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use tonic::Code;

    use super::*;

    const PIECE: usize = 1 << 20;

    fn pieces() -> impl tokio_stream::Stream<Item = Result<Bytes, Infallible>> {
        tokio_stream::iter(std::iter::repeat_with(|| Ok(Bytes::from(vec![0; PIECE]))))
    }

    #[tokio::test]
    async fn messages_on_their_way_take_bounded_memory() {
        let messages = MessageBudget::new();
        let (owner, ann, bob) = (ParticipantId::OWNER, ParticipantId(1), ParticipantId(2));
        let endless = messages.read(ann, Body::from_stream(pieces())).await;
        assert_eq!(endless.unwrap_err().code(), Code::OutOfRange);
        // Messages of which the end never comes.
        let half = || Body::from_stream(pieces().take(1).chain(tokio_stream::pending()));
        let mut context = Context::from_waker(Waker::noop());
        let mut held = Vec::new();
        let mut fill = |of| {
            let before = held.len();
            loop {
                let mut read = Box::pin(messages.read(of, half()));
                match read.as_mut().poll(&mut context) {
                    Poll::Pending => held.push(read),
                    Poll::Ready(refusal) => {
                        assert_eq!(refusal.unwrap_err().code(), Code::ResourceExhausted);
                        return held.len() - before;
                    }
                }
            }
        };
        // Each leaves room for others, and the owner may take what is left.
        assert_eq!([ann, ann, bob, owner].map(&mut fill), [21, 0, 10, 17]);
        held.pop();
        let mut read = pin!(messages.read(owner, half()));
        assert!(read.as_mut().poll(&mut context).is_pending());
    }
}
