//! Participants of real processes: they are added and revoked, and one holder is one voice.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use crate::common::cluster::{Cluster, wait_for};
use crate::common::http::bearer;
use crate::common::{FINGERPRINT_24, FINGERPRINT_28, chomp, end, folder, ledger, ranges_done};
use crate::peers::client::{Client, Offer, key_of, pieces};
use crate::peers::lies::{Deeds, Speech, changed, flip_at, work};
use crate::peers::{Job, assert_content, assert_nobody_honest_was_blamed, block_on};
use chomp_access::Access;
use chomp_table::Range;
use chomp_testing::waiting::{HANG, arrives};
use http::StatusCode;
use tonic::Code;

const BITS: u32 = 24;

/// Lies about the same position of the same ranges, whoever asks.
fn same_lie(truth: &[Range]) -> Speech {
    changed(truth, |ranges| {
        for range in ranges {
            flip_at(range, 7);
        }
    })
}

/// Tells when it has something to lie about.
async fn lie_as(access: &Access, worker: u64, begun: &Sender<()>) -> Deeds {
    let mut client = Client::join(access, worker, "liar").await;
    work(&mut client, |_, _, truth| {
        // Only the first time is somebody waiting for it.
        let _ = begun.send(());
        same_lie(truth)
    })
    .await
}

#[test]
fn one_holder_that_is_many_workers_does_not_outvote_anybody() {
    let mut cluster = Job::start(BITS, 12, &["--replicas", "2"]);
    let access = cluster.access_of("liar");
    let (begun, has_begun) = mpsc::channel();
    std::thread::scope(|scope| {
        let liars = scope.spawn(move || {
            let lie = |worker| lie_as(&access, worker, &begun);
            block_on(async { tokio::join!(lie(1), lie(2), lie(3)) })
        });
        // Liars that are gone without a word have failed, and their failure is told below.
        let _ = has_begun.recv_timeout(HANG);
        let honest = ["honest-direct", "honest-proxied"].map(|name| cluster.start_worker(name));
        let manifest = cluster.published();
        assert_eq!(manifest["fingerprint"], FINGERPRINT_24, "{}", cluster.log());
        honest.into_iter().for_each(assert_content);
        let (first, second, third) = liars.join().unwrap();
        assert!(first.lies + second.lies + third.lies > 0, "nobody lied");
    });
    let log = cluster.stop();
    assert_nobody_honest_was_blamed(&log);
    let named = "worker liar (participant liar) gets no more tasks";
    assert!(log.contains(named), "{log}");
}

#[test]
fn two_workers_of_one_holder_are_no_two_replicas() {
    let mut cluster = Job::start(BITS, 12, &["--replicas", "2"]);
    let owners = cluster.access();
    let workers = ["one", "two"].map(|name| cluster.start_worker_with(name, &owners));
    cluster.wait_until("that somebody says why nothing goes on", |cluster| {
        let status = cluster.status();
        let waiting = status["waiting_for"].as_str().unwrap_or_default();
        waiting.contains("2 participants") && waiting.contains("chomp access add")
    });
    assert_eq!(cluster.status()["ranges_done"], 0);
    let third = cluster.start_worker("third");
    let manifest = cluster.published();
    assert_eq!(manifest["fingerprint"], FINGERPRINT_24);
    workers.into_iter().chain([third]).for_each(assert_content);
    cluster.stop();
}

/// The code with which a call of this client is refused, if it is.
async fn refusal(client: &mut Client) -> Option<Code> {
    match client.lease().await {
        Offer::Refused(status) => Some(status.code()),
        _ => None,
    }
}

#[test]
fn a_credential_that_is_taken_back_is_useless_at_once_and_others_are_not() {
    let mut cluster = Job::start(BITS, 14, &[]);
    let access = cluster.access_of("eve");
    block_on(async {
        let mut client = Client::join(&access, 1, "eve").await;
        // Its results are right, and still nobody trusts them when it is gone.
        let (task, truth) = client.first_task().await;
        client.submit(&task, &truth).await.unwrap();
        // An upload that it has begun ends too.
        let Offer::Task(next) = client.lease().await else {
            panic!("there is a task for the only worker");
        };
        let link = client.link.clone();
        let half = pieces(1, 4, false);
        let key = key_of(&next);
        let put = link.announce(client.worker, &key, 100, half);
        let put = arrives("the end of what was begun", put);
        let mut command = cluster.chomp("access revoke eve --table");
        command.arg(cluster.table());
        let revoke = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            // The upload goes on meanwhile.
            let revoked = tokio::task::spawn_blocking(move || end(&mut command).done());
            revoked.await.unwrap();
        };
        let (put, ()) = tokio::join!(put, revoke);
        assert_eq!(put.unwrap().0, StatusCode::UNAUTHORIZED);

        let refused = async { while refusal(&mut client).await != Some(Code::Unauthenticated) {} };
        arrives("the refusal of tasks", refused).await;
    });
    cluster.wait_until("the plan to hear of it", |cluster| {
        let status = cluster.status();
        let workers = status["workers"].as_array().unwrap();
        workers.iter().any(|worker| {
            let why = worker["quarantined"].as_str().unwrap_or_default();
            worker["participant"] == "eve" && why.contains("taken back")
        })
    });

    // A new file instead of the stolen one: the old one stays useless.
    let stolen = cluster.credential("eve");
    let new = stolen.with_file_name("new.json");
    cluster.change_access("add", "eve", Some(&new));
    let refused = cluster.start_worker_with("thief", &stolen).wait();
    refused.exits(5).says("the token was taken back");
    let workers = [
        cluster.start_worker_with("eve-direct", &new),
        cluster.start_worker("other"),
    ];
    let manifest = cluster.published();
    assert_eq!(manifest["fingerprint"], FINGERPRINT_24);
    workers.into_iter().for_each(assert_content);
    cluster.stop();
}

