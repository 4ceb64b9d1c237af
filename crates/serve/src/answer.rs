//! Answers that are short texts, made anew for each request.

use axum::body::Body;
use axum::response::Response;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use serde::Serialize;

/// The media type of what follows.
pub const JSON: &str = "application/json";
/// The media type of a page.
pub(crate) const HTML: &str = "text/html; charset=utf-8";
/// The media type of a line for people.
pub const TEXT: &str = "text/plain; charset=utf-8";

/// A JSON document that may be another one next time.
pub(crate) fn json(value: &impl Serialize) -> Response {
    text(StatusCode::OK, JSON, line(value))
}

/// A JSON document on a line.
pub(crate) fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("texts, numbers and lists become JSON") + "\n"
}

/// The body of an error response.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Problem<'a> {
    /// The reason, for people.
    error: &'a str,
}

/// An error response, with the body `{"error": what}`.
pub fn problem(status: StatusCode, what: &str) -> Response {
    text(status, JSON, line(&Problem { error: what }))
}

/// The server is too busy (status 503): the client may try again in `seconds`.
pub(crate) fn busy(what: &str, seconds: u64) -> Response {
    let mut response = problem(StatusCode::SERVICE_UNAVAILABLE, what);
    response.headers_mut().insert(RETRY_AFTER, seconds.into());
    response
}

/// A text of some kind that may be another one next time.
pub fn text(status: StatusCode, kind: &'static str, text: impl Into<Body>) -> Response {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
