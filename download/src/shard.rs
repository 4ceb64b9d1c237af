//! One shard from start to end: what is there of it is kept, the rest is fetched, all is checked.

use std::sync::Arc;

use chomp_table::shard::ShardInfo;
use reqwest::header::{CONTENT_RANGE, ETAG, HeaderValue, IF_RANGE, RANGE};
use reqwest::{Response, StatusCode, Url};

use crate::Download;
use crate::error::{DownloadError, Outage};
use crate::server::{chunk, wrong};
use crate::target::{Partial, blocking};

/// How often a file whose bytes are wrong is fetched again from its start.
const REPEATS: u32 = 1;

/// Fetches a shard unless it is there; returns the bytes that came over the network.
pub(crate) async fn fetch(download: &Download, shard: &ShardInfo) -> Result<u64, DownloadError> {
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
        url: download.url.file(&shard.name),
        // What servers of this program say; any other says its own with its first answer.
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
    shard: &'a ShardInfo,
    url: Url,
    /// Which version of the file the bytes so far are of, as the server tells it.
    etag: HeaderValue,
    partial: Partial,
    /// What came over the network.
    bytes: u64,
    /// The part of the progress that is this file's.
    counted: u64,
}

impl Fetch<'_> {
    /// Fetches until all bytes are there and right.
    async fn run(&mut self) -> Result<(), DownloadError> {
        let mut repeats = 0;
        loop {
            self.fill().await?;
            let found = self.partial.digest();
            if found == self.shard.sha256 {
                return Ok(());
            }
            if repeats == REPEATS {
                return Err(DownloadError::Damaged {
                    file: self.url.to_string(),
                    expected: self.shard.sha256,
                    found,
                });
            }
            repeats += 1;
            self.clear()?;
        }
    }

    /// Fetches until all bytes are there.
    async fn fill(&mut self) -> Result<(), DownloadError> {
        let mut patience = self.download.server.patience();
        // A server that always begins at the start and never gets further gives nothing.
        let mut furthest = self.partial.length;
        while self.partial.length < self.shard.bytes {
            let outage = match self.ask().await? {
                Ok(mut response) => self.receive(&mut response).await?,
                Err(outage) => Some(outage),
            };
            if self.partial.length > furthest {
                furthest = self.partial.length;
                patience.renew();
            }
            if let Some(outage) = outage {
                patience.wait(&self.url, outage).await?;
            }
        }
        Ok(())
    }

    /// Asks for the bytes that are missing; the answer holds them from the end of the partial file on.
    async fn ask(&mut self) -> Result<Result<Response, Outage>, DownloadError> {
        let (from, length) = (self.partial.length, self.shard.bytes);
        let mut request = self.download.server.get(&self.url);
        if from > 0 {
            request = request
                .header(RANGE, format!("bytes={from}-"))
                .header(IF_RANGE, self.etag.clone());
        }
        let response = match self.download.server.answer(&self.url, request).await? {
            Ok(response) => response,
            Err(outage) => return Ok(Err(outage)),
        };
        let status = response.status();
        if status == StatusCode::OK {
            // The whole file: as it was asked for, or because it is another than before.
            self.check_length(&response, length)?;
            self.clear()?;
        } else if status == StatusCode::PARTIAL_CONTENT && from > 0 {
            let expected = format!("bytes {from}-{}/{length}", length - 1);
            let found = response.headers().get(CONTENT_RANGE);
            if found.is_none_or(|found| found.as_bytes() != expected.as_bytes()) {
                let what = format!("it has the range {found:?} instead of {expected:?}");
                return Err(wrong(&self.url, &what));
            }
            self.check_length(&response, length - from)?;
        } else {
            let what = format!("status {status} for the bytes from {from} of {length}");
            return Err(wrong(&self.url, &what));
        }
        if let Some(etag) = response.headers().get(ETAG) {
            self.etag = etag.clone();
        }
        Ok(Ok(response))
    }

    /// Checks that an answer is as long as it must be, if it says how long it is.
    fn check_length(&self, response: &Response, expected: u64) -> Result<(), DownloadError> {
        match response.content_length() {
            Some(found) if found != expected => {
                let what = format!("it has {found} bytes instead of {expected}");
                Err(wrong(&self.url, &what))
            }
            _ => Ok(()),
        }
    }

    /// Writes what comes, until the answer ends; an outage if that was too early.
    async fn receive(&mut self, response: &mut Response) -> Result<Option<Outage>, DownloadError> {
        let expected = self.shard.bytes;
        loop {
            let bytes = match chunk(response).await {
                Ok(Some(bytes)) => bytes,
                Ok(None) if self.partial.length == expected => return Ok(None),
                Ok(None) => {
                    let bytes = self.partial.length;
                    return Ok(Some(Outage::Lost { bytes, expected }));
                }
                Err(outage) => return Ok(Some(outage)),
            };
            if bytes.len() as u64 > expected - self.partial.length {
                let what = format!("it has more than {expected} bytes");
                return Err(wrong(&self.url, &what));
            }
            self.partial.write(&bytes)?;
            self.bytes += bytes.len() as u64;
            self.count();
        }
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
