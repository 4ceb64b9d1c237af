//! One shard from start to end: what is there of it is kept, the rest is fetched, all is checked.

use std::sync::Arc;

use chomp_table::reader::ShardFileInfo;
use reqwest::header::{ETAG, HeaderValue, IF_RANGE, RANGE};
use reqwest::{Response, StatusCode, Url};

use crate::Download;
use crate::bucket::BucketTable;
use crate::error::{DownloadError, Failure, Outage};
use crate::folder::{Partial, blocking};
use crate::http::{TableServer, other_range, wrong};
use crate::source::TableSource;

/// How often a file whose bytes are wrong is fetched again from its start.
const REPEATS: u32 = 1;
/// The bytes of one request to a bucket.
const PIECE_BYTES: u64 = 4 << 20;

/// Fetches a shard unless it is there; returns the bytes that came over the network.
pub(crate) async fn fetch(
    download: &Download,
    shard: &ShardFileInfo,
) -> Result<u64, DownloadError> {
    let (target, info) = (Arc::clone(&download.target), shard.clone());
    let there = blocking(move || {
        if target.has(&info.name, info.bytes, info.sha256)? {
            return Ok(None);
        }
        target.open(&info.name, info.bytes).map(Some)
    });
    let Some(partial) = there.await? else {
        download
            .progress
            .send_modify(|progress| progress.bytes += shard.bytes);
        return Ok(0);
    };
    let mut fetch = Fetch {
        download,
        shard,
        // The tag that servers of this program send; any other sends its own with its first answer.
        etag: HeaderValue::from_str(&format!("\"{}\"", shard.sha256))
            .expect("hexadecimal digits in quotes"),
        partial,
        bytes: 0,
        counted: 0,
    };
    fetch.count();
    fetch.run().await?;
    let (bytes, partial) = (fetch.bytes, fetch.partial);
    let (target, name) = (Arc::clone(&download.target), shard.name.clone());
    blocking(move || target.finish(partial, &name)).await?;
    Ok(bytes)
}

/// A shard that is being fetched.
struct Fetch<'a> {
    download: &'a Download,
    shard: &'a ShardFileInfo,
    /// Which version of the file the bytes so far are of, as the server tells it.
    etag: HeaderValue,
    partial: Partial,
    /// The bytes that came over the network.
    bytes: u64,
    /// The part of the progress that is this file's.
    counted: u64,
}

impl Fetch<'_> {
    /// Fetches until all bytes are there and right.
    async fn run(&mut self) -> Result<(), DownloadError> {
        let mut repeats = 0;
        loop {
            match &self.download.source {
                TableSource::Server(server, url) => {
                    let url = url.file(&self.shard.name);
                    self.fill_from_server(server, &url).await?;
                }
                TableSource::Bucket(table) => self.fill_from_bucket(table).await?,
            }
            let found = self.partial.digest();
            if found == self.shard.sha256 {
                return Ok(());
            }
            if repeats == REPEATS {
                return Err(DownloadError::Damaged {
                    file: self.download.source.place(&self.shard.name),
                    expected: self.shard.sha256,
                    found,
                });
            }
            repeats += 1;
            self.clear()?;
        }
    }

    async fn fill_from_bucket(&mut self, table: &BucketTable) -> Result<(), DownloadError> {
        while self.partial.length < self.shard.bytes {
            let from = self.partial.length;
            let end = self.shard.bytes.min(from + PIECE_BYTES);
            let bytes = table.part(&self.shard.name, from..end).await?;
            self.write(&bytes)?;
        }
        Ok(())
    }

    async fn fill_from_server(
        &mut self,
        server: &TableServer,
        url: &Url,
    ) -> Result<(), DownloadError> {
        let mut tries = server.tries();
        // A server that always begins at the start and never gets further gives nothing.
        let mut furthest = self.partial.length;
        while self.partial.length < self.shard.bytes {
            let received = self.receive(server, url).await;
            if self.partial.length > furthest {
                furthest = self.partial.length;
                tries.renew();
            }
            if let Err(failure) = received {
                tries.wait(failure).await?;
            }
        }
        Ok(())
    }

    /// Asks for the bytes that are missing; the answer holds them from the end of the partial file on.
    async fn ask(&mut self, server: &TableServer, url: &Url) -> Result<Response, Failure> {
        let (from, length) = (self.partial.length, self.shard.bytes);
        let mut request = server.get(url);
        if from > 0 {
            request = request
                .header(RANGE, format!("bytes={from}-"))
                .header(IF_RANGE, self.etag.clone());
        }
        let response = server.answer(url, request).await?;
        let status = response.status();
        if status == StatusCode::OK {
            // The whole file: as it was asked for, or because it is another than before.
            check_length(url, &response, length)?;
            self.clear()?;
        } else if status == StatusCode::PARTIAL_CONTENT && from > 0 {
            let expected = format!("bytes {from}-{}/{length}", length - 1);
            other_range(url, &response, &expected)?;
            check_length(url, &response, length - from)?;
        } else {
            let what = format!("status {status} for the bytes from {from} of {length}");
            return Err(wrong(url, what).into());
        }
        if let Some(etag) = response.headers().get(ETAG) {
            self.etag = etag.clone();
        }
        Ok(response)
    }

    /// Asks, and writes what comes until the answer ends; an outage if that was too early.
    async fn receive(&mut self, server: &TableServer, url: &Url) -> Result<(), Failure> {
        let mut response = self.ask(server, url).await?;
        let expected = self.shard.bytes;
        while let Some(bytes) = server.chunk(&mut response).await? {
            if bytes.len() as u64 > expected - self.partial.length {
                return Err(wrong(url, format!("it has more than {expected} bytes")).into());
            }
            self.write(&bytes)?;
        }
        let bytes = self.partial.length;
        if bytes < expected {
            return Err(Outage::Lost { bytes, expected }.into());
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), DownloadError> {
        self.partial.write(bytes)?;
        self.bytes += bytes.len() as u64;
        self.count();
        Ok(())
    }

    fn clear(&mut self) -> Result<(), DownloadError> {
        self.partial.clear()?;
        self.count();
        Ok(())
    }

    /// Tells how much is on disk.
    fn count(&mut self) {
        let (before, now) = (self.counted, self.partial.length);
        self.counted = now;
        self.download
            .progress
            .send_modify(|progress| progress.bytes = progress.bytes - before + now);
    }
}

/// Checks that an answer is as long as it must be, if it says how long it is.
fn check_length(url: &Url, response: &Response, expected: u64) -> Result<(), DownloadError> {
    match response.content_length() {
        Some(found) if found != expected => {
            let what = format!("it has {found} bytes instead of {expected}");
            Err(wrong(url, what))
        }
        _ => Ok(()),
    }
}
