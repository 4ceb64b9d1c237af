//! The messages of gRPC calls on their way: bounded in memory, together, and in time, each.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use bytes::{Buf, Bytes};
use hyper::body::Frame;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};

/// The largest message that is read: a heartbeat of the largest worker, or a shard.
pub(crate) const MESSAGE_BYTES_MAX: u32 = 2 << 20;
/// The bytes of all messages that have not come to their end. A worker has a few of some KiB.
pub(crate) const MESSAGES_BYTES: usize = 48 << 20;
/// How long a message may take from the head of its call to its last byte: the largest at 35 KiB/s.
pub(crate) const MESSAGE_TIME: Duration = Duration::from_mins(1);
/// The bytes before a message: whether it is compressed, and its length.
const HEAD_BYTES: u32 = 5;

/// The memory for messages. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Messages(Arc<Semaphore>);

impl Messages {
    pub(crate) fn new() -> Messages {
        Messages(Arc::new(Semaphore::new(MESSAGES_BYTES)))
    }

    /// The call with a message that has the memory that it announces, and more if more comes. It fails when messages
    /// take too much, or when it takes too long.
    pub(crate) fn guard(&self, call: Request) -> Request {
        call.map(|body| {
            Body::new(Message {
                body,
                memory: Arc::clone(&self.0),
                held: None,
                start: Vec::new(),
                received: 0,
                deadline: Box::pin(sleep(MESSAGE_TIME)),
            })
        })
    }
}

/// The body of a call.
struct Message {
    body: Body,
    memory: Arc<Semaphore>,
    held: Option<OwnedSemaphorePermit>,
    /// The first bytes, which announce the length.
    start: Vec<u8>,
    received: u32,
    deadline: Pin<Box<Sleep>>,
}

impl Message {
    /// Reserves the memory of what was announced and what has come with these bytes.
    fn reserve(&mut self, bytes: &Bytes) -> Result<(), tonic::Status> {
        let count = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.received = self.received.saturating_add(count);
        let missing = HEAD_BYTES as usize - self.start.len();
        self.start.extend(bytes.iter().take(missing));
        let held = self
            .held
            .as_ref()
            .map_or(0, OwnedSemaphorePermit::num_permits);
        let needed = self.received.max(announced(&self.start));
        let more = needed.saturating_sub(u32::try_from(held).unwrap_or(u32::MAX));
        let memory = Arc::clone(&self.memory).try_acquire_many_owned(more);
        let memory = memory.map_err(|_| {
            let what = "too much of too many calls is on its way: come back in 1 s";
            tonic::Status::resource_exhausted(what)
        })?;
        match &mut self.held {
            Some(held) => held.merge(memory),
            None => self.held = Some(memory),
        }
        Ok(())
    }
}

impl hyper::body::Body for Message {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let refusal = match &polled {
            Poll::Pending if self.deadline.as_mut().poll(context).is_ready() => {
                let what = "the message did not come to its end in time: come back in 1 s";
                Some(tonic::Status::resource_exhausted(what))
            }
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref();
                bytes.and_then(|bytes| self.reserve(bytes).err())
            }
            _ => None,
        };
        match refusal {
            Some(refusal) => Poll::Ready(Some(Err(axum::Error::new(refusal)))),
            None => polled,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

/// The bytes of a message that begins so, as gRPC announces them. No more are kept than the largest message has.
fn announced(mut start: &[u8]) -> u32 {
    let bytes = start.try_get_u8().and_then(|_| start.try_get_u32());
    bytes.map_or(0, |bytes| {
        bytes.saturating_add(HEAD_BYTES).min(MESSAGE_BYTES_MAX)
    })
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tokio::time::Instant;
    use tokio_stream::StreamExt;

    use super::*;

    type BoxError = Box<dyn std::error::Error + Send + Sync>;

    fn code(error: axum::Error) -> tonic::Code {
        tonic::Status::from_error(error.into()).code()
    }

    impl Messages {
        fn body(
            &self,
            pieces: impl tokio_stream::Stream<Item = Result<Bytes, BoxError>> + Send + 'static,
        ) -> Body {
            self.guard(Request::new(Body::from_stream(pieces)))
                .into_body()
        }
    }

    /// Messages of which the end never comes.
    #[tokio::test]
    async fn messages_on_their_way_take_bounded_memory() {
        let messages = Messages::new();
        let endless = || {
            let pieces = std::iter::repeat_with(|| Ok(Bytes::from(vec![0; 1 << 20])));
            messages.body(tokio_stream::iter(pieces))
        };
        let mut held: Vec<Body> = (0..40).map(|_| endless()).collect();
        let mut taken = 0;
        for body in &mut held {
            let refusal = loop {
                match body.frame().await.expect("it has no end") {
                    Ok(_) => taken += 1 << 20,
                    Err(error) => break code(error),
                }
            };
            assert_eq!(refusal, tonic::Code::ResourceExhausted);
        }
        assert_eq!(taken, MESSAGES_BYTES);
        drop(held);
        // Announced bytes count before they come.
        let announces = |bytes: u8| {
            let [start, rest] = [vec![0], vec![0, bytes, 0, 0]].map(Bytes::from);
            messages.body(tokio_stream::iter([Ok(start), Ok(rest)]).chain(tokio_stream::pending()))
        };
        let mut fits = Vec::new();
        let mut held = Vec::new();
        // 23 MiB more than fit without the last, which has 1 MiB and its head.
        for bytes in [0x1f; 24].into_iter().chain([0x20, 0x10]) {
            let mut body = announces(bytes);
            assert!(body.frame().await.unwrap().is_ok());
            fits.push(body.frame().await.unwrap().is_ok());
            held.push(body);
        }
        assert!(fits[..24].iter().all(|fits| *fits));
        assert_eq!(fits[24..], [false, true]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_has_a_time_limit_however_it_comes() {
        let messages = Messages::new();
        let drops = tokio_stream::iter(std::iter::repeat(())).then(|()| async {
            sleep(Duration::from_secs(20)).await;
            Ok(Bytes::from_static(b"x"))
        });
        let start = Instant::now();
        let mut body = messages.body(drops);
        let refusal = loop {
            match body.frame().await.expect("it has no end") {
                Ok(_) => {}
                Err(error) => break code(error),
            }
        };
        assert_eq!(refusal, tonic::Code::ResourceExhausted);
        assert_eq!(start.elapsed(), MESSAGE_TIME);
    }
}
