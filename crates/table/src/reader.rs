//! The reader: opens a published table and looks positions up.
//!
//! Nothing is used unchecked: the manifest is compared with `SHA256SUMS`, an index with the manifest, a data frame with
//! its index. Files are not mapped into memory, so a file that changes underneath gives an error and no wrong answer.

use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::digest::Digest;
use crate::fingerprint::{self, Fingerprints, Leaf, LeafBuilder};
use crate::format::FormatError;
use crate::manifest::{
    MANIFEST_BYTES_MAX, MANIFEST_NAME, Manifest, SHA256SUMS_NAME, losing_by_bits, sha256sums,
};
use crate::shard::{ShardInfo, decode_shard};
use crate::word::Word;

mod alone;
mod cache;
mod files;
mod kind;
mod name;
mod shards;

pub use alone::ShardFile;
pub use cache::CACHE_BYTES;
pub use files::{FileSlice, Files, Folder, boxes};
pub use kind::{AnyManifest, AnyTable, ShardFileInfo, locate};
pub use name::{TableKind, TableName};

pub(crate) use cache::FrameId;
pub(crate) use shards::{ListedShard, Shards};

/// A published table that is open for reading. Indices and data frames are read when they are needed, and checked
/// before they are used. Any number of threads may ask at the same time.
#[derive(Debug)]
pub struct Table {
    folder: PathBuf,
    manifest: Manifest,
    shards: Shards<ShardInfo>,
}

/// Where a table lists a word, or would if the word were losing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardFrame<'a> {
    /// The file name of the shard.
    pub shard: &'a str,
    /// The number of the data frame in it, counted from 0.
    pub frame: usize,
}

/// Why a table does not answer.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the variants are named for what they are")]
pub enum TableError {
    #[error(
        "{path} has no published table: build one with `chomp run --table {path} --bits N`; if a job works there, \
         `chomp status --table {path}` says how far it is"
    )]
    NotFound { path: PathBuf },
    #[error("{file} is damaged: {what}; download or build this table again")]
    Damaged { file: PathBuf, what: String },
    /// The answers for a position and for those that its moves leave cannot all be right.
    #[error("the table contradicts itself: {what}; download or build it again")]
    Contradiction { what: String },
    /// A file does not begin as a shard does, so it never was one.
    #[error(
        "{file} is {what}: --table takes the folder of a table, or a shard of losing positions, as shard-0000.zst"
    )]
    NotAShard { file: PathBuf, what: &'static str },
    #[error("{file} has format {found}, and this program knows format {known}: use a newer chomp")]
    Newer {
        file: PathBuf,
        found: u32,
        known: u32,
    },
    #[error(
        "the position has {bits} bits (first row + number of rows), and the table covers {table_bits}: \
         it takes a table of {bits} bits; of at most 5 rows or columns `chomp query POSITION` tells without one"
    )]
    Beyond { bits: u32, table_bits: u32 },
    #[error("the position has {tiles} tiles, and the table covers those of 1 to {table_tiles}")]
    BeyondTiles { tiles: u32, table_tiles: u32 },
    /// A shard without its table does not cover the position.
    #[error(
        "{file} holds the words from {first} to {last}, and the position has the word {word}: \
         ask the whole table"
    )]
    NotInShard {
        file: PathBuf,
        /// The smaller word of the position and its mirror image.
        word: u64,
        first: u64,
        last: u64,
    },
    /// A file is not as `chomp box --json` printed it, or contradicts a table.
    #[error("{file} cannot be used: {what}; remove it, or make it again with `chomp box --json`")]
    Openings { file: PathBuf, what: String },
    #[error("cannot read {file}")]
    Io { file: PathBuf, source: io::Error },
}

impl TableError {
    /// The error that the bytes of `file` differ from the published ones, for the reason `what`.
    pub fn damaged(file: impl Into<PathBuf>, what: impl Into<String>) -> TableError {
        TableError::Damaged {
            file: file.into(),
            what: what.into(),
        }
    }

    /// The error that `file` cannot be read, as a function of the cause.
    pub fn io(file: &Path) -> impl Fn(io::Error) -> TableError {
        |source| TableError::Io {
            file: file.to_owned(),
            source,
        }
    }
}

impl Table {
    /// Opens the table at `path`: a folder of a table, or a directory of such folders, from which it takes the table of
    /// the most bits. Fails if there is none, or if its manifest or the list of digests is not what was published.
    pub fn open(path: &Path) -> Result<Table, TableError> {
        Table::open_with_cache(path, CACHE_BYTES)
    }

    /// As [`Table::open`], with up to `cache_bytes` of the words that were read last in memory.
    pub fn open_with_cache(path: &Path, cache_bytes: u64) -> Result<Table, TableError> {
        let (folder, bits) = find(path, &[TableKind::Losing])?;
        Table::from_files(Box::new(Folder(folder)), bits, cache_bytes)
    }

