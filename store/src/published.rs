//! The objects of a published table: shards that workers write, then `SHA256SUMS`, and the manifest last: a
//! table without a manifest is none.

use bytes::Bytes;
use chomp_table::manifest::MANIFEST_BYTES_MAX;

use crate::StoreError;
use crate::keys;
use crate::objects::{Key, KeyError, Storage, StorageError};

/// The key of an object of the published table of `bits` bits.
///
/// # Errors
///
/// If `name` cannot be part of a key.
pub fn key(bits: u32, name: &str) -> Result<Key, KeyError> {
    keys::published(bits, name)
}

/// Creates an object of a table that is being published.
///
/// What an interrupted publication left under the key stays if it has the same bytes, and is
/// replaced if not: nobody reads a table before its manifest is there.
///
/// # Errors
///
/// [`StoreError::Damaged`] if other bytes have the key and the table has its manifest;
/// [`StoreError::Storage`].
pub async fn put(
    storage: &dyn Storage,
    bits: u32,
    key: &Key,
    bytes: Bytes,
) -> Result<(), StoreError> {
    match storage.create(key, bytes.clone()).await {
        Err(StorageError::AlreadyExists { .. }) => {}
        created => return Ok(created?),
    }
    let there = storage.read_at(key, 0..bytes.len() as u64 + 1).await;
    if matches!(&there, Ok(there) if *there == bytes) {
        return Ok(());
    }
    if manifest(storage, bits).await?.is_some() {
        let what = "it is not what the table's parts make of it".to_owned();
        return Err(StoreError::Damaged {
            key: key.clone(),
            what,
        });
    }
    storage.delete(std::slice::from_ref(key)).await?;
    Ok(storage.create(key, bytes).await?)
}

/// The bytes of the manifest of the published table of `bits` bits, if it is published.
///
/// # Errors
///
/// [`StoreError::Damaged`] if it is too large for one; [`StoreError::Storage`].
pub async fn manifest(storage: &dyn Storage, bits: u32) -> Result<Option<Bytes>, StoreError> {
    let key = keys::manifest(bits);
    match storage.read_at(&key, 0..MANIFEST_BYTES_MAX + 1).await {
        Ok(bytes) if bytes.len() as u64 > MANIFEST_BYTES_MAX => Err(StoreError::Damaged {
            key,
            what: "it is too large for a manifest".to_owned(),
        }),
        Ok(bytes) => Ok(Some(bytes)),
        Err(StorageError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
