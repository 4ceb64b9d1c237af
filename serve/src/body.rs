//! The bytes of an answer on their way: read a chunk at a time, as fast as the peer takes them.

use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

use crate::net::{Pace, Place};

/// What is read of a file at a time.
const CHUNK_BYTES: u64 = 256 << 10;
/// The chunks that are read ahead of the network.
const CHUNKS_AHEAD: usize = 1;

/// Bytes of a body, or why there are no more.
pub type Chunk = io::Result<Bytes>;

/// A body whose bytes come from a task, a chunk at a time.
#[derive(Debug)]
pub struct ChunkBody {
    chunks: mpsc::Receiver<Chunk>,
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
    pub fn new<F>(length: Option<u64>, fill: impl FnOnce(mpsc::Sender<Chunk>) -> F) -> ChunkBody
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

/// The bytes `part` of `file`. A read that fails ends the body with an error, as does a peer that takes too long. `place` is
/// kept for as long as the bytes are under way.
pub(crate) fn of_file(file: File, part: Range<u64>, place: Place<IpAddr>) -> ChunkBody {
    let length = part.end - part.start;
    ChunkBody::new(Some(length), async move |chunks| {
        tokio::select! {
            () = send(Arc::new(file), part, &chunks) => {}
            () = place.is_lost() => {}
        }
    })
}

async fn send(file: Arc<File>, part: Range<u64>, chunks: &mpsc::Sender<Chunk>) {
    let mut pace = Pace::default();
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
        let sent = pace.wait(chunks.send(chunk), |_| end - start).await;
        if failed || !matches!(sent, Some(Ok(()))) {
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

#[cfg(test)]
mod tests {
    use std::io::Write;

    use std::net::Ipv4Addr;
    use std::time::Duration;

    use http_body_util::BodyExt;

    use super::*;
    use crate::net::Limit;
    use crate::net::Places;

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn body(file: File, part: Range<u64>) -> (ChunkBody, Places<IpAddr>) {
        let places = Places::new(Limit { all: 1, each: 1 });
        let place = places.take(IpAddr::from(Ipv4Addr::LOCALHOST)).unwrap();
        (of_file(file, part, place), places)
    }

    /// Waits until the place is free again.
    async fn is_free(places: &Places<IpAddr>) {
        while places.open() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
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
            let (body, places) = body(file(&bytes), part.start as u64..part.end as u64);
            assert_eq!(body.size_hint().exact(), Some(part.len() as u64));
            let read = body.collect().await.unwrap().to_bytes();
            assert!(read == bytes[part.clone()], "{part:?}");
            is_free(&places).await;
        }
    }

    #[tokio::test]
    async fn a_download_ends_when_another_gets_its_place() {
        let places = Places::new(Limit { all: 2, each: 2 });
        let [one, other] = [1, 2].map(|number| IpAddr::from(Ipv4Addr::new(10, 0, 0, number)));
        let bytes = vec![1; usize::try_from(64 * CHUNK_BYTES).unwrap()];
        let length = bytes.len() as u64;
        let body = of_file(file(&bytes), 0..length, places.take(one).unwrap());
        let second = places.take(one);
        assert!(second.is_some() && places.take(other).is_some());
        assert!(body.collect().await.is_err());
    }

    #[tokio::test]
    async fn a_file_that_is_too_short_ends_with_an_error() {
        for length in [0, 1, CHUNK_BYTES, CHUNK_BYTES + 1] {
            let file = file(&vec![1; usize::try_from(length).unwrap()]);
            let (body, places) = body(file, 0..length + 1);
            assert!(body.collect().await.is_err(), "{length}");
            is_free(&places).await;
        }
    }

    /// What a peer gets of 16 MiB that waits so long before each chunk.
    async fn taken(pause: Duration) -> u64 {
        const LENGTH: u64 = 64 * CHUNK_BYTES;
        let file = tempfile::tempfile().unwrap();
        file.set_len(LENGTH).unwrap();
        let (mut body, places) = body(file, 0..LENGTH);
        let mut taken = 0;
        loop {
            tokio::time::sleep(pause).await;
            match body.frame().await {
                Some(Ok(frame)) => taken += frame.into_data().unwrap().len() as u64,
                Some(Err(_)) => break,
                None => {
                    assert_eq!(taken, LENGTH);
                    break;
                }
            }
        }
        is_free(&places).await;
        taken
    }

    #[tokio::test(start_paused = true)]
    async fn a_download_that_is_too_slow_loses_its_place() {
        // 256 KiB in 8 s are 32 KiB/s.
        assert_eq!(taken(Duration::from_millis(7900)).await, 64 * CHUNK_BYTES);
        let slow = taken(Duration::from_secs(12)).await;
        assert!(slow < 16 * CHUNK_BYTES, "{slow}");
        let start = tokio::time::Instant::now();
        let file = tempfile::tempfile().unwrap();
        file.set_len(4 * CHUNK_BYTES).unwrap();
        let (body, places) = body(file, 0..4 * CHUNK_BYTES);
        is_free(&places).await;
        assert_eq!(start.elapsed().as_secs(), 30);
        assert!(body.collect().await.is_err());
    }
}
