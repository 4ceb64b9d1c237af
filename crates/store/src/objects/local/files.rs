//! Creates, reads, lists and removes the files and folders of a table's directory.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;

use bytes::Bytes;
use chomp_durable_files::{Below, FaultKind, FileError, RareCall, Unfit, failed};

use super::super::key::is_component;
use super::super::{Key, LISTED_MAX, Operation, StorageError, StorageProblem};

/// The most objects that are tried to find out whether any can be read.
const OTHERS_MAX: usize = 8;
/// The number of first names of an object, `<name>#1` and so on, that are compared with its file.
const FIRST_NAMES_COMPARED: u32 = 9;

#[derive(Debug)]
pub(super) struct FileFailure {
    pub(super) problem: StorageProblem,
    source: io::Error,
}

impl From<io::Error> for FileFailure {
    fn from(source: io::Error) -> FileFailure {
        FileFailure::new(FaultKind::of(&source), source)
    }
}

impl FileFailure {
    fn new(problem: impl Into<StorageProblem>, source: io::Error) -> FileFailure {
        let problem = problem.into();
        FileFailure { problem, source }
    }

    pub(super) fn of_existing(source: io::Error) -> FileFailure {
        if is_absent(&source) {
            FileFailure::new(StorageProblem::NotFound, source)
        } else {
            source.into()
        }
    }

    pub(super) fn of(self, action: Operation, key: &Key) -> StorageError {
        StorageError::new(self.problem, action, key, self.source)
    }
}

pub(super) fn sync(folder: &Below) -> Result<(), FileFailure> {
    folder.sync().map_err(|source| match source.kind() {
        ErrorKind::Unsupported => source.into(),
        _ => FileFailure::new(FaultKind::Unsure, source),
    })
}

/// Whether an action failed because there is no such object: a folder is not an object, and a file contains none.
fn is_absent(error: &io::Error) -> bool {
    use ErrorKind::{IsADirectory, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | IsADirectory)
}

pub(super) fn if_there<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Err(error) if is_absent(&error) => Ok(None),
        done => done.map(Some),
    }
}

/// Creates the file `name` in `folder`, whole and durable. One that has the same bytes already is taken for this one.
pub(super) fn create(folder: &Below, name: &str, bytes: &[u8]) -> Result<(), FileFailure> {
    let (first, file) = open_unfinished(folder, name)?;
    let filled = fill(folder, &first, file, name, bytes);
    let done = filled.and_then(|()| sync(folder));
    let removed = if_there(folder.remove(&first));
    // The first failure says more than a failure to clear up after it.
    done.and_then(|()| Ok(removed.map(drop)?))
}

/// Makes a file under the first of the names `<name>#1`, `<name>#2` and so on that is free. Returns the name and the
/// file.
fn open_unfinished(folder: &Below, name: &str) -> io::Result<(String, File)> {
    for number in 1_u32.. {
        let first = format!("{name}#{number}");
        match folder.create(&first) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            opened => return Ok((first, opened?)),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

fn fill(
    folder: &Below,
    first: &str,
    mut file: File,
    name: &str,
    bytes: &[u8],
) -> Result<(), FileFailure> {
    file.write_all(bytes)?;
    // After a failure the bytes go into a new file: of this one nobody knows what the disk has.
    chomp_durable_files::sync(&file)?;
    match folder.link(first, name) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            // A network file system that repeats a lost request meets the name that it has made itself.
            if file.metadata()?.nlink() > 1 {
                return Ok(());
            }
            match read(folder, name, 0..bytes.len() as u64 + 1) {
                Ok(there) if there == bytes => Ok(()),
                Err(unread) if unread.problem != FaultKind::Damage.into() => Err(unread),
                _ => Err(FileFailure::new(StorageProblem::AlreadyExists, error)),
            }
        }
        // A process that takes the directory over has removed the unfinished file. The file is written again: if the
        // other process has created the object meanwhile, the name is taken, and that attempt fails.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(FileFailure::new(FaultKind::Passing, error))
        }
        linked => Ok(linked.map_err(|error| RareCall::Link.explain(error))?),
    }
}

pub(super) fn try_writing(folder: &Below) -> io::Result<()> {
    let (name, _) = open_unfinished(folder, "probe")?;
    folder.remove(&name)
}

pub(super) fn read(folder: &Below, name: &str, range: Range<u64>) -> Result<Bytes, FileFailure> {
    let (file, metadata) = folder.open_file(name).map_err(FileFailure::of_existing)?;
    read_from(file, &metadata, range)
}

/// As [`read`], but fails if the file has another name than that of the object. The file that is checked is the one
/// that is read.
pub(super) fn read_unaliased(
    folder: &Below,
    name: &str,
    range: Range<u64>,
) -> Result<Bytes, FileFailure> {
    let (file, metadata) = folder.open_file(name).map_err(FileFailure::of_existing)?;
    // After an interrupted creation the file has its first name too.
    let is_own = |number| folder.is_file_named(&metadata, &format!("{name}#{number}"));
    let is_alone = |file: &Metadata| match file.nlink() {
        0 | 1 => folder.is_file_named(file, name),
        2 => (1..=FIRST_NAMES_COMPARED).any(is_own),
        _ => false,
    };
    // A name may be removed and made again meanwhile: so the names are checked twice.
    if !is_alone(&metadata) || !is_alone(&file.metadata()?) {
        return Err(io::Error::from(Unfit::OtherNames).into());
    }
    read_from(file, &metadata, range)
}

