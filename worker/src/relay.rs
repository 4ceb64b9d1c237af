//! The store through the coordinator, for workers that reach it in no other way.
//!
//! A read or a creation of an object is repeated like a call, over any number of outages, until it has an answer. A
//! creation succeeds if the coordinator's store has an object with the same bytes already. If that store fails for
//! good, the coordinator ends until somebody starts it again: for a worker that is an outage.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chomp_proto::{OBJECTS_PATH, WORKER_HEADER};
use chomp_store::objects::Operation;
use chomp_store::{FaultKind, Key, Storage, StorageError, StorageProblem, part};
use http::header::{CONTENT_LENGTH, IF_NONE_MATCH, RANGE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use tonic::body::Body;

use crate::client::Client;
use crate::link::{CallFailure, Session, within};
use crate::transport::BoxError;

/// How long a transfer may go on without any byte.
const PROGRESS_TIMEOUT: Duration = Duration::from_mins(1);
/// How long the answer to a creation may take once all bytes are sent: they have to be on disk.
const DURABLE_TIMEOUT: Duration = Duration::from_mins(2);
/// The fewest bytes that are sent in a second.
const PACE: usize = 1 << 16;
/// The most bytes of a reason that are read.
const REASON_BYTES_MAX: usize = 1 << 10;

#[derive(Clone, Debug)]
pub(crate) struct RelayStorage(pub(crate) Client);

/// The answer to a call that did not fail: the bytes of an object, none for a creation, or the problem of the store.
type StoreReply = Result<Bytes, StorageProblem>;

impl RelayStorage {
    async fn ask<F>(
        &self,
        key: &Key,
        action: Operation,
        ask: impl Fn(Arc<Session>, http::request::Builder) -> F,
    ) -> Result<Bytes, StorageError>
    where
        F: Future<Output = Result<StoreReply, CallFailure>>,
    {
        let Client { link } = &self.0;
        let uri = format!("{OBJECTS_PATH}{key}");
        let request = || {
            Request::builder()
                .uri(&*uri)
                .header(WORKER_HEADER, self.0.worker())
        };
        let answer = link.call(|session| ask(session, request())).await;
        let failed = |problem, cause: BoxError| StorageError::new(problem, action, key, cause);
        answer
            .map_err(|error| failed(FaultKind::Lasting.into(), error.into()))?
            .map_err(|problem| failed(problem, "the coordinator says so".into()))
    }

    async fn get(&self, key: &Key, range: Option<Range<u64>>) -> Result<Bytes, StorageError> {
        let ask = |session, request| get(session, request, range.clone());
        self.ask(key, Operation::Read, ask).await
    }
}

#[async_trait]
impl Storage for RelayStorage {
    async fn create(&self, key: &Key, bytes: Bytes) -> Result<(), StorageError> {
        let ask = |session, request| put(session, request, bytes.clone());
        self.ask(key, Operation::Create, ask).await.map(drop)
    }

    async fn read(&self, key: &Key) -> Result<Bytes, StorageError> {
        self.get(key, None).await
    }

    async fn read_at(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StorageError> {
        if range.is_empty() {
            // A request asks for a byte at least.
            let start = range.start.min(u64::MAX - 1);
            let byte = start..start + 1;
            return self.get(key, Some(byte)).await.map(|_| Bytes::new());
        }
        self.get(key, Some(range)).await
    }

    async fn list(&self, prefix: &Key) -> Result<Vec<(Key, u64)>, StorageError> {
        Err(not_here(prefix, Operation::List))
    }

    async fn delete(&self, keys: &[Key]) -> Result<(), StorageError> {
        let refused = |key| Err(not_here(key, Operation::Delete));
        keys.first().map_or(Ok(()), refused)
    }
}

fn not_here(key: &Key, action: Operation) -> StorageError {
    let why = "this is not done through the coordinator";
    StorageError::new(FaultKind::Lasting, action, key, why)
}

async fn get(
    session: Arc<Session>,
    mut request: http::request::Builder,
    range: Option<Range<u64>>,
) -> Result<StoreReply, CallFailure> {
    if let Some(range) = &range {
        request = request.header(RANGE, format!("bytes={}-{}", range.start, range.end - 1));
    }
    let request = request.body(Body::empty()).map_err(CallFailure::outage)?;
    let response = within(PROGRESS_TIMEOUT, session.send(request)).await?;
    let most = match (response.status(), range) {
        (StatusCode::OK, None) => part::BYTES_MAX,
        (StatusCode::PARTIAL_CONTENT, Some(range)) => range.end - range.start,
        // The coordinator may answer with the whole object if the range begins with its first byte.
        (StatusCode::OK, Some(range)) if range.start == 0 => range.end,
        (StatusCode::RANGE_NOT_SATISFIABLE, Some(_)) => return Ok(Ok(Bytes::new())),
        (StatusCode::NOT_FOUND, _) => return Ok(Err(StorageProblem::NotFound)),
        _ => return Err(refusal(response).await),
    };
    whole(response, most).await.map(Ok)
}

async fn put(
    session: Arc<Session>,
    request: http::request::Builder,
    bytes: Bytes,
) -> Result<StoreReply, CallFailure> {
    let length = bytes.len();
    let request = request
        .method(Method::PUT)
        .header(CONTENT_LENGTH, length)
        .header(IF_NONE_MATCH, "*")
        .body(Body::new(Full::new(bytes)))
        .map_err(CallFailure::outage)?;
    let sending = Duration::from_secs((length / PACE) as u64);
    let response = within(DURABLE_TIMEOUT + sending, session.send(request)).await?;
    match response.status() {
        StatusCode::CREATED | StatusCode::OK | StatusCode::NO_CONTENT => Ok(Ok(Bytes::new())),
        StatusCode::PRECONDITION_FAILED => Ok(Err(StorageProblem::AlreadyExists)),
        _ => Err(refusal(response).await),
    }
}

async fn refusal(response: Response<Body>) -> CallFailure {
    let status = response.status();
    let reason = reason(response).await;
    match status {
        StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::TOO_MANY_REQUESTS
        | StatusCode::REQUEST_TIMEOUT => CallFailure::Busy(reason),
        StatusCode::UNAUTHORIZED => CallFailure::Refused(reason),
        _ if status.is_client_error() => CallFailure::Rejected(reason),
        _ if status.is_server_error() => CallFailure::outage(reason),
        _ => CallFailure::Protocol(format!("it answers a request for an object with {status}")),
    }
}

async fn reason(response: Response<Body>) -> String {
    let status = response.status();
    let mut text = Vec::new();
    let mut body = response.into_body();
    let read = async {
        while text.len() < REASON_BYTES_MAX
            && let Some(Ok(frame)) = body.frame().await
        {
            if let Ok(data) = frame.into_data() {
                text.extend_from_slice(&data[..data.len().min(REASON_BYTES_MAX - text.len())]);
            }
        }
    };
    // At a timeout, the text that came by then is the reason.
    let _ = tokio::time::timeout(PROGRESS_TIMEOUT, read).await;
    let text = String::from_utf8_lossy(&text);
    match text.trim() {
        "" => status.to_string(),
        text => format!("{status}: {text}"),
    }
}

/// All bytes of an answer; fails if there are more than `most`.
async fn whole(response: Response<Body>, most: u64) -> Result<Bytes, CallFailure> {
    let length = response.headers().get(CONTENT_LENGTH);
    let length: Option<u64> = length
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.parse().ok());
    let too_much = || CallFailure::Protocol("it sends more than was asked for".to_owned());
    if length.is_some_and(|length| length > most) {
        return Err(too_much());
    }
    let mut body = response.into_body();
    let (mut frames, mut total) = (Vec::new(), 0_u64);
    while let Some(frame) =
        within(PROGRESS_TIMEOUT, async { body.frame().await.transpose() }).await?
    {
        let Ok(data) = frame.into_data() else {
            continue;
        };
        total += data.len() as u64;
        if total > most {
            return Err(too_much());
        }
        frames.push(data);
    }
    if length.is_some_and(|length| length != total) {
        return Err(CallFailure::outage("the connection was cut"));
    }
    Ok(match &frames[..] {
        [all] => all.clone(),
        parts => parts.concat().into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(length: Option<u64>, bytes: &'static [u8]) -> Response<Body> {
        let mut response = Response::new(Body::new(Full::new(Bytes::from_static(bytes))));
        if let Some(length) = length {
            response.headers_mut().insert(CONTENT_LENGTH, length.into());
        }
        response
    }

    #[tokio::test]
    async fn an_answer_has_a_limit_that_is_known_before_it_is_read() {
        for (length, most, good) in [
            (None, 5, true),
            (Some(5), 5, true),
            (None, 4, false),
            (Some(5), 4, false),
            (Some(u64::MAX), part::BYTES_MAX, false),
        ] {
            let read = whole(answer(length, b"bytes"), most).await;
            match read {
                Ok(bytes) => assert!(good && bytes == "bytes"),
                Err(CallFailure::Protocol(what)) => {
                    assert!(!good && what.contains("more"), "{what}");
                }
                Err(other) => panic!("{other:?}"),
            }
        }
        assert!(matches!(
            whole(answer(Some(6), b"bytes"), 6).await,
            Err(CallFailure::Outage(_))
        ));
    }
}
