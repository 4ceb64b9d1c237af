//! Fetches a published table over HTTP or from a bucket. The files on disk are the published ones, to the last byte.
//!
//! The manifest and `SHA256SUMS` come first: they say which files there are, and every byte that follows is checked
//! against them. Shards are fetched some at a time, each into `<name>.partial`, which becomes `<name>` when it is
//! complete, checked and synced. When the reader has found all shards right, the manifest is written, as the last file.
//! A download that ended in any way goes on where it was: it checks and keeps complete files, and continues partial
//! ones.
//!
//! | module | holds |
//! |---|---|
//! | `error` | what can go wrong, by what a caller can do about it |
//! | `source` | where a table is: on a server, or in a bucket |
//! | `http` | the requests to a server, with their limits |
//! | `patience` | how long a server may be silent, and the reports meanwhile |
//! | `proxy` | which proxy requests go through |
//! | `folder` | the folder on this machine: locked, and written so that a crash leaves it in order |
//! | `shard` | one shard from start to end |
//! | `remote` | a table that stays where it is: only what is asked for is fetched |
//!
//! # What always holds
//!
//! * Nothing that a server says becomes a path: names are those that a checked manifest can have. No byte gets its
//!   file's name before it was checked.
//! * Every answer has a limit that is known before it is read.

mod error;
mod folder;
mod http;
mod patience;
mod proxy;
mod remote;
mod shard;
mod source;

use std::path::PathBuf;
use std::sync::Arc;

use chomp_access::Token;
use chomp_store::tasks::output;
use chomp_table::Digest;
use chomp_table::manifest::{MANIFEST_BYTES_MAX, MANIFEST_NAME, SHA256SUMS_NAME};
use chomp_table::reader::AnyManifest;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use error::{DownloadError, Outage};
pub use http::{ServerReply, ask};
pub use patience::ServerPatience;
pub use remote::open;

use folder::{TargetFolder, blocking};
use source::TableSource;

/// The number of shards that are fetched at a time.
const PARALLEL: usize = 4;

/// The address of a server, and the access to it.
#[derive(Clone, Debug)]
pub struct Reach {
    /// The URL of a server, which lists its tables, of a bucket or folder in it that has tables, or of a
    /// table's folder: `…/table-32/`.
    pub from: String,
    /// The certificate of the server, or of the authority that vouches for it, as PEM; the system's authorities if
    /// none.
    pub ca: Option<String>,
    /// The token for a server that does not give its tables to everybody.
    pub token: Option<Token>,
    /// How long the server may be silent: [`ServerPatience::USUAL`].
    pub patience: ServerPatience,
}

/// How far a download has come, in complete shards and in bytes of shards on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named for what they are")]
pub struct DownloadProgress {
    pub bytes: u64,
    /// 0 until that is known.
    pub bytes_total: u64,
    pub shards: usize,
    pub shards_total: usize,
}

/// A download that is done.
#[derive(Clone, Debug)]
pub struct DownloadReport {
    /// The folder of the table.
    pub folder: PathBuf,
    /// The manifest in the folder.
    pub manifest: AnyManifest,
}

/// Fetches a table, the [preferred](chomp_table::reader::TableName::preferred) one of several, into its folder in
/// `out`, until it is complete or `stop` is cancelled. The future may be dropped at any time, and the download started
/// again. If it fails, the files that are on disk by then are kept for the next attempt.
pub async fn download(
    reach: Reach,
    out: PathBuf,
    progress: watch::Sender<DownloadProgress>,
    stop: CancellationToken,
) -> Result<DownloadReport, DownloadError> {
    let run = async {
        let source = TableSource::find(&reach).await?;
        fetch_all(source, out, progress).await
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => Err(DownloadError::Stopped),
        done = run => done,
    }
}

#[derive(Debug)]
struct Download {
    source: TableSource,
    target: Arc<TargetFolder>,
    progress: watch::Sender<DownloadProgress>,
}

async fn fetch_all(
    source: TableSource,
    out: PathBuf,
    progress: watch::Sender<DownloadProgress>,
) -> Result<DownloadReport, DownloadError> {
    let (bytes, manifest) = fetch_manifest(&source).await?;
    let table = source.table;
    let target = blocking(move || TargetFolder::acquire(&out, table)).await?;
    let target = Arc::new(target);
    target.check_same(&bytes)?;
    let shards = manifest.shards();
    target.check_space(&shards)?;
    progress.send_replace(DownloadProgress {
        bytes_total: shards.iter().map(|shard| shard.bytes).sum(),
        shards_total: shards.len(),
        ..DownloadProgress::default()
    });
    let download = Arc::new(Download {
        source,
        target: Arc::clone(&target),
        progress,
    });
    let mut tasks = JoinSet::new();
    let mut waiting = shards.into_iter();
    for shard in waiting.by_ref().take(PARALLEL) {
        tasks.spawn(shard::fetch(Arc::clone(&download), shard));
    }
    while let Some(done) = tasks.join_next().await {
        output(done).await?;
        if let Some(shard) = waiting.next() {
            tasks.spawn(shard::fetch(Arc::clone(&download), shard));
        }
    }

    let folder = target.folder().to_owned();
    let (path, checked) = (folder.clone(), manifest.clone());
    blocking(move || {
        checked.verify_bytes(path)?;
        target.put(SHA256SUMS_NAME, checked.sha256sums(&bytes).as_bytes())?;
        target.put(MANIFEST_NAME, &bytes)
    })
    .await?;
    Ok(DownloadReport { folder, manifest })
}

/// The manifest of a table, and its bytes. Fails if it is of another table, or contradicts `SHA256SUMS`.
async fn fetch_manifest(source: &TableSource) -> Result<(Vec<u8>, AnyManifest), DownloadError> {
    let url = source.address(MANIFEST_NAME);
    let bytes = source.small(MANIFEST_NAME, MANIFEST_BYTES_MAX).await?;
    let manifest = match AnyManifest::parse(&bytes) {
        Ok(manifest) => manifest,
        Err(source) => return Err(DownloadError::Manifest { url, source }),
    };
    let found = manifest.table();
    if source.table != found {
        let what = format!("it is the manifest of a {found}");
        return Err(DownloadError::Wrong { url, what });
    }
    let expected = manifest.sha256sums(&bytes);
    let sums = source.small(SHA256SUMS_NAME, expected.len() as u64).await?;
    if sums != expected.as_bytes() {
        return Err(DownloadError::Damaged {
            file: source.address(SHA256SUMS_NAME),
            expected: Digest::of(expected.as_bytes()),
            found: Digest::of(&sums),
        });
    }
    Ok((bytes, manifest))
}

#[cfg(test)]
mod tests;
