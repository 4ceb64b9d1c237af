//! Names that lead elsewhere, what is no file, and files that come to nothing.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use nix::sys::stat::Mode;

use super::*;

const FOREIGN: &[u8] = b"a file elsewhere";

#[expect(
    clippy::disallowed_methods,
    reason = "tests put things where files are to be"
)]
fn leave(path: &Path, content: &[u8]) {
    fs::write(path, content).unwrap();
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// A folder and a file outside of it, which nobody there is to touch.
fn place() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("folder");
    fs::create_dir(&folder).unwrap();
    let foreign = home.path().join("foreign");
    leave(&foreign, FOREIGN);
    (home, folder, foreign)
}

/// Everything under a name that is no file of its own.
fn plant(folder: &Path, foreign: &Path) -> Vec<(PathBuf, Unfit)> {
    let names = ["link", "nowhere", "folder", "pipe", "socket", "device"];
    let [link, nowhere, below, pipe, socket, device] = names.map(|name| folder.join(name));
    symlink(foreign, &link).unwrap();
    symlink(folder.join("none"), &nowhere).unwrap();
    fs::create_dir(&below).unwrap();
    nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    UnixListener::bind(&socket).unwrap();
    symlink("/dev/zero", &device).unwrap();
    vec![
        (link, Unfit::Link),
        (nowhere, Unfit::Link),
        (below, Unfit::Folder),
        (pipe, Unfit::Pipe),
        (socket, Unfit::Socket),
        (device, Unfit::Link),
    ]
}

#[test]
fn nothing_but_files_is_opened_and_nothing_waited_for() {
    let (_home, folder, foreign) = place();
    for (path, unfit) in plant(&folder, &foreign) {
        for opened in [
            open_nofollow(&path).map(drop),
            read_one_past(&path, 9).map(drop),
            open_to_append(&path).map(drop),
        ] {
            let error = opened.unwrap_err();
            assert_eq!(Unfit::of(&error), Some(unfit), "{error}");
        }
        let error = Lock::acquire(&path).unwrap_err();
        let text = format!("{error:?}");
        assert!(text.contains(&format!("{unfit:?}")), "{text}");
    }
    // A user may name a link, but what it leads to has to be a file.
    let unfit = |name: &str| Unfit::of(&open(&folder.join(name)).unwrap_err());
    assert_eq!(unfit("pipe"), Some(Unfit::Pipe));
    assert_eq!(unfit("socket"), Some(Unfit::Socket));
    assert_eq!(unfit("device"), Some(Unfit::Device));
    assert_eq!(unfit("nowhere"), None);
    let (_, metadata) = open(&folder.join("link")).unwrap();
    assert_eq!(metadata.len(), FOREIGN.len() as u64);
    // The way to a folder may have links.
    symlink(&folder, folder.join("way")).unwrap();
    leave(&folder.join("file"), b"content");
    assert_eq!(read_one_past(&folder.join("way/file"), 3).unwrap(), b"cont");
    assert_eq!(fs::read(&foreign).unwrap(), FOREIGN);
    assert!(!folder.join("none").is_file());
}

#[test]
fn a_file_with_two_names_is_not_written_to() {
    let (_home, folder, foreign) = place();
    let path = folder.join("table.partial");
    fs::hard_link(&foreign, &path).unwrap();
    let error = open_to_append(&path).unwrap_err();
    assert_eq!(Unfit::of(&error), Some(Unfit::OtherNames));
    fs::remove_file(&path).unwrap();
    for length in [0, 1] {
        let (mut file, metadata) = open_to_append(&path).unwrap();
        assert_eq!(metadata.len(), length);
        file.write_all(b"x").unwrap();
    }
    assert_eq!(fs::read(&path).unwrap(), b"xx");
    assert_eq!(fs::read(&foreign).unwrap(), FOREIGN);
}

#[test]
fn what_is_planted_beside_a_file_is_not_written_through() {
    let (_home, folder, foreign) = place();
    let path = folder.join("report.json");
    for suffix in ["", ".partial", ".tmp", ".lock", "#1"] {
        for prefix in ["", "."] {
            let planted = folder.join(format!("{prefix}report.json{suffix}"));
            if planted != path {
                symlink(&foreign, planted).unwrap();
            }
        }
    }
    let before = names(&folder).len();
    put(&path, b"report").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"report");
    assert_eq!(names(&folder).len(), before + 1);
    // A lock under a name that leads elsewhere is none.
    let error = Claim::begin(&path).unwrap_err();
    assert!(matches!(&error, FileError::Failed { .. }), "{error:?}");
    assert!(error.to_string().contains("report.json.lock"), "{error}");
    assert_eq!(fs::read(&foreign).unwrap(), FOREIGN);
}

