//! The proxy: the objects of the store over HTTP, for workers that reach nothing else.
//!
//! | request | answer |
//! |---|---|
//! | `GET /objects/<key>`, all of it or one range of bytes | 200, 206; 404 if it is not there, 416 if it ends before the range |
//! | `PUT /objects/<key>` with a length, `If-None-Match: *`, and the worker | 201; 412 if it is there already, 403 if it is not that worker's to write, 413 if it is longer than what is leased |
//!
//! Nothing is decoded on the way. A worker reads what tasks need: the journal, the parts that it
//! names, the shards of the job's table. It writes the part of an evaluation that is leased to it, and a shard whose merge is.
//! The job is asked about that before the first byte is read, and when the last one is there: meanwhile others may have
//! done the work, and what they have put must stay.
//!
//! Transfers are limited in number and in memory for the objects under way, for all together and, lower, for each
//! participant, wherever its workers are. A request that waits too long for its turn is told to come back (503), and a
//! transfer that is slower than the pace for all peers is broken off.

mod answers;
mod outgoing;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use bytes::{Bytes, BytesMut};
use chomp_plan::{ParticipantId, WorkerId};
use chomp_proto::{OBJECTS_PATH, WORKER_HEADER};
use chomp_serve::answer::problem;
use chomp_serve::net::Limit;
use chomp_store::{FaultKind, Key, PartName, Storage, StorageError, StoreError, part, published};
use chomp_table::format::describe;
use chomp_table::manifest::MANIFEST_NAME;
use chomp_table::shard::shard_name;
use http::header::{CONTENT_LENGTH, IF_NONE_MATCH, RANGE};
use http::{HeaderMap, Request, StatusCode};
use hyper::body::Body as _;
use tokio::time::timeout;
use tokio_stream::StreamExt;

use crate::http::metrics::Traffic;
use crate::job::{Handle, PutRefused, PutTarget, Transfer};
use crate::roster::Bearer;
use crate::shares::{Share, Shares};
use answers::{Asked, busy, empty, failed, partial, whole};
use outgoing::outgoing;

/// The transfers at a time. More would only share the same network. Each that reads an object has a
/// chunk of it in memory, and two pieces.
pub(crate) const TRANSFERS: Limit = Limit { all: 64, each: 24 };
/// The requests that wait for their turn.
pub(crate) const WAITING: Limit = Limit {
    all: 4096,
    each: 1024,
};
/// The bytes of all bodies that are being put, in KiB. A body larger than what one participant gets is large: one of
/// these is put at a time, and others do not wait for it.
pub(crate) const BODIES_KIB: Limit = Limit {
    all: 128 << 10,
    each: 48 << 10,
};
const KIB: u64 = 1 << 10;
/// The bytes of an object that are read at a time.
const CHUNK_BYTES: u64 = 1 << 20;
/// How long a request waits for its turn.
const TURN_TIME: Duration = Duration::from_secs(30);
/// How long a body may take from its first byte to its last, however large.
const BODY_TIME: Duration = Duration::from_mins(10);

/// The path of the route.
pub(crate) const ROUTE: &str = "/objects/{*key}";

/// Tells whether the journal knows an object.
#[derive(Clone)]
struct Names(Arc<dyn Fn(&Key) -> bool + Send + Sync>);

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Names(..)")
    }
}

/// The proxy of one store. Clones share all.
#[derive(Clone, Debug)]
pub(crate) struct Proxy {
    storage: Arc<dyn Storage>,
    handle: Handle,
    /// Whether the journal knows this object.
    names: Names,
    /// The folder of the table.
    folder: Arc<str>,
    traffic: Arc<Traffic>,
    waiting: Shares,
    transfers: Shares,
    memory: Shares,
    large: Shares,
}

