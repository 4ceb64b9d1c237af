//! Downloads from servers that are slow, break off, lie and change, and downloads that are killed.

mod bucket;
mod planted;
mod remote;
mod server;

use std::fs;
use std::path::Path;
use std::time::Duration;

use chomp_store::objects::OpenError;
use chomp_table::reader::{ShardFileInfo, TableName};
use chomp_table::{Table, TableError, Word};
use chomp_testing::definition;
use chomp_testing::waiting::{HANG, becomes};
use server::{BITS, ELSEWHERE, Peril, Server, TABLE};
use tempfile::TempDir;
use tokio::time::Instant;

use super::*;
use crate::error::Outage;

/// One patience for the first answer and for later ones.
const fn patience(most: Duration) -> ServerPatience {
    ServerPatience {
        first: most,
        later: most,
    }
}

/// Any patience for the first answer, and one whose end comes in a test for later ones.
const fn patience_later(most: Duration) -> ServerPatience {
    ServerPatience {
        first: HANG,
        later: most,
    }
}

/// Reaches a server that answers in the end, however slow the machine.
fn reach(from: &str) -> Reach {
    Reach {
        from: from.to_owned(),
        ca: None,
        token: None,
        patience: patience(HANG),
    }
}

/// A server, and a directory for what is downloaded.
struct Tested {
    server: Server,
    out: TempDir,
}

impl Tested {
    async fn new(peril: Peril) -> Tested {
        let server = Server::start().await;
        server.set(peril);
        let out = tempfile::tempdir().unwrap();
        Tested { server, out }
    }

    fn reach(&self) -> Reach {
        reach(&self.server.url)
    }

    /// Fails to download.
    async fn fails(&self) -> DownloadError {
        self.fails_with(patience(HANG)).await
    }

    /// Fails to download, with this patience.
    async fn fails_with(&self, patience: ServerPatience) -> DownloadError {
        let mut reach = self.reach();
        reach.patience = patience;
        let error = get(reach, self.out.path()).await.unwrap_err();
        assert!(!has_manifest(self.out.path()), "{error}");
        error
    }

    /// Downloads all.
    async fn gets(&self) -> DownloadReport {
        let report = get(self.reach(), self.out.path()).await.unwrap();
        assert_whole(&self.server, self.out.path());
        report
    }
}

/// Asserts that an error is of this variant.
#[track_caller]
fn assert_is(error: &DownloadError, variant: &str) {
    assert!(format!("{error:?}").starts_with(variant), "{error:?}");
}

/// Downloads; waits while work that an earlier download has begun is finished.
async fn get(reach: Reach, out: &Path) -> Result<DownloadReport, DownloadError> {
    let begin = Instant::now();
    loop {
        match get_now(reach.clone(), out).await {
            Err(DownloadError::Open(OpenError::InUse { .. })) => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            done => return done,
        }
        assert!(begin.elapsed() < HANG, "the lock is never given back");
    }
}

async fn get_now(reach: Reach, out: &Path) -> Result<DownloadReport, DownloadError> {
    let (progress, watch) = watch::channel(DownloadProgress::default());
    let report = download(reach, out.to_owned(), progress, CancellationToken::new()).await?;
    assert_complete(*watch.borrow(), &report);
    Ok(report)
}

fn assert_complete(end: DownloadProgress, report: &DownloadReport) {
    assert_eq!((end.bytes, end.shards), (end.bytes_total, end.shards_total));
    assert_eq!(end.shards_total, report.manifest.shards().len());
}