    /// Opens the table in `files`, which must have `bits` bits if these are known.
    pub fn from_files(
        files: Box<dyn Files>,
        bits: Option<u32>,
        cache_bytes: u64,
    ) -> Result<Table, TableError> {
        let manifest = read_manifest(&*files, Manifest::parse, sha256sums)?;
        check_size(&*files, bits, manifest.bits, "bits")?;
        Ok(Table::new(files, manifest, cache_bytes))
    }

    /// The table whose shards are in `folder`, which need not have its manifest yet.
    pub fn with_manifest(folder: PathBuf, manifest: Manifest) -> Table {
        Table::new(Box::new(Folder(folder)), manifest, CACHE_BYTES)
    }

    fn new(files: Box<dyn Files>, manifest: Manifest, cache_bytes: u64) -> Table {
        Table {
            folder: files.full_name(""),
            shards: Shards::new(files, manifest.shards.clone(), cache_bytes),
            manifest,
        }
    }

    /// The manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The folder that holds the manifest and the shards, or its address.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Fails if the position has more bits than the table, or if the part of the table that holds the answer cannot be
    /// read or is damaged.
    pub fn is_losing(&self, word: Word) -> Result<bool, TableError> {
        Ok(self.are_losing(&[word])?[0])
    }

    /// Whether each of `words` is losing, in their order. Many words at once are faster: a frame that several need is
    /// read once, and a remote table is asked for many frames together.
    pub fn are_losing(&self, words: &[Word]) -> Result<Vec<bool>, TableError> {
        let table_bits = self.manifest.bits;
        if let Some(bits) = words
            .iter()
            .map(|word| word.bits())
            .find(|&bits| bits > table_bits)
        {
            return Err(TableError::Beyond { bits, table_bits });
        }
        let representatives: Vec<u64> = words
            .iter()
            .map(|word| word.representative().get())
            .collect();
        self.shards.contains_each(&representatives)
    }

    /// All words, ascending, in pieces of at most 8,192: one representative for each mirror pair of losing positions.
    pub fn words(&self) -> impl Iterator<Item = Result<Vec<u64>, TableError>> {
        self.shards.all().map(|id| self.shards.read(id?))
    }

    /// Passes to `take`, frame by frame, the words of each frame that may have words in `range`: in any order, and with a
    /// lower bound of the words of all later frames. They are checked, but for their mirror images. Fails as `take` does, or if a file cannot be read or is
    /// not what was published.
    pub fn frames_in<E: From<TableError>>(
        &self,
        range: &Range<u64>,
        take: impl FnMut(Vec<u64>, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        self.shards.frames_in(range, take)
    }

    /// Where the table lists the word, or would if it were losing. None if the word is not between the first and the
    /// last word of any shard. Fails if the index of the shard cannot be read or is damaged.
    pub fn frame_of(&self, word: Word) -> Result<Option<ShardFrame<'_>>, TableError> {
        let id = self.shards.frame_of(word.representative().get())?;
        Ok(id.map(|id| ShardFrame {
            shard: &self.manifest.shards[id.shard].name,
            frame: id.frame,
        }))
    }

    /// Checks all digests, counts and fingerprints. Fails if a file cannot be read, or is not what was published.
    pub fn verify_bytes(&self) -> Result<(), TableError> {
        let mut leaves = Vec::new();
        for number in 0..self.manifest.shards.len() {
            let mut leaf = LeafBuilder::new();
            leaf.push(&self.read_shard(number)?);
            leaves.push(leaf.finish());
        }
        let found = self.combine_leaves(&leaves)?;
        self.check_fingerprints(&found.by_bits)?;
        self.check_counts(&found.stored_by_bits)
    }

    /// The fingerprints and numbers of words that the leaves of all shards make. Fails if no table has such leaves.
    pub fn combine_leaves(&self, leaves: &[Leaf]) -> Result<Fingerprints, TableError> {
        let found = fingerprint::combine(self.manifest.bits, leaves);
        found.map_err(|damage| self.other_words(damage.to_string()))
    }

    /// All words of the shard with this number, counted from 0, after a check of every byte. Fails if the file cannot
    /// be read, or is not what was published. Panics if there is no such shard.
    pub fn read_shard(&self, number: usize) -> Result<Vec<u64>, TableError> {
        let shard = &self.manifest.shards[number];
        let words = decode_shard(&self.shards.whole(number)?, shard);
        words.map_err(|error| self.shards.refused(number, error))
    }

