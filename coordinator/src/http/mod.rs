//! What a coordinator shows over HTTP: how the job is doing, and the finished tables.
//!
//! | module | holds |
//! |---|---|
//! | `job` | `/healthz`, `/readyz`, `/status`, `/metrics` |
//! | `metrics` | the numbers behind `/metrics` |
//! | [`tables`] | the list of finished tables, and their files |
//! | `published` | which files that are |
//! | `conditions` | which part of a file a request wants |
//! | `body` | the bytes of a file on their way |

mod body;
mod conditions;
pub(crate) mod job;
pub(crate) mod metrics;
mod published;
pub mod tables;
#[cfg(test)]
mod tests;

use axum::body::Body;
use axum::response::Response;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use serde::Serialize;

/// A JSON document that is another one next time.
fn json(status: StatusCode, value: &impl Serialize) -> Response {
    let mut text = serde_json::to_string(value).expect("texts, numbers and lists become JSON");
    text.push('\n');
    fresh(status, "application/json", text)
}

/// What went wrong, as JSON.
pub(crate) fn problem(status: StatusCode, what: &str) -> Response {
    #[derive(Serialize)]
    struct Problem<'a> {
        error: &'a str,
    }
    json(status, &Problem { error: what })
}

fn fresh(status: StatusCode, kind: &'static str, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
