//! The relay: the objects of the store over HTTP, for workers that cannot reach the store.
//!
//! | request | answer |
//! |---|---|
//! | `GET /objects/<key>`, all of it or one range of bytes | 200, 206; 404 if it is not there, 416 if it ends before the range |
//! | `PUT /objects/<key>` with a length, `If-None-Match: *`, and the worker | 201; 412 if it is there already, 403 if it is not that worker's to write, 413 if it is longer than what is leased |
//!
//! Nothing is decoded on the way. A worker reads what tasks need: the journal, the parts that it names, the shards of
//! the job's table. It may write the part of an evaluation, or the shard of a merge, for which it holds the lease. The
//! relay asks the job for permission before it reads the first byte of a body, and again after the last one. The lease
//! may have ended meanwhile, and an object that another worker has written must stay.
//!
//! Transfers are limited in number, and in memory for the bodies under way. Each participant leaves room for those of
//! others. A request that waits too long for its turn is told to come back (503).

#[cfg(test)]
mod tests;

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use bytes::{Bytes, BytesMut};
use chomp_plan::{ParticipantId, WorkerId};
use chomp_proto::{OBJECTS_PATH, WORKER_HEADER};
use chomp_serve::answer::problem;
use chomp_serve::net::{Share, Shares, holding};
use chomp_serve::{BodyChunk, ChunkBody};
use chomp_store::{
    FaultKind, Key, PartName, Storage, StorageError, StorageProblem, StoreError, part, published,
};
use chomp_table::format::describe;
use chomp_table::manifest::MANIFEST_NAME;
use chomp_table::shard::shard_name;
use http::header::HeaderValue;
use http::header::{
    CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, IF_NONE_MATCH, RANGE, RETRY_AFTER,
};
use http::{HeaderMap, Request, StatusCode};
use hyper::body::Body as _;
use tokio::sync::{RwLock, Semaphore, SemaphorePermit, mpsc};
use tokio::time::timeout;
use tokio_stream::StreamExt;

use crate::auth::OBJECTS;
use crate::error::{JobError, ends_job};
use crate::job::{Job, JobHandle, PutGuard, PutRefused, PutTarget};
use crate::pages::Traffic;
use crate::participants::{AuthenticatedParticipant, spare};

/// The transfers at a time. More would only share the same network. Each that reads an object has a
/// chunk of it in memory, and two pieces.
pub(crate) const TRANSFERS_MAX: usize = 64;
/// The requests that wait for their turn.
pub(crate) const WAITING_MAX: usize = 4096;
/// The bytes of all bodies that are being put: the largest takes all.
pub(crate) const BODIES_BYTES: u32 = 256 << 20;
const _: () = assert!(BODIES_BYTES as u64 == part::BYTES_MAX);
/// The bytes of an object that are read at a time.
const CHUNK_BYTES: u64 = 1 << 20;
/// The bytes handed to the body at a time, an eighth of a chunk: so the next chunk is read when the worker has taken
/// nearly all of the last one.
const PIECE_BYTES: usize = 128 << 10;
/// How long a request waits for its turn.
pub(crate) const TURN_TIME: Duration = Duration::from_secs(30);
/// How long a body may take from its first byte to its last, however large.
pub(crate) const BODY_TIME: Duration = Duration::from_mins(10);

/// The relay of one store. Clones share all.
#[derive(Clone)]
pub(crate) struct Relay {
    pub(crate) storage: Arc<dyn Storage>,
    handle: JobHandle,
    /// Whether the journal refers to this object.
    refers_to: Arc<dyn Fn(&Key) -> bool + Send + Sync>,
    folder: Arc<str>,
    pub(crate) traffic: Arc<Traffic>,
    waiting: Shares<ParticipantId>,
    transfers: Shares<ParticipantId>,
    memory: Arc<Semaphore>,
    /// That of [`Tools`](crate::tools::Tools).
    shard_puts: Arc<RwLock<()>>,
}

