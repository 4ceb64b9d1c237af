//! Helpers of the whole-system tests: command lines of the program, and what it leaves in folders.

#![allow(
    dead_code,
    unused_imports,
    reason = "each test file uses a part of this"
)]

pub(crate) mod cluster;
pub(crate) mod cpus;
pub(crate) mod faults;
pub(crate) mod http;
pub(crate) mod netns;
pub(crate) mod process;
pub(crate) mod proxy;
pub(crate) mod random;
pub(crate) mod watch;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use chomp_store::objects::LocalStorage;
use chomp_store::{Ledger, journal};
use chomp_table::Digest;
use chomp_testing::waiting::wait_for;
use nix::sys::statvfs::statvfs;
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Builder;

pub(crate) use self::process::{Ended, ask, end, send, start};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_chomp-under-test");

/// The fingerprints of 20, 24, 26, 28, 30 and 32 bits, which any correct program gets.
pub(crate) const FINGERPRINT_20: &str =
    "38b1c11383f729f4fb66748224af0f5f63390d172ccf4a6297e1ac3ac2c6c5fc";
pub(crate) const FINGERPRINT_24: &str =
    "b3bbb2560d37c8de2354c3d1250b3f23f9bd49ab2ddc196c5386d55044a1f26b";
pub(crate) const FINGERPRINT_26: &str =
    "efa2da1c9884fd1738bb130f408cfd5cc65b7747c88b73cfa23b417b4171222b";
pub(crate) const FINGERPRINT_28: &str =
    "f93ec4bb97dec9255a7e9f0e29d07ae3b8cee081f8194637a19d976de9129601";
pub(crate) const FINGERPRINT_30: &str =
    "51d67c8bc40114ddad27f1f18678985007395fe4bbcc9799e5b343a8a7d6646d";
pub(crate) const FINGERPRINT_31: &str =
    "350e5c31e8fa62d7e20f65af8d1254d9a50dfe5b27e28ce1faf57bbc3b5e2ee7";
pub(crate) const FINGERPRINT_32: &str =
    "72ef91e9475325085ce990723d7543eaa6dd94ac3964d2cababcff5b712c199f";

/// Variables by which whoever calls a program chooses colours and the width of its help. Where `CI` is set, `clap`
/// colours what goes to a terminal, be it dumb or not.
const LOOKS: [&str; 6] = [
    "CI",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLORTERM",
    "COLUMNS",
    "NO_COLOR",
];

/// The program, with nothing in its environment that it would listen to.
pub(crate) fn program() -> Command {
    let mut command = Command::new(PROGRAM);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CHOMP_") || LOOKS.contains(&&*text) {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The program with this command line, whose words have no spaces.
pub(crate) fn chomp(line: &str) -> Command {
    let mut command = program();
    command.args(line.split_whitespace());
    command
}

/// Another program that runs this command with its environment.
pub(crate) fn wrapped(wrapper: &str, args: &[&str], command: &Command) -> Command {
    let mut outer = Command::new(wrapper);
    outer.args(args);
    outer.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        outer.current_dir(folder);
    }
    outer.stdin(Stdio::null());
    outer.stdout(Stdio::piped()).stderr(Stdio::piped());
    outer
}

/// Divides leases and pauses of the program by `haste`. Its peers have as much time as always.
pub(crate) fn hasten(command: &mut Command, haste: u32) -> &mut Command {
    command.env("CHOMP_TEST_HASTE", haste.to_string())
}

/// Divides the limits of connections and the patience with servers by `haste`: for what is to be refused, as an honest
/// peer may be slower than that.
pub(crate) fn hasten_limits(command: &mut Command, haste: u32) -> &mut Command {
    command.env("CHOMP_TEST_HASTE_LIMITS", haste.to_string())
}

/// `chomp run --json` for the table of `bits` bits in `table`.
pub(crate) fn run(table: &Path, bits: u32) -> Command {
    let mut command = chomp(&format!("run --json --threads 2 --bits {bits} --table"));
    command.arg(table);
    command
}