#[test]
fn two_files_never_have_the_same_name_before() {
    let (_home, folder, _) = place();
    let path = folder.join("words.csv");
    let begun: Vec<NewFile> = (0..9)
        .map(|_| NewFile::create(&path, true).unwrap())
        .collect();
    let names = names(&folder);
    assert_eq!(names.len(), begun.len());
    for name in names {
        let random = name.strip_prefix(".words.csv.").unwrap();
        assert!(
            random.strip_suffix(".partial").unwrap().len() >= 6,
            "{name}"
        );
    }
}

#[test]
fn a_file_appears_when_it_is_finished() {
    let (_home, folder, _) = place();
    let path = folder.join("words.csv");
    let mut file = NewFile::create(&path, false).unwrap();
    file.write_all(b"word\n").unwrap();
    assert!(!path.is_file());
    file.finish().unwrap();
    assert_eq!(names(&folder), ["words.csv"]);
    assert_eq!(fs::read(&path).unwrap(), b"word\n");
    // As readable as any new file of this process.
    let plain = folder.join("plain");
    leave(&plain, b"");
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode();
    assert_eq!(mode(&path), mode(&plain));
    put_private(&path, b"secret").unwrap();
    assert_eq!(mode(&path) & 0o777, 0o600);

    let mut file = NewFile::create(&folder.join("more.csv"), false).unwrap();
    file.write_all(b"word\n").unwrap();
    drop(file);
    assert_eq!(names(&folder), ["plain", "words.csv"]);
}

#[test]
fn what_is_there_is_replaced_on_demand_only() {
    let (_home, folder, _) = place();
    let path = folder.join("words.csv");
    let finish = |replace| {
        let mut file = NewFile::create(&path, replace)?;
        file.write_all(b"new").unwrap();
        file.finish()
    };
    leave(&path, b"old");
    // Before anything is written.
    let error = NewFile::create(&path, false).unwrap_err();
    assert!(matches!(&error, FileError::Exists { path: found } if *found == path));
    assert_eq!(fs::read(&path).unwrap(), b"old");
    finish(true).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");

    // One that came while the other was written.
    fs::remove_file(&path).unwrap();
    let file = NewFile::create(&path, false).unwrap();
    leave(&path, b"other");
    assert!(matches!(file.finish(), Err(FileError::Exists { .. })));
    assert_eq!(fs::read(&path).unwrap(), b"other");
    assert_eq!(names(&folder), ["words.csv"]);
}

fn is_unfit(error: &FileError) -> bool {
    matches!(error, FileError::Failed { source, .. } if Unfit::of(source).is_some())
}

#[test]
fn what_is_no_file_stays() {
    let (_home, folder, foreign) = place();
    let planted = plant(&folder, &foreign);
    let before = names(&folder);
    let mut paths: Vec<&Path> = planted.iter().map(|(path, _)| &**path).collect();
    paths.extend([&*folder, Path::new("/dev/null"), Path::new("..")]);
    for path in paths {
        for replace in [false, true] {
            let error = NewFile::create(path, replace).unwrap_err();
            assert!(is_unfit(&error), "{error:?}");
        }
        assert!(is_unfit(&Claim::begin(path).unwrap_err()));
        assert!(is_unfit(&put(path, b"new").unwrap_err()));
    }
    assert_eq!(names(&folder), before);
    let error = NewFile::create(&folder.join("none/words.csv"), false).unwrap_err();
    assert!(matches!(error, FileError::Failed { .. }), "{error}");
    assert!(error.to_string().contains("none"), "{error}");
    assert_eq!(fs::read(&foreign).unwrap(), FOREIGN);
    // A name alone is one in the current folder.
    drop(NewFile::create(Path::new("words.csv"), false).unwrap());
}

