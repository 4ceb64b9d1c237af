//! The download of one shard: bytes on disk are kept, the rest is fetched, all are checked.

use std::sync::Arc;

use chomp_table::reader::ShardFileInfo;
use reqwest::StatusCode;

use crate::Download;
use crate::error::DownloadError;
use crate::folder::{Partial, blocking};
use crate::http::ServerClient;
use crate::source::SourcePlace;

/// The bytes of one request to a bucket.
const PIECE_BYTES: u64 = 4 << 20;

pub(crate) async fn fetch(
    download: Arc<Download>,
    shard: ShardFileInfo,
) -> Result<(), DownloadError> {
    let (target, info) = (Arc::clone(&download.target), shard.clone());
    let partial = blocking(move || {
        if target.has(&info.name, info.bytes, info.sha256)? {
            return Ok(None);
        }
        target.open(&info.name, info.bytes).map(Some)
    });
    let partial = partial.await?;
    download.progress.send_modify(|progress| {
        let length = partial.as_ref().map(|partial| partial.length);
        progress.bytes += length.unwrap_or(shard.bytes);
    });
    if let Some(partial) = partial {
        let mut fetch = ShardFetch {
            download: &download,
            shard: &shard,
            partial,
        };
        fetch.run().await?;
        let (target, partial) = (Arc::clone(&download.target), fetch.partial);
        blocking(move || target.finish(partial, &shard.name)).await?;
    }
    download
        .progress
        .send_modify(|progress| progress.shards += 1);
    Ok(())
}

struct ShardFetch<'a> {
    download: &'a Download,
    shard: &'a ShardFileInfo,
    partial: Partial,
}

impl ShardFetch<'_> {
    /// Fetches until all bytes are there and right. If they are wrong, they are fetched again from the start, once.
    async fn run(&mut self) -> Result<(), DownloadError> {
        let mut is_repeated = false;
        loop {
            match &self.download.source.place {
                SourcePlace::Server(server) => self.fill_from_server(server).await?,
                SourcePlace::Bucket(_) => self.fill_from_bucket().await?,
            }
            let found = self.partial.digest();
            if found == self.shard.sha256 {
                return Ok(());
            }
            if is_repeated {
                return Err(DownloadError::Damaged {
                    file: self.download.source.address(&self.shard.name),
                    expected: self.shard.sha256,
                    found,
                });
            }
            is_repeated = true;
            self.clear()?;
        }
    }

    async fn fill_from_bucket(&mut self) -> Result<(), DownloadError> {
        let ShardFileInfo { name, bytes, .. } = self.shard;
        while self.partial.length < *bytes {
            let from = self.partial.length;
            let range = from..(from + PIECE_BYTES).min(*bytes);
            let piece = self
                .download
                .source
                .fetch_slice(name, range, *bytes)
                .await?;
            self.write(&piece)?;
        }
        Ok(())
    }

    async fn fill_from_server(&mut self, server: &ServerClient) -> Result<(), DownloadError> {
        let mut attempts = server.contact.retry_window();
        // Bytes that were received before are no progress: a server that always starts at byte 0 is not asked for ever.
        let mut furthest = self.partial.length;
        while self.partial.length < self.shard.bytes {
            let received = self.receive(server).await;
            if self.partial.length > furthest {
                furthest = self.partial.length;
                attempts = server.contact.retry_window();
            }
            if let Err(error) = received {
                attempts.wait(error).await?;
            }
        }
        Ok(())
    }

    /// Asks for the bytes that are missing, and writes what comes until the answer ends.
    async fn receive(&mut self, server: &ServerClient) -> Result<(), DownloadError> {
        let ShardFileInfo { name, bytes, .. } = self.shard;
        let missing = self.partial.length..*bytes;
        let (mut response, slice) = server.get_range(name, &missing, *bytes).await?;
        if response.status() == StatusCode::OK {
            self.clear()?;
        }
        while let Some(more) = server.chunk(&mut response).await? {
            if more.len() as u64 > slice.end - self.partial.length {
                return Err(server.wrong(name, format!("it has more than {bytes} bytes")));
            }
            self.write(&more)?;
        }
        let found = self.partial.length;
        if found < slice.end {
            let what = format!("it has {found} of {bytes} bytes");
            return Err(server.cut_short_error(name, &response, what));
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), DownloadError> {
        self.partial.write(bytes)?;
        let written = bytes.len() as u64;
        self.download
            .progress
            .send_modify(|progress| progress.bytes += written);
        Ok(())
    }

    fn clear(&mut self) -> Result<(), DownloadError> {
        let removed = self.partial.length;
        self.partial.clear()?;
        self.download
            .progress
            .send_modify(|progress| progress.bytes -= removed);
        Ok(())
    }
}
