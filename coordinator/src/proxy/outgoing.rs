//! An object on its way to a worker: read a chunk at a time, as fast as the worker takes them.

use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use chomp_serve::{BodyChunk, ChunkBody};
use chomp_store::Key;
use tokio::sync::mpsc;

use super::{Proxy, chunk};
use crate::shares::Share;

/// The bytes sent at a time: so the next chunk is read when most of one is taken.
const PIECE_BYTES: usize = 128 << 10;

type Chunks = mpsc::Sender<BodyChunk>;

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
    let proxy = proxy.clone();
    ChunkBody::new(exact, async move |chunks| {
        proxy.send(&key, first, rest, &chunks).await;
        drop(turn);
    })
}

impl Proxy {
    async fn send(&self, key: &Key, first: Bytes, mut rest: Range<u64>, to: &Chunks) {
        let mut bytes = first;
        loop {
            let fetched = &self.traffic.fetched;
            fetched.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            while !bytes.is_empty() {
                let piece = bytes.split_to(bytes.len().min(PIECE_BYTES));
                if to.send(Ok(piece)).await.is_err() {
                    tracing::debug!("a worker takes no more of {key}");
                    return;
                }
            }
            if rest.is_empty() {
                break;
            }
            let range = chunk(&rest);
            bytes = match self.storage.read_at(key, range.clone()).await {
                Ok(bytes) => bytes,
                Err(error) => {
                    tracing::warn!("an object that a worker reads cannot be read: {error}");
                    drop(to.send(Err(io::Error::other(error))).await);
                    return;
                }
            };
            let is_cut = (bytes.len() as u64) < range.end - range.start;
            rest.start = if is_cut { rest.end } else { range.end };
        }
        // The end of an object is not that of a transfer that was given up.
        drop(to.send(Ok(Bytes::new())).await);
    }
}
