//! Calls to the system that fail or hang in a process under test, for as long as the test wants.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use nix::errno::Errno;
use tempfile::TempDir;

use super::exists;

/// The library that makes calls fail in a process that preloads it, compiled once.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, library) = LIBRARY.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("faults.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/common/faults.c");
        let mut compiler = Command::new("cc");
        compiler
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&library);
        let built = compiler.arg(source).status();
        assert!(
            built.unwrap().success(),
            "a C compiler builds the program too"
        );
        (folder, library)
    });
    library
}

/// The calls of one or several processes.
#[derive(Debug)]
pub(crate) struct Faults {
    folder: TempDir,
}

impl Faults {
    pub(crate) fn new() -> Faults {
        let folder = tempfile::tempdir().unwrap();
        Faults { folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("faults")
    }

    /// Has the calls of a process be under the command of the test.
    pub(crate) fn reach<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("LD_PRELOAD", library());
        command.env("CHOMP_TEST_FAULTS", self.file())
    }

    /// Has such calls on paths that contain `part` fail from now on, or hang if there is no error; those that end with
    /// it, if `part` ends with `$`.
    pub(crate) fn set(&self, call: &str, part: &str, error: Option<Errno>) {
        let number = error.map_or(0, |error| error as i32);
        let new = self.folder.path().join("new");
        fs::write(&new, format!("{call} {part} {number}\n")).unwrap();
        fs::rename(new, self.file()).unwrap();
    }

    /// Whether such a call has failed, or hangs.
    pub(crate) fn is_hit(&self) -> bool {
        exists(&self.file().with_extension("hit"))
    }

    /// All is well again.
    pub(crate) fn end(&self) {
        fs::remove_file(self.file()).unwrap();
    }
}
