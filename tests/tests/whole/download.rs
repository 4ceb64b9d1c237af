//! A download that is killed again and again ends complete, and a bit that flips is not accepted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::thread;

use crate::common::cluster::{Cluster, Process, Server, at_home, wait_for};
use crate::common::http::{get, get_encrypted};
use crate::common::proxy::Proxy;
use crate::common::random::Random;
use crate::common::{
    Ended, FINGERPRINT_28, change, chomp, end, exists, files, folder as new_folder, run,
};
use chomp_access::Access;
use chomp_testing::trials;

const BITS: u32 = 28;
const SHARD: &str = "shard-0000.zst";
const FILES: [&str; 3] = ["SHA256SUMS", "manifest.json", SHARD];
/// The kills of a download before it is left to its end.
const KILLS: usize = 12;
/// One kill in so many comes before anything of the shard does, after at most so many milliseconds.
const EARLY_ONE_IN: usize = 3;
const EARLY_MILLIS: u64 = 50;

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

    /// Starts a download, and waits until so many bytes of the shard have passed, after which no more do.
    fn begin(&self, out: &Path, bytes: u64) -> Process {
        let until = self.proxy.passed() + bytes;
        self.proxy.hold_after(bytes);
        let mut download = self.cluster.start(&mut self.download(out));
        wait_for("bytes", || {
            let ended = download.ended();
            assert!(ended.is_none(), "{ended:?}");
            self.proxy.passed() == until
        });
        download
    }

    /// The answers so far that were a part of a file.
    fn parts(&self) -> u32 {
        self.proxy.orders.parts.load(Ordering::Relaxed)
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

/// How much of the shard is on disk.
fn held(out: &Path) -> u64 {
    fs::metadata(partial(out)).map_or(0, |file| file.len())
}

/// Kills a download again and again, and asserts that it ends complete.
fn kill_a_download(source: &Source, seed: u64) {
    let mut random = Random::of(seed);
    let out = &source.cluster.home().join(format!("out-{seed}"));
    let size = source.original(SHARD).len();
    let (parts, mut continued) = (source.parts(), 0);
    for number in 0..KILLS {
        let before = held(out);
        let is_early = number % EARLY_ONE_IN == EARLY_ONE_IN - 1;
        // Less than half of the shard in all of them together, so that none comes too late.
        let bytes = if is_early {
            0
        } else {
            1 + random.below(size / (2 * KILLS)) as u64
        };
        let download = source.begin(out, bytes);
        if is_early {
            thread::sleep(random.millis(0, EARLY_MILLIS));
        } else if number == 0 {
            wait_for("bytes on the disk", || held(out) > 0);
        } else {
            continued += 1;
        }
        let ended = download.kill();
        assert_eq!(ended.code, None, "{ended:?}");
        let manifest = folder(out).join("manifest.json");
        assert!(!exists(&manifest), "it is the last");
        let after = held(out);
        assert!(after >= before, "{after} of {before} bytes are left");
    }
    // Only what is missing is fetched.
    let (missing, passed) = (size as u64 - held(out), source.proxy.passed());
    source.proxy.let_go();
    source.check_complete(out, &end(&mut source.download(out)));
    assert_eq!(source.proxy.passed() - passed, missing, "of {size}");
    let parts = source.parts() - parts;
    assert!(parts > continued, "{parts} were continued");
    let mut check = Command::new("sha256sum");
    check.args(["--check", "--strict", "SHA256SUMS"]);
    let checked = check.current_dir(folder(out)).output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
}

#[test]
fn killed_again_and_again_it_ends_complete() {
    let source = Source::new();
    let downloads = trials("downloads that are killed").seconds(2.0);
    downloads.run(|seed| kill_a_download(&source, seed));
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

/// A table that is not there yet, and a folder whose address lacks its last slash.
#[test]
fn a_table_that_is_asked_for_too_early_is_on_its_way() {
    let cluster = Cluster::new();
    let coordinator = cluster.start_coordinator(&mut cluster.coordinator(20, 12));
    let access = cluster.access();
    let url = cluster.url();
    let on = |line: &str, home: &Path| at_home(chomp(line), home);
    let early = [
        format!("download --from {url} --out out --access"),
        format!("query 2x2 --table {url} --access"),
        format!("verify --table {url}/table-20 --access"),
    ];
    let stranger = new_folder();
    for line in &early {
        let mut command = on(line, stranger.path());
        command.arg(&access).current_dir(stranger.path());
        end(&mut command).refuses(1, &["no table at", "yet", "0 %, 0 of 256 ranges"]);
    }
    // A stranger hears where to ask.
    let ca = stranger.path().join("ca.json");
    let known = Access::read(&access).unwrap();
    Access {
        token: None,
        ..known
    }
    .write(&ca)
    .unwrap();
    let mut command = on(&early[1], stranger.path());
    end(command.arg(&ca)).refuses(1, &["if a job works there", "chomp status"]);
    let mut local = cluster.chomp("query 20x20 --table");
    end(local.arg(cluster.table())).refuses(1, &["no published table yet", "chomp status"]);

    cluster.join("does all").wait().done();
    let served = Server::start(1, &cluster.table(), cluster.home(), "");
    let ca = Access::read(&access).unwrap().ca.unwrap();
    for path in [
        "/table-20",
        "/table-20/",
        "/table-21",
        "/table-2",
        "/tables",
    ] {
        for answer in [
            get(served.port, path, &[]),
            get_encrypted(cluster.port, &ca, path, &[]),
        ] {
            let status = match path {
                "/table-20/" => 200,
                "/table-20" => 308,
                _ => 404,
            };
            assert_eq!(answer.status, status, "{path}: {answer:?}");
        }
    }
    let folder = format!("http://127.0.0.1:{}/table-20", served.port);
    end(&mut chomp(&format!("query 2x2 --table {folder}"))).done();
    coordinator.stop();
}
