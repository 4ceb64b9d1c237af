//! `chomp serve`: serves finished tables as files, answers and pages.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use anyhow::Context;
use chomp_serve::net::limits::REQUESTS_A_SECOND;
use chomp_serve::net::{Endpoint, Limit, Limits, Server};
use chomp_serve::{Site, SiteOptions};
use chomp_table::reader::{AnyTable, CACHE_BYTES, TableName, locate};
use chomp_table::{Digest, TableError};
use serde::Serialize;
use tokio::net::TcpListener;

use crate::args::{ServeArgs, TablePlace};
use crate::download;
use crate::exit::{Exit, usage};
use crate::machine;
use crate::progress::Display;
use crate::signals::stop_on_signals;

/// The tables that are served, and the address.
#[derive(Debug, Serialize)]
struct Served<'a> {
    url: &'a str,
    #[serde(flatten)]
    first: Option<&'a First>,
}

/// The table that is served, or the first of them.
#[derive(Debug, Serialize)]
struct First {
    #[serde(serialize_with = "crate::as_text")]
    table: PathBuf,
    #[serde(flatten)]
    name: TableName,
    losing: u64,
    stored: u64,
    fingerprint: Digest,
}

impl First {
    /// Opens the first table of the directory, which finds damage before anybody asks; none if there is no table yet.
    fn open(directory: &Path) -> Result<Option<First>, TableError> {
        let folder = match locate(directory) {
            Err(TableError::NotFound { .. }) if directory.is_dir() => return Ok(None),
            found => found?,
        };
        let table = AnyTable::open(directory)?;
        let (losing, stored, fingerprint) = match &table {
            AnyTable::Losing(table) => {
                let manifest = table.manifest();
                (manifest.losing, manifest.stored, manifest.fingerprint)
            }
            AnyTable::Values(table) => {
                let manifest = table.manifest();
                let areas = manifest.areas.iter();
                let losing = areas.map(|area| area.positions_by_value()[0]).sum();
                let stored = manifest.shards().map(|shard| shard.stored).sum();
                (losing, stored, manifest.fingerprint)
            }
        };
        Ok(Some(First {
            table: folder,
            name: table.name(),
            losing,
            stored,
            fingerprint,
        }))
    }
}

/// The limits of connections where nobody has a token. A proxy may have all of them.
fn limits(behind_proxy: bool) -> Limits {
    let all = machine::limits();
    let connections = all.strangers.all + all.participants.all;
    let each = if behind_proxy {
        connections
    } else {
        all.strangers.each
    };
    let strangers = Limit {
        all: connections,
        each,
    };
    Limits { strangers, ..all }
}

pub(crate) async fn run(args: ServeArgs, display: &Display) -> anyhow::Result<Exit> {
    let stop = stop_on_signals()?;
    // A fault of the table is reported now, and not to whoever asks first.
    let mut table = download::directory(&args.source, display, &stop).await?;
    if let TablePlace::Elsewhere(_) = args.source.table {
        table.pop();
    }
    let directory = table.clone();
    let opened = tokio::task::spawn_blocking(move || First::open(&directory)).await;
    let first = opened.context("the table cannot be looked at")??;
    if first.as_ref().is_some_and(|first| first.table == table) {
        return Err(usage(format!(
            "{} is the folder of one table: give the directory that it is in, so that others beside it are found",
            table.display()
        )));
    }
    let listener = listen(args.http, "--http").await?;
    let url = format!("http://{}/", listener.local_addr()?);

    let what = first.as_ref().map_or_else(
        || {
            let directory = table.display();
            format!(
                "{directory}, which has no table yet: one is served as soon as it is finished there"
            )
        },
        |first| format!("{}, a {}", first.table.display(), first.name),
    );
    let limits = limits(!args.trust_proxy.is_empty());
    let site = Site::open(SiteOptions {
        directory: table,
        rate: NonZeroU32::new(args.rate),
        proxies: args.trust_proxy,
        cache_bytes: args.cache.as_u64(),
    })
    .await;
    let limits = limits.hastened(display.haste());
    let router = site.router();
    let endpoints = vec![Endpoint { listener, router }];
    let server = Server::start(endpoints, None, limits, &limits.permits());

    display.say(&format!("serving {url} with {what}"));
    if args.json {
        let line = serde_json::to_string(&Served {
            url: &url,
            first: first.as_ref(),
        })?;
        crate::print(&format!("{line}\n"))?;
    }
    stop.cancelled().await;
    server.stop().await;
    Ok(Exit::Done)
}

/// The default options for serving the tables in `directory`.
pub(crate) fn usual(directory: PathBuf) -> SiteOptions {
    SiteOptions {
        directory,
        rate: NonZeroU32::new(REQUESTS_A_SECOND),
        proxies: Vec::new(),
        cache_bytes: CACHE_BYTES,
    }
}

/// Listens on `address`, the value of `flag`.
pub(crate) async fn listen(address: SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| format!("cannot listen on {address}: choose another with {flag}"))
}
