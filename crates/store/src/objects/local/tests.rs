//! A directory after crashes, and with what strangers put there.

#![expect(
    clippy::disallowed_methods,
    reason = "puts files there behind the storage's back"
)]

use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use super::super::LISTED_MAX;
use super::super::testing::{create, key, list, read};
use super::*;

use crate::ready;

fn open(directory: &Path) -> LocalStorage {
    LocalStorage::open(TableLock::acquire(directory).unwrap()).unwrap()
}

#[tokio::test]
async fn unfinished_files_are_no_objects_and_go() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("work/parts/0001");
    let first = open(directory.path());
    for name in [
        "work/parts/0001/a",
        "work/journal/0",
        "table-20/a",
        "values-082/a",
    ] {
        create(&first, name, "").await;
    }
    drop(first);
    let foreign = [
        "work/parts/0001/.hidden",
        "work/parts/0001/a#b",
        "notes/x#1",
        "x#1",
        "x#y",
        "table-notes",
        "table-32",
    ];
    fs::create_dir(directory.path().join("notes")).unwrap();
    for name in foreign {
        fs::write(directory.path().join(name), "foreign").unwrap();
    }
    let owners = ["work/journal/1#1", "work/journal/1#23"];
    let workers = ["work/parts/0001/b#1", "table-20/b#7", "values-082/b#7"];
    for name in owners.iter().chain(&workers) {
        fs::write(directory.path().join(name), "in part").unwrap();
    }

    // Files of workers may belong to creations that are under way.
    let storage = open(directory.path());
    for name in owners {
        assert!(!directory.path().join(name).exists(), "{name}");
    }
    for name in workers {
        assert!(directory.path().join(name).exists(), "{name}");
    }
    assert_eq!(
        list(&storage, "work/parts").await,
        [(key("work/parts/0001/a"), 0)]
    );
    create(&storage, "work/parts/0001/b", "whole").await;
    assert_eq!(read(&storage, "work/parts/0001/b").await, "whole");
    assert!(folder.join("b#1").exists(), "it may be somebody else's");
    storage.tidy().await.unwrap();
    for name in workers {
        assert!(!directory.path().join(name).exists(), "{name}");
    }
    for name in foreign {
        assert!(directory.path().join(name).exists(), "{name}");
    }
}

#[test]
fn a_listing_is_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let storage = open(directory.path());
    let folder = directory.path().join("work/parts");
    for number in 0..LISTED_MAX {
        let layer = folder.join(format!("{:02}", number % 7));
        fs::create_dir_all(&layer).unwrap();
        fs::write(layer.join(number.to_string()), "").unwrap();
        // A name that cannot be a key is not counted.
        fs::write(layer.join(format!("{number} %")), "").unwrap();
    }
    let parts = key("work/parts");
    assert_eq!(ready(storage.list(&parts)).unwrap().len(), LISTED_MAX);
    fs::write(folder.join("more"), "").unwrap();
    let error = ready(storage.list(&parts)).unwrap_err();
    let text = format!("{error}: {}", error.source);
    let start = "cannot list work/parts: it has more than 1200 objects";
    assert!(text.starts_with(start) && text.contains("Remove"), "{text}");
}

/// The threads of a runtime that serve other tasks too do not wait for a disk. A test of one thread stays in it.
#[test]
fn work_that_blocks_is_done_elsewhere() {
    let directory = tempfile::tempdir().unwrap();
    let storage = open(directory.path());
    let here = || std::thread::current().id();
    assert_eq!(ready(storage.run(move |_| here())), here());
    for (mut runtime, elsewhere) in [
        (tokio::runtime::Builder::new_current_thread(), false),
        (tokio::runtime::Builder::new_multi_thread(), true),
    ] {
        let done = runtime
            .build()
            .unwrap()
            .block_on(storage.run(move |_| here()));
        assert_eq!(done != here(), elsewhere, "{runtime:?}");
    }
}

