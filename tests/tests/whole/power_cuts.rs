//! Files for users across power cuts and disks that fail: at each moment a file is absent, the old one or the new one,
//! whole; and a sync that fails is told, and leaves no half file under its name. Needs `strace`.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::common::cluster::{Server, at_home, free_port};
use crate::common::watch::{Watched, is_for_good, watch};
use crate::common::{chomp, copy, end, files, run};
use chomp_testing::needs;
use serde_json::Value;
use tempfile::TempDir;

const BITS: u32 = 16;

/// A folder with a finished table and its secrets, and what else is to be there before.
fn template() -> &'static Path {
    static TEMPLATE: OnceLock<TempDir> = OnceLock::new();
    let home = TEMPLATE.get_or_init(|| {
        let home = tempfile::tempdir().unwrap();
        let table = home.path().join("table");
        end(&mut run(&table, BITS)).summary();
        let mut coordinator = coordinator(home.path());
        end(&mut coordinator).done();
        home
    });
    home.path()
}

fn command(home: &Path, line: &str) -> Command {
    let mut command = at_home(chomp(line), home);
    command.current_dir(home);
    command
}

fn coordinator(home: &Path) -> Command {
    let listen = format!("--listen 127.0.0.1:{}", free_port());
    let line = format!("coordinator --bits 16 --table table --exit-when-done {listen}");
    command(home, &line)
}

/// A copy of the template.
fn prepared() -> TempDir {
    let home = tempfile::tempdir().unwrap();
    copy(template(), home.path());
    home
}

/// The files for users below a folder: those that have their names for good, and are neither those of a job nor what a
/// process leaves for as long as it runs.
fn contents(home: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut contents = BTreeMap::new();
    for path in files(home) {
        let name = path.strip_prefix(home).unwrap();
        let passing = name.starts_with("table/work") || name.starts_with("state");
        if is_for_good(&path) && !passing {
            contents.insert(name.to_owned(), fs::read(&path).unwrap());
        }
    }
    contents
}

/// The names of the fields of a JSON object, whose values may depend on the time.
fn keys(bytes: &[u8]) -> Option<Vec<String>> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    Some(value.as_object()?.keys().cloned().collect())
}

/// Runs a command on copies of a folder: undisturbed, and with each sync failing in turn.
fn check(prepared: &Path, last: Option<&str>, command: impl Fn(&Path) -> Command) {
    let scratch = tempfile::tempdir().unwrap();
    // The system calls have the paths without links.
    let scratch = fs::canonicalize(scratch.path()).unwrap();
    let trace = scratch.join("trace");
    let begin = |name: String| {
        let home = scratch.join(name);
        // Where a coordinator leaves its access file for as long as it runs.
        let state = home.join("state/chomp");
        let mut private = DirBuilder::new();
        private.recursive(true).mode(0o700).create(state).unwrap();
        copy(prepared, &home);
        home
    };
    let home = begin("undisturbed".to_owned());
    let before = contents(&home);
    let watched = watch(&command(&home), &trace, None);
    watched.survives_power_cuts(&home, last);
    watched.ended.done();
    let after = contents(&home);
    assert_ne!(before, after, "it writes something");

    for sync in 1.. {
        let home = begin(format!("failing-{sync}"));
        let Watched { ended, failed, .. } = watch(&command(&home), &trace, Some(sync));
        if !failed {
            // No thread has a sync of this number: all have failed in turn.
            assert!(sync > 1, "there is a file at least");
            break;
        }
        let told = ended.stderr.contains("cannot sync") || ended.code != Some(0);
        assert!(told, "sync {sync} failed and nobody noticed: {ended:?}");
        for (path, bytes) in contents(&home) {
            let whole = [&before, &after].iter().any(|known| {
                let known = known.get(&path);
                let same = |known: &Vec<u8>| {
                    *known == bytes || keys(known).is_some_and(|known| Some(known) == keys(&bytes))
                };
                known.is_some_and(same)
            });
            let name = path.display();
            assert!(whole, "{name} is neither old nor new: {ended:?}");
        }
    }
    fs::remove_dir_all(scratch).unwrap();
}

#[test]
fn exports() {
    if !needs::strace() {
        return;
    }
    for format in ["words", "parquet"] {
        let line = format!("export --table table --force --format {format} --out out");
        let export = |home: &Path| command(home, &line);
        check(template(), None, export);
        // An export that replaces an old one.
        let old = prepared();
        fs::write(old.path().join("out"), "what was exported before").unwrap();
        check(old.path(), None, export);
    }
}

#[test]
fn reports() {
    if !needs::strace() {
        return;
    }
    for level in ["quick", "sample", "full"] {
        let line = format!("verify --threads 1 --table table --level {level}");
        let verify = |home: &Path| command(home, &line);
        check(template(), None, verify);
        let old = prepared();
        end(&mut verify(old.path())).done();
        fs::write(old.path().join("table/other"), "").unwrap();
        check(old.path(), None, verify);
    }
}

#[test]
fn secrets_and_participants() {
    if !needs::strace() {
        return;
    }
    let begun = prepared();
    fs::remove_file(begun.path().join("table/secrets.json")).unwrap();
    fs::remove_file(begun.path().join("table/access.json")).unwrap();
    check(begun.path(), None, coordinator);

    let access =
        |home: &Path, what: &str| command(home, &format!("access {what} ann --table table"));
    check(template(), None, |home| access(home, "add"));
    let known = prepared();
    end(&mut access(known.path(), "add")).done();
    check(known.path(), None, |home| access(home, "revoke"));
}

#[test]
fn downloads() {
    if !needs::strace() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(1, &template().join("table"), home.path(), "");
    let line = format!("download --from {} --out new/folder", server.url());
    let download = |home: &Path| command(home, &line);
    let empty = tempfile::tempdir().unwrap();
    check(empty.path(), Some("manifest.json"), download);

    // Files that an attempt named before it was killed are made durable by the next one, which writes nothing.
    let home = fs::canonicalize(empty.path()).unwrap();
    end(&mut download(&home)).done();
    let again = watch(&download(&home), &home.join("trace"), None);
    let folder = home.join("new/folder/table-16");
    assert!(again.synced(&folder));
    again.ended.done();

    // The list of digests is there, and a shard is not.
    for file in ["manifest.json", "shard-0000.zst"] {
        fs::remove_file(folder.join(file)).unwrap();
    }
    check(&home, Some("manifest.json"), download);
}

#[test]
fn manuals() {
    if !needs::strace() {
        return;
    }
    let empty = tempfile::tempdir().unwrap();
    check(empty.path(), None, |home| command(home, "man --out pages"));
}
