//! The bytes of an answer on their way: read a chunk at a time, as fast as the peer takes them.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

use crate::lookups::blocking;

/// The most bytes of a file that are read at a time.
const CHUNK_BYTES: u64 = 64 << 10;
/// The chunks that are read ahead of the network.
const CHUNKS_AHEAD: usize = 1;

/// Bytes of a body, or why there are no more.
pub type BodyChunk = io::Result<Bytes>;

/// A body whose bytes come from a task, a chunk at a time.
#[derive(Debug)]
pub struct ChunkBody {
    chunks: mpsc::Receiver<BodyChunk>,
    /// The bytes to come, if that is known.
    left: Option<u64>,
}

impl ChunkBody {
    /// A body of `length` bytes, if that is known. The task of `fill` sends the bytes. An empty chunk ends a body of
    /// unknown length. If the task ends before that, or before all `length` bytes, the body ends with an error.
    #[expect(
        clippy::disallowed_methods,
        reason = "ends with the body that it fills"
    )]
    pub fn new<F>(length: Option<u64>, fill: impl FnOnce(mpsc::Sender<BodyChunk>) -> F) -> ChunkBody
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (sender, chunks) = mpsc::channel(CHUNKS_AHEAD);
        tokio::spawn(fill(sender));
        ChunkBody {
            chunks,
            left: length,
        }
    }
}

impl Body for ChunkBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.left == Some(0) {
            return Poll::Ready(None);
        }
        let chunk = ready!(self.chunks.poll_recv(context));
        let bytes = match chunk.unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into())) {
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

/// The bytes `part` of `file`. A read that fails ends the body with an error.
pub(crate) fn of_file(file: File, part: Range<u64>) -> ChunkBody {
    let length = part.end - part.start;
    ChunkBody::new(Some(length), |chunks| send(Arc::new(file), part, chunks))
}

async fn send(file: Arc<File>, part: Range<u64>, chunks: mpsc::Sender<BodyChunk>) {
    let mut start = part.start;
    while start < part.end {
        let end = part.end.min(start + CHUNK_BYTES);
        let file = Arc::clone(&file);
        let chunk = blocking(move || {
            let length = usize::try_from(end - start).expect("a chunk fits in memory");
            let mut bytes = vec![0; length];
            file.read_exact_at(&mut bytes, start)?;
            Ok(bytes.into())
        })
        .await;
        let chunk = chunk.unwrap_or_else(|lost| Err(io::Error::other(lost)));
        let failed = chunk.is_err();
        if let Err(error) = &chunk {
            tracing::error!("a file that is being downloaded cannot be read: {error}");
        }
        // A peer that is gone gets no more.
        if chunks.send(chunk).await.is_err() || failed {
            return;
        }
        start = end;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use http_body_util::BodyExt;

    use super::*;

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[tokio::test]
    async fn every_part_is_that_of_the_file() {
        let chunk = usize::try_from(CHUNK_BYTES).unwrap();
        let bytes: Vec<u8> = (0..=250).cycle().take(3 * chunk + 7).collect();
        for part in [
            0..bytes.len(),
            0..0,
            5..6,
            chunk - 1..chunk + 1,
            chunk..2 * chunk,
            3 * chunk..bytes.len(),
        ] {
            let body = of_file(file(&bytes), part.start as u64..part.end as u64);
            assert_eq!(body.size_hint().exact(), Some(part.len() as u64));
            let read = body.collect().await.unwrap().to_bytes();
            assert!(read == bytes[part.clone()], "{part:?}");
        }
    }

    #[tokio::test]
    async fn a_file_that_is_too_short_ends_with_an_error() {
        for length in [0, 1, CHUNK_BYTES, CHUNK_BYTES + 1] {
            let file = file(&vec![1; usize::try_from(length).unwrap()]);
            let body = of_file(file, 0..length + 1);
            assert!(body.collect().await.is_err(), "{length}");
        }
    }
}
