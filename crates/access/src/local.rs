//! The access files of coordinators that listen on loopback, where their own user finds them.
//!
//! A coordinator on port 7171 leaves its access file as `loopback-7171.json` in a folder of its user
//! that nobody else can enter, so that workers of that user need no file named. Other commands keep there what only
//! their own user may have written.

use std::env;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use chomp_durable_files::failed;

use crate::error::FileError;
use crate::file::Access;
use crate::private::OF_OTHERS;

/// The folder of this user: `$XDG_STATE_HOME/chomp`, or else `$HOME/.local/state/chomp`. None if
/// neither is set.
pub fn folder() -> Option<PathBuf> {
    folder_from(env::var_os("XDG_STATE_HOME"), env::var_os("HOME"))
}

fn folder_from(state: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    // A relative one would lead to another place from each directory.
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let state = state.and_then(absolute);
    let state = state.or_else(|| Some(home.and_then(absolute)?.join(".local/state")));
    Some(state?.join("chomp"))
}

/// Where the access file for a coordinator at `url` is, if that is on loopback.
pub fn file(folder: &Path, url: &str) -> Option<PathBuf> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let default_port = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port: u16 = match port.strip_prefix(':') {
        Some(port) => port.parse().ok()?,
        None if port.is_empty() => default_port,
        None => return None,
    };
    let loopback = host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    loopback.then(|| path(folder, port))
}

/// Makes the folder, if need be, such that nobody else can enter it.
///
/// # Errors
///
/// If it cannot be made, or if others can enter the one that is there.
pub fn make(folder: &Path) -> Result<(), FileError> {
    let mut builder = DirBuilder::new();
    let created = builder.recursive(true).mode(0o700).create(folder);
    let metadata = created.and_then(|()| fs::metadata(folder));
    let metadata = metadata.map_err(failed("make the folder", folder))?;
    if metadata.mode() & OF_OTHERS != 0 {
        return Err(FileError::Exposed {
            path: folder.to_owned(),
            mode: "700",
        });
    }
    Ok(())
}

/// Leaves the access file of a coordinator that listens on this port of loopback.
///
/// # Errors
///
/// If it cannot be written, or if others can enter the folder.
pub fn save(folder: &Path, port: u16, access: &Access) -> Result<(), FileError> {
    make(folder)?;
    access.write(&path(folder, port))
}

/// Removes the file when the coordinator ends: a program that listens on the port next must not be shown the token.
///
/// # Errors
///
/// If it is there and cannot be removed.
pub fn remove(folder: &Path, port: u16) -> Result<(), FileError> {
    Ok(chomp_durable_files::remove(&path(folder, port))?)
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
    fn the_folder_is_that_of_the_user() {
        let os = |text: &str| Some(OsString::from(text));
        let path = |text: &str| Some(PathBuf::from(text));
        for (state, home, expected) in [
            (os("/state"), os("/home/a"), path("/state/chomp")),
            (None, os("/home/a"), path("/home/a/.local/state/chomp")),
            (os(""), os("/home/a"), path("/home/a/.local/state/chomp")),
            (
                os("state"),
                os("/home/a"),
                path("/home/a/.local/state/chomp"),
            ),
            (os("/state"), None, path("/state/chomp")),
            (None, os("a"), None),
            (None, None, None),
        ] {
            assert_eq!(folder_from(state, home), expected);
        }
    }

    #[test]
    fn loopback_is_told_from_other_addresses() {
        let folder = Path::new("/state/chomp");
        for (url, port) in [
            ("http://127.0.0.1:7171", 7171),
            ("http://127.9.8.7:7171/", 7171),
            ("https://localhost:7171/status", 7171),
            ("https://LOCALHOST", 443),
            ("http://localhost/", 80),
            ("http://[::1]:7171", 7171),
            ("http://[::1]", 80),
        ] {
            let expected = folder.join(format!("loopback-{port}.json"));
            assert_eq!(file(folder, url), Some(expected), "{url}");
        }
        for url in [
            "http://128.0.0.1:7171",
            "http://127.0.0.1.example.org:7171",
            "http://localhost.example.org:7171",
            "http://localhost@example.org:7171",
            "http://user@localhost:7171",
            "http://[::2]:7171",
            "http://[::1]7171",
            "http://[::1",
            "http://localhost:",
            "http://localhost:65536",
            "http://localhost:7171:7171",
            "ftp://localhost:7171",
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
        save(&folder, 7171, &access).unwrap();
        let found = file(&folder, "http://localhost:7171").unwrap();
        assert_eq!(Access::read(&found).unwrap(), access);
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);

        remove(&folder, 7171).unwrap();
        assert!(matches!(
            Access::read(&found),
            Err(FileError::Missing { .. })
        ));
        remove(&folder, 7171).unwrap();

        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        let error = save(&folder, 7171, &access).unwrap_err();
        assert!(error.to_string().contains("chmod 700"), "{error}");
    }
}
