//! A storage in memory that crashes, tears, runs full and flips bits when told to.
//!
//! It is deterministic: the same seed and the same calls give the same outcome. Its futures are
//! complete when first polled, so a test needs no runtime to drive them.

use std::collections::BTreeMap;
use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};

use super::{FaultKind, Key, Operation, Storage, StorageError, StorageProblem};

/// When a call fails: before it had an effect, or after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Nothing was done.
    Before,
    /// The call took effect, durably, but the caller hears of a failure.
    After,
}

/// A failure to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The number of the call that fails, counted from 0.
    pub call: u64,
    /// Whether all calls after that one fail too.
    pub sticky: bool,
    /// Whether the call takes effect.
    pub moment: Moment,
}

/// A storage in memory with faults on demand.
#[derive(Debug)]
pub struct SimulatedStorage {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    objects: BTreeMap<Key, Object>,
    /// The start of an object whose creation a crash cut off: no object, but it takes room.
    unfinished: Option<Bytes>,
    random: u64,
    calls: u64,
    fault: Option<Fault>,
    crash_at: Option<u64>,
    crashed: bool,
    bytes_max: u64,
    lying: bool,
    creations: u64,
    /// The removed objects with their sizes, the last removed at the end.
    removed: Vec<(Key, u64)>,
    lag: usize,
}

#[derive(Debug)]
struct Object {
    bytes: Bytes,
    durable: bool,
    created: u64,
}

impl SimulatedStorage {
    /// An empty storage without faults. The seed decides what a crash leaves of a call.
    pub fn new(seed: u64) -> SimulatedStorage {
        SimulatedStorage::with(seed, BTreeMap::new())
    }