/// Asserts that the table in `out` is the one that the server has, and that nothing else is there.
fn assert_whole(server: &Server, out: &Path) {
    let table = Table::open(out).unwrap();
    table.verify_bytes().unwrap();
    let losing = definition::losing(BITS);
    for (index, &losing) in losing.iter().enumerate().step_by(7) {
        let word = Word::new(index as u64 * 2);
        assert_eq!(table.is_losing(word).unwrap(), losing);
    }
    let mut names: Vec<String> = fs::read_dir(out.join("table-15"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let files = server.world().files.clone();
    assert!(names.iter().eq(files.keys()), "{names:?}");
    for (name, bytes) in files {
        let found = fs::read(out.join("table-15").join(&name)).unwrap();
        assert_eq!(found, bytes, "{name}");
    }
}

fn has_manifest(out: &Path) -> bool {
    out.join("table-15/manifest.json").try_exists().unwrap()
}

/// A server with this peril, and the error of a download from it.
async fn fails(peril: Peril) -> (Tested, DownloadError) {
    let tested = Tested::new(peril).await;
    let error = tested.fails().await;
    (tested, error)
}

#[tokio::test]
async fn a_table_is_fetched_and_then_found_there() {
    let server = Server::start().await;
    for folder in ["", "table-15", "table-15/"] {
        let reach = reach(&format!("{}{folder}", server.url));
        let home = tempfile::tempdir().unwrap();
        let out = home.path().join("a/b");
        server.world().sent = 0;
        for _ in 0..2 {
            let report = get(reach.clone(), &out).await.unwrap();
            assert_eq!(report.manifest.table(), TABLE);
            assert_whole(&server, &out);
            let sent = server.world().sent;
            assert_eq!(sent, server.total(), "nothing twice");
        }
    }
}

#[tokio::test]
async fn a_table_that_is_not_there() {
    let server = Server::start().await;
    let out = tempfile::tempdir().unwrap();
    let try_with = async |from: &str| get(reach(from), out.path()).await.unwrap_err();
    for (wrong, table) in [
        ("table-20/", Some(TableName::Losing(20))),
        ("tables/", None),
    ] {
        let wrong = format!("{}{wrong}", server.url);
        let error = try_with(&wrong).await;
        assert!(error.to_string().contains(&wrong), "{error}");
        assert!(
            matches!(error, DownloadError::NoTable { table: found, .. } if found == table),
            "{error:?}"
        );
    }
    for from in "|table|ftp://host/|file:///etc/passwd|http://a:b@host/|http://host/#a".split('|') {
        assert_is(&try_with(from).await, "Url");
    }
    let mut nobody = reach("http://127.0.0.1:1/");
    nobody.patience = patience(Duration::from_secs(2));
    let error = get(nobody, out.path()).await.unwrap_err();
    let DownloadError::Unreachable { source, .. } = error else {
        panic!("{error:?}");
    };
    assert!(matches!(source, Outage::Connection(_)), "{source:?}");
}

#[tokio::test]
async fn connections_that_break_off_are_made_again() {
    let mut tasks = JoinSet::new();
    for peril in [Peril::Cut, Peril::CutWithoutRanges, Peril::Busy] {
        for seed in 1..5 {
            tasks.spawn(async move {
                let tested = Tested::new(peril).await;
                tested.server.world().random = seed;
                tested.gets().await;
                let world = tested.server.world();
                assert!(world.disturbed > 0, "{peril:?}");
                assert!(world.continued > 0 || peril != Peril::Cut, "{seed}");
            });
        }
    }
    tasks.join_all().await;
}

/// Longer than the patience, as long as something comes.
#[tokio::test]
async fn a_slow_server_is_not_given_up() {
    for (what, size) in [("manifest.json", 3), ("shards", 1)] {
        let slow = Tested::new(Peril::Drip(what, size)).await;
        let mut reach = slow.reach();
        reach.patience = patience_later(Duration::from_secs(1));
        let began = Instant::now();
        get(reach, slow.out.path()).await.unwrap();
        assert!(began.elapsed() > Duration::from_secs(1), "{what}");
    }
}

#[tokio::test]
async fn refusals_end_it_at_once() {
    for (status, token) in [(401, true), (403, false), (410, false), (404, false)] {
        let (Tested { server, .. }, error) = fails(Peril::Status(status)).await;
        let text = error.to_string();
        assert_is(&error, if status == 404 { "NoTable" } else { "Refused" });
        assert!(text.contains(&server.url), "{text}");
        let refused = text.contains(&format!("was refused with status {status}"));
        assert_eq!(refused, status != 404, "{text}");
        assert_eq!(text.contains("token"), token, "{text}");
        // Where there is no list, there may be a manifest.
        let requests = if status == 404 { 2 } else { 1 };
        assert_eq!(server.world().requests, requests, "not asked again");
    }
    let is_asked_again = async |busy: u16| {
        let tested = Tested::new(Peril::Status(busy)).await;
        let error = tested.fails_with(patience(Duration::from_secs(5))).await;
        assert_is(&error, "Unreachable");
        let text = chomp_table::format::describe(&error);
        assert!(text.contains(&format!("status {busy}")), "{text}");
        assert!(tested.server.world().requests > 1, "{busy}");
    };
    tokio::join!(is_asked_again(503), is_asked_again(429));
}

#[tokio::test]
async fn a_token_is_sent_and_never_shown() {
    let tested = Tested::new(Peril::WantsToken).await;
    let error = tested.fails().await;
    assert!(error.to_string().contains("status 401: a token"), "{error}");
    let with = |token: &str| Reach {
        token: Some(Token::new(token.to_owned())),
        ..tested.reach()
    };
    let client = http::ServerClient::new(&with("secret")).unwrap();
    assert!(!format!("{:?} {client:?}", with("secret")).contains("secret"));
    get(with("secret"), tested.out.path()).await.unwrap();
    let rubbish = "-----BEGIN CERTIFICATE-----\nrubbish\n-----END CERTIFICATE-----\n";
    let unknown = Reach {
        ca: Some(rubbish.to_owned()),
        from: "https://127.0.0.1:1/".to_owned(),
        ..tested.reach()
    };
    for reach in [with("a\nb"), unknown] {
        let error = get(reach, tested.out.path()).await.unwrap_err();
        assert_is(&error, "Credentials");
    }
}

#[tokio::test]
async fn servers_that_lie_are_found_out() {
    for (peril, kind, what) in [
        (Peril::Endless(".zst"), "Wrong", "more than"),
        (Peril::LongShards, "Wrong", "it has the range \"bytes "),
        (Peril::ShortShards, "Wrong", "it has the range \"bytes "),
        (Peril::EmptyAnswer, "Wrong", "status 204"),
        (
            Peril::RangeElsewhere,
            "Wrong",
            "it has the range \"bytes 1-",
        ),
        (Peril::RangeUnsaid, "Wrong", "it has the range \"\""),
        (Peril::RangeTooLong, "Wrong", "more than"),
        (Peril::NoSuchRange, "Wrong", "status 416"),
        (Peril::Endless("manifest.json"), "Strange", "more than"),
        (Peril::Endless("/"), "Strange", "more than"),
        (Peril::OtherSums, "Damaged", "SHA256SUMS is damaged"),
        (Peril::NoManifest, "Manifest", "manifest.json"),
    ] {
        let (tested, error) = fails(peril).await;
        assert_is(&error, kind);
        assert!(error.to_string().contains(what), "{peril:?}: {error}");
        tested.server.set(Peril::None);
        tested.gets().await;
    }
}

/// Nothing is fetched for a list that is not as it was written.
#[tokio::test]
async fn a_flipped_bit_of_a_list_is_found_before_anything_is_kept() {
    let tested = Tested::new(Peril::None).await;
    for file in ["SHA256SUMS", "manifest.json"] {
        let length = tested.server.world().files[file].len();
        for at in (0..length).step_by(11) {
            tested.server.set(Peril::FlipIn(file, at));
            let error = tested.fails().await;
            let kept = fs::read_dir(tested.out.path().join("table-15")).map_or(0, Iterator::count);
            assert_eq!(kept, 0, "{file} at {at}: {error}");
        }
    }
}

/// Leaves the first shard as a partial file.
fn partial(tested: &Tested, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = tested.server.world().files["shard-0000.zst"].to_vec();
    change(&mut bytes);
    let folder = tested.out.path().join("table-15");
    fs::create_dir_all(&folder).unwrap();
    write(&folder.join("shard-0000.zst.partial"), &bytes);
}

#[expect(
    clippy::disallowed_methods,
    reason = "what a test leaves in the way need not be durable"
)]
fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn what_is_there_in_part_is_continued_or_begun_anew() {
    let length = Tested::new(Peril::None).await.server.world().files["shard-0000.zst"].len();
    for kept in [0, 1, length - 1, length, length + 5] {
        let tested = Tested::new(Peril::None).await;
        partial(&tested, |bytes| bytes.resize(kept, 0));
        tested.gets().await;
        let saved = if kept > length { 0 } else { kept };
        let (server, sent) = (&tested.server, tested.server.world().sent);
        assert_eq!(sent, server.total() - saved, "{kept}");
    }
    // Wrong bytes at its start, complete or not, and whole files that are damaged.
    for length in [20, length] {
        let tested = Tested::new(Peril::None).await;
        partial(&tested, |bytes| {
            bytes.truncate(length);
            bytes[3] ^= 1;
        });
        tested.gets().await;
    }
    let tested = Tested::new(Peril::None).await;
    tested.gets().await;
    for name in ["shard-0000.zst", "SHA256SUMS"] {
        let path = tested.out.path().join("table-15").join(name);
        let mut flipped = fs::read(&path).unwrap();
        flipped[3] ^= 1;
        for damage in [&b"damage"[..], &flipped] {
            write(&path, damage);
            tested.gets().await;
        }
    }
}

