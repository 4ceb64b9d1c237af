//! The objects of a published table: shards that workers write, then `SHA256SUMS`, and the manifest last: a folder
//! without a manifest is no table.

use bytes::Bytes;
use chomp_table::manifest::{MANIFEST_BYTES_MAX, folder_name};
use chomp_table::reader::ShardFileInfo;

use crate::keys;
use crate::objects::{Key, KeyError, Storage, StorageProblem};
use crate::{FaultKind, StoreError};

/// The key of an object of the published table in `folder`. Fails if `name` cannot be part of a key.
pub fn key(folder: &str, name: &str) -> Result<Key, KeyError> {
    Key::new(&format!("{folder}/{name}"))
}

/// Creates an object. One that an interrupted publication left under the key stays if it has the same bytes, and is
/// replaced if not: nobody reads a table before its manifest is there. Fails with [`StoreError::Damaged`] if other
/// bytes have the key and the table has its manifest.
pub async fn put(
    storage: &dyn Storage,
    folder: &str,
    key: &Key,
    bytes: Bytes,
) -> Result<(), StoreError> {
    match storage.create(key, bytes.clone()).await {
        Err(error) if error.problem == StorageProblem::AlreadyExists => {}
        created => return Ok(created?),
    }
    if manifest(storage, folder).await?.is_some() {
        let what = "it is not what the table's parts make of it";
        return Err(StoreError::damaged(key, what));
    }
    storage.delete(std::slice::from_ref(key)).await?;
    Ok(storage.create(key, bytes).await?)
}

/// The bytes of a shard's file; none if the file is missing or damaged. At most one byte more than `file` says is read:
/// with this byte the caller notices a file that is too long. Fails at another fault of the storage. Panics if the name
/// of the file cannot be part of a key.
pub async fn read(
    storage: &dyn Storage,
    bits: u32,
    file: &ShardFileInfo,
) -> Result<Option<Bytes>, StoreError> {
    let key = key(&folder_name(bits), &file.name).expect("the name of a shard");
    match storage.read_at(&key, 0..file.bytes.saturating_add(1)).await {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) => match error.problem {
            StorageProblem::NotFound | StorageProblem::Fault(FaultKind::Damage) => Ok(None),
            _ => Err(error.into()),
        },
    }
}

/// The manifest of the table in `folder`; none if the table is not published. Fails with [`StoreError::Damaged`] if the
/// object is too large for a manifest.
pub async fn manifest(storage: &dyn Storage, folder: &str) -> Result<Option<Bytes>, StoreError> {
    let key = keys::manifest(folder);
    match storage.read_at(&key, 0..MANIFEST_BYTES_MAX + 1).await {
        Ok(bytes) if bytes.len() as u64 > MANIFEST_BYTES_MAX => {
            Err(StoreError::damaged(&key, "it is too large for a manifest"))
        }
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.problem == StorageProblem::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::SimulatedStorage;
    use crate::ready;

    const FOLDER: &str = "table-19";

    #[test]
    fn what_was_left_is_replaced_until_there_is_a_manifest() {
        let storage = SimulatedStorage::new(0);
        let shard = key(FOLDER, "00").unwrap();
        let put = |bytes: &'static [u8]| ready(put(&storage, FOLDER, &shard, bytes.into()));
        // The object there may begin with all bytes of the new one.
        for bytes in [
            &b"torn"[..],
            b"right",
            b"right and more",
            b"right",
            b"right",
        ] {
            put(bytes).unwrap();
            assert_eq!(storage.objects()[&shard], bytes);
        }
        assert_eq!(ready(manifest(&storage, FOLDER)).unwrap(), None);
        storage.overwrite(&keys::manifest(FOLDER), &b"manifest"[..]);
        put(b"right").unwrap();
        assert!(matches!(put(b"wrong"), Err(StoreError::Damaged { key, .. }) if key == shard));
        assert!(matches!(put(b"righ"), Err(StoreError::Damaged { .. })));
        assert_eq!(storage.objects()[&shard], &b"right"[..]);
    }

    #[test]
    fn a_manifest_has_its_most_bytes_and_no_more() {
        let storage = SimulatedStorage::new(0);
        let most = usize::try_from(MANIFEST_BYTES_MAX).unwrap();
        for (bytes, fits) in [
            (0, true),
            (most, true),
            (most + 1, false),
            (most + 2, false),
        ] {
            storage.overwrite(&keys::manifest(FOLDER), vec![b' '; bytes]);
            match ready(manifest(&storage, FOLDER)) {
                Ok(read) => assert!(fits && read.unwrap().len() == bytes, "{bytes}"),
                Err(error) => assert!(!fits && matches!(error, StoreError::Damaged { .. })),
            }
        }
    }
}
