//! An object on its way to a worker: read a chunk at a time, as fast as the worker takes them.

use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use chomp_store::{Key, Storage};
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::timeout;

use super::{Proxy, STALL_TIME, chunk};
use crate::http::metrics::Traffic;

/// What is sent at a time.
const PIECE_BYTES: usize = 128 << 10;

type Chunk = io::Result<Bytes>;

/// The bytes of an object. What cannot be read ends it with an error, as does a worker that takes too
/// long, or an object that is shorter than it was a moment ago.
#[derive(Debug)]
pub(super) struct Outgoing {
    first: Option<Bytes>,
    chunks: mpsc::Receiver<Chunk>,
    /// The bytes to come, if that is known.
    left: Option<u64>,
}

/// Where the chunks come from.
struct Origin {
    storage: Arc<dyn Storage>,
    traffic: Arc<Traffic>,
    key: Key,
    chunks: mpsc::Sender<Chunk>,
}

impl Outgoing {
    /// The bytes `first` and then those in `rest`, as far as they are there; `exact` of them if that
    /// is known. `turn` is kept for as long as they are under way.
    #[expect(
        clippy::disallowed_methods,
        reason = "ends with the body that it fills"
    )]
    pub(super) fn new(
        proxy: &Proxy,
        key: Key,
        first: Bytes,
        rest: Range<u64>,
        exact: Option<u64>,
        turn: OwnedSemaphorePermit,
    ) -> Outgoing {
        let (sender, chunks) = mpsc::channel(1);
        let fetched = &proxy.traffic.fetched;
        fetched.fetch_add(first.len() as u64, Ordering::Relaxed);
        let origin = Origin {
            storage: Arc::clone(&proxy.storage),
            traffic: Arc::clone(&proxy.traffic),
            key,
            chunks: sender,
        };
        tokio::spawn(async move {
            origin.send(rest).await;
            drop(turn);
        });
        Outgoing {
            first: Some(first).filter(|first| !first.is_empty()),
            chunks,
            left: exact,
        }
    }
}

impl Origin {
    async fn send(self, mut rest: Range<u64>) {
        while !rest.is_empty() {
            let range = chunk(&rest);
            let read = self.storage.read_at(&self.key, range.clone()).await;
            let read = read.map_err(|error| {
                tracing::warn!("an object that a worker reads cannot be read: {error}");
                io::Error::other(error)
            });
            let count = read.as_ref().map_or(0, |bytes| bytes.len() as u64);
            let ended = count < range.end - range.start;
            self.traffic.fetched.fetch_add(count, Ordering::Relaxed);
            let failed = read.is_err();
            for piece in pieces(read) {
                // A worker that is gone, or as good as gone, gets no more.
                if !matches!(
                    timeout(STALL_TIME, self.chunks.send(piece)).await,
                    Ok(Ok(()))
                ) {
                    tracing::debug!("a worker takes no more of {}", self.key);
                    return;
                }
            }
            if failed {
                return;
            }
            if ended {
                break;
            }
            rest.start = range.end;
        }
        // The end of an object is not that of a transfer that was given up. Nobody may wait for it.
        let _ = timeout(STALL_TIME, self.chunks.send(Ok(Bytes::new()))).await;
    }
}

/// A chunk in the pieces in which it is sent: a slow worker is seen to take some of it.
fn pieces(chunk: Chunk) -> impl Iterator<Item = Chunk> {
    let (mut bytes, mut error) = match chunk {
        Ok(bytes) => (bytes, None),
        Err(error) => (Bytes::new(), Some(error)),
    };
    std::iter::from_fn(move || {
        if let Some(error) = error.take() {
            return Some(Err(error));
        }
        let piece = bytes.split_to(bytes.len().min(PIECE_BYTES));
        (!piece.is_empty()).then_some(Ok(piece))
    })
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.left == Some(0) {
            return Poll::Ready(None);
        }
        let chunk = match self.first.take() {
            Some(first) => Ok(first),
            None => match ready!(self.chunks.poll_recv(context)) {
                Some(chunk) => chunk,
                None => Err(io::ErrorKind::UnexpectedEof.into()),
            },
        };
        let bytes = match chunk {
            Err(error) => return Poll::Ready(Some(Err(error))),
            Ok(bytes) => bytes,
        };
        if bytes.is_empty() {
            let early = self.left.is_some();
            self.left = Some(0);
            let error = || Err(io::ErrorKind::UnexpectedEof.into());
            return Poll::Ready(early.then(error));
        }
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(bytes.len() as u64);
        }
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::new, SizeHint::with_exact)
    }
}
