//! Fetches a published table over HTTP or from a bucket. The files on disk are those that were published, to the last
//! byte.
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
//! | `origin` | where a table is: on a server, or in a bucket |
//! | `server` | the requests over HTTP, with their limits |
//! | `contact` | how long a server may give nothing, and what is said meanwhile |
//! | `proxy` | which proxy requests go through |
//! | `bucket` | the reads from a bucket |
//! | `target` | the folder on this machine: locked, and written so that a crash leaves it in order |
//! | `shard` | one shard from start to end |
//! | `part` | a part of a file |
//! | `question` | a question that is not about a table |
//! | `remote` | a table that stays where it is: only what is asked for is fetched |
//!
//! Text from a server is never used as a path: names are those that a checked manifest can have.
//!
//! # What always holds
//!
//! * Nothing that a server says becomes a path, and no byte gets its file's name before it was
//!   checked.
//! * Every answer has a limit that is known before it is read.

mod bucket;
mod contact;
mod error;
mod origin;
mod part;
mod proxy;
mod question;
mod remote;
mod server;
mod shard;
mod target;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chomp_access::Token;
use chomp_table::Digest;
use chomp_table::manifest::{MANIFEST_BYTES_MAX, MANIFEST_NAME, SHA256SUMS_NAME};
use chomp_table::reader::{AnyManifest, ShardFileInfo, TableName};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use contact::ServerPatience;
pub use error::{DownloadError, Outage};
pub use question::{ServerReply, ask};
pub use remote::{Reach, open};

use origin::Origin;
use target::TargetFolder;

/// How many shards are fetched at a time unless something else is asked for.
pub const PARALLEL: NonZeroUsize = NonZeroUsize::new(4).unwrap();

/// The source, the destination and the limits of a download.
#[derive(Clone, Debug)]
pub struct Config {
    /// The URL of a server, which lists its tables, of a bucket or folder in it that has tables, or of a
    /// table's folder: `…/table-32/`.
    pub from: String,
    /// The directory that gets the folder of the table.
    pub out: PathBuf,
    /// Which table; the [first](TableName::first) of those that the server has if none.
    pub table: Option<TableName>,
    /// The certificate of the authority that vouches for the server, as PEM; the system's if none.
    pub ca: Option<String>,
    /// Opens a server that does not give its tables to everybody.
    pub token: Option<Token>,
    /// How many shards are fetched at a time: [`PARALLEL`].
    pub parallel: NonZeroUsize,
    /// How long the server may give nothing, however often it is asked: [`ServerPatience::USUAL`].
    pub patience: ServerPatience,
}

/// How far a download has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DownloadProgress {
    /// The bytes of shards that are on disk.
    pub bytes: u64,
    /// The bytes of all shards; 0 until that is known.
    pub bytes_total: u64,
    /// The shards that are complete.
    pub shards: usize,
    /// All shards.
    pub shards_total: usize,
}

/// A download that is done.
#[derive(Clone, Debug)]
pub struct DownloadReport {
    /// The folder of the table.
    pub folder: PathBuf,
    /// The manifest in the folder.
    pub manifest: AnyManifest,
    /// The bytes of shards that came over the network.
    pub bytes_fetched: u64,
}

/// Fetches a table until it is complete, `stop` is cancelled, or nothing more can be done.
///
/// It may be dropped at any time, and started again.
///
/// # Errors
///
/// [`DownloadError`]; what is on disk by then is kept for the next attempt.
pub async fn download(
    config: Config,
    progress: watch::Sender<DownloadProgress>,
    stop: CancellationToken,
) -> Result<DownloadReport, DownloadError> {
    tokio::select! {
        biased;
        () = stop.cancelled() => Err(DownloadError::Stopped),
        done = run(config, progress) => done,
    }
}

/// The state that the tasks of a download share.
#[derive(Debug)]
struct Download {
    origin: Origin,
    target: Arc<TargetFolder>,
    shards: Vec<ShardFileInfo>,
    progress: watch::Sender<DownloadProgress>,
    /// The number of the shard to be fetched next.
    next: AtomicUsize,
}

async fn run(
    config: Config,
    progress: watch::Sender<DownloadProgress>,
) -> Result<DownloadReport, DownloadError> {
    let (ca, token) = (config.ca.as_deref(), config.token.as_ref());
    let origin = Origin::find(&config.from, config.table, ca, token, config.patience).await?;
    fetch_all(config, origin, progress).await
}

async fn fetch_all(
    config: Config,
    origin: Origin,
    progress: watch::Sender<DownloadProgress>,
) -> Result<DownloadReport, DownloadError> {
    let (bytes, manifest) = fetch_manifest(&origin, config.table).await?;
    let out = config.out;
    let table = manifest.table();
    let target = target::blocking(move || TargetFolder::acquire(&out, table)).await?;
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
        origin,
        target: Arc::clone(&target),
        shards,
        progress,
        next: AtomicUsize::new(0),
    });
    let mut tasks = JoinSet::new();
    for _ in 0..config.parallel.get().min(download.shards.len()) {
        tasks.spawn(Arc::clone(&download).fetch_shards());
    }
    let mut bytes_fetched = 0;
    while let Some(done) = tasks.join_next().await {
        let done = done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        match done {
            Ok(bytes) => bytes_fetched += bytes,
            Err(error) => {
                // Whoever tries again finds nobody in the folder.
                tasks.shutdown().await;
                return Err(error);
            }
        }
    }

    let folder = target.folder().to_owned();
    let (path, checked) = (folder.clone(), manifest.clone());
    target::blocking(move || {
        checked.verify_bytes(path)?;
        target.put(SHA256SUMS_NAME, checked.sha256sums(&bytes).as_bytes())?;
        target.put(MANIFEST_NAME, &bytes)
    })
    .await?;
    Ok(DownloadReport {
        folder,
        manifest,
        bytes_fetched,
    })
}

/// The manifest of a table and its bytes, after all was checked that the two lists say.
async fn fetch_manifest(
    origin: &Origin,
    table: Option<TableName>,
) -> Result<(Vec<u8>, AnyManifest), DownloadError> {
    let url = origin.place(MANIFEST_NAME);
    let bytes = origin.small(MANIFEST_NAME, MANIFEST_BYTES_MAX).await?;
    let manifest = match AnyManifest::parse(&bytes) {
        Ok(manifest) => manifest,
        Err(source) => return Err(DownloadError::Manifest { url, source }),
    };
    let found = manifest.table();
    if table
        .or_else(|| origin.table())
        .is_some_and(|table| table != found)
    {
        let what = format!("it is the manifest of a {found}");
        return Err(DownloadError::Wrong { url, what });
    }
    let expected = manifest.sha256sums(&bytes);
    let sums = origin.small(SHA256SUMS_NAME, expected.len() as u64).await?;
    if sums != expected.as_bytes() {
        return Err(DownloadError::Damaged {
            file: origin.place(SHA256SUMS_NAME),
            expected: Digest::of(expected.as_bytes()),
            found: Digest::of(&sums),
        });
    }
    Ok((bytes, manifest))
}

impl Download {
    /// Fetches one shard after the other until none is left; returns the bytes that it fetched.
    async fn fetch_shards(self: Arc<Download>) -> Result<u64, DownloadError> {
        let mut bytes = 0;
        while let Some(shard) = self.shards.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            bytes += shard::fetch(&self, shard).await?;
            self.progress.send_modify(|progress| progress.shards += 1);
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests;
