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

/// The bytes that a request with this `Range` header asks for; none if the proxy does not understand it.
pub(super) fn asked(range: Option<&HeaderValue>) -> Option<Range<u64>> {
    let Some(range) = range else {
        return Some(0..u64::MAX);
    };
    let (first, last) = range
        .to_str()
        .ok()?
        .strip_prefix("bytes=")?
        .split_once('-')?;
    let number = |text: &str| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse::<u64>().ok()).flatten()
    };
    let first = number(first)?;
    let end = match last {
        "" => u64::MAX,
        last => number(last)?.checked_add(1)?,
    };
    (first < end || last.is_empty()).then_some(first..end)
}

/// An object, or a part of it. Where the object ends before the part does and that is not known yet, the answer names
/// the end that was asked for.
pub(super) fn bytes(body: ChunkBody, part: Option<&Range<u64>>, exact: Option<u64>) -> Response {
    let mut response = Response::new(Body::new(body));
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("application/octet-stream");
    headers.insert(CONTENT_TYPE, kind);
    if let Some(exact) = exact {
        headers.insert(CONTENT_LENGTH, exact.into());
    }
    if let Some(&Range { start, end }) = part {
        let end = exact.map_or(end, |exact| start + exact);
        let value = format!("bytes {start}-{}/*", end.saturating_sub(1));
        let value = value.try_into().expect("digits and signs");
        headers.insert(CONTENT_RANGE, value);
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
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
