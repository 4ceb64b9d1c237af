//! The contract of every storage, tested for each implementation.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::testing::{create, key, list, read};
use super::*;
use crate::{keys, ready};

async fn creates_once(storage: &dyn Storage) {
    let (first, second) = (key("work/parts/0001/a"), key("work/parts/0001/b"));
    storage
        .create(&first, Bytes::from_static(b"0123456789"))
        .await
        .unwrap();
    storage.create(&second, Bytes::new()).await.unwrap();
    let again = storage.create(&first, Bytes::from_static(b"other")).await;
    let again = again.unwrap_err();
    assert_eq!(again.problem, StorageProblem::AlreadyExists, "{again:?}");
    assert_eq!((again.action, &again.key), (Operation::Create, &first));
    let said = "cannot create work/parts/0001/a: it exists already";
    assert_eq!(again.to_string(), said);
    assert_eq!(storage.read(&first).await.unwrap(), &b"0123456789"[..]);
    assert_eq!(storage.read(&second).await.unwrap(), &b""[..]);
}

async fn reads_ranges(storage: &dyn Storage) {
    let (first, second) = (key("work/parts/0001/a"), key("work/parts/0001/b"));
    for (range, expected) in [
        (0..10, "0123456789"),
        (2..5, "234"),
        (9..10, "9"),
        (0..0, ""),
        (10..10, ""),
        (8..12, "89"),
        (10..12, ""),
        (11..u64::MAX, ""),
        (0..u64::MAX, "0123456789"),
        (u64::MAX..u64::MAX, ""),
    ] {
        let bytes = storage.read_at(&first, range.clone()).await.unwrap();
        assert_eq!(bytes, expected, "{range:?}");
    }
    assert_eq!(storage.read_at(&second, 0..1).await.unwrap(), "");

    // The results are in the order of the slices, also if there are more than are read at a time.
    let slices = (0..40).map(|number| match number {
        7 => (key("work/parts/0001/c"), 0..1),
        _ => (first.clone(), number % 10..number % 10 + 1),
    });
    let read = storage.read_each(slices.collect()).await;
    assert_eq!(read.len(), 40);
    for (number, read) in read.into_iter().enumerate() {
        match read {
            Ok(bytes) => assert_eq!(bytes, (number % 10).to_string()),
            Err(error) => assert!(error.problem == StorageProblem::NotFound && number == 7),
        }
    }
}

async fn tells_what_is_missing(storage: &dyn Storage) {
    let missing = key("work/parts/0001/c");
    for result in [
        storage.read(&missing).await.map(drop),
        storage.read_at(&missing, 0..0).await.map(drop),
        // A folder is not an object.
        storage.read(&key("work/parts")).await.map(drop),
    ] {
        let error = result.unwrap_err();
        assert!(
            (error.problem, error.action) == (StorageProblem::NotFound, Operation::Read),
            "{error:?}"
        );
    }
}

async fn lists_and_deletes(storage: &dyn Storage) {
    let names = async |prefix| {
        let objects = list(storage, prefix).await;
        let named = |(key, bytes): (Key, u64)| format!("{key}={bytes}");
        objects.into_iter().map(named).collect::<Vec<_>>()
    };
    for name in [
        "work/job",
        "work/parts/0000/z",
        "work/partsandmore/x",
        "table-20/manifest.json",
    ] {
        create(storage, name, "abc").await;
    }
    let parts = [
        "work/parts/0000/z=3",
        "work/parts/0001/a=10",
        "work/parts/0001/b=0",
    ];
    assert_eq!(names("work/parts").await, parts);
    assert_eq!(names("work").await.len(), 5);
    assert_eq!(
        names("work/parts/0001/a").await,
        [""; 0],
        "an object is not a folder"
    );
    assert_eq!(names("nothing/here").await, [""; 0]);

    let missing = key("work/parts/0001/c");
    let both = [missing, key("work/parts/0001/a")];
    for _ in 0..2 {
        storage.delete(&both).await.unwrap();
        assert_eq!(names("work/parts").await, [parts[0], parts[2]]);
    }
    storage.delete(&[]).await.unwrap();
    create(storage, "work/parts/0001/a", "new").await;
    assert_eq!(read(storage, "work/parts/0001/a").await, "new");
}

async fn one_of_many_creates(storage: Arc<dyn Storage>) {
    let mut tasks = tokio::task::JoinSet::new();
    for i in 0..16_u8 {
        let storage = Arc::clone(&storage);
        tasks.spawn(async move {
            let bytes = Bytes::from(vec![i; 1000]);
            let other = storage
                .create(&key(&format!("work/race/{i}")), bytes.clone())
                .await;
            other.unwrap();
            storage
                .create(&key("work/race/same"), bytes)
                .await
                .is_ok()
                .then_some(i)
        });
    }
    let winners: Vec<u8> = tasks.join_all().await.into_iter().flatten().collect();
    assert_eq!(winners.len(), 1);
    let bytes = read(&*storage, "work/race/same").await;
    assert_eq!(bytes, vec![winners[0]; 1000]);
    assert_eq!(list(&*storage, "work/race").await.len(), 17);
}

/// Tests what every storage promises. Needs an empty one.
pub(super) async fn contract(storage: Arc<dyn Storage>) {
    creates_once(&*storage).await;
    reads_ranges(&*storage).await;
    tells_what_is_missing(&*storage).await;
    lists_and_deletes(&*storage).await;
    one_of_many_creates(storage).await;
}

fn local(directory: &Path) -> LocalStorage {
    LocalStorage::open(TableLock::acquire(directory).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let storage = Arc::new(local(directory.path()));
    contract(storage.clone()).await;
    let entries = fs::read_dir(directory.path().join("work/race")).unwrap();
    assert_eq!(entries.count(), 17, "no unfinished files remain");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_simulation() {
    let storage = Arc::new(SimulatedStorage::new(1));
    contract(storage.clone()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_storages_as_one() {
    let [journal, rest] = [1, 2].map(|seed| Arc::new(SimulatedStorage::new(seed)));
    let routed = Arc::new(Routed {
        journal: journal.clone(),
        rest: rest.clone(),
    });
    contract(routed.clone()).await;
    assert!(journal.objects().is_empty());
    let others = rest.objects().len();
    for (folder, key) in [
        (keys::segments_prefix(), keys::segment(1)),
        (keys::checkpoints_prefix(), keys::checkpoint(1)),
    ] {
        routed.create(&key, Bytes::new()).await.unwrap();
        assert_eq!(routed.list(&folder).await.unwrap(), [(key, 0)]);
    }
    assert_eq!((journal.objects().len(), rest.objects().len()), (2, others));
}

/// Without a runtime, so that all of it happens in one thread: see [`super::synced_tests`].
#[test]
fn a_directory_keeps_its_objects() {
    let directory = tempfile::tempdir().unwrap();
    let nested = directory.path().join("a/b/table");
    let created = local(&nested);
    ready(created.create(&key("work/job"), Bytes::from_static(b"abc"))).unwrap();
    ready(created.create(&key("work/x"), Bytes::new())).unwrap();
    ready(created.delete(&[key("work/x")])).unwrap();
    drop(created);
    assert_eq!(ready(local(&nested).read(&key("work/job"))).unwrap(), "abc");
}