    fn with(seed: u64, objects: BTreeMap<Key, Object>) -> SimulatedStorage {
        let creations = objects.values().map(|object| object.created).max();
        let state = State {
            objects,
            unfinished: None,
            random: seed,
            calls: 0,
            fault: None,
            crash_at: None,
            crashed: false,
            bytes_max: u64::MAX,
            lying: false,
            creations: creations.unwrap_or(0),
            removed: Vec::new(),
            lag: 0,
        };
        SimulatedStorage {
            state: Mutex::new(state),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The number of calls so far.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Sets the failure to come, or none.
    pub fn set_fault(&self, fault: Option<Fault>) {
        self.state().fault = fault;
    }

    /// Crashes in the middle of the call of this number: a creation then is absent, complete, or
    /// a file in part under another name; a removal is done or not. Every later call fails.
    pub fn crash_at(&self, call: u64) {
        self.state().crash_at = Some(call);
    }

    /// Whether it has crashed.
    pub fn has_crashed(&self) -> bool {
        self.state().crashed
    }

    /// Sets how many bytes all objects may have together.
    pub fn set_bytes_max(&self, bytes_max: u64) {
        self.state().bytes_max = bytes_max;
    }

    /// Makes creations lie: an object is durable only once a later creation succeeds.
    pub fn set_lying(&self, lying: bool) {
        self.state().lying = lying;
    }

    /// Makes listings miss the `lag` newest objects, and have the last `lag` that were removed.
    pub fn set_lag(&self, lag: usize) {
        self.state().lag = lag;
    }

    /// Crashes: every later call fails. Returns what survives, opened again without faults.
    #[must_use]
    pub fn crash(&self) -> SimulatedStorage {
        let mut state = self.state();
        state.crashed = true;
        let seed = state.next_random();
        let mut objects = std::mem::take(&mut state.objects);
        objects.retain(|_, object| object.durable);
        SimulatedStorage::with(seed, objects)
    }

    /// All objects, without a call.
    pub fn objects(&self) -> BTreeMap<Key, Bytes> {
        let state = self.state();
        let objects = state.objects.iter();
        objects
            .map(|(key, object)| (key.clone(), object.bytes.clone()))
            .collect()
    }

    /// The bytes of what a crash left unfinished.
    pub fn unfinished(&self) -> Option<Bytes> {
        self.state().unfinished.clone()
    }

    /// Puts bytes under a key behind everybody's back, over those that are there.
    pub fn overwrite(&self, key: &Key, bytes: impl Into<Bytes>) {
        let bytes = bytes.into();
        let object = Object {
            bytes,
            durable: true,
            created: 0,
        };
        self.state().objects.insert(key.clone(), object);
    }

    fn change(&self, key: &Key, change: impl FnOnce(&mut Vec<u8>) -> Option<()>) -> bool {
        let mut state = self.state();
        let Some(object) = state.objects.get_mut(key) else {
            return false;
        };
        let mut bytes = object.bytes.to_vec();
        let done = change(&mut bytes).is_some();
        object.bytes = bytes.into();
        done
    }

    /// Flips one bit of an object; false if it has no such bit.
    pub fn flip_bit(&self, key: &Key, byte: usize, bit: u32) -> bool {
        self.change(key, |bytes| {
            *bytes.get_mut(byte)? ^= 1_u8.checked_shl(bit)?;
            Some(())
        })
    }

    /// Cuts an object to its first bytes; false if it has no more than those.
    pub fn truncate(&self, key: &Key, length: usize) -> bool {
        self.change(key, |bytes| {
            (length < bytes.len()).then(|| bytes.truncate(length))
        })
    }

    fn call<T>(
        &self,
        key: &Key,
        action: Operation,
        effect: impl FnOnce(&mut State) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        let mut state = self.state();
        let call = state.calls;
        state.calls += 1;
        let failed = |why: &str| StorageError::new(FaultKind::Passing, action, key, why);
        if state.crashed || state.crash_at == Some(call) {
            return Err(failed("the storage has crashed"));
        }
        let fault = state
            .fault
            .filter(|fault| fault.call == call || fault.sticky && fault.call < call);
        match fault.map(|fault| fault.moment) {
            Some(Moment::Before) => Err(failed("failed before the effect")),
            Some(Moment::After) => {
                // Whatever came of it, the caller hears of another failure.
                let _ = effect(&mut state);
                Err(failed("failed after the effect"))
            }
            None => effect(&mut state),
        }
    }

    /// If the crash is due in the next call, begins it, and chooses one of `outcomes` possible effects of the call.
    fn crash_outcome(&self, outcomes: u64) -> Option<u64> {
        let mut state = self.state();
        if state.crashed || state.crash_at != Some(state.calls) {
            return None;
        }
        state.crashed = true;
        Some(state.next_random() % outcomes)
    }
}

impl State {
    /// The generator splitmix64.
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn get(&self, key: &Key) -> Result<Bytes, StorageError> {
        let object = self.objects.get(key);
        let (problem, why) = (StorageProblem::NotFound, "no such object");
        let missing = || StorageError::new(problem, Operation::Read, key, why);
        object
            .map(|object| object.bytes.clone())
            .ok_or_else(missing)
    }

    fn create(&mut self, key: &Key, bytes: Bytes) -> Result<(), StorageError> {
        let refused = |problem, why: &str| StorageError::new(problem, Operation::Create, key, why);
        match self.objects.get(key) {
            Some(there) if there.bytes == bytes => return Ok(()),
            Some(_) => return Err(refused(StorageProblem::AlreadyExists, "the object exists")),
            None => {}
        }
        let held = self.objects.values().map(|object| &object.bytes);
        let used: usize = held
            .chain(&self.unfinished)
            .chain([&bytes])
            .map(Bytes::len)
            .sum();
        if used as u64 > self.bytes_max {
            return Err(refused(FaultKind::Full.into(), "over the limit"));
        }
        for object in self.objects.values_mut() {
            object.durable = true;
        }
        let durable = !self.lying;
        self.creations += 1;
        let created = self.creations;
        let object = Object {
            bytes,
            durable,
            created,
        };
        self.objects.insert(key.clone(), object);
        Ok(())
    }
}

#[async_trait]
impl Storage for SimulatedStorage {
    async fn create(&self, key: &Key, bytes: Bytes) -> Result<(), StorageError> {
        match self.crash_outcome(3) {
            Some(0) => {
                // If the creation fails, it leaves nothing, as a crash in a creation may.
                let _ = self.state().create(key, bytes.clone());
            }
            Some(1) => {
                let mut state = self.state();
                let kept = state.next_random() % (bytes.len() as u64 + 1);
                let kept = usize::try_from(kept).expect("at most the length of the bytes");
                state.unfinished = Some(bytes.slice(..kept));
            }
            _ => {}
        }
        self.call(key, Operation::Create, |state| state.create(key, bytes))
    }

    async fn read_at(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StorageError> {
        self.crash_outcome(1);
        self.call(key, Operation::Read, |state| {
            let bytes = state.get(key)?;
            let within =
                |end: u64| usize::try_from(end).map_or(bytes.len(), |end| end.min(bytes.len()));
            let (start, end) = (within(range.start), within(range.end));
            Ok(bytes.slice(start..end.max(start)))
        })
    }

    async fn list(&self, prefix: &Key) -> Result<Vec<(Key, u64)>, StorageError> {
        self.crash_outcome(1);
        self.call(prefix, Operation::List, |state| {
            let mut newest: Vec<_> = state.objects.values().map(|it| it.created).collect();
            newest.sort_unstable_by(|a, b| b.cmp(a));
            let first_missed = match state.lag {
                0 => u64::MAX,
                lag => newest.get(lag - 1).copied().unwrap_or(0),
            };
            let objects = state.objects.iter().filter(|(key, _)| key.is_in(prefix));
            let seen = objects.filter(|(_, object)| object.created < first_missed);
            let seen = seen.map(|(key, object)| (key.clone(), object.bytes.len() as u64));
            let removed = state.removed.iter().rev().take(state.lag);
            let removed = removed.filter(|(key, _)| key.is_in(prefix)).cloned();
            let found: BTreeMap<_, _> = removed.chain(seen).collect();
            Ok(found.into_iter().collect())
        })
    }

    async fn delete(&self, keys: &[Key]) -> Result<(), StorageError> {
        for key in keys {
            if self.crash_outcome(2) == Some(0) {
                self.state().objects.remove(key);
            }
            self.call(key, Operation::Delete, |state| {
                let removed = state.objects.remove_entry(key);
                let removed = removed.map(|(key, object)| (key, object.bytes.len() as u64));
                state.removed.extend(removed);
                Ok(())
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
