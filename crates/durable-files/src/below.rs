//! Folders that are reached without a link.
//!
//! An unpacked archive, or a shared directory, may have a link in it where a folder is to be. What is done to
//! "a file in that folder" would then be done to a file elsewhere: removed, handed out, written over. So each step from
//! a folder that a user has named goes through a descriptor of the folder before, and never through a link.

use std::fs::{File, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{FileStat, Mode, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, linkat, unlinkat};

use crate::open::{Unfit, regular};

const GROUP_FILE: u32 = 0o060;
const GROUP_FOLDER: u32 = 0o070;
const GROUP_WRITE: u32 = 0o020;
const INHERIT_GROUP: u32 = 0o2000;

/// A folder that is held open.
#[derive(Debug)]
pub struct Below {
    folder: File,
    path: PathBuf,
}

impl Below {
    /// Opens the folder that a user has named, through links if need be.
    pub fn open(path: &Path) -> io::Result<Below> {
        let folder = File::open(path)?;
        if !folder.metadata()?.is_dir() {
            return Err(Errno::ENOTDIR.into());
        }
        Ok(Below {
            folder,
            path: path.to_owned(),
        })
    }

    /// Where it was when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a folder in this one. Fails if it is a link.
    pub fn folder(&self, name: &str) -> io::Result<Below> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let path = self.path.join(name);
        match openat(&self.folder, name, flags, Mode::empty()) {
            Ok(folder) => Ok(Below {
                folder: folder.into(),
                path,
            }),
            Err(error) => match self.look(name) {
                Ok((Some(Unfit::Link), _)) => {
                    let what = format!(
                        "{} is a symbolic link, and below a table's directory none is followed: to have all of the \
                         table elsewhere, give `--table` or `--store` that place",
                        path.display()
                    );
                    Err(io::Error::new(ErrorKind::InvalidInput, what))
                }
                _ => Err(error.into()),
            },
        }
    }

    /// Makes a folder, unless there is one. If the group may write in this folder, it may write in the new one too.
    /// Fails if the name is that of a link.
    pub fn make_folder(&self, name: &str) -> io::Result<Below> {
        match mkdirat(&self.folder, name, Mode::from_bits_truncate(0o777)) {
            Ok(()) => {
                let made = self.folder(name)?;
                self.share(&made.folder, GROUP_FOLDER)?;
                Ok(made)
            }
            Err(Errno::EEXIST) => self.folder(name),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives the group the rights on something new in this folder, if it has them here.
    fn share(&self, new: &File, rights: u32) -> io::Result<()> {
        let here = self.folder.metadata()?;
        if here.mode() & GROUP_WRITE == 0 {
            return Ok(());
        }
        let metadata = new.metadata()?;
        if metadata.gid() != here.gid() {
            // A user who is not of the group cannot give it anything.
            fchown(new, None, Some(here.gid())).unwrap_or(());
        }
        let inherited = if metadata.is_dir() {
            here.mode() & INHERIT_GROUP
        } else {
            0
        };
        let mode = metadata.mode() & 0o7777 | rights | inherited;
        new.set_permissions(Permissions::from_mode(mode))
    }

    /// Opens a regular file for reading, without waiting. Fails with [`Unfit`] if it is no file.
    pub fn open_file(&self, name: &str) -> io::Result<(File, Metadata)> {
        // A pipe is opened without waiting for its other end, and a terminal does not become ours.
        let flags = OFlag::O_RDONLY
            | OFlag::O_NOFOLLOW
            | OFlag::O_CLOEXEC
            | OFlag::O_NONBLOCK
            | OFlag::O_NOCTTY;
        let opened = openat(&self.folder, name, flags, Mode::empty());
        let opened = opened.map(File::from).map_err(io::Error::from);
        regular(opened, || Ok(self.stat(name)?.st_mode))
    }

    /// Makes a file, if there is nothing of that name.
    pub fn create(&self, name: &str) -> io::Result<File> {
        let flags =
            OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file = openat(&self.folder, name, flags, Mode::from_bits_truncate(0o666))?;
        let file = File::from(file);
        self.share(&file, GROUP_FILE)?;
        Ok(file)
    }

    /// Gives a file a second name in this folder.
    pub fn link(&self, from: &str, to: &str) -> io::Result<()> {
        let folder = self.folder.as_fd();
        Ok(linkat(folder, from, folder, to, AtFlags::empty())?)
    }

    /// Removes a name that is no folder.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.folder, name, UnlinkatFlags::NoRemoveDir)?)
    }

    /// Why the entry `name` is no regular file, or none if it is one; and its size in bytes.
    pub fn look(&self, name: &str) -> io::Result<(Option<Unfit>, u64)> {
        let found = self.stat(name)?;
        let size = u64::try_from(found.st_size).unwrap_or(0);
        Ok((Unfit::of_mode(found.st_mode), size))
    }

    /// Whether the entry `name` is the file with this metadata.
    pub fn is_file_named(&self, file: &Metadata, name: &str) -> bool {
        let same = |found: FileStat| (found.st_dev, found.st_ino) == (file.dev(), file.ino());
        self.stat(name).is_ok_and(same)
    }

    fn stat(&self, name: &str) -> io::Result<FileStat> {
        Ok(fstatat(&self.folder, name, AtFlags::AT_SYMLINK_NOFOLLOW)?)
    }

    /// The names in the folder that are text, at most `most` of them.
    pub fn names(&self, most: usize) -> io::Result<Vec<String>> {
        // A copy of the descriptor would share the place up to which was read.
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let again: OwnedFd = openat(&self.folder, ".", flags, Mode::empty())?;
        let mut names = Vec::new();
        for entry in Dir::from_fd(again)?.iter() {
            let entry = entry?;
            if let Ok(name) = entry.file_name().to_str()
                && !matches!(name, "." | "..")
            {
                if names.len() == most {
                    break;
                }
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// Makes the entries of the folder durable. If it fails, nobody knows whether they are.
    pub fn sync(&self) -> io::Result<()> {
        crate::sync(&self.folder)
    }
}
