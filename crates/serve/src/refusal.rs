//! Why a request does not get what it wants, and the texts in the paths of questions.

use axum::extract::{FromRequestParts, Path};
use axum::response::{IntoResponse, Response};
use chomp_games::GameError;
use chomp_table::position::PositionError;
use http::StatusCode;
use http::request::Parts;
use serde::de::DeserializeOwned;

use crate::answer::{busy, problem};

/// The longest text of a position: 63 rows of two digits each and a comma take 188 bytes, a word 66; 120 rows of a cell
/// 239; 32 heaps of four digits and commas with rules less.
pub(crate) const TEXT_BYTES_MAX: usize = 256;

/// Why a request is not answered as it wants.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// It makes no sense, or wants too much.
    #[error("{0}")]
    Wrong(String),
    #[error("no position takes more than {TEXT_BYTES_MAX} characters")]
    TooLong,
    #[error("there is nothing here")]
    Nothing,
    /// It may be made again after so many seconds.
    #[error("{0}")]
    NotNow(&'static str, u64),
    /// The work panicked, or the program is going down.
    #[error("the question could not be answered")]
    Lost,
    /// Something of a table cannot be used. The log says where.
    #[error("the table is damaged here: tell its owner")]
    Damaged,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = match self {
            Refusal::Wrong(_) => StatusCode::BAD_REQUEST,
            Refusal::TooLong => StatusCode::URI_TOO_LONG,
            Refusal::Nothing => StatusCode::NOT_FOUND,
            Refusal::NotNow(what, seconds) => return busy(what, seconds),
            Refusal::Lost | Refusal::Damaged => StatusCode::INTERNAL_SERVER_ERROR,
        };
        problem(status, &self.to_string())
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

/// A number of digits alone.
pub(crate) fn number(digits: &str) -> Option<u32> {
    let all_digits = digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|_| all_digits)
}

/// The texts in a path, decoded.
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
