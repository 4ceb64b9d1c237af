//! The public files of finished tables: the files that a manifest lists, and no others.

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use chomp_durable_files::{open_nofollow, read_one_past};
use chomp_table::TableError;
use chomp_table::digest::{Digest, DigestBuilder};
use chomp_table::format::describe;
use chomp_table::manifest::{MANIFEST_BYTES_MAX, MANIFEST_NAME, SHA256SUMS_NAME};
use chomp_table::reader::{AnyManifest, TableName};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::answer::{HTML, JSON, Refusal, TEXT};
use crate::files::SmallFile;

/// The bytes that are read at a time to check a shard.
const CHECK_BYTES: usize = 256 << 10;
/// The interval at which the same damage is logged, however many requests meet it.
const SAME_EVERY: Duration = Duration::from_mins(1);
/// The most kinds of damage that are logged in [`SAME_EVERY`].
const DAMAGES_MAX: usize = 64;

/// The finished tables in a directory. A manifest is read again when it changes.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) directory: PathBuf,
    known: Mutex<HashMap<TableName, Known>>,
    logged: Mutex<HashMap<String, Instant>>,
}

/// The stamp of a manifest, and the table; none if it is damaged.
type Known = (Stamp, Option<Arc<PublishedTable>>);

/// A finished table, as described by its manifest at the time when the manifest was read.
#[derive(Debug)]
pub(crate) struct PublishedTable {
    pub(crate) folder: PathBuf,
    files: HashMap<String, TableFile>,
}

#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) sha256: Digest,
    /// The stamp of the file when its digest was last checked.
    checked: Mutex<Option<Stamp>>,
}

#[derive(Clone, Debug)]
pub(crate) enum TableFile {
    Small(SmallFile),
    Shard(Arc<Shard>),
}

/// The device and inode of a file, its length, and when it changed. The stamp of a file changes if the file is replaced
/// or written to.
type Stamp = (u64, u64, u64, [(i64, i64); 2]);

fn stamp_of(file: &Metadata) -> Stamp {
    let modified = (file.mtime(), file.mtime_nsec());
    let changed = (file.ctime(), file.ctime_nsec());
    (file.dev(), file.ino(), file.size(), [modified, changed])
}

impl Published {
    pub(crate) fn new(directory: PathBuf) -> Published {
        Published {
            directory,
            known: Mutex::default(),
            logged: Mutex::default(),
        }
    }

    /// The finished tables, smallest first. A damaged one is left out, and logged.
    pub(crate) fn finished(&self) -> impl Iterator<Item = TableName> {
        let folders = self.folders().unwrap_or_default().into_iter();
        folders.filter(|name| matches!(self.table(*name), Ok(Some(_))))
    }

    /// The tables that have a folder, finished or not, ascending.
    pub(crate) fn folders(&self) -> Result<Vec<TableName>, Refusal> {
        let failed = |error| self.log_unreadable(&self.directory, &error);
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut folders = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            folders.extend(name.to_str().and_then(TableName::of));
        }
        folders.sort_unstable();
        Ok(folders)
    }

    /// The table of this name, if it is finished.
    pub(crate) fn table(&self, name: TableName) -> Result<Option<Arc<PublishedTable>>, Refusal> {
        let folder = self.directory.join(name.folder());
        let path = folder.join(MANIFEST_NAME);
        let failed = |error| self.log_unreadable(&path, &error);
        // The lock is held while the manifest is read, so one thread reads it at a time.
        let mut known = self.known.lock();
        let stamp = match open_nofollow(&path) {
            Ok((_, metadata)) => stamp_of(&metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                known.remove(&name);
                return Ok(None);
            }
            Err(error) => return Err(failed(error)),
        };
        if let Some((at, table)) = known.get(&name)
            && *at == stamp
        {
            return table.clone().map(Some).ok_or(Refusal::Damaged);
        }
        // If the manifest is replaced just now, the next request reads it again.
        let bytes = read_one_past(&path, MANIFEST_BYTES_MAX).map_err(failed)?;
        let of_folder = match AnyManifest::parse(&bytes) {
            Ok(manifest) if manifest.table() == name => Ok(manifest),
            Ok(manifest) => Err(format!("it is the manifest of a {}", manifest.table())),
            Err(error) => Err(describe(&error)),
        };
        let table = match of_folder {
            Ok(manifest) => Some(Arc::new(PublishedTable::new(folder, bytes, &manifest))),
            Err(what) => {
                self.log_damage(&format!("{} is damaged: {what}", path.display()));
                None
            }
        };
        known.insert(name, (stamp, table.clone()));
        table.map(Some).ok_or(Refusal::Damaged)
    }

    /// The file `name` of the table in the folder `folder`, both as they stand in the address.
    pub(crate) fn file(&self, folder: &str, name: &str) -> Result<TableFile, Refusal> {
        let table = TableName::of(folder).ok_or(Refusal::Nothing)?;
        let table = self.table(table)?.ok_or(Refusal::Nothing)?;
        table.files.get(name).cloned().ok_or(Refusal::Nothing)
    }

    /// The refusal for an error of a table: the question is beyond the table, or the table is damaged, which is logged.
    pub(crate) fn refuse_logging_damage(&self, error: &TableError) -> Refusal {
        match error {
            TableError::Beyond { .. } | TableError::BeyondTiles { .. } => {
                Refusal::Wrong(error.to_string())
            }
            _ => self.log_damage(&describe(error)),
        }
    }

    pub(crate) fn log_unreadable(&self, path: &Path, error: &io::Error) -> Refusal {
        let (path, what) = (path.display(), describe(error));
        self.log_damage(&format!("cannot read {path}: {what}"))
    }

    /// Logs the damage for the owner. The refusal for the client does not say where the damage is.
    pub(crate) fn log_damage(&self, what: &str) -> Refusal {
        let now = Instant::now();
        let mut logged = self.logged.lock();
        logged.retain(|_, at| now - *at < SAME_EVERY);
        if logged.len() < DAMAGES_MAX && !logged.contains_key(what) {
            tracing::error!("a table cannot be served: {what}");
            logged.insert(what.to_owned(), now);
        }
        Refusal::Damaged
    }
}

