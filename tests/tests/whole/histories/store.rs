//! The store of the world, and the ways that machines have to it.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chomp_store::FaultKind;
use chomp_store::objects::{Key, Operation, SimulatedStorage, Storage, StorageError};
use fastrand::Rng;
use tokio::time::sleep;

/// The store. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Store(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    storage: Arc<SimulatedStorage>,
    /// Whether it is on the machine of the coordinators, which goes down with it.
    at_coordinators: bool,
    crashes: u64,
}

impl Store {
    pub(crate) fn new() -> Store {
        Store(Arc::new(Mutex::new(State {
            storage: Arc::new(SimulatedStorage::new(0)),
            at_coordinators: false,
            crashes: 0,
        })))
    }

    /// The present storage, which [`Store::mend`] replaces after a crash.
    pub(crate) fn now(&self) -> Arc<SimulatedStorage> {
        Arc::clone(&self.0.lock().unwrap().storage)
    }

    /// Lets it go down in one of the next calls, with the coordinators or without.
    pub(crate) fn crash_soon(&self, calls: u64, at_coordinators: bool) {
        let mut state = self.0.lock().unwrap();
        state.at_coordinators = at_coordinators;
        state
            .storage
            .crash_at(state.storage.calls().saturating_add(calls));
    }

    pub(crate) fn is_down(&self) -> bool {
        self.now().has_crashed()
    }

    /// Whether it is down, or was.
    pub(crate) fn has_been_down(&self) -> bool {
        self.is_down() || self.0.lock().unwrap().crashes > 0
    }

    /// Whether the machine of the coordinators is down.
    pub(crate) fn took_coordinators(&self) -> bool {
        let state = self.0.lock().unwrap();
        state.at_coordinators && state.storage.has_crashed()
    }

    /// Starts it again.
    pub(crate) fn mend(&self) {
        let mut state = self.0.lock().unwrap();
        state.storage = Arc::new(state.storage.crash());
        state.crashes += 1;
    }
}

/// The faults of a machine's way to the store.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Health {
    pub(crate) cut: Option<Cut>,
    /// The calls in a thousand that fail, before they take effect or after.
    pub(crate) failures: u64,
    /// Whether listings miss the newest object.
    pub(crate) lags: bool,
    /// The number of coming reads of a part that return a wrong bit.
    pub(crate) rotten_reads: u32,
    /// The number of coming writes of a part that store a wrong bit.
    pub(crate) rotten_writes: u32,
}

/// Nothing gets through.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cut {
    /// Calls wait until that is over.
    Waits,
    /// Calls fail.
    Fails,
}

/// A way to the store: its calls take their time, so that a crash, a pause or another coordinator may
/// come before and after each takes effect, and may be disturbed.
#[derive(Debug)]
pub(crate) struct View {
    store: Store,
    /// The longest delay of a write, in milliseconds.
    slowest: u64,
    health: Arc<Mutex<Health>>,
    rng: Mutex<Rng>,
}

impl View {
    pub(crate) fn new(store: Store, slowest: u64, health: Arc<Mutex<Health>>, seed: u64) -> View {
        View {
            store,
            slowest,
            health,
            rng: Mutex::new(Rng::with_seed(seed)),
        }
    }

    fn health(&self) -> Health {
        *self.health.lock().unwrap()
    }

    async fn delay(&self, slowest: u64) {
        let millis = self.rng.lock().unwrap().u64(0..=slowest);
        if millis > 0 {
            sleep(Duration::from_millis(millis)).await;
        }
    }

    /// Makes a call, if it gets through.
    async fn call<T>(
        &self,
        key: &Key,
        action: Operation,
        call: impl Future<Output = Result<T, StorageError>>,
    ) -> Result<T, StorageError> {
        let failed = |why: &str| StorageError::new(FaultKind::Passing, action, key, why);
        let slowest = match action {
            Operation::Create | Operation::Delete => self.slowest,
            Operation::Read | Operation::List => self.slowest / 20,
        };
        self.delay(slowest).await;
        while let Some(cut) = self.health().cut {
            match cut {
                Cut::Waits => sleep(Duration::from_millis(50)).await,
                Cut::Fails => return Err(failed("no way to the store")),
            }
        }
        let (fails, before) = {
            let mut rng = self.rng.lock().unwrap();
            (rng.u64(0..1000) < self.health().failures, rng.bool())
        };
        if fails && before {
            return Err(failed("lost on the way to the store"));
        }
        let result = call.await;
        self.delay(slowest / 2).await;
        if fails {
            return Err(failed("lost on the way back"));
        }
        result
    }

