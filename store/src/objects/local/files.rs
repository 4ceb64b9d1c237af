//! What is done with the files and folders of a table's directory.

use std::collections::BTreeSet;
use std::fs::{self, File, FileType};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use chomp_files::{FileError, failed, sync_folder};

use super::super::key::is_segment;
use super::super::{Action, Key, Problem, StorageError};

/// Why an object cannot be created, read or removed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) problem: Problem,
    source: io::Error,
}

impl From<io::Error> for Failure {
    fn from(source: io::Error) -> Failure {
        let problem = match source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Problem::Full,
            _ => Problem::Failed,
        };
        Failure::new(problem, source)
    }
}

impl Failure {
    fn new(problem: Problem, source: io::Error) -> Failure {
        Failure { problem, source }
    }

    /// Of an action on a file that should be there. A folder is not an object, and a file has none in
    /// it.
    pub(super) fn of_existing(source: io::Error) -> Failure {
        match source.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory => {
                Failure::new(Problem::NotFound, source)
            }
            _ => source.into(),
        }
    }

    /// The failure as that of an action on an object.
    pub(super) fn of(self, action: Action, key: &Key) -> StorageError {
        StorageError::new(self.problem, action, key, self.source)
    }
}

/// Creates the file `path` in `folder`, whole and durable.
pub(super) fn create(path: &Path, folder: &Path, bytes: &[u8]) -> Result<(), Failure> {
    match create_once(path, folder, bytes) {
        // Whoever takes a table over clears away what is not finished. Who has it from now on is for the
        // names to say.
        Err(first) if first.problem == Problem::NotFound => {
            let again = create_once(path, folder, bytes);
            again.map_err(|failure| match failure.problem {
                Problem::NotFound => failure.source.into(),
                _ => failure,
            })
        }
        done => done,
    }
}

/// The same; [`Problem::NotFound`] if the file lost its first name before it had its own.
fn create_once(path: &Path, folder: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let (first, file) = open_unfinished(path)?;
    let done = fill(&first, file, path, bytes).and_then(|()| Ok(sync_folder(folder)?));
    let removed = unless_gone(fs::remove_file(&first));
    // The first failure says more than one of the clearing up after it.
    done.and_then(|()| Ok(removed.map(drop)?))
}

/// Makes a file under the first name that is free for an object.
fn open_unfinished(path: &Path) -> io::Result<(PathBuf, File)> {
    for number in 1_u32.. {
        let mut first = path.as_os_str().to_owned();
        first.push(format!("#{number}"));
        match File::options().write(true).create_new(true).open(&first) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            opened => return Ok((first.into(), opened?)),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

fn fill(first: &Path, mut file: File, path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    file.write_all(bytes)?;
    file.sync_all()?;
    match fs::hard_link(first, path) {
        // A network file system that repeats a lost request meets the name that it has made itself.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => match file.metadata()?.nlink() {
            1 => Err(Failure::new(Problem::AlreadyExists, error)),
            _ => Ok(()),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(Failure::new(Problem::NotFound, error))
        }
        linked => Ok(linked?),
    }
}

/// Makes sure that files can be made in `folder`.
pub(super) fn try_writing(folder: &Path) -> io::Result<()> {
    let (path, _) = open_unfinished(&folder.join("probe"))?;
    fs::remove_file(path)
}

/// The bytes of a file in `range`, as far as there are any.
pub(super) fn read(path: &Path, range: Range<u64>) -> Result<Bytes, Failure> {
    let (mut file, metadata) = chomp_files::open_within(path).map_err(Failure::of_existing)?;
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

/// Adds the objects in `folder`, whose key is `prefix`, with their sizes. Each object and each folder takes one of
/// `left`, since links may lead around for ever. When none are left, `left` becomes `None` and the listing ends.
pub(super) fn list(
    folder: &Path,
    prefix: &str,
    left: &mut Option<usize>,
    objects: &mut Vec<(Key, u64)>,
) -> io::Result<()> {
    let found = match each_entry(folder) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(());
        }
        found => found?,
    };
    for found in found {
        let Some((path, _, name)) = found? else {
            continue;
        };
        // A name that no key can have is not an object's: a file of the system, say.
        let Ok(key) = Key::new(&format!("{prefix}/{name}")) else {
            continue;
        };
        *left = left.and_then(|left| left.checked_sub(1));
        if left.is_none() {
            break;
        }
        // A folder may be elsewhere. A link to a file is listed, as everything else that has the name of an
        // object, so that it is removed with the others, and not read as one.
        if fs::metadata(&path).is_ok_and(|found| found.is_dir()) {
            list(&path, key.as_str(), left, objects)?;
            continue;
        }
        let found = unless_gone(fs::symlink_metadata(&path))?;
        objects.extend(found.map(|found| (key, found.len())));
    }
    Ok(())
}