/// `chomp run --json` for the table of `bits` bits, in ranges of 2^`range_bits` words.
pub(crate) fn run_in(table: &Path, bits: u32, range_bits: u32) -> Command {
    let mut command = run(table, bits);
    command.args(["--range-bits", &range_bits.to_string()]);
    command
}

pub(crate) fn fingerprint(summary: &Value) -> &str {
    summary["fingerprint"].as_str().expect("a fingerprint")
}

pub(crate) fn number(summary: &Value, name: &str) -> u64 {
    let number = summary[name].as_u64();
    number.unwrap_or_else(|| panic!("no number {name} in {summary}"))
}

/// All files in `folder` and its subfolders, sorted; none if it is not there.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// The directory of a finished table of `bits` bits.
pub(crate) fn finished(bits: u32) -> TempDir {
    let directory = folder();
    end(&mut run(directory.path(), bits)).summary();
    directory
}

/// The directory of a finished table of `bits` bits, which the first test that needs it makes.
pub(crate) fn made_once(table: &'static OnceLock<TempDir>, bits: u32) -> &'static Path {
    table.get_or_init(|| finished(bits)).path()
}

pub(crate) fn exists(path: &Path) -> bool {
    path.try_exists().expect("a place that can be looked at")
}

/// The JSON in a file.
pub(crate) fn read_json(path: &Path) -> Value {
    let bytes = fs::read(path).expect("a file that is there");
    serde_json::from_slice(&bytes).expect("JSON")
}

/// Changes the bytes of a file.
pub(crate) fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).expect("a file that is there");
    change(&mut bytes);
    fs::write(path, bytes).expect("a file that may be changed");
}

/// A folder of a test: in memory, where there is room. A kill loses nothing that was written, and a sync takes no time
/// there.
pub(crate) fn folder() -> TempDir {
    const ROOM_BYTES: u64 = 4 << 30;
    let memory = Path::new("/dev/shm");
    let has_room = statvfs(memory)
        .is_ok_and(|disk| disk.blocks_available() * disk.fragment_size() >= ROOM_BYTES);
    let made = if has_room {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    made.expect("a folder for the test")
}

/// The digests of all files in `folder` and its subfolders, by their names in it.
pub(crate) fn digests(folder: &Path) -> BTreeMap<String, Digest> {
    let files = files(folder).into_iter().map(|file| {
        let name = file.strip_prefix(folder).expect("a file inside");
        let bytes = fs::read(&file).expect("a file that nobody removes");
        (name.display().to_string(), Digest::of(&bytes))
    });
    files.collect()
}

/// Copies a folder with all that is in it.
pub(crate) fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        let name = file.strip_prefix(from).expect("a file inside");
        // A file that is still being written would not be in a snapshot either.
        if !is_whole(&file) {
            continue;
        }
        let copy = to.join(name);
        fs::create_dir_all(copy.parent().expect("a folder")).expect("a folder of the test");
        fs::copy(&file, &copy).expect("a file that nobody removes");
    }
}

/// Whether a file has its name for good: one that is still being written has a `#` in it.
pub(crate) fn is_whole(file: &Path) -> bool {
    !file.to_string_lossy().contains('#')
}

/// The state that a table's journal adds up to, even while it is written; none if there is none yet.
pub(crate) fn ledger(table: &Path) -> Option<Ledger> {
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime.enable_time().build().expect("a runtime");
    let storage = LocalStorage::view(table).ok()?;
    let what = format!("a journal in {} that can be read", table.display());
    let mut found = None;
    // A checkpoint may be removed while it is looked for, when there is a newer one.
    wait_for(&what, || {
        let looked = runtime.block_on(journal::read_ledger(&storage));
        let is_read = looked.is_ok();
        found = looked.ok().flatten();
        is_read
    });
    found
}

/// The number of ranges that are done.
pub(crate) fn ranges_done(table: &Path) -> u64 {
    ledger(table).map_or(0, |ledger| ledger.done_count() as u64)
}