fn read_from(mut file: File, metadata: &Metadata, range: Range<u64>) -> Result<Bytes, FileFailure> {
    let wanted = range.end.min(metadata.len()).saturating_sub(range.start);
    if wanted == 0 {
        return Ok(Bytes::new());
    }
    if range.start > 0 {
        file.seek(SeekFrom::Start(range.start))?;
    }
    let size = usize::try_from(wanted).map_err(|_| io::Error::from(ErrorKind::OutOfMemory))?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size).map_err(io::Error::from)?;
    file.take(wanted).read_to_end(&mut bytes)?;
    Ok(bytes.into())
}

pub(super) fn is_other_read(folder: &Below, name: &str) -> bool {
    let others = folder.names(OTHERS_MAX).unwrap_or_default();
    let mut others = others.iter().filter(|other| *other != name);
    others.any(|other| read(folder, other, 0..1).is_ok_and(|byte| !byte.is_empty()))
}

/// Adds the objects in `folder`, whose key is `prefix`, with their sizes, up to one more than [`LISTED_MAX`].
pub(super) fn list(folder: &Below, prefix: &str, objects: &mut Vec<(Key, u64)>) -> io::Result<()> {
    for name in folder.names(usize::MAX)? {
        // A name that no key can have is not an object's: a file of the system, say.
        let Ok(key) = Key::new(&format!("{prefix}/{name}")) else {
            continue;
        };
        match if_there(folder.look(&name))? {
            _ if objects.len() > LISTED_MAX => break,
            Some((Some(Unfit::Folder), _)) => {
                list(&folder.folder(&name)?, key.as_str(), objects)?;
            }
            // Whatever has the name of an object is listed as one, so that it is removed with the others.
            Some((_, size)) => objects.push((key, size)),
            None => {}
        }
    }
    Ok(())
}

/// Does something with the subfolders of a folder, and then with the folder.
pub(super) fn each_folder(
    folder: &Below,
    act: &impl Fn(&Below) -> Result<(), FileError>,
) -> Result<(), FileError> {
    for (_, below) in folders(folder, is_component)? {
        each_folder(&below, act)?;
    }
    act(folder)
}

/// Removes unfinished files from `folder`. That need not be durable.
pub(super) fn remove_unfinished(folder: &Below) -> Result<(), FileError> {
    for name in names(folder)?.iter().filter(|name| is_unfinished(name)) {
        let path = folder.path().join(name);
        let found = if_there(folder.look(name)).map_err(failed("look at", &path))?;
        if let Some((None, _)) = found {
            let removed = if_there(folder.remove(name));
            removed.map_err(failed("remove the unfinished file", &path))?;
        }
    }
    Ok(())
}

pub(super) fn folders(
    folder: &Below,
    is_named: impl Fn(&str) -> bool,
) -> Result<Vec<(String, Below)>, FileError> {
    let mut folders = Vec::new();
    for name in names(folder)?.into_iter().filter(|name| is_named(name)) {
        let path = folder.path().join(&name);
        let found = if_there(folder.look(&name)).map_err(failed("look at", &path))?;
        if let Some((Some(Unfit::Folder), _)) = found {
            let below = folder.folder(&name).map_err(failed("open", &path))?;
            folders.push((name, below));
        }
    }
    Ok(folders)
}

fn names(folder: &Below) -> Result<Vec<String>, FileError> {
    let names = folder.names(usize::MAX);
    names.map_err(failed("list", folder.path()))
}

/// Whether a file has the name under which [`create`] writes an object.
fn is_unfinished(name: &str) -> bool {
    name.split_once('#').is_some_and(|(name, number)| {
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        is_component(name) && is_number
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second thread removes the unfinished file, as a coordinator may that takes the table over while the last one
    /// writes.
    #[test]
    fn what_is_cleared_away_while_it_is_written_is_written_again() {
        let directory = tempfile::tempdir().unwrap();
        let folder = Below::open(directory.path()).unwrap();
        for number in 0..20 {
            let name = format!("object-{number}");
            let first = format!("object-{number}#1");
            std::thread::scope(|scope| {
                // The removal may come before the object has its name, or too late.
                scope.spawn(
                    || while folder.remove(&first).is_err() && folder.look(&name).is_err() {},
                );
                while let Err(failure) = create(&folder, &name, &vec![7; 1 << 20]) {
                    assert!(failure.problem == FaultKind::Passing.into(), "{failure:?}");
                }
            });
            assert_eq!(read(&folder, &name, 0..u64::MAX).unwrap().len(), 1 << 20);
        }
        assert_eq!(names(&folder).unwrap().len(), 20);
    }

    #[test]
    fn a_file_without_its_first_name_gets_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let folder = Below::open(directory.path()).unwrap();
        let (first, file) = open_unfinished(&folder, "object").unwrap();
        folder.remove(&first).unwrap();
        let filled = fill(&folder, &first, file, "object", b"content");
        assert!(
            matches!(&filled, Err(failure) if failure.problem == FaultKind::Passing.into()),
            "{filled:?}"
        );

        // After any other failure of a link it does not help to write the file again.
        let (first, file) = open_unfinished(&folder, "object").unwrap();
        let filled = fill(&folder, &first, file, "object#1/object", b"content");
        assert!(
            matches!(&filled, Err(failure) if failure.problem == FaultKind::Lasting.into()),
            "{filled:?}"
        );
    }
}
