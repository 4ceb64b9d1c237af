//! Files that mean ill: links, pipes and secrets that somebody else has put where the program reads or
//! writes. Nothing is waited for, nothing elsewhere is shown or written, and each command says what is
//! in its way.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::cluster::{Cluster, Server};
use crate::common::{chomp, copy, end, files, fingerprint, finished, folder, run, run_in};
use crate::peers::client::{all, connect};
use chomp_access::Access;
use chomp_proto::OBJECTS_PATH;
use chomp_table::manifest::Manifest;
use chomp_table::shard::ShardSize;
use chomp_table::{Table, Word, known};
use chomp_testing::tables::{publish_words, write_manifest};
use chomp_testing::waiting::arrives;
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use tempfile::TempDir;
use tonic::body::Body;

const BITS: u32 = 14;
const RANGE_BITS: u32 = 12;
const PRECIOUS: &str = "not to be shown or lost";
const PUBLISHED: [&str; 3] = ["manifest.json", "SHA256SUMS", "shard-0000.zst"];

/// A finished table with its working files, in a home with a file that is nobody's business.
struct Home {
    directory: TempDir,
    fingerprint: String,
}

impl Home {
    fn new() -> Home {
        let directory = tempfile::tempdir().unwrap();
        let table = directory.path().join("table");
        let summary = end(run_in(&table, BITS, RANGE_BITS).arg("--keep-parts")).summary();
        fs::write(directory.path().join("precious"), PRECIOUS).unwrap();
        Home {
            fingerprint: fingerprint(&summary).to_owned(),
            directory,
        }
    }

    fn table(&self) -> PathBuf {
        self.directory.path().join("table")
    }

    fn precious(&self) -> PathBuf {
        self.directory.path().join("precious")
    }

    fn command(&self, line: &str) -> Command {
        let mut command = chomp(line);
        command.env("XDG_STATE_HOME", self.directory.path().join("state"));
        command.arg("--table").arg(self.table());
        command
    }

    fn assert_untouched(&self) {
        assert_eq!(fs::read_to_string(self.precious()).unwrap(), PRECIOUS);
    }
}

fn pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status();
    assert!(made.unwrap().success());
}

/// Calls `check` while a pipe, and then a link to what is there, has the name `path`.
fn in_place_of(path: &Path, mut check: impl FnMut(&str)) {
    let aside = path.with_extension("aside");
    fs::rename(path, &aside).unwrap();
    pipe(path);
    check("it is a pipe");
    fs::remove_file(path).unwrap();
    symlink(&aside, path).unwrap();
    check("it is a symbolic link");
    fs::rename(&aside, path).unwrap();
}

#[test]
fn a_published_file_that_is_none_is_damage() {
    let home = Home::new();
    for name in PUBLISHED {
        in_place_of(&home.table().join("table-14").join(name), |what| {
            for line in ["query 3x4", "verify"] {
                end(&mut home.command(line)).refuses(3, &[name, what]);
            }
            let mut run = run_in(&home.table(), BITS, RANGE_BITS);
            end(run.arg("--keep-parts")).refuses(3, &[name, what]);
        });
    }
    end(&mut home.command("verify --json")).summary();
}

#[test]
fn working_files_that_are_none_are_not_waited_for() {
    let home = Home::new();
    let table = home.table();
    let run = || end(run_in(&table, BITS, RANGE_BITS).arg("--keep-parts"));
    fs::remove_dir_all(table.join("table-14")).unwrap();
    let segment = files(&table.join("work/journal")).pop().unwrap();
    let name = segment.file_name().unwrap().to_str().unwrap().to_owned();
    in_place_of(&segment, |what| {
        run().refuses(3, &["work/journal", &name, what]);
    });
    let lock = table.join("lock");
    in_place_of(&lock, |what| run().refuses(1, &["lock", what]));

    // A part is lost, and its ranges are computed again.
    for part in files(&table.join("work/parts")) {
        fs::remove_file(&part).unwrap();
        match part.to_str().unwrap().len() % 2 {
            0 => pipe(&part),
            _ => symlink(home.precious(), &part).unwrap(),
        }
    }
    assert_eq!(fingerprint(&run().summary()), home.fingerprint);
    home.assert_untouched();
}