impl Proxy {
    /// The proxy of the job behind `handle`, whose journal names these objects, and whose table will be in this folder.
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        handle: Handle,
        names: impl Fn(&Key) -> bool + Send + Sync + 'static,
        folder: &str,
    ) -> Proxy {
        Proxy {
            storage,
            handle,
            names: Names(Arc::new(names)),
            folder: folder.into(),
            traffic: Arc::default(),
            waiting: Shares::new(WAITING),
            transfers: Shares::new(TRANSFERS),
            memory: Shares::new(BODIES_KIB),
            large: Shares::new(Limit { all: 1, each: 1 }),
        }
    }

    /// The store.
    pub(crate) fn storage(&self) -> Arc<dyn Storage> {
        Arc::clone(&self.storage)
    }

    /// The bytes that went through it.
    pub(crate) fn traffic(&self) -> Arc<Traffic> {
        Arc::clone(&self.traffic)
    }

    /// Its route and what answers there.
    pub(crate) fn route(&self) -> (&'static str, MethodRouter) {
        let methods = get(give).put(take).with_state(self.clone());
        (ROUTE, methods)
    }

    /// Whether workers read this object: it is one that the journal knows, or one of the table of the job.
    fn may_read(&self, key: &Key) -> bool {
        let of_table = published::key(&self.folder, MANIFEST_NAME);
        let is_manifest = of_table.is_ok_and(|manifest| manifest == *key);
        match target_of(key, &self.folder) {
            Some(PutTarget::Shard(_)) => true,
            _ => is_manifest || (self.names.0)(key),
        }
    }

    /// The answer to a request for which the storage failed. A storage that does not work ends the job.
    fn failed(&self, error: StorageError) -> Response {
        let answer = failed(&error);
        if !matches!(error.problem.fault(), None | Some(FaultKind::Damage)) {
            self.handle.fail(error);
        }
        answer
    }

    /// The right to transfer, once it is the participant's turn.
    async fn turn(&self, participant: ParticipantId) -> Option<Share> {
        let _waits = self.waiting.take(participant, 1, Duration::ZERO).await?;
        self.transfers.take(participant, 1, TURN_TIME).await
    }

    /// Asks the job whether a worker may put an object of `length` bytes now.
    async fn begin_put(
        &self,
        worker: WorkerId,
        target: PutTarget,
        length: u64,
    ) -> Result<Transfer, Response> {
        match self.handle.begin_put(worker, target, length).await {
            Ok(Ok(transfer)) => Ok(transfer),
            Ok(Err(refused)) => {
                let status = match refused {
                    PutRefused::NoLease => StatusCode::FORBIDDEN,
                    PutRefused::TooLong { .. } => StatusCode::PAYLOAD_TOO_LARGE,
                };
                Err(problem(status, &refused.to_string()))
            }
            Err(refused) => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                Err(problem(status, &refused.to_string()))
            }
        }
    }

    /// The memory for a body of `bytes` bytes, once it is free.
    async fn memory(&self, participant: ParticipantId, bytes: u64) -> Option<Share> {
        let kib = bytes.div_ceil(KIB).max(1);
        let (shares, count) = match u32::try_from(kib) {
            Ok(kib) if kib <= BODIES_KIB.each => (&self.memory, kib),
            _ => (&self.large, 1),
        };
        shares.take(participant, count, TURN_TIME).await
    }
}

/// The key that a request names.
fn key_of(request: &Request<Body>) -> Option<Key> {
    Key::new(request.uri().path().strip_prefix(OBJECTS_PATH)?).ok()
}

async fn give(State(proxy): State<Proxy>, request: Request<Body>) -> Response {
    let Some(&Bearer(participant)) = request.extensions().get::<Bearer>() else {
        return problem(StatusCode::UNAUTHORIZED, "no token");
    };
    let key = key_of(&request).filter(|key| proxy.may_read(key));
    let Some(key) = key else {
        return problem(StatusCode::FORBIDDEN, "workers have no use for this object");
    };
    if !proxy.storage.is_only_here(&key).await {
        let what = "it has another name too (a hard link), so it may be a file from elsewhere: copy the table's directory \
                    without such links";
        return problem(StatusCode::FORBIDDEN, what);
    }
    let Some(asked) = Asked::of(request.headers().get(RANGE)) else {
        return problem(
            StatusCode::BAD_REQUEST,
            "one range, as bytes=FIRST-LAST or bytes=FIRST-",
        );
    };
    let Some(turn) = proxy.turn(participant).await else {
        return busy();
    };
    let range = asked.range();
    let first = chunk(&range);
    let start = match proxy.storage.read_at(&key, first.clone()).await {
        Ok(start) => start,
        Err(error) => return proxy.failed(error),
    };
    if asked != Asked::All && start.is_empty() {
        return empty();
    }
    let count = start.len() as u64;
    let ends = count < first.end - first.start || first.end == range.end;
    let exact = if ends {
        Some(count)
    } else {
        // Whether the last byte is there tells whether all are.
        let last = range.end - 1..range.end;
        match proxy.storage.read_at(&key, last).await {
            Ok(last) => (!last.is_empty()).then(|| range.end - range.start),
            Err(error) => return proxy.failed(error),
        }
    };
    let rest = if ends {
        0..0
    } else {
        range.start + count..range.end
    };
    let body = outgoing(&proxy, key, start, rest, exact, turn);
    match asked {
        Asked::All => whole(body, exact),
        // The object ends before the range: this is all of it.
        _ if range.start == 0 && exact.is_none() => whole(body, None),
        _ => partial(body, &range, exact),
    }
}

