//! Measures the coordinator alone: ten thousand workers that lease, answer heartbeats and complete, a
//! million ranges, one thread. Nothing is evaluated, and the storage keeps no more than the journal.
//!
//! `cargo bench -p chomp-coordinator --features simulation --bench control` prints the completions per
//! second and the memory of the process.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use chomp_coordinator::server::SimulatedCoordinator;
use chomp_plan::Settings;
use chomp_proto::PROTOCOL;
use chomp_proto::v1::coordinator_client::CoordinatorClient;
use chomp_proto::v1::{self, complete_request, lease_reply, task};
use chomp_store::objects::{Key, Operation, Storage, StorageError, StorageProblem};
use chomp_table::{Digest, RangeBits, range};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::metadata::MetadataValue;

/// A job of a million ranges of the smallest size.
const BITS: u32 = 32;
const WORKERS: u64 = 10_000;
const PARTICIPANTS: u64 = 10;
/// The completions after which the benchmark ends: those of almost all ranges.
const COMPLETIONS_MAX: u64 = 1_000_000;

/// Objects in memory, durable at once.
#[derive(Debug, Default)]
struct Memory(Mutex<HashMap<Key, Bytes>>);

impl Memory {
    fn get(&self, key: &Key) -> Result<Bytes, StorageError> {
        let objects = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        objects.get(key).cloned().ok_or_else(|| {
            StorageError::new(
                StorageProblem::NotFound,
                Operation::Read,
                key,
                "no such object",
            )
        })
    }
}

#[async_trait]
impl Storage for Memory {
    async fn create(&self, key: &Key, bytes: Bytes) -> Result<(), StorageError> {
        let mut objects = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if objects.contains_key(key) {
            let (problem, source) = (StorageProblem::AlreadyExists, "the object exists");
            return Err(StorageError::new(problem, Operation::Create, key, source));
        }
        // Bytes on a disk take no memory of the process, and nobody reads them here.
        drop(bytes);
        objects.insert(key.clone(), Bytes::new());
        Ok(())
    }

    async fn read(&self, key: &Key) -> Result<Bytes, StorageError> {
        self.get(key)
    }

    async fn read_at(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StorageError> {
        let bytes = self.get(key)?;
        let within =
            |end: u64| usize::try_from(end).map_or(bytes.len(), |end| end.min(bytes.len()));
        let (start, end) = (within(range.start), within(range.end));
        Ok(bytes.slice(start..end.max(start)))
    }

    async fn list(&self, _: &Key) -> Result<Vec<(Key, u64)>, StorageError> {
        Ok(Vec::new())
    }

    async fn delete(&self, keys: &[Key]) -> Result<(), StorageError> {
        let mut objects = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        objects.retain(|key, _| !keys.contains(key));
        Ok(())
    }
}

/// The bytes of memory that the process takes, and the most that it took.
fn memory() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        let number = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        number.unwrap_or(0_u64) << 10
    };
    (kib("VmRSS:"), kib("VmHWM:"))
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    runtime.expect("a runtime for one thread").block_on(run());
}

