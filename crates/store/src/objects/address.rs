//! The address of a bucket.

use std::fmt;

use super::Key;

/// A bucket of an object store, or a folder in it: `s3://BUCKET/PREFIX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The protocol of its server.
    pub service: Service,
    /// The name of the bucket, which Azure calls a container.
    pub name: String,
    /// The start of all keys in the bucket, without the slash that follows it.
    pub prefix: Option<Key>,
}

/// A protocol of object stores: of Amazon S3 and servers like it, of Google Cloud Storage, or of Azure Blob Storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are named for what they are")]
pub enum Service {
    S3,
    Google,
    Azure,
}

impl Service {
    pub(crate) const ALL: [Service; 3] = [Service::S3, Service::Google, Service::Azure];

    /// The scheme of its buckets' addresses, with `://`.
    pub(crate) fn scheme(self) -> &'static str {
        match self {
            Service::S3 => "s3://",
            Service::Google => "gs://",
            Service::Azure => "az://",
        }
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.service.scheme(), self.name)?;
        match &self.prefix {
            Some(prefix) => write!(f, "/{prefix}"),
            None => Ok(()),
        }
    }
}
