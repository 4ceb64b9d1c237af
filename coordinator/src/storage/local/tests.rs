//! What crashes, strangers and full disks leave in a directory.

#![expect(
    clippy::disallowed_methods,
    reason = "puts files there behind the storage's back"
)]

use std::process::Command;

use super::*;

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

fn open(directory: &Path) -> LocalStorage {
    LocalStorage::open(TableLock::acquire(directory).unwrap()).unwrap()
}

#[test]
fn one_owner_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let storage = open(directory.path());
    match TableLock::acquire(directory.path()) {
        Err(OpenError::InUse { path }) => assert_eq!(path, directory.path().join("lock")),
        other => panic!("{other:?}"),
    }
    drop(storage);
    open(directory.path());
}

#[test]
fn a_file_is_not_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "").unwrap();
    for path in [path.clone(), path.join("table")] {
        let error = TableLock::acquire(&path).unwrap_err();
        assert!(matches!(error, OpenError::Failed { .. }), "{error:?}");
        assert!(error.to_string().contains("file"), "{error}");
    }
}

#[tokio::test]
async fn unfinished_files_are_no_objects_and_go() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("work/parts/0001");
    open(directory.path())
        .create(&key("work/parts/0001/a"), Bytes::new())
        .await
        .unwrap();
    let foreign = [
        "work/parts/0001/.hidden",
        "work/parts/0001/a#b",
        "notes/x#1",
        "x#1",
        "x#y",
    ];
    fs::create_dir(directory.path().join("notes")).unwrap();
    for name in foreign {
        fs::write(directory.path().join(name), "foreign").unwrap();
    }
    for name in ["a#1", "b#1", "b#23"] {
        fs::write(folder.join(name), "in part").unwrap();
    }

    // One that appears later belongs to a creation that is under way.
    let storage = open(directory.path());
    for name in ["a#1", "b#1", "b#23"] {
        assert!(!folder.join(name).exists(), "{name}");
    }
    fs::write(folder.join("b#1"), "in part").unwrap();
    assert_eq!(
        storage.list(&key("work")).await.unwrap(),
        [(key("work/parts/0001/a"), 0)]
    );
    storage
        .create(&key("work/parts/0001/b"), Bytes::from_static(b"whole"))
        .await
        .unwrap();
    assert_eq!(
        storage.read(&key("work/parts/0001/b")).await.unwrap(),
        "whole"
    );
    for name in foreign {
        assert!(directory.path().join(name).exists(), "{name}");
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
        matches!(
            error,
            StorageError::Failed {
                action: Action::Create,
                ..
            }
        ),
        "{error:?}"
    );

    // The reason is gone, but only a new start knows what is on the disk.
    fs::remove_file(directory.path().join("work")).unwrap();
    for name in ["work/job", "table-20/a"] {
        let error = storage.create(&key(name), Bytes::new()).await.unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(source, EARLIER_FAILURE);
    }
    storage.delete(&key("work/job")).await.unwrap_err();
    drop(storage);
    let storage = open(directory.path());
    storage
        .create(&key("work/job"), Bytes::new())
        .await
        .unwrap();
}

#[test]
fn full_disks_and_quotas_are_told_from_other_failures() {
    use io::ErrorKind::{FileTooLarge, PermissionDenied, QuotaExceeded, StorageFull};
    for (kind, full) in [
        (StorageFull, true),
        (QuotaExceeded, true),
        (PermissionDenied, false),
        (FileTooLarge, false),
    ] {
        let wrapped = object_store::Error::Generic {
            store: "test",
            source: Box::new(io::Error::from(kind)),
        };
        for source in [Cause::from(wrapped), Cause::from(io::Error::from(kind))] {
            let error = error(&key("a"), Action::Create, source);
            assert_eq!(
                matches!(error, StorageError::Full { .. }),
                full,
                "{error:?}"
            );
            assert_eq!(
                matches!(error, StorageError::Failed { .. }),
                !full,
                "{error:?}"
            );
        }
    }
}

/// A file system of one mebibyte, unmounted at the end.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// None where mounting is not permitted.
    fn mount() -> Option<SmallDisk> {
        let directory = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
            .arg(directory.path());
        let done = mount.output().is_ok_and(|output| output.status.success());
        done.then_some(SmallDisk(directory))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount")
            .arg("--lazy")
            .arg(self.0.path())
            .status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}

#[tokio::test]
#[expect(clippy::print_stderr, reason = "says why a test had nothing to do")]
async fn a_full_disk() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("no small file system may be mounted here: nothing tested");
        return;
    };
    let storage = open(disk.0.path());
    storage
        .create(&key("work/a"), Bytes::from(vec![1; 500_000]))
        .await
        .unwrap();
    for _ in 0..2 {
        let error = storage
            .create(&key("work/b"), Bytes::from(vec![2; 700_000]))
            .await
            .unwrap_err();
        assert!(
            matches!(
                error,
                StorageError::Full {
                    action: Action::Create,
                    ..
                }
            ),
            "{error:?}"
        );
        assert_eq!(
            storage.list(&key("work")).await.unwrap(),
            [(key("work/a"), 500_000)]
        );
    }
    assert_eq!(fs::read_dir(disk.0.path().join("work")).unwrap().count(), 1);
    storage.delete(&key("work/a")).await.unwrap();
    storage
        .create(&key("work/b"), Bytes::from(vec![2; 700_000]))
        .await
        .unwrap();
    assert_eq!(
        storage.read(&key("work/b")).await.unwrap(),
        vec![2; 700_000]
    );
}