/// Makes the entries of `folder` and its subfolders durable.
pub(super) fn sync_all(folder: &Path, known: &mut BTreeSet<PathBuf>) -> Result<(), FileError> {
    for (path, kind, name) in entries(folder).map_err(failed("list", folder))? {
        if kind.is_dir() && is_segment(&name) {
            sync_all(&path, known)?;
        }
    }
    sync_folder(folder).map_err(failed("sync", folder))?;
    known.insert(folder.to_owned());
    Ok(())
}

/// Removes unfinished files from `folder` and its subfolders, if it is there. That need not be durable.
pub(super) fn remove_unfinished(folder: &Path) -> Result<(), FileError> {
    let found = unless_gone(entries(folder)).map_err(failed("list", folder))?;
    for (path, kind, name) in found.unwrap_or_default() {
        if kind.is_dir() && is_segment(&name) {
            remove_unfinished(&path)?;
        } else if kind.is_file() && is_unfinished(&name) {
            let removed = unless_gone(fs::remove_file(&path));
            removed.map_err(failed("remove the unfinished file", &path))?;
        }
    }
    Ok(())
}

/// A file or folder: where it is, what it is, its name.
type Entry = (PathBuf, FileType, String);

/// The files and folders in `folder`, but for those whose names are no text and so not ours.
pub(super) fn entries(folder: &Path) -> io::Result<Vec<Entry>> {
    each_entry(folder)?.filter_map(Result::transpose).collect()
}

/// The same, one after the other; nothing for one that is not ours or gone.
fn each_entry(folder: &Path) -> io::Result<impl Iterator<Item = io::Result<Option<Entry>>>> {
    let entry = |entry: io::Result<fs::DirEntry>| {
        let entry = entry?;
        let kind = unless_gone(entry.file_type())?;
        let name = entry.file_name().into_string().ok();
        Ok(kind
            .zip(name)
            .map(|(kind, name)| (entry.path(), kind, name)))
    };
    Ok(fs::read_dir(folder)?.map(entry))
}

/// What was done to a file; nothing if somebody else has removed that.
fn unless_gone<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        done => done.map(Some),
    }
}

/// Whether a file has the name under which [`create`] writes an object.
fn is_unfinished(name: &str) -> bool {
    name.split_once('#').is_some_and(|(name, number)| {
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        is_segment(name) && is_number
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a coordinator does that takes the table over while the last one writes.
    #[test]
    fn what_is_cleared_away_while_it_is_written_is_written_again() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path();
        for number in 0..20 {
            let path = folder.join(format!("object-{number}"));
            let first = folder.join(format!("object-{number}#1"));
            std::thread::scope(|scope| {
                // In time, or not.
                scope.spawn(|| {
                    while fs::remove_file(&first).is_err() && fs::metadata(&path).is_err() {}
                });
                create(&path, folder, &vec![7; 1 << 20]).unwrap();
            });
            assert_eq!(fs::read(&path).unwrap().len(), 1 << 20);
        }
        assert_eq!(entries(folder).unwrap().len(), 20);
    }

    #[test]
    fn a_file_without_its_first_name_gets_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("object");
        let (first, file) = open_unfinished(&path).unwrap();
        fs::remove_file(&first).unwrap();
        let filled = fill(&first, file, &path, b"content");
        assert!(
            matches!(&filled, Err(failure) if failure.problem == Problem::NotFound),
            "{filled:?}"
        );

        // Any other failure is none that is mended by writing again.
        let (first, file) = open_unfinished(&path).unwrap();
        let filled = fill(&first, file, &first.join("object"), b"content");
        assert!(
            matches!(&filled, Err(failure) if failure.problem == Problem::Failed),
            "{filled:?}"
        );
    }

    #[test]
    fn only_what_is_gone_is_passed_over() {
        let directory = tempfile::tempdir().unwrap();
        let gone = directory.path().join("gone");
        assert_eq!(unless_gone(fs::remove_file(gone)).unwrap(), None);
        assert_eq!(unless_gone(Ok(1)).unwrap(), Some(1));
        unless_gone(fs::remove_file(directory.path())).unwrap_err();

        let endless = directory.path().join("endless");
        std::os::unix::fs::symlink(&endless, &endless).unwrap();
        list(&endless, "endless", &mut Some(9), &mut Vec::new()).unwrap_err();
    }
}
