//! Files for this user alone: the access files of coordinators that listen on loopback, and a seal.
//!
//! A coordinator on port 7171 leaves its access file as `loopback-7171.json` in a folder of its user that nobody else
//! can enter, where workers of that user find it without naming a file. Other commands keep files there that must be of
//! this user, and a secret, the seal, by which they recognize their own files in other folders.

use std::env;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use chomp_durable_files::{FileError as DurableError, check_owner, create_private, failed};
use chomp_table::digest::Seal;
use chomp_table::format::describe;
use serde::{Deserialize, Serialize};

use crate::error::FileError;
use crate::file::Access;
use crate::private::{self, OF_OTHERS, PrivateKind};
use crate::token::random_text;

const SEAL_NAME: &str = "seal.json";
const SEAL: PrivateKind = PrivateKind {
    name: "file with this user's seal",
    own: true,
};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SealContent {
    secret: String,
}

/// An access file that is there for as long as this is.
#[derive(Debug)]
pub struct LocalAccess(PathBuf);

impl LocalAccess {
    /// Writes the access file of a coordinator that listens on this port of loopback. Fails if others can enter the
    /// folder.
    pub fn leave(folder: &Path, port: u16, access: &Access) -> Result<LocalAccess, FileError> {
        make_private(folder)?;
        let path = path(folder, port);
        access.write(&path)?;
        Ok(LocalAccess(path))
    }
}

impl Drop for LocalAccess {
    /// A program that listens on the port next must not be shown the token.
    fn drop(&mut self) {
        if let Err(error) = chomp_durable_files::remove(&self.0) {
            tracing::warn!("{}", describe(&error));
        }
    }
}

/// The folder of this user: `$XDG_STATE_HOME/chomp`, or else `$HOME/.local/state/chomp`. None if neither is set.
pub fn folder() -> Option<PathBuf> {
    // A relative path would lead to another place from each directory.
    let absolute = |name| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let home = || Some(absolute("HOME")?.join(".local/state"));
    Some(absolute("XDG_STATE_HOME").or_else(home)?.join("chomp"))
}

/// Where the access file for a coordinator at `url` is, if that is a port of loopback.
pub fn file(folder: &Path, url: &str) -> Option<PathBuf> {
    let authority = url.split_once("://")?.1.split('/').next()?;
    let (host, port) = authority.rsplit_once(':')?;
    let is_loopback = ["127.0.0.1", "[::1]", "localhost"].contains(&host);
    let port = port.parse().ok().filter(|_| is_loopback)?;
    Some(path(folder, port))
}

/// The seal of this user; its secret is made if there is none yet. Bytes that the seal has marked were written by a
/// program of this user, wherever they are. Fails if there is no folder for the secret, or its file is not this user's
/// own. Panics if the system gives no random numbers.
pub fn seal() -> Result<Seal, FileError> {
    let path = ensure_folder()?.join(SEAL_NAME);
    let content = match private::read::<SealContent>(&path, SEAL) {
        Err(FileError::Missing { .. }) => {
            let secret = random_text();
            let text = private::text(&SealContent { secret });
            match create_private(&path, text.as_bytes()) {
                // Another process of this user was first.
                Ok(()) | Err(DurableError::Exists { .. }) => private::read(&path, SEAL)?,
                Err(error) => return Err(error.into()),
            }
        }
        read => read?,
    };
    Ok(Seal::new(content.secret.as_bytes()))
}

/// A seal that ends with the process. Panics if the system gives no random numbers.
pub fn seal_in_memory() -> Seal {
    Seal::new(random_text().as_bytes())
}

/// Makes the folder of this user if need be. Fails if it belongs to another user, or others can enter it.
pub fn ensure_folder() -> Result<PathBuf, FileError> {
    let folder = folder().ok_or(FileError::NoPlace)?;
    make_private(&folder)?;
    Ok(folder)
}

/// Makes the folder, if need be, such that nobody else can enter it. Fails if another user owns it: `sudo` may keep the
/// HOME of that user.
fn make_private(folder: &Path) -> Result<(), FileError> {
    let mut builder = DirBuilder::new();
    let created = builder.recursive(true).mode(0o700).create(folder);
    let metadata = created.and_then(|()| fs::metadata(folder));
    let metadata = metadata.map_err(failed("make the folder", folder))?;
    check_owner(&metadata).map_err(failed("use the folder", folder))?;
    if metadata.mode() & OF_OTHERS != 0 {
        return Err(FileError::Exposed {
            path: folder.to_owned(),
            mode: "700",
        });
    }
    Ok(())
}

fn path(folder: &Path, port: u16) -> PathBuf {
    folder.join(format!("loopback-{port}.json"))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn loopback_is_told_from_other_addresses() {
        let folder = Path::new("/state/chomp");
        for host in ["127.0.0.1", "[::1]", "localhost"] {
            let url = format!("https://{host}:7171/status");
            assert_eq!(file(folder, &url), Some(path(folder, 7171)), "{url}");
        }
        for url in [
            "http://128.0.0.1:7171",
            "http://127.0.0.1.example.org:7171",
            "http://localhost@example.org:7171",
            "http://example.org:7171/localhost:7171",
            "http://localhost",
            "http://localhost:65536",
            "http://localhost:7171:7171",
            "localhost:7171",
            "",
        ] {
            assert_eq!(file(folder, url), None, "{url}");
        }
    }

    #[test]
    fn what_is_saved_is_found_by_its_user_only() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("state/chomp");
        let access = Access {
            coordinator: "http://127.0.0.1:7171".into(),
            ca: None,
            token: None,
        };
        let left = LocalAccess::leave(&folder, 7171, &access).unwrap();
        let found = file(&folder, "http://localhost:7171").unwrap();
        assert_eq!(Access::read(&found).unwrap(), access);
        let mode = |path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&found)), (0o700, 0o600));
        drop(left);
        let gone = Access::read(&found);
        assert!(matches!(gone, Err(FileError::Missing { .. })));

        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        let error = LocalAccess::leave(&folder, 7171, &access).unwrap_err();
        assert!(error.to_string().contains("chmod 700"), "{error}");
    }
}
