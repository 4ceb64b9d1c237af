//! A table in a storage that fails and rots on demand: it is asked where it is, and fetched.

use std::sync::Arc;
use std::time::Duration;

use chomp_store::objects::{Fault, Moment, SimulatedStorage};
use chomp_store::{Key, Storage};

use super::*;
use crate::remote::open_at;

const ADDRESS: &str = "s3://bucket/tables";

fn key(name: &str) -> Key {
    Key::new(&format!("table-15/{name}")).unwrap()
}

/// A storage with the table of a server, and smaller ones that are not complete.
async fn stored() -> (Server, Arc<SimulatedStorage>) {
    let server = Server::start().await;
    let storage = SimulatedStorage::new(1);
    let files = server.world().files.clone();
    for (name, bytes) in files {
        storage.overwrite(&key(&name), bytes);
    }
    for name in ["table-14/manifest.json", "table-17/shard-0000.zst"] {
        storage.overwrite(&Key::new(name).unwrap(), "");
    }
    (server, Arc::new(storage))
}

async fn found(storage: &Arc<SimulatedStorage>) -> Result<TableSource, DownloadError> {
    let storage: Arc<dyn Storage> = storage.clone();
    TableSource::find_in(storage, ADDRESS, None).await
}

async fn fetched(
    storage: &Arc<SimulatedStorage>,
    out: &Path,
) -> Result<DownloadReport, DownloadError> {
    let (progress, watch) = watch::channel(DownloadProgress::default());
    let report = loop {
        let source = found(storage).await?;
        match fetch_all(source, out.to_owned(), progress.clone()).await {
            // A failed attempt may still hold the lock on another thread.
            Err(DownloadError::Open(_)) => tokio::time::sleep(Duration::from_millis(5)).await,
            fetched => break fetched?,
        }
    };
    assert_complete(*watch.borrow(), &report);
    Ok(report)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_is_fetched_and_then_found_there() {
    let (server, storage) = stored().await;
    let out = tempfile::tempdir().unwrap();
    let report = fetched(&storage, out.path()).await.unwrap();
    assert_eq!(report.manifest.table(), TABLE);
    assert_whole(&server, out.path());
    // No shard is read again.
    for name in storage.objects().keys() {
        let is_shard = name.as_str().starts_with("table-15/shard");
        assert!(!is_shard || storage.flip_bit(name, 0, 0));
    }
    fetched(&storage, out.path()).await.unwrap();
    assert_whole(&server, out.path());
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_asked_where_it_is() {
    let (_server, storage) = stored().await;
    let table = open_at(found(&storage).await.unwrap()).await;
    remote::ask(remote::losing(table.unwrap())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_not_there() {
    let storage: Arc<dyn Storage> = Arc::new(SimulatedStorage::new(1));
    for table in [None, Some(TABLE)] {
        let error = TableSource::find_in(storage.clone(), ADDRESS, table).await;
        assert_is(&error.unwrap_err(), "NoTable");
    }
    for from in ["s3://", "gs:///a", "az://a b"] {
        let out = tempfile::tempdir().unwrap();
        let error = get(reach(from), out.path()).await.unwrap_err();
        assert_is(&error, "Location");
    }
}

/// Every read fails once: what was there by then is kept.
#[tokio::test(flavor = "multi_thread")]
async fn it_goes_on_where_it_was() {
    let (server, storage) = stored().await;
    let calls = {
        let out = tempfile::tempdir().unwrap();
        let before = storage.calls();
        fetched(&storage, out.path()).await.unwrap();
        storage.calls() - before
    };
    let mut failures = 0;
    for call in 0..calls {
        let out = tempfile::tempdir().unwrap();
        storage.set_fault(Some(Fault {
            call: storage.calls() + call,
            sticky: false,
            moment: Moment::Before,
        }));
        // A look for a smaller table need not succeed.
        if let Err(error) = fetched(&storage, out.path()).await {
            assert_is(&error, "Storage");
            assert!(!has_manifest(out.path()));
            failures += 1;
        }
        fetched(&storage, out.path()).await.unwrap();
        assert_whole(&server, out.path());
    }
    assert!(failures > 8, "{failures}: the lists and each shard");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_damage_is_taken_for_a_table() {
    let (_server, storage) = stored().await;
    let keys: Vec<Key> = storage.objects().into_keys().collect();
    let of_table = keys
        .iter()
        .filter(|name| name.as_str().starts_with("table-15/"));
    let mut refused = 0;
    for name in of_table {
        for cut in [false, true] {
            let bytes = storage.objects()[name].clone();
            let changed = if cut {
                storage.truncate(name, bytes.len() - 1)
            } else {
                storage.flip_bit(name, bytes.len() / 2, 3)
            };
            assert!(changed);
            let out = tempfile::tempdir().unwrap();
            let error = fetched(&storage, out.path()).await.unwrap_err();
            let text = error.to_string();
            // Some changes of a manifest show only when it is compared with the list of digests.
            let folder = format!("{ADDRESS}/table-15/");
            let of_manifest = name.as_str().ends_with("manifest.json") && text.contains(&folder);
            let is_named = text.contains(&format!("{ADDRESS}/{name}"));
            assert!(is_named || of_manifest, "{name}: {text}");
            assert!(!has_manifest(out.path()));
            if name.as_str().contains("shard") {
                let table = open_at(found(&storage).await.unwrap()).await;
                // Answers are right, or errors; a shard that nobody asked about may be damaged.
                refused += usize::from(remote::ask(remote::losing(table.unwrap())).await.is_err());
            }
            storage.overwrite(name, bytes);
        }
    }
    assert!(refused > 2, "{refused}");
}
