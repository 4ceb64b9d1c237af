//! Whether a bucket can be used, found out before anything depends on it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::super::lock::OpenError;
use super::super::{Key, Storage, StorageError, StorageProblem};
use super::BucketStorage;
use super::failure::unusable;
use crate::tasks::output;

/// How long the first requests are repeated: a mistake should show soon.
const PATIENCE: Duration = Duration::from_secs(20);
const RACERS: u8 = 16;
/// The number of races. The first one also opens the connections, so that the requests of a later one arrive closer
/// together.
const RACES: u32 = 3;
/// The bytes of an object of a race: enough for several packets.
const OBJECT_BYTES: usize = 20_000;

impl BucketStorage {
    /// Makes sure that objects can be created, read, listed and removed; and if the bucket `has_journal`, that of many
    /// creations of one key only one succeeds, since otherwise a table could have two coordinators. A server that
    /// ignores the condition lets all of them succeed. Some servers check it, but let several succeed that come at the
    /// same time. The error says what to do.
    pub(super) async fn probe(&self, has_journal: bool) -> Result<(), OpenError> {
        let storage = self.clone().with_patience(PATIENCE);
        let fail = |error| unusable(&self.bucket, error);
        let unfit = |what| Err(OpenError::bucket(&self.bucket, what, None));
        if !storage.keeps(&fresh_key()).await.map_err(fail)? {
            return unfit("it does not give back the bytes of an object that were asked for");
        }
        let races = if has_journal { RACES } else { 0 };
        for _ in 0..races {
            let key = fresh_key();
            let sound = storage.race(&key).await;
            let removed = storage.delete(std::slice::from_ref(&key)).await;
            if !sound.map_err(fail)? {
                return unfit(
                    "this store does not create only if absent, so two coordinators could write one table: give \
                     --journal DIR, a directory of this machine for the journal",
                );
            }
            removed.map_err(fail)?;
        }
        Ok(())
    }

    /// Creates, reads, lists and removes an object; whether the bytes are read that were asked for.
    async fn keeps(&self, key: &Key) -> Result<bool, StorageError> {
        let bytes = Bytes::from_static(b"reached");
        self.create(key, bytes.clone()).await?;
        let read = self.read_at(key, 0..2).await;
        let listed = self.list(key).await;
        self.delete(std::slice::from_ref(key)).await?;
        listed?;
        Ok(read? == bytes[..2])
    }

    /// Creates an object many times at once; whether exactly one creation succeeded, and its bytes are read.
    async fn race(&self, key: &Key) -> Result<bool, StorageError> {
        let start = Arc::new(Barrier::new(usize::from(RACERS)));
        let mut racers = JoinSet::new();
        for racer in 0..RACERS {
            let (storage, key, start) = (self.clone(), key.clone(), Arc::clone(&start));
            racers.spawn(async move {
                start.wait().await;
                let bytes = vec![racer; OBJECT_BYTES].into();
                match storage.create(&key, bytes).await {
                    Ok(()) => Ok(Some(racer)),
                    Err(error) if error.problem == StorageProblem::AlreadyExists => Ok(None),
                    Err(error) => Err(error),
                }
            });
        }
        let mut winners = Vec::new();
        while let Some(done) = racers.join_next().await {
            winners.extend(output(done).await?);
        }
        let read = self.read_at(key, 0..OBJECT_BYTES as u64 + 1).await?;
        Ok(matches!(winners[..], [winner] if read == vec![winner; OBJECT_BYTES]))
    }
}

fn fresh_key() -> Key {
    let key = Key::new(&format!("work/probe/{:032x}", fastrand::u128(..)));
    key.expect("letters, digits and slashes are a key")
}
