//! Files, whole or in part: which bytes a request wants, by `If-None-Match`, `Range` and `If-Range` of RFC 9110, and
//! the body that sends them.
//!
//! The crate `headers` reads these headers, but does not say which answer follows from them. So this module reads them
//! itself, in thirty lines.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use chomp_table::Digest;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, IF_RANGE, RANGE, REFERRER_POLICY,
    X_FRAME_OPTIONS,
};
use http::{HeaderMap, StatusCode};
use hyper::body::{Frame, SizeHint};
use tokio::sync::mpsc;

use crate::answer::number;
use crate::question_threads::blocking;

/// The most bytes of a file per read.
const CHUNK_BYTES: u64 = 64 << 10;
/// The most chunks in the queue for the network. The task that fills the queue may hold one more.
const CHUNKS_AHEAD: usize = 1;

/// File names carry no version, so clients must revalidate; the entity tag is the SHA-256.
const CACHE: HeaderValue = HeaderValue::from_static("no-cache");
/// A page loads and runs only files of this server, and no other page may embed it (clickjacking).
/// `base-uri` and `form-action` limit injected markup.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
);

#[derive(Clone, Debug)]
pub(crate) struct SmallFile {
    /// Its media type.
    kind: &'static str,
    bytes: Bytes,
    sha256: Digest,
}

impl SmallFile {
    pub(crate) fn new(kind: &'static str, bytes: Bytes) -> SmallFile {
        SmallFile {
            kind,
            sha256: Digest::of(&bytes),
            bytes,
        }
    }

    /// Answers with the file, or the bytes that `headers` ask for, and with the security headers of pages.
    pub(crate) fn answer(&self, headers: &HeaderMap) -> Response {
        let bytes = self.bytes.len() as u64;
        let (range, mut response) = response_for(headers, self.sha256, bytes, self.kind);
        if let Some(range) = range {
            let [start, end] = [range.start, range.end]
                .map(|at| usize::try_from(at).expect("within bytes that are in memory"));
            *response.body_mut() = Body::from(self.bytes.slice(start..end));
        }
        let fields = response.headers_mut();
        fields.insert(CONTENT_SECURITY_POLICY, POLICY);
        // For browsers that do not know `frame-ancestors`.
        fields.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
        fields.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        response
    }
}

/// The response to a request for a file, with an empty body, and the range of bytes to send in it, if any.
pub(crate) fn response_for(
    headers: &HeaderMap,
    sha256: Digest,
    bytes: u64,
    kind: &'static str,
) -> (Option<Range<u64>>, Response) {
    let etag = HeaderValue::try_from(format!("\"{sha256}\"")).expect("digits may be in a header");
    let (status, range) = wanted(headers, &etag, bytes);
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    let fields = response.headers_mut();
    fields.insert(ETAG, etag);
    fields.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    fields.insert(CACHE_CONTROL, CACHE);
    fields.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if let Some(range) = &range {
        fields.insert(CONTENT_LENGTH, (range.end - range.start).into());
    }
    let place = match (status, &range) {
        (StatusCode::PARTIAL_CONTENT, Some(range)) => format!("{}-{}", range.start, range.end - 1),
        (StatusCode::RANGE_NOT_SATISFIABLE, _) => "*".to_owned(),
        _ => return (range, response),
    };
    let place = HeaderValue::try_from(format!("bytes {place}/{bytes}"));
    fields.insert(CONTENT_RANGE, place.expect("digits may be in a header"));
    (range, response)
}