#[tokio::test]
async fn damage_on_the_way_is_repaired_once() {
    let tested = Tested::new(Peril::FlipOnce).await;
    tested.gets().await;
    assert!(tested.server.world().disturbed > 0);

    let (Tested { server, .. }, error) = fails(Peril::Flip).await;
    assert_is(&error, "Damaged");
    let text = error.to_string();
    let (file, digests) = text.split_once(" is damaged: it has the SHA-256 ").unwrap();
    let (found, expected) = digests.split_once(" instead of ").unwrap();
    let name = file.rsplit('/').next().unwrap();
    assert_eq!(
        expected,
        Digest::of(&server.world().files[name]).to_string()
    );
    assert_ne!(expected, found);
}

#[tokio::test]
async fn files_that_are_no_table_get_no_manifest() {
    let (Tested { out, .. }, error) = fails(Peril::NoTable).await;
    assert_is(&error, "Table");
    let opened = Table::open(out.path());
    assert!(matches!(opened, Err(TableError::NotFound { .. })));
}

#[tokio::test]
async fn another_table_and_another_owner_are_respected() {
    let server = Server::start().await;
    let out = tempfile::tempdir().unwrap();
    let folder = out.path().join("table-15");
    fs::create_dir_all(&folder).unwrap();
    write(&folder.join("manifest.json"), b"another");
    let error = get(reach(&server.url), out.path()).await.unwrap_err();
    assert_is(&error, "OtherTable");
    assert_eq!(fs::read(folder.join("manifest.json")).unwrap(), b"another");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);

    fs::remove_file(folder.join("manifest.json")).unwrap();
    let owner = TargetFolder::acquire(out.path(), TABLE).unwrap();
    let error = get_now(reach(&server.url), out.path()).await.unwrap_err();
    assert_is(&error, "Open(InUse");
    drop(owner);
    get(reach(&server.url), out.path()).await.unwrap();

    let file = out.path().join("file");
    write(&file, b"");
    let error = get(reach(&server.url), &file).await.unwrap_err();
    assert_is(&error, "Open(File");
}

