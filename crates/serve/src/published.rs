//! The files of finished tables that are for everybody: those that a manifest lists, and no others.

use std::collections::{HashMap, VecDeque};
use std::fs::{self, File, Metadata};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use chomp_durable_files::{open_within, read_within};
use chomp_table::digest::{Digest, DigestBuilder};
use chomp_table::format::describe;
use chomp_table::manifest::{MANIFEST_BYTES_MAX, MANIFEST_NAME, SHA256SUMS_NAME};
use chomp_table::reader::{AnyManifest, TableName};
use http::header::HeaderValue;
use parking_lot::Mutex;

use crate::damage_log::DamageLog;
use crate::refusal::Refusal;

/// The bytes that are read at a time to check a shard.
const CHECK_BYTES: usize = 256 << 10;

/// The most bytes of the manifests of the tables that are kept: one of the largest, or many usual ones.
const KEPT_BYTES_MAX: u64 = MANIFEST_BYTES_MAX;

/// The finished tables in a directory. Their manifests are read one at a time, and again when they change. What the
/// ones say whose files were asked for last is kept in memory. One that is damaged is read, and told of in the log,
/// once.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) directory: PathBuf,
    pub(crate) damage_log: DamageLog,
    known: Mutex<KnownTables>,
}

#[derive(Debug, Default)]
struct KnownTables {
    /// The tables by name: none where the manifest is damaged. One that is still being sent is not read twice.
    all: HashMap<TableName, (Stamp, Option<Weak<PublishedTable>>)>,
    /// The tables that are kept, the one that was asked for last at the end.
    kept: VecDeque<(TableName, Arc<PublishedTable>)>,
}

/// The stamp of a finished table's manifest, and the table if it is in memory.
type Finished = (Stamp, Option<Arc<PublishedTable>>);

/// A finished table.
#[derive(Debug)]
struct PublishedTable {
    folder: PathBuf,
    index: Whole,
    manifest: Whole,
    sums: Whole,
    /// The lengths and digests of the shards.
    shards: HashMap<String, (u64, Digest)>,
    good: Good,
}

/// The files that were found to have these digests.
type Good = Arc<Mutex<HashMap<Digest, Stamp>>>;

/// A text of a table, which stays known while the text is sent.
struct Text(Arc<PublishedTable>, fn(&PublishedTable) -> &Whole);

/// A file that is kept in memory.
#[derive(Clone, Debug)]
pub(crate) struct Whole {
    pub(crate) bytes: Bytes,
    pub(crate) etag: HeaderValue,
}

/// A file that is read from disk.
#[derive(Clone, Debug)]
pub(crate) struct ServedFile {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) etag: HeaderValue,
    sha256: Digest,
    good: Good,
}

/// A file of a table.
#[derive(Clone, Debug)]
pub(crate) enum TableFile {
    /// The page with the names of the others.
    Index(Whole),
    Manifest(Whole),
    Sums(Whole),
    Shard(ServedFile),
}

