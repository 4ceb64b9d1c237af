//! A part of a file that a server has.

use std::ops::Range;

use reqwest::header::RANGE;
use reqwest::{StatusCode, Url};

use crate::error::{DownloadError, Outage};
use crate::server::{Server, other_range, wrong};

/// Some bytes of a file that is `length` bytes long.
pub(crate) async fn fetch(
    server: &Server,
    url: &Url,
    range: Range<u64>,
    length: u64,
) -> Result<Vec<u8>, DownloadError> {
    let mut tries = server.tries();
    loop {
        match try_fetch(server, url, &range, length).await? {
            Ok(bytes) => return Ok(bytes),
            Err(outage) => tries.wait(outage).await?,
        }
    }
}

async fn try_fetch(
    server: &Server,
    url: &Url,
    range: &Range<u64>,
    length: u64,
) -> Result<Result<Vec<u8>, Outage>, DownloadError> {
    let (first, last) = (range.start, range.end - 1);
    let request = server
        .get(url)
        .header(RANGE, format!("bytes={first}-{last}"));
    let mut response = match server.answer(url, request).await? {
        Ok(response) => response,
        Err(outage) => return Ok(Err(outage)),
    };
    match response.status() {
        StatusCode::PARTIAL_CONTENT => {}
        StatusCode::OK => {
            let url = server.shown(url);
            return Err(DownloadError::WholeFiles { url });
        }
        status => return Err(wrong(url, &format!("status {status} for a part of it"))),
    }
    other_range(url, &response, &format!("bytes {first}-{last}/{length}"))?;
    let expected = range.end - range.start;
    let mut bytes = Vec::new();
    loop {
        match server.chunk(&mut response).await {
            Ok(Some(more)) => bytes.extend_from_slice(&more),
            Ok(None) if bytes.len() as u64 == expected => return Ok(Ok(bytes)),
            Ok(None) => {
                let bytes = range.start + bytes.len() as u64;
                return Ok(Err(Outage::Lost {
                    bytes,
                    expected: length,
                }));
            }
            Err(outage) => return Ok(Err(outage)),
        }
        if bytes.len() as u64 > expected {
            return Err(wrong(url, &format!("it has more than {expected} bytes")));
        }
    }
}