/// Somebody else may have put it there, to have a file from elsewhere handed out, or a reader wait.
#[tokio::test]
async fn what_is_no_file_is_no_object() {
    let directory = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let secret = elsewhere.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    let storage = open(directory.path());
    create(&storage, "work/parts/a", "").await;
    let parts = directory.path().join("work/parts");
    symlink(&secret, parts.join("link")).unwrap();
    symlink(elsewhere.path().join("none"), parts.join("nowhere")).unwrap();
    let made = Command::new("mkfifo").arg(parts.join("pipe")).status();
    assert!(made.unwrap().success());
    let planted = ["link", "nowhere", "pipe"].map(|name| key(&format!("work/parts/{name}")));
    for (key, what) in planted
        .iter()
        .zip(["symbolic link", "symbolic link", "pipe"])
    {
        for range in [0..0, 0..9] {
            let error = storage.read_at(key, range).await.unwrap_err();
            assert!(error.is(FaultKind::Damage), "{error:?}");
            assert!(error.source.to_string().contains(what), "{error:?}");
        }
        let error = storage
            .create(key, Bytes::from_static(b"x"))
            .await
            .unwrap_err();
        assert!(error.problem == StorageProblem::AlreadyExists, "{error:?}");
    }
    // They go as objects do.
    let listed = list(&storage, "work/parts").await;
    assert_eq!(listed.len(), 4, "{listed:?}");
    storage.delete(&planted).await.unwrap();
    assert_eq!(list(&storage, "work/parts").await.len(), 1);
    assert_eq!(fs::read(&secret).unwrap(), b"secret");
}

/// An archive may have a link in the place of one of our folders.
#[tokio::test]
async fn no_link_is_followed_to_a_folder() {
    let names = ["work/parts/0001/a", "work/journal/0", "table-20/a"].map(key);
    for linked in [
        "work",
        "work/parts",
        "work/parts/0001",
        "work/journal",
        "table-20",
    ] {
        let directory = tempfile::tempdir().unwrap();
        let storage = open(directory.path());
        for name in &names {
            storage
                .create(name, Bytes::from_static(b"x"))
                .await
                .unwrap();
        }
        let link = directory.path().join(linked);
        let elsewhere = tempfile::tempdir().unwrap();
        let there = elsewhere.path().join("there");
        fs::rename(&link, &there).unwrap();
        fs::write(there.join("mine#1"), "mine").unwrap();
        symlink(&there, &link).unwrap();

        let is_refused = |done: Result<(), StorageError>| match done {
            Err(error) => {
                let text = error.source.to_string();
                assert!(text.contains(linked) && text.contains("--store"), "{text}");
                assert!(error.is(FaultKind::Lasting));
                true
            }
            Ok(()) => false,
        };
        for name in &names {
            let beyond = name.as_str().starts_with(&format!("{linked}/"));
            let folder = key(name.as_str().rsplit_once('/').unwrap().0);
            let new = key(&format!("{folder}/new"));
            let created = storage.create(&new, Bytes::new()).await;
            assert_eq!(is_refused(created), beyond, "{name} by {linked}");
            assert_eq!(is_refused(storage.read(name).await.map(drop)), beyond);
            assert_eq!(is_refused(storage.list(&folder).await.map(drop)), beyond);
            let both = [name.clone(), new];
            assert_eq!(is_refused(storage.delete(&both).await), beyond);
        }
        let listed = storage.list(&key("work")).await.map(drop);
        assert_eq!(is_refused(listed), linked == "work");
        storage.tidy().await.unwrap();
        drop(storage);
        let again = LocalStorage::open(TableLock::acquire(directory.path()).unwrap());
        assert_eq!(again.is_err(), linked == "work", "{again:?}");
        assert!(there.join("mine#1").exists(), "{linked}");
        let left = [&there, &there.join("0001"), &there.join("parts/0001")];
        let left = left
            .iter()
            .any(|folder| ["a", "0"].iter().any(|name| folder.join(name).exists()));
        assert!(left, "{linked}");
    }
}

