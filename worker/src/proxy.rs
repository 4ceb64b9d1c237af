//! The store through the coordinator, for workers that reach it in no other way.
//!
//! An object is asked for and created as calls are made: again and again, over any number of
//! outages, until there is an answer. The coordinator takes an object that has the same bytes for the one that it is asked
//! to create. If its store fails for good, it ends, and waits to be started again: for a worker that is an outage.

use std::ops::Range;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use chomp_proto::{EXPIRED_HEADER, OBJECTS_PATH, WORKER_HEADER};
use chomp_store::objects::Operation;
use chomp_store::{FaultKind, Key, Storage, StorageError, StorageProblem, part};
use http::header::{CONTENT_LENGTH, IF_NONE_MATCH, RANGE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use tonic::body::Body;

use crate::client::Client;
use crate::error::ClientError;
use crate::link::{CallFailure, Session, within};

/// How long bytes may take that do not come on at all.
const PROGRESS: Duration = Duration::from_mins(1);
/// How long a creation may take that has sent all bytes: they have to be on disk.
const DURABLE: Duration = Duration::from_mins(2);
/// The fewest bytes that are sent in a second.
const PACE: usize = 1 << 16;
/// The most bytes of a reason that are read.
const REASON_BYTES_MAX: usize = 1 << 10;

/// The store at the coordinator's end of the link.
#[derive(Clone, Debug)]
pub(crate) struct ProxyStorage {
    client: Client,
}

/// A reply to a request for an object, unless it is a failure.
enum StoreReply {
    Done(Bytes),
    NotFound,
    AlreadyExists,
}

/// The cause of a [`StorageError`] for which no call failed.
#[derive(Debug, thiserror::Error)]
enum ProxyError {
    #[error("this is not done through the coordinator")]
    NotHere,
    #[error("the coordinator says so")]
    Said,
}

impl ProxyStorage {
    pub(crate) fn new(client: Client) -> ProxyStorage {
        ProxyStorage { client }
    }

    async fn get(&self, key: &Key, range: Option<Range<u64>>) -> Result<Bytes, StorageError> {
        let worker = self.client.link().hello().worker;
        let answer = self
            .client
            .link()
            .call(|session| {
                let range = range.clone();
                async move { get(&session, worker, key, range).await }
            })
            .await;
        finish(key, Operation::Read, answer)
    }
}

#[async_trait]
impl Storage for ProxyStorage {
    async fn create(&self, key: &Key, bytes: Bytes) -> Result<(), StorageError> {
        let worker = self.client.link().hello().worker;
        let answer = self
            .client
            .link()
            .call(|session| {
                let bytes = bytes.clone();
                async move { put(&session, worker, key, bytes).await }
            })
            .await;
        finish(key, Operation::Create, answer).map(drop)
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
        match keys.first() {
            Some(key) => Err(not_here(key, Operation::Delete)),
            None => Ok(()),
        }
    }
}

fn not_here(key: &Key, action: Operation) -> StorageError {
    StorageError::new(FaultKind::Lasting, action, key, ProxyError::NotHere)
}

fn finish(
    key: &Key,
    action: Operation,
    answer: Result<StoreReply, ClientError>,
) -> Result<Bytes, StorageError> {
    let said = |problem| StorageError::new(problem, action, key, ProxyError::Said);
    Err(match answer {
        Ok(StoreReply::Done(bytes)) => return Ok(bytes),
        Ok(StoreReply::NotFound) => said(StorageProblem::NotFound),
        Ok(StoreReply::AlreadyExists) => said(StorageProblem::AlreadyExists),
        Err(error) => StorageError::new(FaultKind::Lasting, action, key, error),
    })
}

fn request(method: Method, worker: u64, key: &Key) -> http::request::Builder {
    Request::builder()
        .method(method)
        .uri(format!("{OBJECTS_PATH}{key}"))
        .header(WORKER_HEADER, worker)
}

fn unbuilt(error: http::Error) -> CallFailure {
    CallFailure::outage(error)
}

async fn get(
    session: &Session,
    worker: u64,
    key: &Key,
    range: Option<Range<u64>>,
) -> Result<StoreReply, CallFailure> {
    let mut request = request(Method::GET, worker, key);
    if let Some(range) = &range {
        request = request.header(RANGE, format!("bytes={}-{}", range.start, range.end - 1));
    }
    let request = request.body(Body::empty()).map_err(unbuilt)?;
    let response = within(PROGRESS, session.send(request)).await?;
    match (response.status(), range) {
        (StatusCode::OK, None) => whole(response, part::BYTES_MAX).await.map(StoreReply::Done),
        (StatusCode::PARTIAL_CONTENT, Some(range)) => {
            let bytes = whole(response, range.end - range.start).await?;
            Ok(StoreReply::Done(bytes))
        }
        (StatusCode::RANGE_NOT_SATISFIABLE, Some(_)) => Ok(StoreReply::Done(Bytes::new())),
        // It may send all if that is what was asked for.
        (StatusCode::OK, Some(range)) if range.start == 0 => {
            whole(response, range.end).await.map(StoreReply::Done)
        }
        (StatusCode::NOT_FOUND, _) => Ok(StoreReply::NotFound),
        _ => Err(refusal(response).await),
    }
}

async fn put(
    session: &Session,
    worker: u64,
    key: &Key,
    bytes: Bytes,
) -> Result<StoreReply, CallFailure> {
    let length = bytes.len();
    let request = request(Method::PUT, worker, key)
        .header(CONTENT_LENGTH, length)
        .header(IF_NONE_MATCH, "*")
        .body(Body::new(Full::new(bytes)))
        .map_err(unbuilt)?;
    let sending = Duration::from_secs((length / PACE) as u64);
    let response = within(DURABLE + sending, session.send(request)).await?;
    match response.status() {
        StatusCode::CREATED | StatusCode::OK | StatusCode::NO_CONTENT => {
            Ok(StoreReply::Done(Bytes::new()))
        }
        StatusCode::PRECONDITION_FAILED => Ok(StoreReply::AlreadyExists),
        _ => Err(refusal(response).await),
    }
}

/// The failure that a refusal stands for, by its status.
async fn refusal(response: Response<Body>) -> CallFailure {
    let status = response.status();
    let has_expired = response.headers().contains_key(EXPIRED_HEADER);
    let reason = reason(response).await;
    match status {
        StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::TOO_MANY_REQUESTS
        | StatusCode::REQUEST_TIMEOUT => CallFailure::Busy(reason),
        StatusCode::UNAUTHORIZED if has_expired => CallFailure::Expired(reason),
        StatusCode::UNAUTHORIZED => CallFailure::Refused(reason),
        _ if status.is_client_error() => CallFailure::Unfit(reason),
        _ if status.is_server_error() => CallFailure::outage(reason),
        _ => CallFailure::Protocol(format!("it answers a request for an object with {status}")),
    }
}

/// The reason of a refusal, for people.
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
    let _ = tokio::time::timeout(PROGRESS, read).await;
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
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    let mut total = 0_u64;
    while let Some(frame) = within(PROGRESS, async { body.frame().await.transpose() }).await? {
        let Ok(data) = frame.into_data() else {
            continue;
        };
        total += data.len() as u64;
        if total > most {
            return Err(too_much());
        }
        if rest.is_empty() && first.is_empty() {
            first = data;
            continue;
        }
        if rest.is_empty() {
            rest.extend_from_slice(&first);
        }
        rest.extend_from_slice(&data);
    }
    if length.is_some_and(|length| length != total) {
        return Err(CallFailure::outage("the connection was cut"));
    }
    Ok(if rest.is_empty() {
        first
    } else {
        rest.freeze()
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
