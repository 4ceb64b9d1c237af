//! Helpers for tests of storages.

use bytes::Bytes;

use super::{Key, Storage};

pub(crate) fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

/// Creates an object.
pub(crate) async fn create(storage: &dyn Storage, name: &str, bytes: impl Into<Bytes>) {
    storage.create(&key(name), bytes.into()).await.unwrap();
}

/// The bytes of an object.
pub(crate) async fn read(storage: &dyn Storage, name: &str) -> Bytes {
    storage.read(&key(name)).await.unwrap()
}

/// The keys and sizes of the objects in a folder.
pub(crate) async fn list(storage: &dyn Storage, folder: &str) -> Vec<(Key, u64)> {
    storage.list(&key(folder)).await.unwrap()
}