/// A store may get a coordinator with another directory, whose list begins anew.
#[test]
fn nobody_inherits_what_another_one_did() {
    let (before, after) = (Cluster::new(), Cluster::new());
    let store = folder();
    let coordinator = |cluster: &Cluster| {
        // Longer than it takes to revoke somebody.
        let mut command = cluster.coordinator(28, 14);
        command.arg("--exit-when-done");
        cluster.start_coordinator(command.arg("--store").arg(store.path()))
    };
    let first = coordinator(&before);
    let eve = before.start(&mut before.worker_with("eve", &before.credential("eve")));
    wait_for("a range of eve's", || ranges_done(store.path()) > 0);
    // The job is not to be over before she is.
    eve.pause();
    before.change_access("revoke", "eve", None);
    wait_for("a note of it", || {
        ledger(store.path()).is_some_and(|ledger| ledger.out().count() > 0)
    });
    first.kill();
    drop(eve);

    let second = coordinator(&after);
    let ann = after.start(&mut after.worker_with("ann", &after.credential("ann")));
    ann.wait().done();
    second.wait().made(FINGERPRINT_28);
}

/// Everybody who may read the folder of a table can lock it, and every file in it that others may open.
#[test]
fn a_reader_of_the_folder_holds_up_nobody() {
    let cluster = Cluster::new();
    drop(cluster.begin(BITS, 14));
    let others = |path: &Path| fs::metadata(path).unwrap().mode() & 0o005 != 0;
    let files = fs::read_dir(cluster.table()).unwrap();
    let mut readable: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    readable.push(cluster.table());
    readable.retain(|path| others(path));
    assert!(readable.contains(&cluster.table()));
    let locked = readable.iter().map(|path| {
        let file = File::open(path).unwrap();
        file.lock().unwrap();
        file
    });
    let locked: Vec<_> = locked.collect();
    let bob = cluster.credential("bob");
    cluster.change_access("revoke", "bob", None);
    let coordinator = cluster.begin(BITS, 14);
    let turned_away = cluster.start(&mut cluster.worker_with("bob", &bob)).wait();
    turned_away.says("taken back");
    cluster.join("owner").wait().done();
    coordinator.wait().made(FINGERPRINT_24);
    drop(locked);
}

/// The owner's machine was wrong, or its file was stolen: it is taken out like any other, and comes back as another.
#[test]
fn the_owner_keeps_its_token_until_it_is_revoked_and_the_list_says_who_has_access() {
    let cluster = Cluster::new();
    let files = ["access.json", "secrets.json"];
    let contents = || files.map(|name| fs::read(cluster.table().join(name)).unwrap());
    drop(cluster.begin(BITS, 14));
    let before = contents();
    let bob = cluster.credential("bob");
    let coordinator = cluster.begin(BITS, 14);
    let after = contents();
    assert_eq!(before, after);

    let stolen = cluster.home().join("stolen.json");
    fs::copy(cluster.access(), &stolen).unwrap();
    cluster.change_access("revoke", "owner", None);
    wait_for("the end of the owner's access", || {
        let token = Access::read(&stolen).unwrap().token.unwrap();
        let header = bearer(token.secret());
        cluster.get("/metrics", &[&header]).status == 401
    });
    cluster.change_access("add", "owner", None);
    // The list says who has access, and mistakes are told.
    cluster.credential("carl");
    cluster.change_access("revoke", "carl", None);
    let table = cluster.table();
    let run = |args: &[&str]| end(chomp("access").args(args).arg("--table").arg(&table));
    let listed = run(&["list", "--json"]).summary();
    let listed = listed["participants"].as_array().unwrap();
    let is_revoked = |name: &str| {
        let one = listed.iter().find(|one| one["name"] == name);
        one.unwrap()["revoked"] == true
    };
    assert_eq!(["bob", "carl"].map(is_revoked), [false, true]);
    for (args, code, why) in [
        (["add", "bob"], 5, "already"),
        (["add", "../ann"], 2, "is no name"),
        (["revoke", "dora"], 5, "no participant dora"),
    ] {
        run(&args).exits(code).says(why);
    }

    let workers = [
        cluster.join("owner"),
        cluster.start(&mut cluster.worker_with("bob", &bob)),
    ];
    for worker in workers {
        worker.wait().done();
    }
    coordinator.wait().made(FINGERPRINT_24);
}
