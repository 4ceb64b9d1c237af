//! An object on its way to a worker: read a chunk at a time, as fast as the worker takes them.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use chomp_serve::{BodyChunk, ChunkBody};
use chomp_store::{Key, Storage};
use tokio::sync::mpsc;

use super::{Proxy, chunk};
use crate::http::metrics::Traffic;
use crate::shares::Share;

/// The bytes sent at a time: so the next chunk is read when most of one is taken.
const PIECE_BYTES: usize = 128 << 10;

/// Where the chunks come from.
struct ChunkOrigin {
    storage: Arc<dyn Storage>,
    traffic: Arc<Traffic>,
    key: Key,
    chunks: mpsc::Sender<BodyChunk>,
}

/// A body of the bytes `first` of an object and then those in `rest`, as far as they are there; `exact` of them if that is
/// known. `turn` is kept for as long as they are under way. What cannot be read ends the body with an error, as does
/// an object that is shorter than it was a moment ago.
pub(super) fn outgoing(
    proxy: &Proxy,
    key: Key,
    first: Bytes,
    rest: Range<u64>,
    exact: Option<u64>,
    turn: Share,
) -> ChunkBody {
    let (storage, traffic) = (Arc::clone(&proxy.storage), Arc::clone(&proxy.traffic));
    ChunkBody::new(exact, async move |chunks| {
        let origin = ChunkOrigin {
            storage,
            traffic,
            key,
            chunks,
        };
        origin.send(first, rest).await;
        drop(turn);
    })
}

impl ChunkOrigin {
    async fn send(self, first: Bytes, mut rest: Range<u64>) {
        let mut goes_on = self.pass(Ok(first)).await;
        while goes_on && !rest.is_empty() {
            let range = chunk(&rest);
            let read = self.storage.read_at(&self.key, range.clone()).await;
            let read = read.map_err(|error| {
                tracing::warn!("an object that a worker reads cannot be read: {error}");
                io::Error::other(error)
            });
            rest.start = match &read {
                Ok(bytes) if (bytes.len() as u64) < range.end - range.start => rest.end,
                _ => range.end,
            };
            goes_on = self.pass(read).await;
        }
        // The end of an object is not that of a transfer that was given up.
        if goes_on {
            drop(self.chunks.send(Ok(Bytes::new())).await);
        }
    }

    /// Whether the worker has taken what was read, and there may be more.
    async fn pass(&self, chunk: BodyChunk) -> bool {
        let mut bytes = match chunk {
            Ok(bytes) => bytes,
            Err(error) => {
                drop(self.chunks.send(Err(error)).await);
                return false;
            }
        };
        let fetched = &self.traffic.fetched;
        fetched.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        while !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min(PIECE_BYTES));
            if self.chunks.send(Ok(piece)).await.is_err() {
                tracing::debug!("a worker takes no more of {}", self.key);
                return false;
            }
        }
        true
    }
}
