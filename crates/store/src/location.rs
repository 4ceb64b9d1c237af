//! Where a store is, as users write it, and how it is opened.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chomp_durable_files::failed;

use crate::objects::{Bucket, Key, LocalStorage, OpenError, Routed, Service, Storage, TableLock};

/// Where a store is: a directory, or a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreLocation {
    /// A directory.
    Directory(PathBuf),
    /// A bucket, or a folder in it.
    Bucket(Bucket),
}

/// The error for a text that is no path on this machine, or no place for a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no {kind}: {what}")]
pub struct LocationError {
    text: String,
    kind: &'static str,
    what: &'static str,
}

/// The path that a text names: the text itself, or the part after `file://`. Fails if the text has another scheme.
pub fn local(text: &OsStr) -> Result<PathBuf, LocationError> {
    let address = text.to_str().and_then(|text| text.split_once("://"));
    let refuse = |what| LocationError {
        text: text.display().to_string(),
        kind: "path on this machine",
        what,
    };
    match address {
        None if text.is_empty() => Err(refuse("it is empty")),
        None => Ok(PathBuf::from(text)),
        Some(("file", path)) if path.contains('%') => {
            Err(refuse("give the path itself, without file://"))
        }
        Some(("file", path)) => {
            let path = path.strip_prefix("localhost").unwrap_or(path);
            let is_absolute = path.starts_with('/');
            is_absolute
                .then(|| PathBuf::from(path))
                .ok_or_else(|| refuse("after file:// comes a path from the root, as file:///data"))
        }
        Some(_) => Err(refuse(
            "a bucket for the work goes into --store, and `chomp download` fetches tables from elsewhere",
        )),
    }
}

impl StoreLocation {
    /// A path, `file://`, or `s3://`, `gs://` or `az://` with a bucket's name, perhaps with a prefix of keys.
    pub fn parse(text: &str) -> Result<StoreLocation, LocationError> {
        let refuse = |what| LocationError {
            text: text.to_owned(),
            kind: "place for a store",
            what,
        };
        let (scheme, rest) = match text.split_once("://") {
            None | Some(("file", _)) => return Ok(StoreLocation::Directory(local(text.as_ref())?)),
            Some(address) => address,
        };
        let service = Service::ALL
            .into_iter()
            .find(|service| service.scheme().strip_suffix("://") == Some(scheme));
        let service = service
            .ok_or_else(|| refuse("give a directory, s3://, gs:// or az:// with a bucket"))?;
        let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || !name.bytes().all(allowed) {
            return Err(refuse("the name of its bucket is missing or wrong"));
        }
        let prefix = match prefix.trim_end_matches('/') {
            "" => None,
            prefix => Some(Key::new(prefix).map_err(|_| {
                refuse(
                    "after the bucket, give folders of letters, digits, '-', '_' and '.' that do not start with '.'",
                )
            })?),
        };
        Ok(StoreLocation::Bucket(Bucket {
            service,
            name: name.to_owned(),
            prefix,
        }))
    }

    /// Whether a text begins as the address of a bucket does.
    pub fn is_of_bucket(text: &str) -> bool {
        Service::ALL
            .iter()
            .any(|service| text.starts_with(service.scheme()))
    }

    /// Makes the path absolute. Fails with [`OpenError::File`] if the working directory is not known.
    pub fn absolute(self) -> Result<StoreLocation, OpenError> {
        let StoreLocation::Directory(path) = &self else {
            return Ok(self);
        };
        let absolute = std::path::absolute(path);
        let absolute = absolute.map_err(failed("find the absolute path of", path))?;
        Ok(StoreLocation::Directory(absolute))
    }

    /// For a worker: without a lock, and without clearing up. Fails if the directory is missing or cannot be written.
    /// Whether a bucket can be reached turns out with the first object.
    pub fn open_shared(&self) -> Result<Arc<dyn Storage>, OpenError> {
        Ok(match self {
            StoreLocation::Directory(path) => Arc::new(LocalStorage::shared(path)?),
            StoreLocation::Bucket(bucket) => bucket.open(None)?,
        })
    }

    /// Opens the store for whoever only reads it. The directory need not be writable.
    pub fn open_view(&self) -> Result<Arc<dyn Storage>, OpenError> {
        match self {
            StoreLocation::Directory(path) => Ok(Arc::new(LocalStorage::view(path)?)),
            StoreLocation::Bucket(_) => self.open_shared(),
        }
    }

    /// Opens the store for a coordinator: locks a directory, or tries a bucket out. If `journal` is a directory, the
    /// objects of the journal are there. Otherwise it fails if the bucket creates an object whose key has one already.
    pub async fn open(&self, journal: Option<&Path>) -> Result<Arc<dyn Storage>, OpenError> {
        let local = |path: &Path| LocalStorage::open(TableLock::acquire(path)?);
        let rest: Arc<dyn Storage> = match (self, journal) {
            (StoreLocation::Directory(path), _) => Arc::new(local(path)?),
            (StoreLocation::Bucket(bucket), None) => bucket.open_for_job(true).await?,
            (StoreLocation::Bucket(bucket), Some(_)) => bucket.open_for_job(false).await?,
        };
        Ok(match journal {
            Some(path) => Arc::new(Routed {
                journal: Arc::new(local(path)?),
                rest,
            }),
            None => rest,
        })
    }
}

impl fmt::Display for StoreLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreLocation::Directory(path) => path.display().fmt(f),
            StoreLocation::Bucket(bucket) => bucket.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_location() {
        let bucket = |service, name: &str, prefix: &str| {
            let prefix = (!prefix.is_empty()).then(|| Key::new(prefix).unwrap());
            StoreLocation::Bucket(Bucket {
                service,
                name: name.to_owned(),
                prefix,
            })
        };
        for (text, expected, shown) in [
            ("table", StoreLocation::Directory("table".into()), "table"),
            (
                "/a/b c",
                StoreLocation::Directory("/a/b c".into()),
                "/a/b c",
            ),
            ("s3:/a", StoreLocation::Directory("s3:/a".into()), "s3:/a"),
            (
                "file:///a/b",
                StoreLocation::Directory("/a/b".into()),
                "/a/b",
            ),
            (
                "file://localhost/a",
                StoreLocation::Directory("/a".into()),
                "/a",
            ),
            ("s3://b-1", bucket(Service::S3, "b-1", ""), "s3://b-1"),
            ("s3://b/", bucket(Service::S3, "b", ""), "s3://b"),
            (
                "gs://b/a/c/",
                bucket(Service::Google, "b", "a/c"),
                "gs://b/a/c",
            ),
            ("az://b/a", bucket(Service::Azure, "b", "a"), "az://b/a"),
        ] {
            let location = StoreLocation::parse(text).unwrap();
            assert_eq!(location, expected, "{text}");
            assert_eq!(location.to_string(), shown);
            let is_of_bucket = matches!(location, StoreLocation::Bucket(_));
            assert_eq!(StoreLocation::is_of_bucket(text), is_of_bucket, "{text}");
        }
        for text in [
            "",
            "s3://",
            "s3:///a",
            "http://a/b",
            "file://a/b",
            "file:///a%20b",
            "S3://a",
            "s3://a b",
            "s3://a/.b",
            "s3://a/b//c",
            "s3://a/b?c",
        ] {
            let error = StoreLocation::parse(text).unwrap_err().to_string();
            assert!(error.contains("is no "), "{error}");
        }
    }
}
