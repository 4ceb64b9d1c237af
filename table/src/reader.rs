//! The reader: opens a published table and looks positions up.
//!
//! Nothing is used that was not checked: the manifest against `SHA256SUMS`, the index of each
//! shard against the manifest, each data frame against its index. Files are read by plain
//! blocking reads, so a file that changes underneath gives an error and no wrong answer.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::fingerprint::{FingerprintBuilder, Fingerprints};
use crate::format::FormatError;
use crate::manifest::{
    MANIFEST_BYTES_MAX, MANIFEST_NAME, Manifest, SHA256SUMS_NAME, folder_name, losing_by_bits,
    sha256sums,
};
use crate::shard::{ShardIndex, ShardInfo, decode_shard};
use crate::word::Word;

mod cache;

use cache::{Cache, FrameId};

/// A published table that is open for reading.
#[derive(Debug)]
pub struct Table {
    folder: PathBuf,
    manifest: Manifest,
    indices: Vec<ShardIndex>,
    cache: Cache,
}

/// Where a table lists a word, or would if the word were losing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The file name of the shard.
    pub shard: &'a str,
    /// The number of the data frame in it, counted from 0.
    pub frame: usize,
}

/// Why a table does not answer.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// There is no published table at this path.
    #[error("{path} has no published table: build one with `chomp run --table {path} --bits N`")]
    NotFound {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The bytes of a file are not those that were published.
    #[error("{file} is damaged: {what}; download or build this table again")]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A later version of this program wrote the table.
    #[error("{file} has format {found}, and this program knows format {known}: use a newer chomp")]
    Newer {
        /// The file.
        file: PathBuf,
        /// The format found.
        found: u32,
        /// The newest format that this program knows.
        known: u32,
    },
    /// The position is not covered by the table.
    #[error("the position has {bits} bits, and the table covers {table_bits}")]
    Beyond {
        /// The bits of the position.
        bits: u32,
        /// The bits of the table.
        table_bits: u32,
    },
    /// A file cannot be read.
    #[error("cannot read {file}")]
    Io {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Table {
    /// Opens the table at `path`: the folder of a published table, or the directory of a table,
    /// of which the published table of the most bits is opened.
    ///
    /// # Errors
    ///
    /// If there is none, or if its manifest, the list of digests, the index of a shard or the
    /// length of a file is not what was published.
    pub fn open(path: &Path) -> Result<Table, TableError> {
        let (folder, bits) = find(path)?;
        let manifest = read_manifest(&folder)?;
        if bits.is_some_and(|bits| bits != manifest.bits) {
            let what = format!("it is the manifest of a table of {} bits", manifest.bits);
            return Err(TableError::Damaged {
                file: folder.join(MANIFEST_NAME),
                what,
            });
        }
        Table::with_manifest(folder, manifest)
    }

    /// The folder of the table that [`Table::open`] opens for `path`; nothing in it is checked.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn locate(path: &Path) -> Result<PathBuf, TableError> {
        find(path).map(|(folder, _)| folder)
    }

    /// The table whose shards are in `folder`, which need not have its manifest yet.
    ///
    /// # Errors
    ///
    /// If the index of a shard or the length of a file is not what `manifest` says.
    pub fn with_manifest(folder: PathBuf, manifest: Manifest) -> Result<Table, TableError> {
        let index = |shard| read_index(&folder, shard);
        let indices = manifest
            .shards
            .iter()
            .map(index)
            .collect::<Result<_, _>>()?;
        Ok(Table {
            folder,
            manifest,
            indices,
            cache: Cache::default(),
        })
    }

    /// The manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The folder that holds the manifest and the shards.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether the position of `word` is losing.
    ///
    /// # Errors
    ///
    /// If the position has more bits than the table, or if the part of the table that holds the
    /// answer cannot be read or is damaged.
    pub fn is_losing(&self, word: Word) -> Result<bool, TableError> {
        let (bits, table_bits) = (word.bits(), self.manifest.bits);
        if bits > table_bits {
            return Err(TableError::Beyond { bits, table_bits });
        }
        let word = word.representative().get();
        let Some(id) = self.frame_of(word) else {
            return Ok(false);
        };
        let words = match self.cache.get(id) {
            Some(words) => words,
            None => self.cache.insert(id, Arc::new(self.read_frame(id)?)),
        };
        Ok(words.binary_search(&word).is_ok())
    }

    /// All words of the table, ascending, in pieces of at most 65,536: one representative for each
    /// mirror pair of losing positions.
    pub fn words(&self) -> impl Iterator<Item = Result<Vec<u64>, TableError>> {
        let frames = |(shard, index): (usize, &ShardIndex)| {
            (0..index.len()).map(move |frame| FrameId { shard, frame })
        };
        self.indices
            .iter()
            .enumerate()
            .flat_map(frames)
            .map(|id| self.read_frame(id))
    }

    /// Where the table lists the position of `word` if it is losing; nothing between two shards.
    pub fn place(&self, word: Word) -> Option<Place<'_>> {
        let id = self.frame_of(word.representative().get())?;
        Some(Place {
            shard: &self.manifest.shards[id.shard].name,
            frame: id.frame,
        })
    }

    /// Reads every byte of every shard, and checks all digests, counts and fingerprints.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or is not what was published.
    pub fn verify_bytes(&self) -> Result<(), TableError> {
        let mut fingerprints = FingerprintBuilder::new(self.manifest.bits);
        for number in 0..self.manifest.shards.len() {
            fingerprints.push(&self.read_shard(number)?);
        }
        self.check_totals(&fingerprints.finish())
    }

    /// All words of the shard with this number, counted from 0, of which every byte was checked.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or is not what was published.
    ///
    /// # Panics
    ///
    /// If there is no such shard.
    pub fn read_shard(&self, number: usize) -> Result<Vec<u64>, TableError> {
        let shard = &self.manifest.shards[number];
        let file = self.folder.join(&shard.name);
        let bytes = read_part(&file, 0, shard.bytes, shard.bytes)?;
        let words = decode_shard(&bytes, shard).map_err(|error| refused(&file, error))?;
        let mut pairs = words.iter().map(|&word| (word, Word::new(word).mirror()));
        if let Some((word, mirror)) = pairs.find(|(word, mirror)| mirror.get() < *word) {
            let mirror = mirror.get();
            let what = format!("the mirror image of its word {word} is smaller: {mirror}");
            return Err(TableError::Damaged { file, what });
        }
        Ok(words)
    }

    /// Compares the manifest with `found`, which the words of all shards gave.
    ///
    /// # Errors
    ///
    /// If the manifest has another fingerprint or count for some number of bits.
    pub fn check_totals(&self, found: &Fingerprints) -> Result<(), TableError> {
        let said = &self.manifest;
        let fingerprints = first_difference(&found.by_bits, &said.fingerprints_by_bits);
        let counts = losing_by_bits(&found.stored_by_bits);
        let what = if let Some((bits, found, said)) = fingerprints {
            format!("the words of {bits} bits have the fingerprint {found}, not {said}")
        } else if let Some((bits, found, said)) = first_difference(&counts, &said.losing_by_bits) {
            format!(
                "losing_by_bits has {said} for {bits} bits; the words of the shards give {found}"
            )
        } else {
            return Ok(());
        };
        Err(TableError::Damaged {
            file: self.folder.join(MANIFEST_NAME),
            what,
        })
    }

    /// The frame that holds `word` if the table does.
    fn frame_of(&self, word: u64) -> Option<FrameId> {
        let shards = &self.manifest.shards;
        let after = shards.partition_point(|shard| shard.first <= word);
        let shard = after.checked_sub(1)?;
        let frame = self.indices[shard].frame_of(word)?;
        Some(FrameId { shard, frame })
    }

    fn read_frame(&self, id: FrameId) -> Result<Vec<u64>, TableError> {
        let (shard, index) = (&self.manifest.shards[id.shard], &self.indices[id.shard]);
        let file = self.folder.join(&shard.name);
        let location = index.location(id.frame);
        let bytes = read_part(&file, location.start, location.end, shard.bytes)?;
        index
            .decode_frame(id.frame, &bytes)
            .map_err(|error| refused(&file, error))
    }
}

