//! A storage that takes its time.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chomp_coordinator::storage::{Key, SimulatedStorage, Storage, StorageError};
use fastrand::Rng;
use tokio::time::sleep;

/// The same objects, slowly: a crash, a pause or another owner may come before and after each
/// call takes effect.
#[derive(Debug)]
pub(crate) struct Disk {
    storage: Arc<SimulatedStorage>,
    /// The longest delay of a write, in milliseconds.
    slowest: u64,
    chance: Mutex<Rng>,
}

impl Disk {
    pub(crate) fn new(storage: Arc<SimulatedStorage>, slowest: u64, seed: u64) -> Disk {
        Disk {
            storage,
            slowest,
            chance: Mutex::new(Rng::with_seed(seed)),
        }
    }

    async fn delay(&self, slowest: u64) {
        let millis = self.chance.lock().unwrap().u64(0..=slowest);
        if millis > 0 {
            sleep(Duration::from_millis(millis)).await;
        }
    }
}

#[async_trait]
impl Storage for Disk {
    async fn create(&self, key: &Key, bytes: Bytes) -> Result<(), StorageError> {
        self.delay(self.slowest).await;
        let created = self.storage.create(key, bytes).await;
        self.delay(self.slowest).await;
        created
    }

    async fn read(&self, key: &Key) -> Result<Bytes, StorageError> {
        self.delay(self.slowest / 20).await;
        self.storage.read(key).await
    }

    async fn read_at(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StorageError> {
        self.delay(self.slowest / 20).await;
        self.storage.read_at(key, range).await
    }

    async fn list(&self, prefix: &Key) -> Result<Vec<(Key, u64)>, StorageError> {
        self.delay(self.slowest / 20).await;
        self.storage.list(prefix).await
    }

    async fn delete(&self, key: &Key) -> Result<(), StorageError> {
        self.delay(self.slowest).await;
        self.storage.delete(key).await
    }
}
