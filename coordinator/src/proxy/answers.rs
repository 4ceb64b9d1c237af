//! The ranges that requests ask for, and the answers of the proxy.

use std::ops::Range;

use axum::body::Body;
use axum::response::Response;
use chomp_serve::ChunkBody;
use chomp_serve::answer::problem;
use chomp_store::{FaultKind, StorageError, StorageProblem};
use chomp_table::format::describe;
use http::StatusCode;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderValue, RETRY_AFTER};

/// The bytes that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    All,
    /// From this byte to the end.
    From(u64),
    /// The first and the last byte.
    Between(u64, u64),
}

impl Asked {
    /// Parses a `Range` header; none if the proxy does not understand it.
    pub(super) fn of(range: Option<&HeaderValue>) -> Option<Asked> {
        let Some(range) = range else {
            return Some(Asked::All);
        };
        let (first, last) = range
            .to_str()
            .ok()?
            .strip_prefix("bytes=")?
            .split_once('-')?;
        let number = |text: &str| {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.parse().ok()).flatten()
        };
        let first: u64 = number(first)?;
        if last.is_empty() {
            return Some(Asked::From(first));
        }
        let last = number(last)?;
        (first <= last && last < u64::MAX).then_some(Asked::Between(first, last))
    }

    pub(super) fn range(self) -> Range<u64> {
        match self {
            Asked::All => 0..u64::MAX,
            Asked::From(first) => first..u64::MAX,
            Asked::Between(first, last) => first..last + 1,
        }
    }
}

/// An object, whole.
pub(super) fn whole(body: ChunkBody, exact: Option<u64>) -> Response {
    bytes(StatusCode::OK, body, exact)
}

/// A part of an object. Where the object ends before the range does and that is not known yet, the
/// answer names the end that was asked for.
pub(super) fn partial(body: ChunkBody, range: &Range<u64>, exact: Option<u64>) -> Response {
    let end = exact.map_or(range.end, |exact| range.start + exact);
    let mut response = bytes(StatusCode::PARTIAL_CONTENT, body, exact);
    let value = format!("bytes {}-{}/*", range.start, end.saturating_sub(1));
    let value = value.try_into().expect("digits and signs");
    response.headers_mut().insert(CONTENT_RANGE, value);
    response
}

fn bytes(status: StatusCode, body: ChunkBody, exact: Option<u64>) -> Response {
    let mut response = Response::new(Body::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("application/octet-stream");
    headers.insert(CONTENT_TYPE, kind);
    if let Some(exact) = exact {
        headers.insert(CONTENT_LENGTH, exact.into());
    }
    response
}

/// The object ends before the range.
pub(super) fn empty() -> Response {
    problem(
        StatusCode::RANGE_NOT_SATISFIABLE,
        "the object ends before that",
    )
}

pub(super) fn created() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::CREATED;
    response
}

/// The request did not get its turn in time.
pub(super) fn busy() -> Response {
    let what = "too much is being transferred: try again";
    let mut response = problem(StatusCode::SERVICE_UNAVAILABLE, what);
    response
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// The storage failed.
pub(super) fn failed(error: &StorageError) -> Response {
    let status = match error.problem {
        StorageProblem::NotFound | StorageProblem::Fault(FaultKind::Damage) => {
            StatusCode::NOT_FOUND
        }
        StorageProblem::AlreadyExists => StatusCode::PRECONDITION_FAILED,
        StorageProblem::Fault(FaultKind::Full) => StatusCode::INSUFFICIENT_STORAGE,
        StorageProblem::Fault(FaultKind::Passing) => StatusCode::SERVICE_UNAVAILABLE,
        StorageProblem::Fault(FaultKind::Lasting | FaultKind::Unsure) => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
    };
    problem(status, &describe(error))
}