/// The folder of the published table at `path`, and its bits if the folder's name tells them.
fn find(path: &Path) -> Result<(PathBuf, Option<u32>), TableError> {
    let has_manifest = |folder: &Path| {
        let file = folder.join(MANIFEST_NAME);
        match file.try_exists() {
            Ok(exists) => Ok(exists),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(false),
            Err(source) => Err(TableError::Io { file, source }),
        }
    };
    if has_manifest(path)? {
        return Ok((path.to_owned(), None));
    }
    for bits in (0..=u64::BITS).rev() {
        let folder = path.join(folder_name(bits));
        if has_manifest(&folder)? {
            return Ok((folder, Some(bits)));
        }
    }
    Err(TableError::NotFound {
        path: path.to_owned(),
    })
}

fn read_manifest(folder: &Path) -> Result<Manifest, TableError> {
    let file = folder.join(MANIFEST_NAME);
    let bytes = read_at_most(&file, MANIFEST_BYTES_MAX)?;
    let manifest = Manifest::parse(&bytes).map_err(|error| refused(&file, error))?;

    let expected = sha256sums(&bytes, &manifest);
    let file = folder.join(SHA256SUMS_NAME);
    let found = read_at_most(&file, expected.len() as u64)?;
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
    Err(TableError::Damaged { file, what })
}

