//! The list of finished tables, and their files, for everybody.
//!
//! | path | is |
//! |---|---|
//! | `/` | the tables: a JSON list of `{"bits": 32, "path": "/table-32/"}`, and of values `{"tiles": 82, "path": "/values-082/"}` |
//! | `/table-32/` | a page with links to the files of one, and its fingerprint |
//! | `/table-32/manifest.json`, `/table-32/SHA256SUMS`, `/table-32/shard-0000.zst`, … | the files of one |
//!
//! Files come with their SHA-256 as entity tag, whole or in part, and never compressed: they are.

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

use crate::answer::{HTML, JSON, TEXT, json, text};
use crate::body::of_file;
use crate::conditions::{Wanted, wanted};
use crate::lookups::blocking;
use crate::published::{Published, ServedFile, TableFile, Whole};
use crate::refusal::Refusal;

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
    pub(crate) published: Arc<Published>,
}

/// A finished table in the list. A table of losing positions has `bits`, a table of values `tiles`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct TableLine {
    #[serde(flatten)]
    #[cfg_attr(test, schemars(with = "crate::tests::description::TableSize"))]
    table: TableName,
    /// The path of the folder with its files.
    path: String,
}

impl Tables {
    /// Whether there is a table to serve.
    pub(crate) async fn ready(State(tables): State<Tables>) -> Result<Response, Refusal> {
        if tables.aside(Published::has_any).await? {
            Ok(text(StatusCode::OK, TEXT, "ready\n"))
        } else {
            Err(Refusal::NotNow("there is no finished table yet", 1))
        }
    }

    /// The list of the tables.
    pub(crate) async fn list(&self) -> Result<Response, Refusal> {
        let line = |table: TableName| TableLine {
            table,
            path: format!("/{}/", table.folder()),
        };
        let tables = self.aside(Published::list).await?;
        Ok(json(&tables.into_iter().map(line).collect::<Vec<_>>()))
    }

    /// The file of a table that a request asks for.
    pub(crate) async fn file(
        State(tables): State<Tables>,
        request: Parts,
    ) -> Result<Response, Refusal> {
        // The path as it was sent: what is there needs no escapes, so what has some is not there.
        let path = request.uri.path().to_owned();
        let find = move |published: &Published| {
            let path = path.strip_prefix('/').and_then(|path| path.split_once('/'));
            let (folder, name) = path.ok_or(Refusal::Nothing)?;
            published.file(folder, name)
        };
        let headers = &request.headers;
        Ok(match tables.aside(find).await?? {
            TableFile::Index(page) => shown(&page, HTML, headers),
            TableFile::Manifest(file) => whole(&file, JSON, headers),
            TableFile::Sums(file) => whole(&file, TEXT, headers),
            TableFile::Shard(shard) => tables.shard(shard, &request).await?,
        })
    }

    async fn shard(&self, shard: ServedFile, request: &Parts) -> Result<Response, Refusal> {
        let kind = "application/zstd";
        let (part, mut response) = head(&request.headers, &shard.etag, shard.bytes, kind);
        let Some(part) = part.filter(|_| request.method != Method::HEAD) else {
            return Ok(response);
        };
        let open = move |published: &Published| {
            shard.open().map_err(|error| {
                let path = shard.path.display();
                let what = format!("{path} cannot be read: {error}");
                published.damage_log.damaged(&what)
            })
        };
        *response.body_mut() = Body::new(of_file(self.aside(open).await??, part));
        Ok(response)
    }

    /// Works on a thread that may wait for the disk.
    async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Published) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let published = Arc::clone(&self.published);
        blocking(move || work(&published)).await
    }
}

/// A small file, or the part of it that a request with these headers wants.
pub(crate) fn whole(file: &Whole, kind: &'static str, headers: &HeaderMap) -> Response {
    let (part, mut response) = head(headers, &file.etag, file.bytes.len() as u64, kind);
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
fn head(
    headers: &HeaderMap,
    etag: &HeaderValue,
    bytes: u64,
    kind: &'static str,
) -> (Option<Range<u64>>, Response) {
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
    fields.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    fields.insert(CACHE_CONTROL, CACHE);
    fields.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if let Some(part) = &part {
        fields.insert(CONTENT_LENGTH, (part.end - part.start).into());
    }
    if let Some(place) = place {
        let place = HeaderValue::try_from(place).expect("digits may be in a header");
        fields.insert(CONTENT_RANGE, place);
    }
    (part, response)
}
