//! A download that is killed again and again ends complete; a bit that flips on the way or on the disk
//! is never accepted; and what was downloaded can be extended.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;

use chomp_table::Table;
use common::cluster::{Cluster, Process, wait_for};
use common::http::get;
use common::proxy::{Flip, Proxy};
use common::random::Random;
use common::{Ended, FINGERPRINT_30, FINGERPRINT_32, end, fingerprint, run};
use serde_json::Value;

const BITS: u32 = 30;
const SHARD: &str = "shard-0000.zst";
const FILES: [&str; 3] = ["SHA256SUMS", "manifest.json", SHARD];
/// At the least so many downloads are killed.
const KILLS_MIN: u32 = 12;
/// What passes in a second while downloads are killed: all of it takes some seconds.
const SLOW: u64 = 400_000;
/// The most bytes that come before a kill: a small part of the table.
const BYTES_PER_KILL: usize = 120_000;

/// A finished table, its coordinator, and the way there.
struct Source {
    cluster: Cluster,
    proxy: Proxy,
    random: Random,
    _coordinator: Process,
}

impl Source {
    fn new() -> Source {
        let cluster = Cluster::in_the_clear();
        let random = Random::new();
        end(&mut run(&cluster.table(), BITS)).summary();
        let mut command = cluster.program();
        command.args(["coordinator", "--json", "--bits", "30", "--table"]);
        command.arg(cluster.table());
        command.args(["--listen", &format!("127.0.0.1:{}", cluster.port)]);
        command.arg("--no-tls");
        Source {
            proxy: Proxy::start(cluster.port),
            random,
            _coordinator: cluster.start_coordinator(&mut command),
            cluster,
        }
    }

    fn original(&self, file: &str) -> Vec<u8> {
        fs::read(self.cluster.table().join("table-30").join(file)).unwrap()
    }

    /// A download through the proxy.
    fn download(&self, out: &Path) -> Command {
        let mut command = self.cluster.program();
        command.args(["download", "--json", "--from", &self.proxy.url, "--out"]);
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
        let summary = ended.summary();
        assert_eq!(fingerprint(&summary), FINGERPRINT_30);
        for file in FILES {
            assert!(
                fs::read(folder(out).join(file)).unwrap() == self.original(file),
                "{file} is another"
            );
        }
        assert_eq!(common::files(&folder(out)).len(), FILES.len());
    }
}

fn folder(out: &Path) -> PathBuf {
    out.join("table-30")
}

fn partial(out: &Path) -> PathBuf {
    folder(out).join(format!("{SHARD}.partial"))
}

fn flip_at_rest(path: &Path, at: usize, mask: u8) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= mask;
    fs::write(path, bytes).unwrap();
}

/// Some places in so many bytes: the ends, and any in between.
fn places(random: &mut Random, bytes: usize, count: usize) -> Vec<(usize, u8)> {
    let mut places: Vec<usize> = vec![0, 1, bytes / 2, bytes - 2, bytes - 1];
    places.extend((0..count).map(|_| random.below(bytes)));
    let with_bit = |at| (at, 1 << random.below(8));
    places.into_iter().map(with_bit).collect()
}

#[test]
#[expect(clippy::print_stderr, reason = "the counts")]
fn killed_again_and_again_it_ends_complete() {
    let mut source = Source::new();
    let size = source.original(SHARD).len() as u64;
    let (mut kills, mut downloads) = (0, 0);
    while kills < KILLS_MIN {
        downloads += 1;
        let out = &source.cluster.home().join(format!("out-{downloads}"));
        source.proxy.limit(SLOW);
        let before = source.proxy.passed();
        // A machine that is slow to kill may see one end first: then there is another one.
        while kills < KILLS_MIN * downloads {
            let held = fs::metadata(partial(out)).map_or(0, |file| file.len());
            let bytes = source.random.below(BYTES_PER_KILL) as u64;
            if source.kill_after(out, bytes).code.is_some() {
                break;
            }
            kills += 1;
            let manifest = folder(out).join("manifest.json");
            assert!(!manifest.try_exists().unwrap(), "it is the last");
            let holds = fs::metadata(partial(out)).map_or(0, |file| file.len());
            assert!(holds >= held, "{holds} of {held} bytes are left");
        }
        source.proxy.limit(0);
        source.check_complete(out, &end(&mut source.download(out)));
        // What was there was not fetched again, but for what was on the way when it was killed.
        let fetched = source.proxy.passed() - before;
        assert!(fetched < 3 * size, "{fetched} bytes for {size}");
        let checked = Command::new("sha256sum")
            .args(["--check", "--strict", "SHA256SUMS"])
            .current_dir(folder(out))
            .output()
            .unwrap();
        assert!(checked.status.success(), "{checked:?}");
    }
    let parts = source.proxy.orders.parts.load(Ordering::Relaxed);
    eprintln!("{kills} kills of {downloads} downloads, {parts} continued");
    assert!(parts >= KILLS_MIN / 3, "{parts} were continued");
}