    /// Fails if the manifest has another fingerprint for some number of bits than the words of all shards gave.
    pub fn check_fingerprints(&self, by_bits: &[Digest]) -> Result<(), TableError> {
        let said = &self.manifest.fingerprints_by_bits;
        self.compare(by_bits, said, |bits, found, said| {
            format!("the words of {bits} bits have the fingerprint {found}, not {said}")
        })
    }

    /// Fails if the manifest counts other words for some number of bits than are in the shards.
    pub fn check_counts(&self, stored_by_bits: &[u64]) -> Result<(), TableError> {
        let counts = losing_by_bits(stored_by_bits);
        let said = &self.manifest.losing_by_bits;
        self.compare(&counts, said, |bits, found, said| {
            format!(
                "losing_by_bits has {said} for {bits} bits; the words of the shards give {found}"
            )
        })
    }

    fn compare<T: PartialEq>(
        &self,
        found: &[T],
        said: &[T],
        what: impl FnOnce(usize, &T, &T) -> String,
    ) -> Result<(), TableError> {
        let mut pairs = found.iter().zip(said).enumerate();
        match pairs.find(|(_, (found, said))| found != said) {
            Some((bits, (found, said))) => Err(self.other_words(what(bits, found, said))),
            None => Ok(()),
        }
    }

    fn other_words(&self, what: String) -> TableError {
        TableError::damaged(self.shards.files.full_name(MANIFEST_NAME), what)
    }
}

/// The folder of a table: `path` if it has a manifest, else the folder in it of the largest table of the first of
/// `kinds` that it has; with the bits or tiles in the folder's name, if that is the name of a table.
pub(crate) fn find(path: &Path, kinds: &[TableKind]) -> Result<(PathBuf, Option<u32>), TableError> {
    let has_manifest = |folder: &Path| {
        let file = folder.join(MANIFEST_NAME);
        match file.try_exists() {
            Ok(exists) => Ok(exists),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(false),
            Err(error) => Err(TableError::io(&file)(error)),
        }
    };
    let name = path.file_name().and_then(OsStr::to_str);
    let named = name.and_then(TableName::of);
    if has_manifest(path)? {
        if let Some(named) = named.filter(|named| !kinds.contains(&named.kind())) {
            let what = format!("it is no manifest of a {named}, as the name of its folder says");
            return Err(TableError::damaged(path.join(MANIFEST_NAME), what));
        }
        return Ok((path.to_owned(), named.map(TableName::size)));
    }
    for wanted in kinds {
        let largest_first = TableName::all().rev();
        for table in largest_first.filter(|table| table.kind() == *wanted) {
            let folder = path.join(table.folder());
            if has_manifest(&folder)? {
                return Ok((folder, Some(table.size())));
            }
        }
    }
    Err(TableError::NotFound {
        path: path.to_owned(),
    })
}

/// The manifest of the table in `files`. Fails if `SHA256SUMS` is not what `sums` makes of the manifest.
pub(crate) fn read_manifest<M>(
    files: &dyn Files,
    parse: impl FnOnce(&[u8]) -> Result<M, FormatError>,
    sums: impl FnOnce(&[u8], &M) -> String,
) -> Result<M, TableError> {
    let bytes = files.whole(MANIFEST_NAME, MANIFEST_BYTES_MAX)?;
    let manifest = parse(&bytes).map_err(|error| refused(files.full_name(MANIFEST_NAME), error))?;

    let expected = sums(&bytes, &manifest);
    let found = files.whole(SHA256SUMS_NAME, expected.len() as u64)?;
    if found == expected.as_bytes() {
        return Ok(manifest);
    }
    let lines = expected
        .split_inclusive('\n')
        .zip(found.split_inclusive(|&byte| byte == b'\n'));
    let same = lines.take_while(|(expected, found)| expected.as_bytes() == *found);
    let number = same.count();
    let expected = expected.lines().nth(number).unwrap_or_default();
    let what = format!(
        "its line {} is not {expected:?}, as {MANIFEST_NAME} has it",
        number + 1
    );
    Err(TableError::damaged(files.full_name(SHA256SUMS_NAME), what))
}

/// Fails if the folder's name gives a `size`, and the manifest has another number of bits or tiles.
pub(crate) fn check_size(
    files: &dyn Files,
    size: Option<u32>,
    found: u32,
    unit: &str,
) -> Result<(), TableError> {
    if size.is_none_or(|size| size == found) {
        return Ok(());
    }
    let what = format!("it is the manifest of a table of {found} {unit}");
    Err(TableError::damaged(files.full_name(MANIFEST_NAME), what))
}

pub(crate) fn refused(file: PathBuf, error: FormatError) -> TableError {
    match error {
        FormatError::Newer {
            what: _,
            found,
            known,
        } => TableError::Newer { file, found, known },
        FormatError::Damaged(damage) => TableError::damaged(file, damage.to_string()),
    }
}
