//! The list of finished tables, and their files, for everybody.
//!
//! | path | is |
//! |---|---|
//! | `/` | the tables: a JSON list of `{"bits": 32, "path": "/table-32/"}`, and of values `{"tiles": 82, "path": "/values-082/"}` |
//! | `/table-32/` | a page with links to the files of the table, and its fingerprint |
//! | `/table-32/manifest.json`, `/table-32/SHA256SUMS`, `/table-32/shard-0000.zst`, … | the files of the table |
//!
//! Files come with their SHA-256 as entity tag, whole or in part. They are not compressed on the way, as shards are
//! compressed already.

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use chomp_table::reader::TableName;
use http::header::LOCATION;
use http::request::Parts;
use http::{Method, StatusCode};
use serde::Serialize;

use crate::answer::{Refusal, TEXT, json, text};
use crate::files::{ChunkBody, response_for};
use crate::published::{Published, TableFile};
use crate::site::Site;

/// A finished table in the list. A table of losing positions has `bits`, a table of values `tiles`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "TableLine"))]
pub(crate) struct TableEntry {
    #[serde(flatten)]
    #[cfg_attr(test, schemars(with = "crate::tests::description::TableSize"))]
    table: TableName,
    /// The path of the folder with its files.
    path: String,
}

/// Answers 200 if a table answers questions, or else the reason why the one of losing positions does not.
pub(crate) async fn ready(State(site): State<Site>) -> Result<Response, Refusal> {
    let losing = site.current.losing().map(drop);
    losing.or_else(|why| site.current.values().map(drop).map_err(|_| why))?;
    Ok(text(StatusCode::OK, TEXT, "ready\n"))
}

pub(crate) async fn list(site: &Site) -> Result<Response, Refusal> {
    let entry = |table: TableName| TableEntry {
        table,
        path: format!("/{}/", table.folder()),
    };
    let list = move |published: &Published| published.finished().map(entry).collect::<Vec<_>>();
    Ok(json(&site.read(list).await?))
}

/// Redirects to the same path with a slash at its end. The address is relative, as a proxy may put the server below a
/// path.
pub(crate) async fn folder(State(site): State<Site>, request: Parts) -> Result<Response, Refusal> {
    let folder = request.uri.path().trim_start_matches('/').to_owned();
    let location = [(LOCATION, format!("{folder}/"))];
    site.read(move |published| published.file(&folder, ""))
        .await??;
    Ok((StatusCode::PERMANENT_REDIRECT, location).into_response())
}

pub(crate) async fn file(State(site): State<Site>, request: Parts) -> Result<Response, Refusal> {
    // The path is not decoded: no name of a file needs escapes.
    let path = request.uri.path().to_owned();
    let find = move |published: &Published| {
        let path = path.strip_prefix('/').and_then(|path| path.split_once('/'));
        let (folder, name) = path.ok_or(Refusal::Nothing)?;
        published.file(folder, name)
    };
    let shard = match site.read(find).await?? {
        TableFile::Small(file) => return Ok(file.answer(&request.headers)),
        TableFile::Shard(shard) => shard,
    };
    let kind = "application/zstd";
    let (part, mut response) = response_for(&request.headers, shard.sha256, shard.bytes, kind);
    if let Some(part) = part.filter(|_| request.method != Method::HEAD) {
        let open = move |published: &Published| {
            let opened = shard.open();
            opened.map_err(|error| published.log_unreadable(&shard.path, &error))
        };
        let file = site.read(open).await??;
        *response.body_mut() = Body::new(ChunkBody::of_file(file, part));
    }
    Ok(response)
}