/// The first place, with what is there, where two lists differ that should be the same.
fn first_difference<'a, T: PartialEq>(
    found: &'a [T],
    said: &'a [T],
) -> Option<(usize, &'a T, &'a T)> {
    let mut pairs = found.iter().zip(said).enumerate();
    let different = pairs.find(|(_, (found, said))| found != said)?;
    let (place, (found, said)) = different;
    Some((place, found, said))
}

fn read_index(folder: &Path, shard: &ShardInfo) -> Result<ShardIndex, TableError> {
    let file = folder.join(&shard.name);
    let bytes = read_part(&file, shard.index_offset, shard.bytes, shard.bytes)?;
    ShardIndex::parse(&bytes, shard).map_err(|error| refused(&file, error))
}

/// The bytes from `start` to `end` of a file that must be `length` bytes long.
fn read_part(file: &Path, start: u64, end: u64, length: u64) -> Result<Vec<u8>, TableError> {
    let mut handle = open(file)?;
    let failed = |source| TableError::Io {
        file: file.to_owned(),
        source,
    };
    let found = handle.metadata().map_err(failed)?.len();
    if found != length {
        let what = format!("it has {found} bytes instead of {length}");
        return Err(TableError::Damaged {
            file: file.to_owned(),
            what,
        });
    }
    handle.seek(SeekFrom::Start(start)).map_err(failed)?;
    let mut bytes = Vec::new();
    handle
        .take(end - start)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    Ok(bytes)
}

/// The content of a file that must not be longer than `most` bytes.
fn read_at_most(file: &Path, most: u64) -> Result<Vec<u8>, TableError> {
    let mut bytes = Vec::new();
    let source = open(file)?.take(most + 1).read_to_end(&mut bytes);
    source.map_err(|source| TableError::Io {
        file: file.to_owned(),
        source,
    })?;
    if bytes.len() as u64 <= most {
        Ok(bytes)
    } else {
        let what = format!("it has more than {most} bytes");
        Err(TableError::Damaged {
            file: file.to_owned(),
            what,
        })
    }
}

/// Opens a file that belongs to a published table: its absence is damage.
fn open(file: &Path) -> Result<File, TableError> {
    match File::open(file) {
        Ok(handle) => Ok(handle),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(TableError::Damaged {
            file: file.to_owned(),
            what: "it is missing".into(),
        }),
        Err(source) => Err(TableError::Io {
            file: file.to_owned(),
            source,
        }),
    }
}

fn refused(file: &Path, error: FormatError) -> TableError {
    let file = file.to_owned();
    match error {
        FormatError::Newer {
            what: _,
            found,
            known,
        } => TableError::Newer { file, found, known },
        FormatError::Damaged(damage) => TableError::Damaged {
            file,
            what: damage.to_string(),
        },
    }
}
