//! Opening what may have been put there by somebody else.
//!
//! A name in a table's folder may stand for anything: a link to a secret of whoever reads it, or a pipe from which
//! nothing ever comes. Here only regular files are opened, without waiting.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;

/// Why something is not used as a file. An [`io::Error`] made of it has the same text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the variants are named for what they are")]
pub enum Unfit {
    #[error("it is a symbolic link, and not a file")]
    Link,
    #[error("it is a folder, and not a file")]
    Folder,
    #[error("it is a pipe, and not a file")]
    Pipe,
    #[error("it is a socket, and not a file")]
    Socket,
    #[error("it is a device, and not a file")]
    Device,
    /// A file that has another name too, and so may be one from elsewhere.
    #[error("it has another name too (a hard link)")]
    OtherNames,
    #[error("it belongs to another user")]
    OtherOwner,
}

impl From<Unfit> for io::Error {
    fn from(unfit: Unfit) -> io::Error {
        let kind = match unfit {
            Unfit::Folder => io::ErrorKind::IsADirectory,
            _ => io::ErrorKind::InvalidInput,
        };
        io::Error::new(kind, unfit)
    }
}

impl Unfit {
    /// The [`Unfit`] that `error` was made of, if it was made of one.
    pub fn of(error: &io::Error) -> Option<Unfit> {
        error.get_ref()?.downcast_ref().copied()
    }

    pub(crate) fn of_mode(mode: u32) -> Option<Unfit> {
        match mode & libc::S_IFMT {
            libc::S_IFREG => None,
            libc::S_IFLNK => Some(Unfit::Link),
            libc::S_IFDIR => Some(Unfit::Folder),
            libc::S_IFIFO => Some(Unfit::Pipe),
            libc::S_IFSOCK => Some(Unfit::Socket),
            _ => Some(Unfit::Device),
        }
    }
}

/// Whether a symbolic link under a file's own name is followed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    Followed,
    Refused,
}

/// Opens the file that a user has named, through links if need be. Fails with [`Unfit`] if it is no file, at once.
pub fn open(path: &Path) -> io::Result<(File, Metadata)> {
    open_as(File::options().read(true), path, Links::Followed)
}

/// As [`open`], but takes a pipe too: one without a writer is at its end. Fails with [`Unfit`] if it is neither.
pub fn open_or_pipe(path: &Path) -> io::Result<(File, Metadata)> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let opened = File::options()
        .read(true)
        .custom_flags(flags.bits())
        .open(path);
    let file = opened?;
    let metadata = file.metadata()?;
    match Unfit::of_mode(metadata.mode()) {
        None => {}
        Some(Unfit::Pipe) => drop(fcntl(&file, FcntlArg::F_SETFL(OFlag::empty()))?),
        Some(unfit) => return Err(unfit.into()),
    }
    Ok((file, metadata))
}

/// As [`open`], but the file itself may be no link (`O_NOFOLLOW`): for folders that somebody else may have filled.
pub fn open_nofollow(path: &Path) -> io::Result<(File, Metadata)> {
    open_as(File::options().read(true), path, Links::Refused)
}

/// Reads a file, which is opened as by [`open_nofollow`]: all of it, or the first `most` + 1 bytes if it is longer than
/// `most`.
pub fn read_one_past(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_up_to(open_nofollow(path)?.0, most)
}

/// As [`read_one_past`]. Fails with [`Unfit`] if the file is not this user's own, or has another name.
pub fn read_owned(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let (file, metadata) = open_nofollow(path)?;
    check_owner(&metadata)?;
    check_only_name(&metadata)?;
    read_up_to(file, most)
}

fn read_up_to(file: File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a file to append to it and to read it. Makes the file if it is not there. Fails with [`Unfit`] if it is no
/// file or has another name.
pub fn open_to_append(path: &Path) -> io::Result<(File, Metadata)> {
    let mut options = File::options();
    options.read(true).append(true).create(true);
    let (file, metadata) = open_as(&mut options, path, Links::Refused)?;
    check_only_name(&metadata)?;
    Ok((file, metadata))
}

/// Fails unless a file has one name: with two it may be one from elsewhere that somebody has linked to this place.
pub fn check_only_name(metadata: &Metadata) -> io::Result<()> {
    match metadata.nlink() {
        // It lost its name since it was opened, and harms nobody.
        0 | 1 => Ok(()),
        _ => Err(Unfit::OtherNames.into()),
    }
}

/// Fails unless a file belongs to the user who runs this process.
pub fn check_owner(metadata: &Metadata) -> io::Result<()> {
    if metadata.uid() == nix::unistd::geteuid().as_raw() {
        Ok(())
    } else {
        Err(Unfit::OtherOwner.into())
    }
}

pub(crate) fn open_as(
    options: &mut OpenOptions,
    path: &Path,
    links: Links,
) -> io::Result<(File, Metadata)> {
    // A pipe is opened without waiting for its other end, and a terminal does not become ours.
    let mut flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    if links == Links::Refused {
        flags |= OFlag::O_NOFOLLOW;
    }
    let opened = options.custom_flags(flags.bits()).open(path);
    regular(opened, || {
        let found = match links {
            Links::Followed => fs::metadata(path),
            Links::Refused => fs::symlink_metadata(path),
        };
        Ok(found?.mode())
    })
}

/// The opened file, if it is a regular one. If the system could not open a link or a socket, its error does not say so:
/// then `mode`, that of the entry, shows the cause.
pub(crate) fn regular(
    opened: io::Result<File>,
    mode: impl FnOnce() -> io::Result<u32>,
) -> io::Result<(File, Metadata)> {
    let file = opened.map_err(|error| match mode().map(Unfit::of_mode) {
        Ok(Some(unfit)) => unfit.into(),
        _ => error,
    })?;
    let metadata = file.metadata()?;
    match Unfit::of_mode(metadata.mode()) {
        Some(unfit) => Err(unfit.into()),
        None => Ok((file, metadata)),
    }
}