#[expect(clippy::print_stdout, reason = "it is what a benchmark is for")]
async fn run() {
    let range_bits = RangeBits::new(12).expect("the least");
    let mut settings = Settings::new(BITS, range_bits);
    (settings.checks_per_1000, settings.owner_checks_per_1000) = (0, 0);
    // Every task is one range.
    (settings.task_positions_min, settings.task_positions_max) = (0, 1);
    let storage = Arc::new(Memory::default());
    let started = Instant::now();
    let coordinator = SimulatedCoordinator::start(storage, settings, 1, 2).await;
    let coordinator = coordinator.expect("an empty storage");
    let (before, _) = memory();
    println!("started in {:.2?}, {} MiB", started.elapsed(), before >> 20);
    let kernel = chomp_kernel::fingerprint(chomp_kernel::Isa::Portable)
        .0
        .to_vec();
    let mut workers = JoinSet::new();
    let done = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let started = Instant::now();
    for worker in 0..WORKERS {
        // A participant has at most 4,096 workers.
        let token = format!("Bearer {}", worker % PARTICIPANTS);
        let token: MetadataValue<_> = token.parse().expect("a number");
        let names_caller = move |mut request: tonic::Request<()>| {
            request
                .metadata_mut()
                .insert("authorization", token.clone());
            Ok(request)
        };
        let calls = coordinator.calls();
        let client = CoordinatorClient::with_interceptor(calls, names_caller);
        let kernel = kernel.clone();
        let done = Arc::clone(&done);
        workers.spawn(async move { work(client, worker + 1, kernel, &done).await });
    }
    while let Some(ended) = workers.join_next().await {
        ended.expect("a worker ends well");
    }
    let seconds = started.elapsed().as_secs_f64();
    let completions = done.load(std::sync::atomic::Ordering::Relaxed);
    let (now, most) = memory();
    let status = coordinator.look().await.expect("it runs");
    #[expect(clippy::cast_precision_loss, reason = "a rate need not be exact")]
    let rate = completions as f64 / seconds;
    println!(
        "{completions} completions by {WORKERS} workers in {seconds:.1} s: {rate:.0} a second; {} of {} ranges done; \
         {} segments; {} MiB, at most {} MiB",
        status.ranges_done,
        status.ranges,
        coordinator.journal().ledger().next_segment,
        now >> 20,
        most >> 20,
    );
}

/// A worker that does its tasks in no time.
async fn work<S>(
    mut client: CoordinatorClient<S>,
    worker: u64,
    kernel: Vec<u8>,
    done: &std::sync::atomic::AtomicU64,
) where
    S: tonic::client::GrpcService<tonic::body::Body>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>> + std::fmt::Debug,
    S::ResponseBody: tonic::codegen::Body<Data = Bytes> + Send + 'static,
    <S::ResponseBody as tonic::codegen::Body>::Error:
        Into<Box<dyn std::error::Error + Send + Sync>> + Send,
{
    use std::sync::atomic::Ordering;
    let hello = v1::JoinRequest {
        protocol: PROTOCOL,
        format: range::VERSION,
        software: String::new(),
        threads: 1,
        worker,
        name: worker.to_string(),
        kernel,
    };
    client.join(hello).await.expect("it may join");
    let mut next = None;
    while done.load(Ordering::Relaxed) < COMPLETIONS_MAX {
        let answer = if let Some(v1::LeaseReply { answer }) = next.take() {
            answer
        } else {
            let lease = client.lease(v1::LeaseRequest { worker }).await;
            lease.expect("it may ask").into_inner().answer
        };
        let task = match answer {
            Some(lease_reply::Answer::Task(task)) => task,
            Some(lease_reply::Answer::Wait(_)) => continue,
            _ => return,
        };
        let Some(task::Work::Evaluate(work)) = task.work else {
            return;
        };
        let renew = v1::RenewRequest {
            worker,
            leases: vec![task.lease],
        };
        client.renew(renew).await.expect("it works");
        let ranges = (0..).zip(work.heads).map(|(number, head)| v1::Summary {
            head,
            count: 10,
            stored: 5,
            digest: Digest::of(&head.to_le_bytes()).0.to_vec(),
            offset: 16 + 60 * number,
            length: 60,
        });
        let ranges: Vec<_> = ranges.collect();
        let count = ranges.len() as u64;
        let result = complete_request::Result::Evaluated(v1::Evaluated { ranges });
        let complete = v1::CompleteRequest {
            worker,
            lease: task.lease,
            result: Some(result),
            next: true,
        };
        let completed = client.complete(complete).await.expect("it is taken");
        next = completed.into_inner().next;
        done.fetch_add(count, Ordering::Relaxed);
    }
}