#[tokio::test]
async fn nobody_is_led_elsewhere() {
    for peril in [Peril::Elsewhere, Peril::ShardsElsewhere] {
        let (Tested { server, .. }, error) = fails(peril).await;
        assert_is(&error, "Strange");
        let text = error.to_string();
        assert!(text.contains(ELSEWHERE) && text.contains("302"), "{text}");
        server.set(peril);
        let reach = Reach {
            token: Some(Token::new("secret".to_owned())),
            ..reach(&server.url)
        };
        let asked = open(reach).await.map(drop);
        assert_eq!(asked.is_err(), peril == Peril::Elsewhere);
    }
    // The token is for one server, however near the other is.
    let (server, other) = (Server::start().await, Server::start().await);
    server.set(Peril::Moved(other.port()));
    let reach = Reach {
        token: Some(Token::new("secret".to_owned())),
        ..reach(&server.url)
    };
    assert_is(&open(reach).await.map(drop).unwrap_err(), "Strange");
    assert_eq!(other.world().requests, 0);
}

#[tokio::test]
async fn with_a_certificate_nothing_is_said_in_the_clear() {
    let server = Server::start().await;
    let out = tempfile::tempdir().unwrap();
    let certificate = chomp_access::Certificate::new("test", &["localhost".into()]).unwrap();
    let mut reach = reach(&server.url);
    reach.ca = Some(certificate.pem().to_owned());
    let error = get(reach, out.path()).await.unwrap_err();
    assert_is(&error, "Url");
    assert!(error.to_string().contains("https://"), "{error}");
    assert_eq!(server.world().requests, 0);
}

/// A manifest of 64 bits may promise terabytes.
#[tokio::test]
async fn more_than_the_disk_has_is_refused() {
    let server = Server::start().await;
    let out = tempfile::tempdir().unwrap();
    let report = get(reach(&server.url), out.path()).await.unwrap();
    let shards = report.manifest.shards();
    let last = shards.last().unwrap();
    let promised = |bytes| ShardFileInfo {
        bytes,
        name: "shard-9999.zst".into(),
        ..last.clone()
    };
    let shards = [promised(1 << 40), last.clone(), promised(1 << 41)];
    let target = TargetFolder::acquire(out.path(), TABLE).unwrap();
    target.check_free(&shards, 3 << 40).unwrap();
    let error = target.check_free(&shards, (3 << 40) - 1).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("takes 3298534883328 bytes more"), "{text}");
    // The bytes of a partial file are not needed again.
    write(&report.folder.join("shard-9999.zst.partial"), &[0; 100]);
    target.check_free(&shards[..1], (1 << 40) - 100).unwrap();
    let error = target.check_free(&shards[..1], (1 << 40) - 101);
    assert_is(&error.unwrap_err(), "NoSpace");
}

#[tokio::test]
async fn it_stops_when_asked_to() {
    let tested = Tested::new(Peril::Status(503)).await;
    let stop = CancellationToken::new();
    let (progress, _watch) = watch::channel(DownloadProgress::default());
    let out = tested.out.path().to_owned();
    let downloading = download(tested.reach(), out, progress, stop.clone());
    let (error, ()) = tokio::join!(downloading, async {
        becomes("a request", || tested.server.world().requests > 0).await;
        stop.cancel();
    });
    assert!(matches!(error, Err(DownloadError::Stopped)), "{error:?}");
}