impl PublishedTable {
    /// The table with this `manifest`, which was in `bytes`.
    fn new(folder: PathBuf, bytes: Vec<u8>, manifest: &AnyManifest) -> PublishedTable {
        let sums = manifest.sha256sums(&bytes);
        let index = index(manifest, bytes.len(), sums.len());
        let small = [
            ("", SmallFile::new(HTML, index.into())),
            (MANIFEST_NAME, SmallFile::new(JSON, bytes.into())),
            (SHA256SUMS_NAME, SmallFile::new(TEXT, sums.into())),
        ];
        let small = small.map(|(name, file)| (name.to_owned(), TableFile::Small(file)));
        let shards = manifest.shards().into_iter().map(|shard| {
            let file = Shard {
                path: folder.join(&shard.name),
                bytes: shard.bytes,
                sha256: shard.sha256,
                checked: Mutex::default(),
            };
            (shard.name, TableFile::Shard(Arc::new(file)))
        });
        let files = small.into_iter().chain(shards).collect();
        PublishedTable { folder, files }
    }
}

impl Shard {
    /// Opens the file, if it is the one of the manifest. Its digest is checked before the first byte is sent, and again
    /// after the file was replaced or written to: so a link or another file under this name is never shown.
    pub(crate) fn open(&self) -> io::Result<File> {
        let wrong = |what| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        let (file, metadata) = open_nofollow(&self.path)?;
        let (bytes, expected) = (metadata.len(), self.bytes);
        if bytes != expected {
            return wrong(format!("it has {bytes} bytes, and should have {expected}"));
        }
        let stamp = stamp_of(&metadata);
        if *self.checked.lock() != Some(stamp) {
            let (found, expected) = (digest(&file, bytes)?, self.sha256);
            if found != expected {
                return wrong(format!(
                    "it has the SHA-256 {found}, and should have {expected}"
                ));
            }
            if stamp_of(&file.metadata()?) == stamp {
                *self.checked.lock() = Some(stamp);
            }
        }
        Ok(file)
    }
}

/// The digest of the first `bytes` bytes of a file that was just opened.
fn digest(file: &File, bytes: u64) -> io::Result<Digest> {
    let mut digest = DigestBuilder::default();
    let mut reader = BufReader::with_capacity(CHECK_BYTES, file.take(bytes));
    io::copy(&mut reader, &mut digest)?;
    Ok(digest.finish())
}

/// The page with links to the files of a table. A checked manifest has only names that need no escapes in HTML.
fn index(manifest: &AnyManifest, manifest_bytes: usize, sums_bytes: usize) -> String {
    let (table, fingerprint) = (manifest.table(), manifest.fingerprint());
    let line =
        |name: &str, bytes: u64| format!("<li><a href=\"{name}\">{name}</a> {bytes} bytes</li>\n");
    let mut lines = line(MANIFEST_NAME, manifest_bytes as u64);
    lines += &line(SHA256SUMS_NAME, sums_bytes as u64);
    for shard in manifest.shards() {
        lines += &line(&shard.name, shard.bytes);
    }
    let title = table.folder();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<title>{title}</title>\n<h1>A {table}</h1>\n\
         <p>Fingerprint {fingerprint}</p>\n<ul>\n{lines}</ul>\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The damage that is noted as logged, each with its time. The log itself cannot be tested: `tracing` may have
    /// switched off a callsite that another test of this process reached first.
    fn logged(published: &Published) -> Vec<(String, Instant)> {
        let logged = published.logged.lock();
        logged
            .iter()
            .map(|(what, at)| (what.clone(), *at))
            .collect()
    }

    #[tokio::test(start_paused = true)]
    #[expect(clippy::disallowed_methods, reason = "a damaged manifest for a test")]
    async fn a_damaged_manifest_is_logged_once_however_often_it_is_looked_at() {
        let directory = tempfile::tempdir().unwrap();
        crate::tests::publish(directory.path(), 8);
        let manifest = crate::tests::publish(directory.path(), 10).join(MANIFEST_NAME);
        let good = fs::read(&manifest).unwrap();
        let published = Published::new(directory.path().to_owned());
        let losing = TableName::Losing;
        assert!(published.finished().eq([losing(8), losing(10)]));
        assert_eq!(logged(&published), []);
        fs::write(&manifest, &good[1..]).unwrap();
        let start = Instant::now();
        for _ in 0..5 {
            // Forgets all tables, so that the manifest is read again.
            published.known.lock().clear();
            assert!(published.finished().eq([losing(8)]));
            published.file("table-10", MANIFEST_NAME).unwrap_err();
            let [(what, at)] = &logged(&published)[..] else {
                panic!("{:?}", logged(&published));
            };
            assert!(what.contains(manifest.to_str().unwrap()), "{what}");
            assert_eq!(*at, start);
            tokio::time::advance(SAME_EVERY / 5).await;
        }
        fs::write(&manifest, &good).unwrap();
        assert!(published.finished().eq([losing(8), losing(10)]));
        // The log has a limit for the different damages of a broken disk.
        for number in 0..2 * DAMAGES_MAX {
            published.log_damage(&number.to_string());
        }
        let logged = logged(&published);
        assert_eq!(logged.len(), DAMAGES_MAX);
        assert!(logged.iter().all(|(_, at)| *at == Instant::now()));
    }
}