impl Relay {
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        handle: JobHandle,
        refers_to: impl Fn(&Key) -> bool + Send + Sync + 'static,
        folder: &str,
        shard_puts: Arc<RwLock<()>>,
    ) -> Relay {
        Relay {
            storage,
            handle,
            refers_to: Arc::new(refers_to),
            folder: folder.into(),
            traffic: Arc::default(),
            waiting: Shares::new(WAITING_MAX),
            transfers: Shares::new(TRANSFERS_MAX),
            memory: Arc::new(Semaphore::new(BODIES_BYTES as usize)),
            shard_puts,
        }
    }

    pub(crate) fn route(&self) -> (&'static str, MethodRouter) {
        let methods = get(get_object).put(put_object).with_state(self.clone());
        (OBJECTS, methods)
    }

    /// Whether workers read this object: it is one that the journal knows, or one of the table of the job.
    fn may_read(&self, key: &Key) -> bool {
        let of_table = published::key(&self.folder, MANIFEST_NAME);
        let is_manifest = of_table.is_ok_and(|manifest| manifest == *key);
        match target_of(key, &self.folder) {
            Some(PutTarget::Shard(_)) => true,
            _ => is_manifest || (self.refers_to)(key),
        }
    }

    /// The answer to a request for which the storage failed. A storage that does not work ends the job.
    fn failed(&self, error: StorageError) -> Response {
        let answer = failed(&error);
        if ends_job(&error) {
            let fault = JobError::Store(error.into());
            // It fails only if the job is over, and there is nothing to end then.
            self.handle.send(|job| job.fail(fault)).unwrap_or(());
        }
        answer
    }

    async fn turn(&self, of: ParticipantId) -> Result<Share<ParticipantId>, Response> {
        let waits = self.waiting.take(of, 1, spare(of, WAITING_MAX));
        let _waits = waits.ok_or_else(busy)?;
        let turn = self.transfers.turn(of, spare(of, TRANSFERS_MAX));
        timeout(TURN_TIME, turn).await.map_err(|_| busy())
    }

    async fn authorize_put(
        &self,
        worker: WorkerId,
        target: PutTarget,
        length: u64,
    ) -> Result<PutGuard, Response> {
        let put = move |job: &mut Job| job.authorize_put(worker, target, length);
        let begun = self.handle.ask(put).await;
        begun
            .map_err(PutRefused::from)
            .flatten()
            .map_err(|refused| {
                let status = match refused {
                    PutRefused::NoLease => StatusCode::FORBIDDEN,
                    PutRefused::TooLong { .. } => StatusCode::PAYLOAD_TOO_LARGE,
                    PutRefused::Refused(_) => StatusCode::SERVICE_UNAVAILABLE,
                };
                problem(status, &refused.to_string())
            })
    }

    async fn read_at(&self, key: &Key, range: Range<u64>) -> Result<Bytes, Response> {
        let read = self.storage.read_unaliased(key, range).await;
        read.map_err(|error| self.failed(error))
    }
}

async fn acquire(of: &Semaphore, permits: u32) -> Result<SemaphorePermit<'_>, Response> {
    let acquired = of.acquire_many(permits);
    let acquired = timeout(TURN_TIME, acquired).await.map_err(|_| busy())?;
    Ok(acquired.expect("it is never closed"))
}

fn key_of(request: &Request<Body>) -> Option<Key> {
    Key::new(request.uri().path().strip_prefix(OBJECTS_PATH)?).ok()
}

async fn get_object(
    State(relay): State<Relay>,
    Extension(AuthenticatedParticipant(caller)): Extension<AuthenticatedParticipant>,
    request: Request<Body>,
) -> Result<Response, Response> {
    let key = key_of(&request).filter(|key| relay.may_read(key));
    let key =
        key.ok_or_else(|| problem(StatusCode::FORBIDDEN, "workers have no use for this object"))?;
    let header = request.headers().get(RANGE);
    let range = asked(header).ok_or_else(|| {
        let what = "one range, as bytes=FIRST-LAST";
        problem(StatusCode::BAD_REQUEST, what)
    })?;
    let turn = relay.turn(caller).await?;
    let asked = chunk(&range);
    let first = relay.read_at(&key, asked.clone()).await?;
    if header.is_some() && first.is_empty() {
        let what = "the object ends before that";
        return Err(problem(StatusCode::RANGE_NOT_SATISFIABLE, what));
    }
    let read = asked.start + first.len() as u64;
    // The size of an object that goes on beyond the first chunk is not known yet, so the answer names the end that was
    // asked for.
    let ends = read < asked.end || asked.end == range.end;
    let exact = ends.then_some(first.len() as u64);
    let rest = if ends { read..read } else { read..range.end };
    let named = header.map(|_| format!("bytes {}-{}/*", range.start, rest.end - 1));
    let body = ChunkBody::new(exact, {
        let relay = relay.clone();
        async move |chunks| relay.send(&key, first, rest, &chunks).await
    });
    let answer = bytes_answer(body, named, exact);
    Ok(answer.map(|body| holding(body, turn)))
}