#[test]
fn nothing_is_written_through_a_link() {
    let home = Home::new();
    let table = home.table();
    let link = |name: &str| {
        let link = table.join(name);
        symlink(home.precious(), &link).unwrap();
        link
    };
    let verify = |level: &str| end(&mut home.command(&format!("verify --level {level}")));
    // The names that a file could have before it is complete.
    for name in ["partial", "progress.partial", "tmp"] {
        link(&format!("verify-14-full.json.{name}"));
    }
    assert_eq!(verify("full").code, Some(0));
    home.assert_untouched();
    fs::remove_file(table.join("verify-14-full.json")).unwrap();
    for name in ["", ".lock"] {
        let name = format!("verify-14-full.json{name}");
        let path = link(&name);
        verify("full").refuses(1, &[&name, "it is a symbolic link"]);
        fs::remove_file(&path).unwrap();
        pipe(&path);
        verify("full").refuses(1, &[&name, "it is a pipe"]);
        fs::remove_file(&path).unwrap();
        home.assert_untouched();
    }
    // Planted files of progress are not used, and do no harm.
    for plant in [
        |path: &Path| pipe(path),
        |path: &Path| symlink("/dev/zero", path).unwrap(),
    ] {
        let path = table.join("verify-14-full.json.progress");
        plant(&path);
        let ended = verify("full").done();
        ended.says("progress is not used");
        fs::remove_file(&path).unwrap();
    }

    let out = link("words.csv");
    let mut export = home.command("export --format csv --force --bits 8");
    let out = end(export.arg("--out").arg(&out));
    assert_ne!(out.code, Some(0), "{out:?}");
    let pages = home.directory.path().join("pages");
    fs::create_dir(&pages).unwrap();
    symlink(home.precious(), pages.join("chomp.1")).unwrap();
    let man = end(chomp("man --out").arg(&pages));
    man.refuses(1, &["chomp.1", "it is a symbolic link"]);
    home.assert_untouched();
}

/// A table of 24 bits of which one losing position is missing, with its mirror image. All digests are right.
fn wrong_table() -> TempDir {
    let right = finished(24);
    let table = Table::open(right.path()).unwrap();
    let mut words: Vec<u64> = table.words().flat_map(Result::unwrap).collect();
    let is_pair = |word: &u64| Word::new(*word) != Word::new(*word).mirror();
    words.remove(words.iter().rposition(is_pair).unwrap());
    let wrong = folder();
    publish_words(wrong.path(), 24, ShardSize::PUBLISHED, &words);
    wrong
}

/// The known fingerprint of 24 bits is compared wherever a table is opened.
#[test]
fn a_table_with_another_fingerprint_than_the_known_one_is_told() {
    const KNOWN: &str = "that of the published table is b3bbb2560d37c8de2354c3d1250b3f23";
    let wrong = wrong_table();
    let table = wrong.path();
    let refused = ["table-24/manifest.json", KNOWN];
    for bits in [20, 24] {
        end(&mut run(table, bits)).refuses(3, &refused);
    }
    end(&mut run(table, 26)).refuses(3, &["table-24/manifest.json", KNOWN, "remove this table"]);
    for line in ["status", "query 3x4", "openings 3x4"] {
        let ended = end(chomp(line).arg("--table").arg(table)).done();
        ended.says(KNOWN);
    }
    let served = Server::start(1, table, table, "");
    let out = folder();
    let download = format!("download --from {} --out", served.url());
    end(chomp(&download).arg(out.path())).done().says(KNOWN);
    served.process.stop().done().says(KNOWN);
    end(chomp("verify --table").arg(out.path())).refuses(3, &["24 bits"]);

    // Beside a right one of more bits it is named as well.
    let more = finished(25);
    copy(&table.join("table-24"), &more.path().join("table-24"));
    end(&mut run(more.path(), 26)).refuses(3, &refused);
}

