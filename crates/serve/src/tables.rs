//! The list of finished tables, and their files, for everybody.
//!
//! | path | is |
//! |---|---|
//! | `/` | the tables: a JSON list of `{"bits": 32, "path": "/table-32/"}`, and of values `{"tiles": 82, "path": "/values-082/"}` |
//! | `/table-32/` | a page with links to the files of one, and its fingerprint |
//! | `/table-32/manifest.json`, `/table-32/SHA256SUMS`, `/table-32/shard-0000.zst`, … | the files of one |
//!
//! Files come with their SHA-256 as entity tag, whole or in part, and never compressed: they are.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use chomp_table::reader::TableName;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, ETAG, HeaderValue, REFERRER_POLICY, X_FRAME_OPTIONS,
};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};
use serde::Serialize;

use crate::answer::{HTML, JSON, TEXT, busy, json, problem, text};
use crate::body::of_file;
use crate::conditions::{Wanted, wanted};
use crate::damage_log::{DamageLog, damaged};
use crate::published::{Published, ServedFile, TableFile, Whole};

/// Names do not tell versions: a file of the same name may be another one day, a shard too. Who has
/// it asks with its tag, and is told in a few bytes that it is the same.
const CACHE: HeaderValue = HeaderValue::from_static("no-cache");

/// Nothing in a page comes from elsewhere, and nothing of it runs but its own files. No other page
/// shows it in a frame, where people would click what they do not see; and nothing that got into it
/// could change where its links begin, or send a form.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
);
/// Forbids frames in browsers that do not know that part of the policy.
const NO_FRAMES: HeaderValue = HeaderValue::from_static("DENY");

/// The finished tables in a directory, for everybody.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    published: Arc<Published>,
    damage_log: DamageLog,
}

/// A line of the list.
#[derive(Debug, Serialize)]
struct TableLine {
    #[serde(flatten)]
    table: TableName,
    path: String,
}

impl Tables {
    pub(crate) fn new(published: Arc<Published>, damage_log: DamageLog) -> Tables {
        Tables {
            published,
            damage_log,
        }
    }

    /// Whether there is a table to serve.
    pub(crate) async fn ready(State(tables): State<Tables>) -> Response {
        let published = Arc::clone(&tables.published);
        match tokio::task::spawn_blocking(move || published.has_any()).await {
            Ok(false) => busy("there is no finished table yet", 1),
            Ok(true) => text(StatusCode::OK, TEXT, "ready\n"),
            Err(panic) => tables.damage_log.broken(&panic.to_string()),
        }
    }

    /// The list of the tables.
    pub(crate) async fn list(&self) -> Response {
        let published = Arc::clone(&self.published);
        let listed = tokio::task::spawn_blocking(move || published.list()).await;
        let line = |table: TableName| TableLine {
            table,
            path: format!("/{}/", table.folder()),
        };
        match listed {
            Ok(tables) => json(
                StatusCode::OK,
                &tables.into_iter().map(line).collect::<Vec<_>>(),
            ),
            Err(panic) => self.damage_log.broken(&panic.to_string()),
        }
    }

    /// The file of a table that a request asks for.
    pub(crate) async fn file(State(tables): State<Tables>, request: Parts) -> Response {
        // The path as it was sent: what is there needs no escapes, so what has some is not there.
        let path = request.uri.path().to_owned();
        let published = Arc::clone(&tables.published);
        let found = tokio::task::spawn_blocking(move || {
            let Some((folder, name)) = path.strip_prefix('/').and_then(|path| path.split_once('/'))
            else {
                return Ok(None);
            };
            let found = published.file(folder, name);
            found.inspect_err(|error| published.log(error))
        });
        let headers = &request.headers;
        match found.await {
            Ok(Ok(None)) => nothing(),
            Ok(Ok(Some(TableFile::Index(page)))) => shown(&page, HTML, headers),
            Ok(Ok(Some(TableFile::Manifest(file)))) => whole(&file, JSON, headers),
            Ok(Ok(Some(TableFile::Sums(file)))) => whole(&file, TEXT, headers),
            Ok(Ok(Some(TableFile::Shard(shard)))) => tables.shard(shard, &request).await,
            Ok(Err(_)) => damaged(),
            Err(panic) => tables.damage_log.broken(&panic.to_string()),
        }
    }

    async fn shard(&self, shard: ServedFile, request: &Parts) -> Response {
        let (part, mut response) = head(&request.headers, &shard.etag, shard.bytes);
        describe_file(&mut response, "application/zstd");
        let Some(part) = part.filter(|_| request.method != Method::HEAD) else {
            return response;
        };
        let path = shard.path.clone();
        let opened = tokio::task::spawn_blocking(move || shard.open()).await;
        match opened.unwrap_or_else(|panic| Err(io::Error::other(panic))) {
            Ok(file) => {
                *response.body_mut() = Body::new(of_file(file, part));
                response
            }
            Err(error) => {
                let what = format!("{} cannot be read: {error}", path.display());
                self.damage_log.broken(&what)
            }
        }
    }
}

/// A small file, or the part of it that a request with these headers wants.
pub(crate) fn whole(file: &Whole, kind: &'static str, headers: &HeaderMap) -> Response {
    let (part, mut response) = head(headers, &file.etag, file.bytes.len() as u64);
    describe_file(&mut response, kind);
    if let Some(part) = part {
        let [start, end] = [part.start, part.end]
            .map(|at| usize::try_from(at).expect("within bytes that are in memory"));
        *response.body_mut() = Body::from(file.bytes.slice(start..end));
    }
    response
}

/// [`whole`] for a file that people look at: with the policy of pages.
pub(crate) fn shown(file: &Whole, kind: &'static str, headers: &HeaderMap) -> Response {
    let mut response = whole(file, kind, headers);
    let fields = response.headers_mut();
    fields.insert(CONTENT_SECURITY_POLICY, POLICY);
    fields.insert(X_FRAME_OPTIONS, NO_FRAMES);
    fields.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// The response to a request for a file, still without its bytes; which ones they are, if any.
fn head(headers: &HeaderMap, etag: &HeaderValue, bytes: u64) -> (Option<Range<u64>>, Response) {
    let mut response = Response::new(Body::empty());
    let (status, part, place) = match wanted(headers, etag, bytes) {
        Wanted::Nothing => (StatusCode::NOT_MODIFIED, None, None),
        Wanted::Whole => (StatusCode::OK, Some(0..bytes), None),
        Wanted::Part(part) => {
            let place = format!("bytes {}-{}/{bytes}", part.start, part.end - 1);
            (StatusCode::PARTIAL_CONTENT, Some(part), Some(place))
        }
        Wanted::Beyond => {
            let place = format!("bytes */{bytes}");
            (StatusCode::RANGE_NOT_SATISFIABLE, None, Some(place))
        }
    };
    *response.status_mut() = status;
    let fields = response.headers_mut();
    fields.insert(ETAG, etag.clone());
    if let Some(part) = &part {
        fields.insert(CONTENT_LENGTH, (part.end - part.start).into());
    }
    if let Some(place) = place {
        let place = HeaderValue::try_from(place).expect("digits may be in a header");
        fields.insert(CONTENT_RANGE, place);
    }
    (part, response)
}

fn describe_file(response: &mut Response, kind: &'static str) {
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, CACHE);
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
}

/// There is nothing at this path.
pub(crate) fn nothing() -> Response {
    problem(StatusCode::NOT_FOUND, "there is nothing here")
}