#[test]
fn a_file_is_claimed_by_one() {
    let (_home, folder, _) = place();
    let path = folder.join("report.json");
    let claim = Claim::begin(&path).unwrap();
    assert_eq!(names(&folder), ["report.json.lock"]);
    let second = Claim::begin(&path).unwrap_err();
    assert!(matches!(&second, FileError::InUse { path: found, .. } if *found == path));
    claim.finish(b"first").unwrap();
    assert_eq!(names(&folder), ["report.json"]);

    // One that comes to nothing leaves what was there.
    drop(Claim::begin(&path).unwrap());
    assert_eq!(names(&folder), ["report.json"]);
    assert_eq!(read_one_past(&path, 9).unwrap(), b"first");
    // A lock file that a killed process left is taken over.
    leave(&folder.join("report.json.lock"), b"");
    Claim::begin(&path).unwrap().finish(b"2").unwrap();
    assert_eq!(read_one_past(&path, 0).unwrap(), b"2");
    remove(&path).unwrap();
    remove(&path).unwrap();
    assert_eq!(names(&folder), [""; 0]);
    let error = Claim::begin(&folder.join("none/report.json")).unwrap_err();
    assert!(
        error.to_string().contains("none/report.json.lock"),
        "{error}"
    );

    // A lock that stays.
    let lock = folder.join("lock");
    let held = Lock::acquire(&lock).unwrap();
    let second = Lock::acquire(&lock).unwrap_err().to_string();
    assert!(
        second.contains(&format!("(process {}, ", std::process::id())),
        "{second}"
    );
    drop(held);
    drop(Lock::acquire(&lock).unwrap());
    assert_eq!(names(&folder), ["lock"]);
}

/// A claim that is given back removes its lock, perhaps between another process's opening and locking it.
#[test]
fn a_claim_is_one_process_s_however_many_come_and_go() {
    let (_home, folder, _) = place();
    let path = folder.join("report.json");
    let held = AtomicBool::new(false);
    let claims = AtomicU32::new(0);
    let come_and_go = || {
        while claims.load(Ordering::SeqCst) < 300 {
            if let Ok(claim) = Claim::begin(&path) {
                assert!(!held.swap(true, Ordering::SeqCst), "two have it");
                claims.fetch_add(1, Ordering::SeqCst);
                (0..20).for_each(|_| std::thread::yield_now());
                held.store(false, Ordering::SeqCst);
                drop(claim);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(come_and_go);
        }
    });
}

/// A user who may open a lock can hold it for ever.
#[test]
fn a_lock_is_for_those_who_may_write_beside_it() {
    let (_home, folder, _) = place();
    let lock = folder.join("lock");
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    for (of_folder, of_lock) in [(0o755, 0o600), (0o775, 0o660), (0o700, 0o600)] {
        fs::set_permissions(&folder, fs::Permissions::from_mode(of_folder)).unwrap();
        drop(Lock::acquire(&lock).unwrap());
        assert_eq!(mode(&lock), of_lock);
        // One of an older program is restricted too.
        fs::set_permissions(&lock, fs::Permissions::from_mode(0o644)).unwrap();
        drop(Lock::acquire(&lock).unwrap());
        assert_eq!(mode(&lock), of_lock);
    }
}

#[test]
fn only_a_file_of_this_user_is_its_own() {
    let (_home, _, foreign) = place();
    let (_, metadata) = open(&foreign).unwrap();
    check_owner(&metadata).unwrap();
    // Nobody is the owner of this one, and root of that.
    for path in ["/proc/1/status", "/etc/passwd"] {
        let (_, metadata) = open(Path::new(path)).unwrap();
        let is_root = nix::unistd::geteuid().is_root();
        assert_eq!(check_owner(&metadata).is_ok(), is_root, "{path}");
    }
    if nix::unistd::geteuid().is_root() {
        std::os::unix::fs::chown(&foreign, Some(65_534), None).unwrap();
        let (_, metadata) = open(&foreign).unwrap();
        let error = check_owner(&metadata).unwrap_err();
        assert_eq!(Unfit::of(&error), Some(Unfit::OtherOwner));
    }
}

#[test]
fn a_name_alone_is_in_the_folder_where_we_are() {
    assert_eq!(folder(Path::new("a")), Path::new("."));
    assert_eq!(folder(Path::new("a/b")), Path::new("a"));
    assert_eq!(folder(Path::new("/b")), Path::new("/"));
}

#[test]
fn folders_are_made_once() {
    let (_home, folder, foreign) = place();
    let deep = folder.join("a/b/c");
    for _ in 0..2 {
        make_folders(&deep).unwrap();
        make_folder(&deep).unwrap();
        assert!(deep.is_dir());
    }
    for made in [make_folders(&foreign.join("d")), make_folder(&foreign)] {
        assert!(made.is_err());
    }
}
