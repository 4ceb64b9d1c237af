//! A download that is killed again and again ends complete; a bit that flips is not accepted; and what was downloaded
//! can be extended.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;

use crate::common::cluster::{Cluster, Process, wait_for};
use crate::common::proxy::Proxy;
use crate::common::random::Random;
use crate::common::{Ended, FINGERPRINT_28, FINGERPRINT_30, change, end, exists, files, run};
use chomp_table::Table;
use chomp_testing::trials;

const BITS: u32 = 28;
const SHARD: &str = "shard-0000.zst";
const FILES: [&str; 3] = ["SHA256SUMS", "manifest.json", SHARD];
/// The kills of a download before it is left to its end.
const KILLS: u64 = 12;
/// Bytes a second while downloads are killed: the whole table takes a second or two.
const SLOW: u64 = 300_000;
/// The most bytes that come before a kill: a small part of the table.
const BYTES_PER_KILL: usize = 50_000;

/// A finished table, its coordinator, and the way there.
struct Source {
    cluster: Cluster,
    proxy: Proxy,
    _coordinator: Process,
}

impl Source {
    fn new() -> Source {
        let cluster = Cluster::in_the_clear();
        end(&mut run(&cluster.table(), BITS)).summary();
        let mut command = cluster.coordinator(BITS, 16);
        Source {
            proxy: Proxy::start(cluster.port),
            _coordinator: cluster.start_coordinator(&mut command),
            cluster,
        }
    }

    fn original(&self, file: &str) -> Vec<u8> {
        fs::read(self.cluster.table().join("table-28").join(file)).unwrap()
    }

    /// A download through the proxy.
    fn download(&self, out: &Path) -> Command {
        let line = format!("download --json --from {} --out", self.proxy.url);
        let mut command = self.cluster.chomp(&line);
        command.arg(out);
        command
    }

    /// Downloads until `bytes` have passed, and kills it then.
    fn kill_after(&self, out: &Path, bytes: u64) -> Ended {
        let passed = self.proxy.passed();
        let mut download = self.cluster.start(&mut self.download(out));
        wait_for("bytes", || {
            self.proxy.passed() >= passed + bytes || download.ended().is_some()
        });
        download.kill()
    }

    /// Asserts that all of the table is in `out`, as it is at the source.
    fn check_complete(&self, out: &Path, ended: &Ended) {
        ended.made(FINGERPRINT_28);
        for file in FILES {
            let copy = fs::read(folder(out).join(file)).unwrap();
            assert!(copy == self.original(file), "{file} is another");
        }
        assert_eq!(files(&folder(out)).len(), FILES.len());
    }
}

fn folder(out: &Path) -> PathBuf {
    out.join("table-28")
}

fn partial(out: &Path) -> PathBuf {
    folder(out).join(format!("{SHARD}.partial"))
}

/// Kills a download again and again, and asserts that it ends complete. Returns how often.
fn kill_a_download(source: &Source, seed: u64) -> u64 {
    let mut random = Random::of(seed);
    let out = &source.cluster.home().join(format!("out-{seed}"));
    source.proxy.limit(SLOW);
    let before = source.proxy.passed();
    let mut kills = 0;
    while kills < KILLS {
        let held = fs::metadata(partial(out)).map_or(0, |file| file.len());
        let bytes = random.below(BYTES_PER_KILL) as u64;
        // A machine that is slow to kill may see an end first.
        if source.kill_after(out, bytes).code.is_some() {
            break;
        }
        kills += 1;
        let manifest = folder(out).join("manifest.json");
        assert!(!exists(&manifest), "it is the last");
        let holds = fs::metadata(partial(out)).map_or(0, |file| file.len());
        assert!(holds >= held, "{holds} of {held} bytes are left");
    }
    source.proxy.limit(0);
    source.check_complete(out, &end(&mut source.download(out)));
    // Only bytes that were on the way at a kill were fetched again.
    let (fetched, size) = (source.proxy.passed() - before, source.original(SHARD).len());
    assert!(fetched < 3 * size as u64, "{fetched} bytes for {size}");
    let mut check = Command::new("sha256sum");
    check.args(["--check", "--strict", "SHA256SUMS"]);
    let checked = check.current_dir(folder(out)).output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
    kills
}

#[test]
#[expect(clippy::print_stderr, reason = "the counts")]
fn killed_again_and_again_it_ends_complete() {
    let source = Source::new();
    let downloads = trials("downloads that are killed").seconds(2.0);
    let kill = |seed| kill_a_download(&source, seed);
    let (downloads, kills) = downloads.gather(kill, |all: &mut u64, some| *all += some);
    let parts = source.proxy.orders.parts.load(Ordering::Relaxed);
    eprintln!("{kills} kills, {parts} continued");
    assert!(kills >= downloads * KILLS / 2, "{kills} kills");
    let enough = u64::from(parts) >= downloads * KILLS / 3;
    assert!(enough, "{parts} were continued");
}

#[test]
fn a_bit_that_flips_on_the_way_is_not_accepted() {
    let source = Source::new();
    let out = &source.cluster.home().join("out");
    source.proxy.flip(true);
    let ended = end(&mut source.download(out));
    ended.refuses(3, &[SHARD, "is damaged", "SHA-256"]);
    for file in FILES {
        assert!(!exists(&folder(out).join(file)), "{file}");
    }
    source.proxy.flip(false);
    source.check_complete(out, &end(&mut source.download(out)));

    // A manifest that is another may be that of another table, which is not to be destroyed.
    let manifest = folder(out).join("manifest.json");
    change(&manifest, |bytes| bytes[100] ^= 1);
    end(&mut source.download(out)).refuses(5, &["has another table already"]);
}

#[test]
fn what_was_downloaded_can_be_extended() {
    let source = Source::new();
    let out = &source.cluster.home().join("out");
    source.check_complete(out, &end(&mut source.download(out)));
    end(&mut run(out, 30)).made(FINGERPRINT_30);
    let table = Table::open(out).unwrap();
    table.verify_bytes().unwrap();
    let of_less = table.manifest().fingerprints_by_bits[BITS as usize];
    assert_eq!(of_less.to_string(), FINGERPRINT_28);
}
