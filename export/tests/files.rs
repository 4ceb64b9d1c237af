//! Files that are complete or absent.

#![expect(
    clippy::disallowed_methods,
    reason = "tests put things where files are to be"
)]

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use chomp_export::ExportError;
use chomp_export::file::NewFile;

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn a_file_appears_when_it_is_finished() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("words.csv");
    let mut file = NewFile::create(&path, false).unwrap();
    file.write_all(b"word\n").unwrap();
    let [name] = &names(dir.path())[..] else {
        panic!("one file that is begun");
    };
    assert!(
        name.starts_with(".words.csv.") && name.ends_with(".partial"),
        "{name}"
    );
    file.finish().unwrap();
    assert_eq!(names(dir.path()), ["words.csv"]);
    assert_eq!(fs::read(&path).unwrap(), b"word\n");
    // As readable as any new file of this process.
    let plain = dir.path().join("plain");
    fs::write(&plain, "").unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode();
    assert_eq!(mode(&path), mode(&plain));
}

#[test]
fn a_file_that_is_not_finished_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = NewFile::create(&dir.path().join("words.csv"), false).unwrap();
    file.write_all(b"word\n").unwrap();
    drop(file);
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn what_is_there_is_replaced_on_demand_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("words.csv");
    let finish = |replace| -> Result<(), ExportError> {
        let mut file = NewFile::create(&path, replace)?;
        file.write_all(b"new").unwrap();
        file.finish()
    };
    fs::write(&path, "old").unwrap();
    // Before anything is written.
    let error = NewFile::create(&path, false).unwrap_err();
    assert!(matches!(&error, ExportError::Exists { path: found } if *found == path));
    assert!(error.to_string().contains("--force"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"old");
    finish(true).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");

    // One that came while the other was written.
    fs::remove_file(&path).unwrap();
    let file = NewFile::create(&path, false).unwrap();
    fs::write(&path, "other").unwrap();
    assert!(matches!(file.finish(), Err(ExportError::Exists { .. })));
    assert_eq!(fs::read(&path).unwrap(), b"other");
    assert_eq!(names(dir.path()), ["words.csv"]);
}

#[test]
fn what_is_no_file_stays() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("link");
    symlink(dir.path(), &link).unwrap();
    for path in [dir.path(), Path::new("/dev/null"), Path::new(".."), &link] {
        for replace in [false, true] {
            let error = NewFile::create(path, replace).unwrap_err();
            assert!(matches!(error, ExportError::NotAFile { .. }), "{error}");
        }
    }
    let nowhere = dir.path().join("none/words.csv");
    let error = NewFile::create(&nowhere, false).unwrap_err();
    assert!(matches!(error, ExportError::File { .. }), "{error}");
    assert!(error.to_string().contains("none"), "{error}");
    // A name alone is one in the current folder.
    drop(NewFile::create(Path::new("words.csv"), false).unwrap());
}