/// The first bytes of a range that are read at a time.
fn chunk(range: &Range<u64>) -> Range<u64> {
    range.start..range.end.min(range.start.saturating_add(CHUNK_BYTES))
}

async fn take(State(proxy): State<Proxy>, request: Request<Body>) -> Response {
    let (target, key, worker, length) = match judge(&proxy, &request) {
        Ok(judged) => judged,
        Err((status, what)) => return problem(status, what),
    };
    let Some(turn) = proxy.turn(worker.participant).await else {
        return busy();
    };
    let transfer = match proxy.begin_put(worker, target, length).await {
        Ok(transfer) => transfer,
        Err(refused) => return refused,
    };
    let Some(memory) = proxy.memory(worker.participant, length).await else {
        return busy();
    };
    let read = read(&proxy, request.into_body(), length);
    let bytes = match timeout(BODY_TIME, read).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err((status, what))) => return problem(status, what),
        Err(_) => return problem(StatusCode::REQUEST_TIMEOUT, "the body took too long"),
    };
    if let Err(refused) = proxy.begin_put(worker, target, length).await {
        return refused;
    }
    let put = match target {
        PutTarget::Part(_) => proxy
            .storage
            .create(&key, bytes)
            .await
            .map_err(StoreError::from),
        PutTarget::Shard(_) => published::put(&*proxy.storage, &proxy.folder, &key, bytes).await,
    };
    drop((turn, memory, transfer));
    match put {
        Ok(()) => answers::created(),
        Err(StoreError::Storage(error)) => proxy.failed(error),
        Err(error) => problem(StatusCode::PRECONDITION_FAILED, &describe(&error)),
    }
}

type Refused = (StatusCode, &'static str);

/// The object that a request puts, and for which worker; or why no worker may ask for that.
fn judge(
    proxy: &Proxy,
    request: &Request<Body>,
) -> Result<(PutTarget, Key, WorkerId, u64), Refused> {
    let headers = request.headers();
    let key = key_of(request);
    let target = key.and_then(|key| Some((target_of(&key, &proxy.folder)?, key)));
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
    let caller = request.extensions().get::<Bearer>();
    let &Bearer(participant) = caller.ok_or((StatusCode::UNAUTHORIZED, "no token"))?;
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
    let digits = value.bytes().all(|byte| byte.is_ascii_digit());
    (values.next().is_none() && digits).then(|| value.parse().ok())?
}

/// The part or shard that `key` names, if it names one; the job's table will be in `folder`.
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

/// Reads a body of `length` bytes.
async fn read(proxy: &Proxy, body: Body, length: u64) -> Result<Bytes, Refused> {
    let wrong = (
        StatusCode::BAD_REQUEST,
        "the body is not as long as was said",
    );
    let mut bytes = BytesMut::with_capacity(usize::try_from(length).map_err(|_| wrong)?);
    let mut body = body.into_data_stream();
    while let Some(data) = body.next().await {
        // The connection ends one that is too slow; its worker tries again.
        let broken = "the body was broken off, or came too slowly";
        let data = data.map_err(|_| (StatusCode::REQUEST_TIMEOUT, broken))?;
        if (bytes.len() + data.len()) as u64 > length {
            return Err(wrong);
        }
        let submitted = &proxy.traffic.submitted;
        submitted.fetch_add(data.len() as u64, Ordering::Relaxed);
        bytes.extend_from_slice(&data);
    }
    if bytes.len() as u64 == length {
        Ok(bytes.freeze())
    } else {
        Err(wrong)
    }
}