/// The manifest says what is known, and the shard has other words: the ranges are computed, and nobody is blamed.
#[test]
fn words_other_than_those_of_the_fingerprint_are_not_restored() {
    let right = finished(24);
    let wrong = wrong_table();
    let folders = [&right, &wrong].map(|table| table.path().join("table-24"));
    let [mut right, lie] = folders.each_ref().map(|folder| {
        let bytes = fs::read(folder.join("manifest.json")).unwrap();
        Manifest::parse(&bytes).unwrap()
    });
    let shard = right.shards[0].clone();
    right.shards = lie.shards;
    right.shards[0].words_sha256 = shard.words_sha256;
    // As many words as are known to be there.
    right.shards[0].entries = shard.entries;
    write_manifest(&folders[1], &right);
    let ended = end(&mut run(wrong.path(), 26));
    ended.says("shard-0000.zst");
    ended.says("the others are computed");
    let known = known::fingerprints().find(|(bits, _)| *bits == 26);
    ended.made(&known.unwrap().1.to_string());
}

#[test]
fn strangers_bring_no_secrets() {
    let [stranger, cluster] = [Cluster::new(), Cluster::new()];
    // Secrets that a stranger knows, and would like to be let in with.
    let mut command = stranger.coordinator(BITS, RANGE_BITS);
    drop(stranger.start_coordinator(&mut command));
    let theirs = stranger.table().join("secrets.json");
    let planted = cluster.table().join("secrets.json");
    fs::create_dir(cluster.table()).unwrap();
    let refused = |what: &str| {
        let mut command = cluster.coordinator(BITS, RANGE_BITS);
        end(&mut command).refuses(1, &["secrets.json", what]);
        fs::remove_file(&planted).unwrap();
    };
    symlink(&theirs, &planted).unwrap();
    refused("it is a symbolic link");
    fs::hard_link(&theirs, &planted).unwrap();
    refused("hard link");
    pipe(&planted);
    refused("it is a pipe");
    fs::copy(&theirs, &planted).unwrap();
    fs::set_permissions(&planted, Permissions::from_mode(0o644)).unwrap();
    refused("chmod 600");

    // An access file is read by whoever joins.
    let access = cluster.home().join("access.json");
    pipe(&access);
    for command in ["worker", "status"] {
        let mut command = cluster.chomp(&format!("{command} --access"));
        end(command.arg(&access)).refuses(1, &["access.json", "it is a pipe"]);
    }
}

/// An object that a worker reads through the coordinator becomes another file after its first piece was read: nothing
/// of that file is sent. The connection takes less than the first piece until it is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_becomes_another_file_is_not_read_on() {
    const PIECE: usize = 1 << 20;
    let cluster = Cluster::in_the_clear();
    let coordinator = cluster.start_coordinator(&mut cluster.coordinator(24, 12));
    let link = connect(&Access::read(&cluster.access()).unwrap()).await;
    let object = cluster.table().join("table-24/shard-0000.zst");
    let precious = cluster.home().join("precious");
    fs::create_dir(object.parent().unwrap()).unwrap();
    fs::write(&object, vec![1; 3 * PIECE]).unwrap();
    fs::write(&precious, vec![2; 3 * PIECE]).unwrap();
    let path = format!("{OBJECTS_PATH}table-24/shard-0000.zst");
    let ask = async || {
        let asked = link.ask(Method::GET, &path, &[], Body::empty());
        arrives("an answer", asked).await.unwrap()
    };
    let (status, bytes) = all(ask().await).await.unwrap();
    assert_eq!((status, bytes.len()), (StatusCode::OK, 3 * PIECE));

    let begun = ask().await;
    assert_eq!(begun.status(), StatusCode::OK);
    fs::remove_file(&object).unwrap();
    fs::hard_link(&precious, &object).unwrap();
    let mut body = begun.into_body();
    let mut bytes = Vec::new();
    while let Some(Ok(frame)) = arrives("a piece", body.frame()).await {
        bytes.extend(frame.into_data().unwrap());
    }
    assert!(bytes.len() <= PIECE && bytes.iter().all(|&byte| byte == 1));
    assert_eq!(ask().await.status(), StatusCode::NOT_FOUND);
    tokio::task::block_in_place(|| coordinator.stop());
}