/// The metadata of a file that change when it is replaced or written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Published {
    pub(crate) fn new(directory: PathBuf) -> Published {
        Published {
            directory,
            damage_log: DamageLog::default(),
            known: Mutex::default(),
        }
    }

    /// The tables that are there, ascending.
    pub(crate) fn list(&self) -> Vec<TableName> {
        self.finished().collect()
    }

    /// Whether there is any: no more manifests are read than this takes.
    pub(crate) fn has_any(&self) -> bool {
        self.finished().next_back().is_some()
    }

    fn finished(&self) -> impl DoubleEndedIterator<Item = TableName> {
        let folders = self.folders().unwrap_or_default().into_iter();
        folders.filter(|name| matches!(self.stamp(*name), Ok(Some(_))))
    }

    /// The tables that have a folder, finished or not, ascending.
    pub(crate) fn folders(&self) -> Result<Vec<TableName>, Refusal> {
        let failed = |error| self.unreadable(&self.directory, &error);
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

    fn unreadable(&self, path: &Path, error: &io::Error) -> Refusal {
        let (path, what) = (path.display(), describe(error));
        self.damage_log
            .damaged(&format!("cannot read {path}: {what}"))
    }

    /// The stamp of a table's manifest, if the table is finished: another table in its place has another stamp.
    pub(crate) fn stamp(&self, name: TableName) -> Result<Option<Stamp>, Refusal> {
        Ok(self.look(name, false)?.map(|(stamp, _)| stamp))
    }

    /// The file `name` of the table in the folder `folder`, both as they stand in the address.
    pub(crate) fn file(&self, folder: &str, name: &str) -> Result<TableFile, Refusal> {
        let table = TableName::of(folder).ok_or(Refusal::Nothing)?;
        let table = self.look(table, true)?.and_then(|(_, table)| table);
        let file = table.and_then(|table| table.file(name));
        file.ok_or(Refusal::Nothing)
    }

    /// Looks at a table, if it is finished. What its manifest says is read again if it is `needed`.
    fn look(&self, name: TableName, needed: bool) -> Result<Option<Finished>, Refusal> {
        let folder = self.directory.join(name.folder());
        let path = folder.join(MANIFEST_NAME);
        let failed = |error| self.unreadable(&path, &error);
        let stamp = match open_within(&path) {
            Ok((_, metadata)) => Stamp::of(&metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        // It is read by one at a time: so nobody tells of the same damage twice.
        let mut known = self.known.lock();
        if let Some((at, table)) = known.all.get(&name)
            && *at == stamp
        {
            let table = table.as_ref().ok_or(Refusal::Damaged)?.upgrade();
            if !needed {
                return Ok(Some((stamp, table)));
            }
            if let Some(table) = table {
                known.keep(name, &table);
                return Ok(Some((stamp, Some(table))));
            }
        }
        known.forget(name);
        if needed {
            known.make_room(stamp.bytes);
        }
        // If it is replaced just now, the next one to ask reads it again.
        let bytes = read_within(&path, MANIFEST_BYTES_MAX).map_err(failed)?;
        let manifest = AnyManifest::parse(&bytes).map_err(|error| {
            let (path, what) = (path.display(), describe(&error));
            tracing::error!("a table is not offered: {path} is damaged: {what}");
            known.all.insert(name, (stamp, None));
            Refusal::Damaged
        })?;
        if !needed {
            known.all.insert(name, (stamp, Some(Weak::new())));
            return Ok(Some((stamp, None)));
        }
        let table = Arc::new(PublishedTable::new(folder, bytes, &manifest));
        let weak = Arc::downgrade(&table);
        known.all.insert(name, (stamp, Some(weak)));
        known.keep(name, &table);
        Ok(Some((stamp, Some(table))))
    }
}

impl KnownTables {
    /// Keeps a table as the one that was asked for last.
    fn keep(&mut self, name: TableName, table: &Arc<PublishedTable>) {
        self.forget(name);
        self.make_room(table.manifest.bytes.len() as u64);
        self.kept.push_back((name, Arc::clone(table)));
    }

    fn forget(&mut self, name: TableName) {
        self.kept.retain(|(kept, _)| *kept != name);
    }

    /// Forgets tables until there is room for a manifest of `bytes` bytes.
    fn make_room(&mut self, bytes: u64) {
        let lengths = |(_, table): &(_, Arc<PublishedTable>)| table.manifest.bytes.len() as u64;
        while self.kept.iter().map(lengths).sum::<u64>() + bytes > KEPT_BYTES_MAX
            && self.kept.pop_front().is_some()
        {}
    }
}

impl Stamp {
    fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl ServedFile {
    /// Opens the file, if it is what the manifest says. Its digest is checked before anything of it is
    /// handed out, and again when the file is another or was written to: so a name that leads to
    /// something else, however that was done, shows nothing.
    pub(crate) fn open(&self) -> io::Result<File> {
        let wrong = |what| io::Error::new(io::ErrorKind::InvalidData, what);
        let (file, metadata) = open_within(&self.path)?;
        let bytes = metadata.len();
        if bytes != self.bytes {
            return Err(wrong(format!(
                "it has {bytes} bytes, and should have {}",
                self.bytes
            )));
        }
        let stamp = Stamp::of(&metadata);
        if self.good.lock().get(&self.sha256) != Some(&stamp) {
            let found = digest(&file, bytes)?;
            if found != self.sha256 {
                let expected = self.sha256;
                return Err(wrong(format!(
                    "it has the SHA-256 {found}, and should have {expected}"
                )));
            }
            if Stamp::of(&file.metadata()?) == stamp {
                self.good.lock().insert(self.sha256, stamp);
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

impl PublishedTable {
    /// The table with this `manifest`, which was in `bytes`.
    fn new(folder: PathBuf, bytes: Vec<u8>, manifest: &AnyManifest) -> PublishedTable {
        let sums = manifest.sha256sums(&bytes);
        let shards = manifest.shards().into_iter();
        PublishedTable {
            folder,
            shards: shards
                .map(|shard| (shard.name, (shard.bytes, shard.sha256)))
                .collect(),
            good: Good::default(),
            index: Whole::new(index(manifest, bytes.len(), sums.len()).into()),
            manifest: Whole::new(bytes.into()),
            sums: Whole::new(sums.into()),
        }
    }

    fn file(self: &Arc<PublishedTable>, name: &str) -> Option<TableFile> {
        let text = |of: fn(&PublishedTable) -> &Whole| Whole {
            bytes: Bytes::from_owner(Text(Arc::clone(self), of)),
            etag: of(self).etag.clone(),
        };
        Some(match name {
            "" => TableFile::Index(text(|table| &table.index)),
            MANIFEST_NAME => TableFile::Manifest(text(|table| &table.manifest)),
            SHA256SUMS_NAME => TableFile::Sums(text(|table| &table.sums)),
            _ => {
                let &(bytes, sha256) = self.shards.get(name)?;
                TableFile::Shard(ServedFile {
                    path: self.folder.join(name),
                    bytes,
                    etag: etag(sha256),
                    sha256,
                    good: Arc::clone(&self.good),
                })
            }
        })
    }
}

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        &self.1(&self.0).bytes
    }
}

impl Whole {
    pub(crate) fn new(bytes: Bytes) -> Whole {
        Whole {
            etag: etag(Digest::of(&bytes)),
            bytes,
        }
    }
}

/// The page of a table's folder, given the lengths of its manifest and its list of digests. The names are those that a
/// checked manifest can have.
fn index(manifest: &AnyManifest, manifest_bytes: usize, sums_bytes: usize) -> String {
    let (table, fingerprint) = (manifest.table(), manifest.fingerprint());
    let lists = [
        (MANIFEST_NAME, manifest_bytes),
        (SHA256SUMS_NAME, sums_bytes),
    ];
    let lists = lists.map(|(name, bytes)| (name.to_owned(), bytes as u64));
    let shards = manifest.shards().into_iter();
    let files = lists
        .into_iter()
        .chain(shards.map(|shard| (shard.name, shard.bytes)));
    let lines = files
        .map(|(name, bytes)| format!("<li><a href=\"{name}\">{name}</a> {bytes} bytes</li>\n"));
    let (title, lines) = (table.folder(), lines.collect::<String>());
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<title>{title}</title>\n<h1>A {table}</h1>\n\
         <p>Fingerprint {fingerprint}</p>\n<ul>\n{lines}</ul>\n</html>\n"
    )
}

/// The digest of a file names its version.
fn etag(digest: Digest) -> HeaderValue {
    HeaderValue::try_from(format!("\"{digest}\"")).expect("hex digits may be in a header")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The log that `work` writes.
    fn log_of(work: impl FnOnce()) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        let writer = std::sync::Mutex::new(file.reopen().unwrap());
        let log = tracing_subscriber::fmt().with_writer(writer).finish();
        tracing::subscriber::with_default(log, work);
        fs::read_to_string(file.path()).unwrap()
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a damaged manifest for a test")]
    fn a_damaged_manifest_is_told_of_once_however_often_it_is_looked_at() {
        let directory = tempfile::tempdir().unwrap();
        crate::tests::publish(directory.path(), 8);
        let folder = crate::tests::publish(directory.path(), 10);
        let manifest = folder.join(MANIFEST_NAME);
        let good = fs::read(&manifest).unwrap();
        let published = Published::new(directory.path().to_owned());
        let losing = TableName::Losing;
        let look = || {
            for _ in 0..5 {
                assert_eq!(published.list(), [losing(8)]);
                assert!(published.stamp(losing(10)).is_err());
                published.file("table-10", MANIFEST_NAME).unwrap_err();
            }
        };
        assert_eq!(published.list(), [losing(8), losing(10)]);
        for damaged in [&good[1..], b"{}"] {
            fs::write(&manifest, damaged).unwrap();
            let log = log_of(look);
            assert_eq!(log.matches("ERROR").count(), 1, "{log}");
            assert!(log.contains(manifest.to_str().unwrap()), "{log}");
        }
        fs::write(&manifest, &good).unwrap();
        assert_eq!(published.list(), [losing(8), losing(10)]);
    }

    /// Two manifests that do not fit into memory together.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "long manifests for a test")]
    fn a_table_that_was_forgotten_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let manifests = [8, 10].map(|bits| {
            let path = crate::tests::publish(directory.path(), bits).join(MANIFEST_NAME);
            let mut bytes = fs::read(&path).unwrap();
            bytes.resize(usize::try_from(KEPT_BYTES_MAX).unwrap() / 2 + 1, b' ');
            fs::write(&path, &bytes).unwrap();
            (TableName::Losing(bits).folder(), bytes)
        });
        let published = Published::new(directory.path().to_owned());
        let manifest = |folder| match published.file(folder, MANIFEST_NAME).unwrap() {
            TableFile::Manifest(file) => file.bytes,
            other => panic!("{other:?}"),
        };
        let kept = || published.known.lock().kept.len();
        assert!(published.has_any());
        assert_eq!(published.known.lock().all.len(), 1, "one is enough");
        assert_eq!((published.list().len(), kept()), (2, 0));
        for _ in 0..2 {
            for (folder, bytes) in &manifests {
                assert!(manifest(folder) == bytes);
                let shard = published.file(folder, "shard-0001.zst").unwrap();
                assert!(matches!(shard, TableFile::Shard(_)), "{shard:?}");
                assert_eq!((published.list().len(), kept()), (2, 1));
            }
        }
        // One that is still being sent is not read a second time.
        let sent = manifest(&manifests[0].0);
        drop(manifest(&manifests[1].0));
        assert_eq!(manifest(&manifests[0].0).as_ptr(), sent.as_ptr());
    }
}