/// For a file of `bytes` bytes with this entity tag: the status, and the range of bytes to send, if any.
fn wanted(headers: &HeaderMap, etag: &HeaderValue, bytes: u64) -> (StatusCode, Option<Range<u64>>) {
    let mut known = headers.get_all(IF_NONE_MATCH).iter();
    if known.any(|tags| lists_tag(tags, etag)) {
        return (StatusCode::NOT_MODIFIED, None);
    }
    let mut ranges = headers.get_all(RANGE).iter();
    // A part of another version is of no use, so the whole file is sent. A date in `If-Range` never equals the tag.
    let is_version = headers.get(IF_RANGE).is_none_or(|tag| tag == etag);
    let value = match (ranges.next(), ranges.next()) {
        (Some(range), None) if is_version => range.to_str().ok(),
        _ => None,
    };
    match value.and_then(|range| parse_range(range, bytes)) {
        None => (StatusCode::OK, Some(0..bytes)),
        Some(range) if range.is_empty() => (StatusCode::RANGE_NOT_SATISFIABLE, None),
        Some(range) => (StatusCode::PARTIAL_CONTENT, Some(range)),
    }
}

/// Whether a file of `bytes` bytes has the bytes that a `Range` with this value wants. Panics if the answer would be a
/// range that is empty, or beyond the file.
#[cfg(feature = "fuzzing")]
pub fn is_satisfiable(value: &[u8], bytes: u64) -> bool {
    let Ok(value) = HeaderValue::from_bytes(value) else {
        return false;
    };
    let headers = HeaderMap::from_iter([(RANGE, value)]);
    let (status, range) = wanted(&headers, &HeaderValue::from_static("\"a\""), bytes);
    if status != StatusCode::PARTIAL_CONTENT {
        return false;
    }
    let range = range.expect("a range has bytes");
    assert!(range.start < range.end && range.end <= bytes, "{range:?}");
    true
}

/// Whether a list of tags has `etag` or is `*`.
fn lists_tag(tags: &HeaderValue, etag: &HeaderValue) -> bool {
    let (Ok(tags), Ok(etag)) = (tags.to_str(), etag.to_str()) else {
        return false;
    };
    // The tags of this server have no commas.
    tags.split(',').map(str::trim).any(|tag| {
        let tag = tag.strip_prefix("W/").unwrap_or(tag);
        tag == "*" || tag == etag
    })
}

/// The range of bytes in a `Range` header. Empty if the file has none of the bytes. None if the header must be ignored:
/// if it is invalid or has several ranges.
fn parse_range(value: &str, bytes: u64) -> Option<Range<u64>> {
    let (unit, range) = value.split_once('=')?;
    let (first, last) = range.trim().split_once('-')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    Some(match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => first..last.saturating_add(1).min(bytes),
        (Some(first), None) if last.is_empty() => first..bytes,
        (None, Some(length)) if first.is_empty() => bytes.saturating_sub(length)..bytes,
        _ => return None,
    })
}

/// The next bytes of a body, or the error that ends it.
pub type BodyChunk = io::Result<Bytes>;

/// A body whose bytes come from a task, a chunk at a time.
#[derive(Debug)]
pub struct ChunkBody {
    chunks: mpsc::Receiver<BodyChunk>,
    /// The number of bytes to come, if known.
    left: Option<u64>,
}

impl ChunkBody {
    /// A body of `length` bytes, or of unknown length. A task that runs the future of `fill` sends the bytes. An empty
    /// chunk ends a body of unknown length. If the task ends before that chunk, or before all `length` bytes, the body
    /// ends with an error.
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

    /// The bytes in `range` of a file. A read that fails ends the body with an error.
    pub(crate) fn of_file(file: File, range: Range<u64>) -> ChunkBody {
        let length = range.end - range.start;
        ChunkBody::new(Some(length), |chunks| send(Arc::new(file), range, chunks))
    }
}