/// An archive may have a hard link to a file from elsewhere.
#[tokio::test]
async fn an_object_with_another_name_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let storage = open(directory.path());
    let part = key("work/parts/0001/a");
    storage.create(&part, Bytes::new()).await.unwrap();
    let read = async |part: &Key| storage.read_unaliased(part, 0..1).await.is_ok();
    assert!(read(&part).await);
    let path = directory.path().join(part.as_str());
    let first = directory.path().join("work/parts/0001/a#3");
    fs::hard_link(&path, &first).unwrap();
    assert!(read(&part).await, "it was interrupted");
    let other = directory.path().join("secrets");
    fs::hard_link(&path, &other).unwrap();
    assert!(!read(&part).await);
    fs::remove_file(&first).unwrap();
    let told = storage.read_unaliased(&part, 0..1).await.unwrap_err();
    assert!(told.is(FaultKind::Damage), "{told:?}");
    assert!(
        storage.read_at(&part, 0..1).await.is_ok(),
        "it is not handed out"
    );
}

/// Workers of several users share a directory that their group may write to.
#[tokio::test]
async fn what_is_made_for_a_group_can_be_used_by_it() {
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    for (rights, folder, file) in [
        (0o2770, 0o2770, 0o660),
        (0o775, 0o775, 0o664),
        (0o755, 0o755, 0o644),
    ] {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(rights)).unwrap();
        let storage = open(directory.path());
        let part = key("work/parts/0001/a");
        storage.create(&part, Bytes::new()).await.unwrap();
        for made in ["work", "work/parts", "work/parts/0001"] {
            let found = mode(&directory.path().join(made));
            assert_eq!(found & 0o2070, folder & 0o2070, "{made}: {found:o}");
        }
        let found = mode(&directory.path().join(part.as_str()));
        assert_eq!(found & 0o070, file & 0o070, "{found:o}");
    }
}

#[tokio::test]
async fn a_folder_that_cannot_be_made() {
    let directory = tempfile::tempdir().unwrap();
    let storage = open(directory.path());
    fs::write(directory.path().join("work"), "").unwrap();
    let error = storage
        .create(&key("work/job"), Bytes::new())
        .await
        .unwrap_err();
    assert!(
        error.is(FaultKind::Lasting) && error.action == Operation::Create,
        "{error:?}"
    );

    // The reason is gone.
    fs::remove_file(directory.path().join("work")).unwrap();
    create(&storage, "work/job", "").await;
}

#[tokio::test]
async fn workers_share_it() {
    let directory = tempfile::tempdir().unwrap();
    let shared = || LocalStorage::shared(directory.path());
    assert!(matches!(shared(), Err(OpenError::File(_))), "no table");
    let owner = open(directory.path());
    let job = (key("work/job"), Bytes::from_static(b"abc"));
    owner.create(&job.0, job.1.clone()).await.unwrap();
    let workers = [shared().unwrap(), shared().unwrap()];
    assert_eq!(
        fs::read_dir(directory.path().join("work")).unwrap().count(),
        1
    );
    let part = key("work/parts/0003/a");
    workers[0].create(&part, job.1.clone()).await.unwrap();
    let again = workers[1].create(&part, Bytes::new()).await;
    assert!(
        matches!(&again, Err(error) if error.problem == StorageProblem::AlreadyExists),
        "{again:?}"
    );
    for storage in [&owner, &workers[1]] {
        assert_eq!(storage.read(&part).await.unwrap(), "abc");
        assert_eq!(
            list(storage, "work").await,
            [(job.0.clone(), 3), (part.clone(), 3)]
        );
    }
    let view = LocalStorage::view(directory.path()).unwrap();
    assert_eq!(view.read(&part).await.unwrap(), "abc");
    let error = view.create(&key("a"), Bytes::new()).await.unwrap_err();
    assert_eq!(error.source.to_string(), NOT_OURS);

    // The volume is unmounted before the first write of a worker.
    let late = shared().unwrap();
    let work = directory.path().join("work");
    fs::rename(&work, directory.path().join("elsewhere")).unwrap();
    let created = late.directory.create(&part, b"", Duration::ZERO);
    assert!(created.is_err() && !work.exists());
}