fn chunk(range: &Range<u64>) -> Range<u64> {
    range.start..range.end.min(range.start.saturating_add(CHUNK_BYTES))
}

/// The bytes that a request with this `Range` header asks for; none if the relay does not understand it.
fn asked(range: Option<&HeaderValue>) -> Option<Range<u64>> {
    let Some(range) = range else {
        return Some(0..u64::MAX);
    };
    let range = range.to_str().ok()?.strip_prefix("bytes=")?;
    let (first, last) = range.split_once('-')?;
    let first = digits(first)?;
    let end = digits(last)?.checked_add(1)?;
    (first < end).then_some(first..end)
}

fn digits(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}

impl Relay {
    /// `first` was read already; `rest` may go beyond the object's end. A read error ends the body with an error.
    async fn send(
        &self,
        key: &Key,
        first: Bytes,
        mut rest: Range<u64>,
        to: &mpsc::Sender<BodyChunk>,
    ) {
        let mut bytes = first;
        loop {
            let fetched = &self.traffic.fetched;
            fetched.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            while !bytes.is_empty() {
                let piece = bytes.split_to(bytes.len().min(PIECE_BYTES));
                if to.send(Ok(piece)).await.is_err() {
                    tracing::debug!("a worker takes no more of {key}");
                    return;
                }
            }
            if rest.is_empty() {
                break;
            }
            let range = chunk(&rest);
            bytes = match self.storage.read_unaliased(key, range.clone()).await {
                Ok(bytes) => bytes,
                Err(error) => {
                    tracing::warn!("an object that a worker reads cannot be read: {error}");
                    drop(to.send(Err(io::Error::other(error))).await);
                    return;
                }
            };
            let is_cut = (bytes.len() as u64) < range.end - range.start;
            rest.start = if is_cut { rest.end } else { range.end };
        }
        // An empty chunk marks the end of the object: without it the transfer counts as broken off.
        drop(to.send(Ok(Bytes::new())).await);
    }
}