    /// The bytes with a wrong bit, if they are of a part and such are to come.
    fn rot(&self, key: &Key, bytes: Bytes, left: fn(&mut Health) -> &mut u32) -> Bytes {
        let mut health = self.health.lock().unwrap();
        let left = left(&mut health);
        if *left == 0 || bytes.is_empty() || !is_part(key) {
            return bytes;
        }
        *left -= 1;
        let mut bytes = bytes.to_vec();
        let mut rng = self.rng.lock().unwrap();
        let at = rng.usize(0..bytes.len());
        bytes[at] ^= 1 << rng.u32(0..8);
        bytes.into()
    }
}

pub(crate) fn is_part(key: &Key) -> bool {
    key.as_str().starts_with("work/parts/")
}

#[async_trait]
impl Storage for View {
    async fn create(&self, key: &Key, bytes: Bytes) -> Result<(), StorageError> {
        let bytes = self.rot(key, bytes, |health| &mut health.rotten_writes);
        let call = async { self.store.now().create(key, bytes).await };
        self.call(key, Operation::Create, call).await
    }

    async fn read(&self, key: &Key) -> Result<Bytes, StorageError> {
        let call = async { self.store.now().read(key).await };
        let bytes = self.call(key, Operation::Read, call).await?;
        Ok(self.rot(key, bytes, |health| &mut health.rotten_reads))
    }

    async fn read_at(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StorageError> {
        let call = async { self.store.now().read_at(key, range).await };
        let bytes = self.call(key, Operation::Read, call).await?;
        Ok(self.rot(key, bytes, |health| &mut health.rotten_reads))
    }

    async fn list(&self, prefix: &Key) -> Result<Vec<(Key, u64)>, StorageError> {
        let call = async { self.store.now().list(prefix).await };
        let mut keys = self.call(prefix, Operation::List, call).await?;
        if self.health().lags {
            keys.pop();
        }
        Ok(keys)
    }

    async fn delete(&self, keys: &[Key]) -> Result<(), StorageError> {
        for key in keys {
            let call = async { self.store.now().delete(std::slice::from_ref(key)).await };
            self.call(key, Operation::Delete, call).await?;
        }
        Ok(())
    }
}

/// A way to the store on which what fails is tried again, as the stores of workers do it.
#[derive(Debug)]
pub(crate) struct Patient(pub(crate) View);

impl Patient {
    async fn keep_trying<T, F>(&self, attempt: impl Fn() -> F) -> Result<T, StorageError>
    where
        F: Future<Output = Result<T, StorageError>>,
    {
        let mut pause = Duration::from_millis(100);
        loop {
            match attempt().await {
                Err(error) if error.is(FaultKind::Passing) => sleep(pause).await,
                done => return done,
            }
            pause = (pause * 2).min(Duration::from_secs(8));
        }
    }
}

#[async_trait]
impl Storage for Patient {
    async fn create(&self, key: &Key, bytes: Bytes) -> Result<(), StorageError> {
        let attempt = || self.0.create(key, bytes.clone());
        self.keep_trying(attempt).await
    }

    async fn read(&self, key: &Key) -> Result<Bytes, StorageError> {
        self.keep_trying(|| self.0.read(key)).await
    }

    async fn read_at(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StorageError> {
        let attempt = || self.0.read_at(key, range.clone());
        self.keep_trying(attempt).await
    }

    async fn list(&self, prefix: &Key) -> Result<Vec<(Key, u64)>, StorageError> {
        self.keep_trying(|| self.0.list(prefix)).await
    }

    async fn delete(&self, keys: &[Key]) -> Result<(), StorageError> {
        self.keep_trying(|| self.0.delete(keys)).await
    }
}
