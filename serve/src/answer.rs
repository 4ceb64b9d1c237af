//! Answers that are short texts, made anew for each request.

use axum::body::Body;
use axum::response::Response;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use serde::Serialize;

/// A JSON document that may be another one next time.
///
/// # Panics
///
/// If the value cannot be JSON, as a map whose keys are no texts.
pub fn json(status: StatusCode, value: &impl Serialize) -> Response {
    let mut text = serde_json::to_string(value).expect("texts, numbers and lists become JSON");
    text.push('\n');
    fresh(status, "application/json", text)
}

/// What went wrong, as JSON.
pub fn problem(status: StatusCode, what: &str) -> Response {
    #[derive(Serialize)]
    struct Problem<'a> {
        error: &'a str,
    }
    json(status, &Problem { error: what })
}

/// A text of some kind that may be another one next time.
pub fn fresh(status: StatusCode, kind: &'static str, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