/// The answer with an object, or with a range of its bytes if there is `named`, the text of the `Content-Range` header.
fn bytes_answer(body: ChunkBody, named: Option<String>, exact: Option<u64>) -> Response {
    let mut response = Response::new(Body::new(body));
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("application/octet-stream");
    headers.insert(CONTENT_TYPE, kind);
    if let Some(exact) = exact {
        headers.insert(CONTENT_LENGTH, exact.into());
    }
    if let Some(named) = named {
        let named = named.try_into().expect("digits and signs");
        headers.insert(CONTENT_RANGE, named);
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    response
}

async fn put_object(
    State(relay): State<Relay>,
    Extension(caller): Extension<AuthenticatedParticipant>,
    request: Request<Body>,
) -> Result<Response, Response> {
    let refused = |(status, what): Refused| problem(status, what);
    let judged = judge(&relay, caller, &request);
    let (target, key, worker, length) = judged.map_err(refused)?;
    let turn = relay.turn(worker.participant).await?;
    let guard = relay.authorize_put(worker, target, length).await?;
    let bytes = u32::try_from(length).expect("no larger than a part");
    let memory = acquire(&relay.memory, bytes).await?;
    let read = read(&relay, request.into_body(), length);
    let late = (StatusCode::REQUEST_TIMEOUT, "the body took too long");
    let read = timeout(BODY_TIME, read).await.unwrap_or(Err(late));
    let bytes = read.map_err(refused)?;
    let _before_publication = match target {
        PutTarget::Part(_) => None,
        PutTarget::Shard(_) => Some(relay.shard_puts.read().await),
    };
    relay.authorize_put(worker, target, length).await?;
    let put = match target {
        PutTarget::Part(_) => relay
            .storage
            .create(&key, bytes)
            .await
            .map_err(StoreError::from),
        PutTarget::Shard(_) => published::put(&*relay.storage, &relay.folder, &key, bytes).await,
    };
    drop((turn, memory, guard));
    match put {
        Ok(()) => Ok(StatusCode::CREATED.into_response()),
        Err(StoreError::Storage(error)) => Err(relay.failed(error)),
        Err(error) => Err(problem(StatusCode::PRECONDITION_FAILED, &describe(&error))),
    }
}

type Refused = (StatusCode, &'static str);

/// The object that a request puts, and for which worker; or why no worker may ask for that.
fn judge(
    relay: &Relay,
    AuthenticatedParticipant(participant): AuthenticatedParticipant,
    request: &Request<Body>,
) -> Result<(PutTarget, Key, WorkerId, u64), Refused> {
    let headers = request.headers();
    let key = key_of(request);
    let target = key.and_then(|key| Some((target_of(&key, &relay.folder)?, key)));
    let (target, key) = target.ok_or((
        StatusCode::FORBIDDEN,
        "workers write the parts and shards of their leases, and nothing else",
    ))?;
    if headers.get(IF_NONE_MATCH).is_none_or(|value| value != "*") {
        let what = "objects are never overwritten: say If-None-Match: *";
        return Err((StatusCode::PRECONDITION_REQUIRED, what));
    }
    let number_of_worker = number(headers, WORKER_HEADER);
    let number_of_worker = number_of_worker.ok_or((
        StatusCode::BAD_REQUEST,
        "the header chomp-worker is missing",
    ))?;
    let worker = WorkerId {
        participant,
        number: number_of_worker,
    };
    let length = number(headers, CONTENT_LENGTH.as_str());
    let length = length.or_else(|| request.body().size_hint().exact());
    let length = length.ok_or((StatusCode::LENGTH_REQUIRED, "the length is missing"))?;
    if length > part::BYTES_MAX {
        return Err((
            StatusCode::PAYLOAD_TOO_LARGE,
            "no part and no shard is so large",
        ));
    }
    Ok((target, key, worker, length))
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    let is_only = values.next().is_none();
    digits(value).filter(|_| is_only)
}

fn target_of(key: &Key, folder: &str) -> Option<PutTarget> {
    if let Some(name) = PartName::of(key) {
        return Some(PutTarget::Part(name));
    }
    let name = key.as_str().strip_prefix(folder)?.strip_prefix('/')?;
    let number = name.strip_prefix("shard-")?.strip_suffix(".zst")?;
    let number: u32 = number.parse().ok()?;
    let is_name = usize::try_from(number).is_ok_and(|number| shard_name(number) == name);
    is_name.then_some(PutTarget::Shard(number))
}

async fn read(relay: &Relay, body: Body, length: u64) -> Result<Bytes, Refused> {
    let wrong = (
        StatusCode::BAD_REQUEST,
        "the body is not as long as was said",
    );
    let mut bytes = BytesMut::with_capacity(usize::try_from(length).map_err(|_| wrong)?);
    let mut body = body.into_data_stream();
    while let Some(data) = body.next().await {
        let broken = "the body was broken off";
        let data = data.map_err(|_| (StatusCode::REQUEST_TIMEOUT, broken))?;
        if (bytes.len() + data.len()) as u64 > length {
            return Err(wrong);
        }
        let submitted = &relay.traffic.submitted;
        submitted.fetch_add(data.len() as u64, Ordering::Relaxed);
        bytes.extend_from_slice(&data);
    }
    if bytes.len() as u64 == length {
        Ok(bytes.freeze())
    } else {
        Err(wrong)
    }
}

/// The answer to a request that gets no turn or no memory in time, or that comes while `WAITING_MAX` others wait.
fn busy() -> Response {
    let what = "too much is being transferred: try again";
    let mut response = problem(StatusCode::SERVICE_UNAVAILABLE, what);
    response
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

fn failed(error: &StorageError) -> Response {
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
