//! Answers that are short texts, sent whole, and the reasons why a request does not get what it wants.

use std::str::FromStr;

use axum::body::Body;
use axum::extract::{FromRequestParts, Path};
use axum::response::{IntoResponse, Response};
use chomp_games::GameError;
use chomp_table::position::PositionError;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::request::Parts;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The media type of JSON.
pub const JSON: &str = "application/json";
pub(crate) const HTML: &str = "text/html; charset=utf-8";
/// The media type of a line for people.
pub const TEXT: &str = "text/plain; charset=utf-8";

/// The most bytes of the text of a position. With commas, 63 rows of two digits each take 188 bytes, and 120 rows of
/// one digit 239. A word takes 66 bytes. 32 heaps of four digits each, with commas and rules, take fewer than 239.
pub(crate) const TEXT_BYTES_MAX: usize = 256;

/// A response with a text that clients must revalidate.
pub fn text(status: StatusCode, kind: &'static str, text: impl Into<Body>) -> Response {
    let headers = [(CONTENT_TYPE, kind), (CACHE_CONTROL, "no-cache")];
    (status, headers, text.into()).into_response()
}

pub(crate) fn json(value: &impl Serialize) -> Response {
    text(StatusCode::OK, JSON, json_line(value))
}

pub(crate) fn json_line(value: &impl Serialize) -> String {
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
    text(status, JSON, json_line(&Problem { error: what }))
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// The request makes no sense, or wants too much.
    #[error("{0}")]
    Wrong(String),
    #[error("no position takes more than {TEXT_BYTES_MAX} characters")]
    TooLong,
    #[error("there is nothing here")]
    Nothing,
    /// The client may retry after this number of seconds.
    #[error("{0}")]
    NotNow(&'static str, u64),
    /// The work panicked, or the program is going down.
    #[error("the question could not be answered")]
    Lost,
    /// A file of the table is damaged. The log names it.
    #[error("the table is damaged here: tell its owner")]
    Damaged,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = match self {
            Refusal::Wrong(_) => StatusCode::BAD_REQUEST,
            Refusal::TooLong => StatusCode::URI_TOO_LONG,
            Refusal::Nothing => StatusCode::NOT_FOUND,
            Refusal::NotNow(..) => StatusCode::SERVICE_UNAVAILABLE,
            Refusal::Lost | Refusal::Damaged => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let mut response = problem(status, &self.to_string());
        if let Refusal::NotNow(_, seconds) = self {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

impl From<PositionError> for Refusal {
    fn from(error: PositionError) -> Refusal {
        Refusal::Wrong(error.to_string())
    }
}

impl From<GameError> for Refusal {
    fn from(error: GameError) -> Refusal {
        Refusal::Wrong(error.to_string())
    }
}

/// Parses a number that has only digits, without a sign.
pub(crate) fn number<T: FromStr>(digits: &str) -> Option<T> {
    let all_digits = digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|_| all_digits)
}

/// The parameters of a path, decoded.
#[derive(Debug)]
pub(crate) struct Texts<const N: usize>(pub(crate) [String; N]);

impl<S: Send + Sync, const N: usize> FromRequestParts<S> for Texts<N>
where
    [String; N]: DeserializeOwned + Send,
{
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Texts<N>, Refusal> {
        let path = Path::<[String; N]>::from_request_parts(parts, state).await;
        let Path(texts) = path.map_err(|_| Refusal::Wrong("the path is not UTF-8".to_owned()))?;
        if texts.iter().any(|text| text.len() > TEXT_BYTES_MAX) {
            return Err(Refusal::TooLong);
        }
        Ok(Texts(texts))
    }
}
