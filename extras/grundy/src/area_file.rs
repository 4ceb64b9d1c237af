//! The file of an area: what a run that goes on needs of one before.
//!
//! ```text
//!  0   8  "chompare"
//!  8   4  format version, 2
//! 12   4  the number of tiles
//! 16  32  the mark of this user's seal on the SHA-256 of all other bytes
//! 48   …  the value of each position, a byte each, by rank
//! ```
//!
//! Integers are little-endian. A file without the mark is damaged or somebody else's: its values would go in unseen.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use chomp_durable_files::{Below, FileError, NewFile, failed};
use chomp_kernel::grundy::AreaValues;
use chomp_table::Digest;
use chomp_table::digest::Seal;
use chomp_table::format::{Damage, Fields, FormatError, ensure};
use chomp_table::partition::AREA_MAX;

/// The folder of these files in the directory of a table.
pub const FOLDER: &str = "values-work";

const MAGIC: [u8; 8] = *b"chompare";
const VERSION: u32 = 2;
const HEADER_LENGTH: usize = 48;

#[derive(Debug)]
pub(crate) struct AreaFiles<'a> {
    folder: Below,
    seal: &'a Seal,
}

/// How many areas have files in the directory of a table. What is in them is not read.
pub fn areas_done(directory: &Path) -> io::Result<usize> {
    match Below::open(directory).and_then(|below| below.folder(FOLDER)) {
        Ok(folder) => {
            let is_there = |tiles: &u32| folder.look(&name(*tiles)).is_ok();
            Ok((1..=AREA_MAX).filter(is_there).count())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum AreaError {
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error(transparent)]
    Damaged(#[from] Damage),
    #[error("it cannot be read")]
    Io(#[from] io::Error),
}

impl AreaFiles<'_> {
    /// The folder in the directory of a table, which is made if it is not there.
    pub(crate) fn open<'a>(directory: &Path, seal: &'a Seal) -> Result<AreaFiles<'a>, FileError> {
        let path = directory.join(FOLDER);
        let folder = Below::open(directory).and_then(|below| below.make_folder(FOLDER));
        let folder = folder.map_err(failed("make or open", &path))?;
        Ok(AreaFiles { folder, seal })
    }

    pub(crate) fn path(&self, tiles: u32) -> PathBuf {
        self.folder.path().join(name(tiles))
    }

    pub(crate) fn read(&self, tiles: u32) -> Result<Option<AreaValues>, AreaError> {
        match self.folder.open_file(&name(tiles)) {
            Ok((file, metadata)) => Ok(Some(self.read_from(file, metadata.len(), tiles)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes the file of an area, durably. One that is there is replaced.
    pub(crate) fn write(&self, tiles: u32, values: &AreaValues) -> Result<(), FileError> {
        let path = self.path(tiles);
        let mut header = header(tiles);
        header.extend(self.mark(tiles, values).0);
        let mut file = NewFile::create(&path, true)?;
        let written = file.write_all(&header);
        let written = written.and_then(|()| file.write_all(values.get()));
        written.map_err(failed("write", &path))?;
        file.finish()
    }

    fn mark(&self, tiles: u32, values: &AreaValues) -> Digest {
        let digest = Digest::of_parts(&[&header(tiles), values.get()]);
        self.seal.mark(digest)
    }

    fn read_from(&self, mut file: File, len: u64, tiles: u32) -> Result<AreaValues, AreaError> {
        let mut values = AreaValues::zeros(tiles);
        let expected = (HEADER_LENGTH + values.get().len()) as u64;
        let length = || format!("it has {len} bytes instead of {expected}");
        ensure(len == expected, length)?;
        let mut header = [0; HEADER_LENGTH];
        file.read_exact(&mut header)?;
        let mut fields = Fields::new("the file of an area", &header);
        fields.version(MAGIC, VERSION)?;
        let (named, mark) = (fields.u32()?, Digest(fields.array()?));
        file.read_exact(values.get_mut())?;
        let is_right = named == tiles && self.mark(tiles, &values) == mark;
        ensure(
            is_right,
            || "it is damaged, or another user or machine wrote it",
        )?;
        Ok(values)
    }
}

/// Removes the files of the areas up to `tiles` tiles from the directory of a table that has them, and their folder if
/// nothing else is in it. Fails if they are there and cannot be removed.
pub fn remove_areas(directory: &Path, tiles: u32) -> Result<(), FileError> {
    let path = directory.join(FOLDER);
    let removed = Below::open(directory)
        .and_then(|below| below.folder(FOLDER))
        .and_then(|folder| {
            let mut names = (1..=tiles).map(name);
            names.try_for_each(|name| match folder.remove(&name) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            })?;
            std::fs::remove_dir(&path)
        });
    match removed {
        Err(error)
            if !matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty
            ) =>
        {
            Err(failed("clear up", &path)(error))
        }
        _ => Ok(()),
    }
}

fn name(tiles: u32) -> String {
    format!("area-{tiles:03}")
}

/// The bytes before the mark.
fn header(tiles: u32) -> Vec<u8> {
    [&MAGIC[..], &VERSION.to_le_bytes(), &tiles.to_le_bytes()].concat()
}