#[test]
fn a_bit_that_flips_on_the_way_is_not_accepted() {
    let mut source = Source::new();
    let out = &source.cluster.home().join("out");
    for (file, count, code) in [("SHA256SUMS", 40, Some(3)), ("manifest.json", 80, None)] {
        let bytes = source.original(file).len();
        for (at, mask) in places(&mut source.random, bytes, count) {
            let flip = Flip {
                file,
                at: at as u64,
                mask,
                times: 1,
            };
            source.proxy.flip(Some(flip));
            let ended = end(&mut source.download(out));
            assert_eq!(source.proxy.flips_left(), 0);
            // One that says another version is refused for that.
            assert!(
                ended.code == code || code.is_none() && [Some(3), Some(5)].contains(&ended.code),
                "{file} at {at} with {mask}: {ended:?}"
            );
            assert_eq!(ended.stdout, "");
            assert!(ended.stderr.contains("error"), "{ended:?}");
            assert!(ended.stderr.contains(&source.proxy.url), "{ended:?}");
            assert_eq!(common::files(&folder(out)), [""; 0].map(PathBuf::from));
        }
    }

    let bytes = source.original(SHARD).len();
    for (at, mask) in places(&mut source.random, bytes, 20) {
        let mut flip = Flip {
            file: SHARD,
            at: at as u64,
            mask,
            times: u32::MAX,
        };
        source.proxy.flip(Some(flip.clone()));
        let ended = end(&mut source.download(out));
        ended.refuses(3, &[SHARD, "is damaged", "SHA-256"]);
        for file in FILES {
            assert!(!folder(out).join(file).try_exists().unwrap(), "{file}");
        }
        // Once is mended by fetching it again.
        flip.times = 1;
        fs::remove_dir_all(out).unwrap();
        source.proxy.flip(Some(flip));
        source.check_complete(out, &end(&mut source.download(out)));
        assert_eq!(source.proxy.flips_left(), 0);
        fs::remove_dir_all(out).unwrap();
    }
}

#[test]
fn a_bit_that_flips_on_the_disk_is_not_accepted() {
    let mut source = Source::new();
    let out = &source.cluster.home().join("out");
    source.check_complete(out, &end(&mut source.download(out)));
    for file in FILES {
        let bytes = source.original(file).len();
        for (at, mask) in places(&mut source.random, bytes, 10) {
            let path = folder(out).join(file);
            flip_at_rest(&path, at, mask);
            if file == "manifest.json" {
                // It may be the manifest of another table, which is not to be destroyed.
                let refused = end(&mut source.download(out));
                refused.refuses(5, &["has another table already"]);
                fs::remove_file(&path).unwrap();
            } else if file == SHARD {
                end(&mut run(out, BITS)).refuses(3, &[SHARD]);
            }
            source.check_complete(out, &end(&mut source.download(out)));
        }
    }

    let size = source.original(SHARD).len();
    for (at, mask) in places(&mut source.random, size / 4, 5) {
        fs::remove_dir_all(out).unwrap();
        fs::create_dir_all(folder(out)).unwrap();
        let mut bytes = source.original(SHARD);
        bytes.truncate(size / 4 + at);
        fs::write(partial(out), &bytes).unwrap();
        flip_at_rest(&partial(out), at, mask);
        source.check_complete(out, &end(&mut source.download(out)));
    }
    // Partial files that no download leaves behind.
    for wrong in [vec![0; size], vec![0; size + 1], vec![0; 1]] {
        fs::remove_file(folder(out).join(SHARD)).unwrap();
        fs::write(partial(out), wrong).unwrap();
        source.check_complete(out, &end(&mut source.download(out)));
    }
}

#[test]
fn what_was_downloaded_can_be_extended() {
    let source = Source::new();
    let out = &source.cluster.home().join("out");
    source.check_complete(out, &end(&mut source.download(out)));
    let mut extended = run(out, 32);
    let summary = end(&mut extended).summary();
    assert_eq!(fingerprint(&summary), FINGERPRINT_32);
    let table = Table::open(out).unwrap();
    table.verify_bytes().unwrap();
    let of_less = table.manifest().fingerprints_by_bits[BITS as usize];
    assert_eq!(of_less.to_string(), FINGERPRINT_30);
}

#[test]
fn parts_of_files_are_those_asked_for() {
    let source = Source::new();
    let port = source.cluster.port;
    let shard = source.original(SHARD);
    let (size, path) = (shard.len(), format!("/table-30/{SHARD}"));
    let whole = get(port, &path, &[]);
    assert_eq!(whole.status, 200);
    assert!(whole.body == shard);
    assert_eq!(whole.header("accept-ranges"), Some("bytes"));
    let tag = whole.header("etag").unwrap();
    let sums = String::from_utf8(source.original("SHA256SUMS")).unwrap();
    assert!(sums.contains(&format!("{}  {SHARD}", tag.trim_matches('"'))));

    for (range, from, to) in [
        ("0-0", 0, 1),
        ("0-99", 0, 100),
        ("1000-999999", 1000, 1_000_000),
        ("1000000-", 1_000_000, size),
        ("-7", size - 7, size),
        ("1000000-99999999", 1_000_000, size),
    ] {
        let range = format!("Range: bytes={range}");
        let answer = get(port, &path, &[&range, &format!("If-Range: {tag}")]);
        assert_eq!(answer.status, 206, "{range}");
        let expected = format!("bytes {from}-{}/{size}", to - 1);
        assert_eq!(answer.header("content-range"), Some(&*expected));
        assert!(answer.body == shard[from..to], "{range}");
    }
    let beyond = get(port, &path, &[&format!("Range: bytes={size}-")]);
    assert_eq!(beyond.status, 416);
    let length = format!("bytes */{size}");
    assert_eq!(beyond.header("content-range"), Some(&*length));
    let stale = get(port, &path, &["Range: bytes=5-", "If-Range: \"other\""]);
    assert_eq!((stale.status, stale.body.len()), (200, size));
    let known = get(port, &path, &[&format!("If-None-Match: {tag}")]);
    assert_eq!((known.status, known.body.len()), (304, 0));

    let list: Value = serde_json::from_slice(&get(port, "/", &[]).body).unwrap();
    assert_eq!(
        list,
        serde_json::json!([{"bits": 30, "path": "/table-30/"}])
    );
    for path in [
        "/table-30/lock",
        "/table-30/..%2fsecrets.json",
        "/table-29/manifest.json",
    ] {
        assert_eq!(get(port, path, &[]).status, 404, "{path}");
    }
}
