//! A stream that ends when nothing moves in it, or when what is written is taken too slowly: neither
//! HTTP nor TLS do that by themselves.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::pace::Pace;

/// The bytes that open HTTP/2. A shorter request of HTTP/1 is answered, which ends the greeting too.
const GREETING_BYTES: usize = 24;

/// A stream that fails when no byte was read or written for a time, or when the first bytes do not
/// come in time.
#[derive(Debug)]
pub(super) struct Patience<S> {
    stream: S,
    still_time: Duration,
    /// When the patience ends, unless something moves.
    end: Instant,
    /// Wakes whoever waits at `end` or earlier: it is set anew only when it rings, not for each byte.
    timer: Pin<Box<Sleep>>,
    /// The bytes that are still missing of the greeting.
    greeting_left: usize,
    pace: Pace,
    /// Since when the peer has had no room for what is to be written.
    blocked: Option<Instant>,
}

impl<S> Patience<S> {
    pub(super) fn new(
        stream: S,
        greeting_time: Duration,
        still_time: Duration,
        pace: Pace,
    ) -> Patience<S> {
        let end = Instant::now() + greeting_time;
        Patience {
            stream,
            still_time,
            end,
            timer: Box::pin(tokio::time::sleep_until(end)),
            greeting_left: GREETING_BYTES,
            pace,
            blocked: None,
        }
    }

    fn has_read(&mut self, bytes: usize) {
        self.greeting_left = self.greeting_left.saturating_sub(bytes);
        if bytes > 0 && self.greeting_left == 0 {
            self.moved();
        }
    }

    fn has_written(&mut self, bytes: usize) {
        let took = self.blocked.take();
        let took = took.map_or(Duration::ZERO, |since| since.elapsed());
        self.pace.moved(took, bytes as u64);
        if bytes > 0 {
            self.greeting_left = 0;
            self.moved();
        }
    }

    fn moved(&mut self) {
        self.end = Instant::now() + self.still_time;
        if self.end < self.timer.deadline() {
            self.timer.as_mut().reset(self.end);
        }
    }

    /// Waits until the peer has room for more.
    fn wait_for_room<T>(&mut self, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        self.blocked.get_or_insert_with(Instant::now);
        if self.end() < self.timer.deadline() {
            let end = self.end();
            self.timer.as_mut().reset(end);
        }
        self.wait(context)
    }

    /// When the patience ends, as things stand.
    fn end(&self) -> Instant {
        let room = self.blocked.map(|since| since + self.pace.left());
        room.map_or(self.end, |room| room.min(self.end))
    }

    /// Waits, but not for ever.
    fn wait<T>(&mut self, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        while self.timer.as_mut().poll(context).is_ready() {
            let end = self.end();
            if Instant::now() >= end {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.timer.as_mut().reset(end);
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patience<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.stream).poll_read(context, buffer) {
            Poll::Pending => self.wait(context),
            ready @ Poll::Ready(_) => {
                self.has_read(buffer.filled().len() - before);
                ready
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patience<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.stream).poll_write(context, bytes) {
            Poll::Pending => self.wait_for_room(context),
            Poll::Ready(result) => {
                self.has_written(result.as_ref().map_or(0, |bytes| *bytes));
                Poll::Ready(result)
            }
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.stream).poll_write_vectored(context, slices) {
            Poll::Pending => self.wait_for_room(context),
            Poll::Ready(result) => {
                self.has_written(result.as_ref().map_or(0, |bytes| *bytes));
                Poll::Ready(result)
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_flush(context) {
            Poll::Pending => self.wait(context),
            ready @ Poll::Ready(_) => ready,
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_shutdown(context) {
            Poll::Pending => self.wait(context),
            ready @ Poll::Ready(_) => ready,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::*;

    const GREETING: Duration = Duration::from_secs(10);
    const STILL: Duration = Duration::from_mins(1);
    const JUST_BEFORE: Duration = Duration::from_secs(59);

    /// A stream whose peer may be as slow as it likes, as long as something moves.
    fn stream() -> (Patience<DuplexStream>, DuplexStream) {
        let pace = Pace::new(NonZeroU64::MIN, 100 * STILL);
        let (near, far) = tokio::io::duplex(64);
        (Patience::new(near, GREETING, STILL, pace), far)
    }

    fn timed_out<T: std::fmt::Debug>(result: io::Result<T>) {
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_greeting_that_does_not_come_in_time_is_the_end() {
        for first in 0..GREETING_BYTES {
            let (mut near, mut far) = stream();
            let start = Instant::now();
            let mut buffer = [0; 64];
            // Drop by drop, and none of it counts.
            for _ in 0..first {
                tokio::time::sleep(GREETING / 30).await;
                far.write_all(b"x").await.unwrap();
                assert_eq!(near.read(&mut buffer).await.unwrap(), 1);
            }
            timed_out(near.read(&mut buffer).await);
            assert_eq!(start.elapsed().as_secs(), GREETING.as_secs());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_ends_the_greeting() {
        let (mut near, mut far) = stream();
        let start = Instant::now();
        far.write_all(b"x").await.unwrap();
        near.read_u8().await.unwrap();
        near.write_all(b"y").await.unwrap();
        timed_out(near.read_u8().await);
        assert_eq!(start.elapsed().as_secs(), STILL.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_stream_lives_and_one_that_stands_still_ends() {
        let (mut near, mut far) = stream();
        let mut buffer = [0; 64];
        far.write_all(&[0; GREETING_BYTES]).await.unwrap();
        near.read_exact(&mut buffer[..GREETING_BYTES])
            .await
            .unwrap();
        for _ in 0..10 {
            // One byte in, or one byte out of a full buffer, each time just before the end.
            let slow = async {
                tokio::time::sleep(JUST_BEFORE).await;
                far.write_all(b"x").await.unwrap();
            };
            let (read, ()) = tokio::join!(near.read(&mut buffer), slow);
            assert_eq!(read.unwrap(), 1);
        }
        near.write_all(&[0; 64]).await.unwrap();
        for _ in 0..10 {
            let slow = async {
                tokio::time::sleep(JUST_BEFORE).await;
                far.read_u8().await.unwrap();
            };
            let (written, ()) = tokio::join!(near.write_all(b"y"), slow);
            written.unwrap();
        }
        let start = Instant::now();
        timed_out(near.write_all(b"y").await);
        assert_eq!(start.elapsed().as_secs(), STILL.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_too_little_of_what_is_written_is_dropped() {
        const SECOND: Duration = Duration::from_secs(1);
        for (each, times) in [(10, 1000), (9, 90)] {
            let pace = Pace::new(NonZeroU64::new(10).unwrap(), 10 * SECOND);
            let (near, mut far) = tokio::io::duplex(64);
            let mut near = Patience::new(near, GREETING, STILL, pace);
            near.write_all(&[0; 64]).await.unwrap();
            let mut taken = 0_u32;
            let taking = async {
                let mut buffer = vec![0; each];
                while taken < 1000 {
                    tokio::time::sleep(SECOND).await;
                    far.read_exact(&mut buffer).await.unwrap();
                    taken += 1;
                }
            };
            let writing = async { near.write_all(&vec![0; 100_000]).await };
            tokio::select! {
                () = taking => {}
                written = writing => timed_out(written),
            }
            assert!(taken.abs_diff(times) < 15, "{each}: {taken}");
        }
    }
}
