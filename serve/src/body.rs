//! The bytes of a file on their way: read a chunk at a time, as fast as the peer takes them.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// What is read at a time.
const CHUNK_BYTES: u64 = 256 << 10;
/// The chunks that are read ahead of the network.
const CHUNKS_AHEAD: usize = 1;
/// How long a peer may take for a chunk. A connection that lives may have a download that stands
/// still, and that must not keep its place for ever.
pub(crate) const CHUNK_TIME: Duration = Duration::from_mins(1);

type Chunk = io::Result<Bytes>;

/// A part of a file. What cannot be read ends it with an error, as does a peer that takes too long.
#[derive(Debug)]
pub(crate) struct FileBody {
    chunks: mpsc::Receiver<Chunk>,
    left: u64,
}

impl FileBody {
    /// The bytes `part` of `file`; `place` is kept for as long as they are under way.
    #[expect(
        clippy::disallowed_methods,
        reason = "ends with the body that it fills"
    )]
    pub(crate) fn new(
        file: File,
        part: Range<u64>,
        place: OwnedSemaphorePermit,
        chunk_time: Duration,
    ) -> FileBody {
        let left = part.end - part.start;
        let (sender, chunks) = mpsc::channel(CHUNKS_AHEAD);
        tokio::spawn(async move {
            send(Arc::new(file), part, &sender, chunk_time).await;
            drop(place);
        });
        FileBody { chunks, left }
    }
}

async fn send(file: Arc<File>, part: Range<u64>, chunks: &mpsc::Sender<Chunk>, time: Duration) {
    let mut start = part.start;
    while start < part.end {
        let end = part.end.min(start + CHUNK_BYTES);
        let file = Arc::clone(&file);
        let chunk = tokio::task::spawn_blocking(move || read(&file, start..end)).await;
        let chunk = chunk.unwrap_or_else(|panic| Err(io::Error::other(panic)));
        let failed = chunk.is_err();
        if let Err(error) = &chunk {
            tracing::error!("a file that is being downloaded cannot be read: {error}");
        }
        // A peer that is gone, or as good as gone, gets no more.
        let sent = tokio::time::timeout(time, chunks.send(chunk)).await;
        if failed || !matches!(sent, Ok(Ok(()))) {
            return;
        }
        start = end;
    }
}

fn read(file: &File, part: Range<u64>) -> Chunk {
    let length = usize::try_from(part.end - part.start).expect("a chunk fits in memory");
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, part.start)?;
    Ok(bytes.into())
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let chunk = match ready!(self.chunks.poll_recv(context)) {
            Some(chunk) => chunk,
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        };
        Poll::Ready(Some(chunk.map(|bytes| {
            self.left -= bytes.len() as u64;
            Frame::data(bytes)
        })))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use http_body_util::BodyExt;
    use tokio::sync::Semaphore;

    use super::*;

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    async fn body(file: File, part: Range<u64>) -> (FileBody, Arc<Semaphore>) {
        let places = Arc::new(Semaphore::new(1));
        let place = Arc::clone(&places).acquire_owned().await.unwrap();
        let body = FileBody::new(file, part, place, Duration::from_secs(1));
        (body, places)
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
            let (body, places) = body(file(&bytes), part.start as u64..part.end as u64).await;
            assert_eq!(body.size_hint().exact(), Some(part.len() as u64));
            let read = body.collect().await.unwrap().to_bytes();
            assert!(read == bytes[part.clone()], "{part:?}");
            drop(places.acquire().await.unwrap());
        }
    }

    #[tokio::test]
    async fn a_file_that_is_too_short_ends_with_an_error() {
        for length in [0, 1, CHUNK_BYTES, CHUNK_BYTES + 1] {
            let file = file(&vec![1; usize::try_from(length).unwrap()]);
            let (body, places) = body(file, 0..length + 1).await;
            assert!(body.collect().await.is_err(), "{length}");
            drop(places.acquire().await.unwrap());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_download_that_stands_still_loses_its_place() {
        let bytes = vec![1; usize::try_from(4 * CHUNK_BYTES).unwrap()];
        let (mut body, places) = body(file(&bytes), 0..4 * CHUNK_BYTES).await;
        for _ in 0..2 {
            tokio::time::sleep(Duration::from_millis(900)).await;
            body.frame().await.unwrap().unwrap();
        }
        assert_eq!(places.available_permits(), 0);
        drop(places.acquire().await.unwrap());
        assert!(body.collect().await.is_err());
    }
}
