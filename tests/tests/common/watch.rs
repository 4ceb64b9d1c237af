//! A process whose system calls are watched, and what a power cut after each of them would leave of its files.
//!
//! The disk is thought to be as bad as it may be: what was written since a file was synced may be there in part, and a
//! change of names may have happened or not until the folder was synced.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Ended, end, wrapped};

/// The calls that matter.
const CALLS: &str = "trace=openat,write,pwrite64,writev,ftruncate,copy_file_range,sendfile,fallocate,\
fsync,fdatasync,rename,renameat,renameat2,link,linkat,unlink,unlinkat,mkdir,mkdirat";

/// A call that succeeded.
#[derive(Debug)]
struct Call {
    name: String,
    arguments: String,
}

/// The end of a watched process, and its system calls.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) ended: Ended,
    calls: Vec<Call>,
    /// Whether a sync failed that was to.
    pub(crate) failed: bool,
}

/// Runs a command to its end, watched. Of each thread the sync of number `failing` fails, if there is one.
pub(crate) fn watch(command: &Command, trace: &Path, failing: Option<usize>) -> Watched {
    let out = trace.to_str().unwrap();
    let mut options: Vec<&str> = "-f -y -qq -s 0 -e signal=none -o".split(' ').collect();
    options.extend([out, "-e", CALLS]);
    let fault = failing.map(|number| format!("inject=fsync,fdatasync:error=EIO:when={number}"));
    options.extend(fault.iter().flat_map(|fault| ["-e", fault]));
    let ended = end(&mut wrapped("strace", &options, command));
    let text = fs::read_to_string(trace).unwrap();
    let mut begun = BTreeMap::<&str, &str>::new();
    let mut calls = Vec::new();
    for line in text.lines() {
        let (thread, line) = line.split_once(' ').unwrap();
        let line = line.trim_start();
        let whole = if let Some(begin) = line.strip_suffix(" <unfinished ...>") {
            begun.insert(thread, begin);
            continue;
        } else if line.starts_with("<... ") {
            let rest = line.split_once(" resumed>").unwrap().1;
            begun.remove(thread).unwrap().to_owned() + rest
        } else {
            line.to_owned()
        };
        let Some((name, rest)) = whole.split_once('(') else {
            continue;
        };
        let (arguments, result) = rest.rsplit_once(" = ").unwrap();
        if !result.starts_with('-') && !result.starts_with('?') {
            calls.push(Call {
                name: name.to_owned(),
                arguments: arguments.trim_end().trim_end_matches(')').to_owned(),
            });
        }
    }
    Watched {
        ended,
        calls,
        failed: text.contains("(INJECTED)"),
    }
}

/// Whether a file has a name for good, and not one for the time that it is written, or for a lock.
pub(crate) fn is_for_good(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    !name.contains('#') && !name.ends_with(".partial") && !name.ends_with("lock")
}

/// The disk as it may be after a power cut.
#[derive(Debug, Default)]
struct Disk {
    /// The files of which not all is on the disk.
    unsynced: BTreeSet<PathBuf>,
    /// The names that are not on the disk as they are, or still there.
    unnamed: BTreeSet<PathBuf>,
}

impl Watched {
    /// Whether the entries of a folder, or what is in a file, were made durable.
    pub(crate) fn synced(&self, path: &Path) -> bool {
        let is_it =
            |call: &Call| call.name == "fsync" && call.open_file().is_some_and(|it| it == path);
        self.calls.iter().any(is_it)
    }

    /// Asserts that after a power cut at any moment each file below `root` is absent, the old one or the new one,
    /// whole; and that all is on the disk at the end. When the file `last` gets its name, all others are there.
    pub(crate) fn survives_power_cuts(&self, root: &Path, last: Option<&str>) {
        let mut disk = Disk::default();
        let mut named = 0;
        for call in &self.calls {
            named += usize::from(disk.step(call, root, last));
        }
        assert!(named > 0, "no file got a name: {:#?}", self.calls);
        assert!(
            disk.unnamed.is_empty(),
            "not on the disk at the end: {:?} of {:#?}",
            disk.unnamed,
            self.calls
        );
    }
}

impl Disk {
    /// Returns whether a file got its name.
    fn step(&mut self, call: &Call, root: &Path, last: Option<&str>) -> bool {
        let quoted: Vec<PathBuf> = call.paths(root);
        let open: Option<PathBuf> = call.open_file().filter(|path| path.starts_with(root));
        let own_name = |path: &Path| format!("{} is written under its own name", path.display());
        match &*call.name {
            "openat" => {
                let path = quoted.last().unwrap();
                if call.arguments.contains("O_CREAT") && path.starts_with(root) {
                    let empties = call.arguments.contains("O_TRUNC");
                    assert!(!is_for_good(path) || !empties, "{}", own_name(path));
                    self.unsynced.insert(path.clone());
                }
            }
            "fsync" | "fdatasync" => {
                if let Some(path) = open {
                    self.unsynced.remove(&path);
                    self.unnamed.retain(|name| name.parent() != Some(&path));
                }
            }
            "rename" | "renameat" | "renameat2" | "link" | "linkat" => {
                let [from, to] = &quoted[..] else {
                    panic!("{call:?}");
                };
                if !to.starts_with(root) || !is_for_good(to) {
                    return false;
                }
                assert!(
                    !self.unsynced.contains(from),
                    "{} is named unsynced",
                    to.display()
                );
                if last.is_some_and(|last| to.ends_with(last)) {
                    assert!(self.unnamed.is_empty(), "not there yet: {self:?}");
                }
                self.unnamed.insert(to.clone());
                return true;
            }
            "unlink" | "unlinkat" | "mkdir" | "mkdirat" => {
                let path = quoted.last().unwrap();
                if path.starts_with(root) && path != root && is_for_good(path) {
                    self.unnamed.insert(path.clone());
                }
            }
            _ => {
                // A write of any kind.
                if let Some(path) = open {
                    assert!(!is_for_good(&path), "{}", own_name(&path));
                    self.unsynced.insert(path);
                }
            }
        }
        false
    }
}

impl Call {
    /// The paths in quotes; the process is in `root`.
    fn paths(&self, root: &Path) -> Vec<PathBuf> {
        let within = self
            .arguments
            .starts_with(|first: char| first.is_ascii_digit());
        let folder = within.then(|| self.open_file()).flatten();
        let folder = folder.unwrap_or_else(|| root.to_owned());
        let quoted = self.arguments.split('"').skip(1).step_by(2);
        quoted.map(|path| folder.join(path)).collect()
    }

    /// The file whose descriptor is the first argument.
    fn open_file(&self) -> Option<PathBuf> {
        let (_, rest) = self.arguments.split_once('<')?;
        Some(PathBuf::from(rest.split_once('>')?.0))
    }
}