impl hyper::body::Body for ChunkBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.left == Some(0) {
            return Poll::Ready(None);
        }
        let early = || -> BodyChunk { Err(io::ErrorKind::UnexpectedEof.into()) };
        let chunk = ready!(self.chunks.poll_recv(context));
        let bytes = chunk.unwrap_or_else(early)?;
        if bytes.is_empty() {
            let is_early = self.left.replace(0).is_some();
            return Poll::Ready(is_early.then(|| early().map(Frame::data)));
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

async fn send(file: Arc<File>, range: Range<u64>, chunks: mpsc::Sender<BodyChunk>) {
    let mut start = range.start;
    while start < range.end {
        let end = range.end.min(start + CHUNK_BYTES);
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
        // The send fails after the peer has disconnected.
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
    use hyper::body::Body as _;

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
        for range in [
            0..bytes.len(),
            0..0,
            5..6,
            chunk - 1..chunk + 1,
            chunk..2 * chunk,
            3 * chunk..bytes.len(),
        ] {
            let body = ChunkBody::of_file(file(&bytes), range.start as u64..range.end as u64);
            assert_eq!(body.size_hint().exact(), Some(range.len() as u64));
            let read = body.collect().await.unwrap().to_bytes();
            assert!(read == bytes[range.clone()], "{range:?}");
        }
    }

    #[tokio::test]
    async fn a_file_that_is_too_short_ends_with_an_error() {
        for length in [0, 1, CHUNK_BYTES, CHUNK_BYTES + 1] {
            let file = file(&vec![1; usize::try_from(length).unwrap()]);
            let body = ChunkBody::of_file(file, 0..length + 1);
            assert!(body.collect().await.is_err(), "{length}");
        }
    }

    const TAG: &str = "\"abc\"";
    const WHOLE: (u16, Option<Range<u64>>) = (200, Some(0..100));
    const BEYOND: (u16, Option<Range<u64>>) = (416, None);

    fn range(bytes: Range<u64>) -> (u16, Option<Range<u64>>) {
        (206, Some(bytes))
    }

    fn with(headers: &[(&'static str, &str)], bytes: u64) -> (u16, Option<Range<u64>>) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        let (status, range) = wanted(&map, &HeaderValue::from_static(TAG), bytes);
        (status.as_u16(), range)
    }

    #[test]
    fn ranges_are_those_of_the_rules() {
        for (range, expected) in [
            ("bytes=0-0", range(0..1)),
            ("bytes=0-100", range(0..100)),
            ("bytes=7-", range(7..100)),
            ("bytes=99-18446744073709551615", range(99..100)),
            ("bytes=-1", range(99..100)),
            ("bytes=-101", range(0..100)),
            ("Bytes = 1-2", range(1..3)),
            ("bytes=100-200", BEYOND),
            ("bytes=18446744073709551615-", BEYOND),
            ("bytes=-0", BEYOND),
            ("bytes=0-1,5-6", WHOLE),
            ("bytes=2-1", WHOLE),
            ("bytes=-", WHOLE),
            ("bytes=--1", WHOLE),
            ("bytes=+1-2", WHOLE),
            ("bytes=99999999999999999999999-", WHOLE),
            ("bytes=1-2x", WHOLE),
            ("bytes", WHOLE),
            ("lines=1-2", WHOLE),
        ] {
            assert_eq!(with(&[("range", range)], 100), expected, "{range}");
        }
        assert_eq!(with(&[("range", "bytes=0-")], 0), BEYOND);
        let twice = [("range", "bytes=1-2"), ("range", "bytes=1-2")];
        assert_eq!(with(&twice, 100), WHOLE);
    }

    #[test]
    fn a_part_is_of_the_version_that_is_meant_and_one_that_is_known_is_not_sent() {
        for (name, tag, expected) in [
            ("if-range", TAG, range(1..3)),
            ("if-range", "abc", WHOLE),
            ("if-range", "W/\"abc\"", WHOLE),
            ("if-range", "Fri, 20 Nov 2026 13:00:00 GMT", WHOLE),
            ("if-none-match", TAG, (304, None)),
            ("if-none-match", "W/\"abc\"", (304, None)),
            ("if-none-match", "\"x\", \"abc\"", (304, None)),
            ("if-none-match", "*", (304, None)),
            ("if-none-match", "\"x\"", range(1..3)),
            ("if-none-match", "", range(1..3)),
        ] {
            let headers = [("range", "bytes=1-2"), (name, tag)];
            assert_eq!(with(&headers, 100), expected, "{name}: {tag}");
        }
    }
}
