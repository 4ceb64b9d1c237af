//! Credentials of real processes: they come, are renewed and taken back, and one holder is one voice.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::common::cluster::{Cluster, wait_for};
use crate::common::{
    FINGERPRINT_24, FINGERPRINT_28, end, fingerprint, folder, ledger, ranges_done,
};
use crate::peers::client::{Client, Offer, key_of};
use crate::peers::lies::{Deeds, Speech, work};
use crate::peers::{Job, assert_content, block_on};
use bytes::Bytes;
use chomp_access::Access;
use chomp_proto::WORKER_HEADER;
use chomp_table::Range;
use http::{Method, StatusCode};
use http_body_util::StreamBody;
use hyper::body::Frame;
use tokio_stream::StreamExt;
use tonic::body::Body;
use tonic::{Code, Status};

const BITS: u32 = 24;

/// How soon a credential that was taken back has to be useless.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Lies about the same position of the same ranges, whoever asks.
fn same_lie(truth: &[Range]) -> Speech {
    let mut ranges = truth.to_vec();
    for range in &mut ranges {
        match range.losing.binary_search(&7) {
            Ok(at) => drop(range.losing.remove(at)),
            Err(at) => range.losing.insert(at, 7),
        }
    }
    Speech::Ranges(ranges)
}

async fn lie_as(access: &Access, worker: u64) -> Deeds {
    let mut client = Client::join(access, worker, "liar").await;
    work(&mut client, |_, _, truth| same_lie(truth)).await
}

#[test]
fn one_holder_that_is_many_workers_does_not_outvote_anybody() {
    let mut cluster = Job::start(BITS, 12, &["--replicas", "2"]);
    let access = cluster.access_of("liar");
    std::thread::scope(|scope| {
        let liars = scope.spawn(|| {
            block_on(async {
                tokio::join!(lie_as(&access, 1), lie_as(&access, 2), lie_as(&access, 3))
            })
        });
        let honest = ["honest-direct", "honest-proxied"].map(|name| cluster.start_worker(name));
        let manifest = cluster.published();
        assert_eq!(manifest["fingerprint"], FINGERPRINT_24, "{}", cluster.log());
        honest.into_iter().for_each(assert_content);
        let (first, second, third) = liars.join().unwrap();
        assert!(first.lies + second.lies + third.lies > 0, "nobody lied");
    });
    let log = cluster.stop();
    let blamed = |line: &str| line.contains("WARN") && line.contains("honest-");
    assert!(
        !log.lines().any(blamed),
        "somebody honest was blamed: {log}"
    );
    assert!(
        log.contains("worker liar (participant liar) gets no more tasks"),
        "{log}"
    );
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
        let Offer::Task(task) = client.lease().await else {
            panic!("there is a task for the first worker");
        };
        let Some(chomp_proto::v1::task::Work::Evaluate(evaluate)) = &task.work else {
            panic!("the first task is an evaluation");
        };
        let truth = client.evaluate(&evaluate.heads, task.journal).await;
        client.submit(&task, &truth.unwrap()).await.unwrap();
        // An upload that it has begun ends too.
        let Offer::Task(next) = client.lease().await else {
            panic!("there is a task for the only worker");
        };
        let key = key_of(&next);
        let half = tokio_stream::once(Ok::<_, Status>(Frame::data(Bytes::from_static(b"half"))));
        let half = Body::new(StreamBody::new(half.chain(tokio_stream::pending())));
        let headers = [
            (WORKER_HEADER, "1"),
            ("content-length", "100"),
            ("if-none-match", "*"),
        ];
        let objects = client.objects.clone();
        let put = objects.ask(Method::PUT, key.as_str(), &headers, half);
        let put = async {
            let put = tokio::time::timeout(AT_ONCE, put).await;
            put.expect("what was begun ends").unwrap().0
        };
        let revoke = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            cluster.change_access("revoke", "eve", None);
        };
        let (put, ()) = tokio::join!(put, revoke);
        assert_eq!(put, StatusCode::UNAUTHORIZED);

        let revoked = Instant::now();
        while refusal(&mut client).await != Some(Code::Unauthenticated) {
            assert!(revoked.elapsed() < AT_ONCE, "eve still gets tasks");
        }
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
    let renewed = stolen.with_file_name("renewed.json");
    cluster.change_access("renew", "eve", Some(&renewed));
    let refused = cluster.start_worker_with("thief", &stolen).wait();
    assert_eq!(refused.code, Some(5), "{refused:?}");
    assert!(
        refused.stderr.contains("taken back or renewed"),
        "{refused:?}"
    );
    let workers = [
        cluster.start_worker_with("eve-direct", &renewed),
        cluster.start_worker("other"),
    ];
    let manifest = cluster.published();
    assert_eq!(manifest["fingerprint"], FINGERPRINT_24);
    workers.into_iter().for_each(assert_content);
    cluster.stop();
}

/// A store may get a coordinator with another directory, whose participants have the numbers of those before.
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
    before.change_access("revoke", "eve", None);
    wait_for("a note of it", || {
        ledger(store.path()).is_some_and(|ledger| ledger.outcasts().count() > 0)
    });
    first.kill();
    drop(eve);

    let second = coordinator(&after);
    let ann = after.start(&mut after.worker_with("ann", &after.credential("ann")));
    let ended = ann.wait();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(fingerprint(&second.wait().summary()), FINGERPRINT_28);
}

#[test]
fn the_list_says_who_has_access_and_mistakes_are_told() {
    let cluster = Job::start(BITS, 14, &[]);
    cluster.credential("ann");
    cluster.credential("bob");
    cluster.change_access("revoke", "bob", None);
    let table = cluster.table();
    let run = |args: &[&str]| {
        let mut command = crate::common::program();
        command.arg("access").args(args).arg("--table").arg(&table);
        end(&mut command)
    };
    let listed = run(&["list"]);
    let lines: Vec<Vec<&str>> = listed
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let expected = [
        vec!["owner", "has", "access"],
        vec!["ann", "has", "access"],
        vec!["bob", "revoked"],
    ];
    assert_eq!(lines, expected);
    let listed = run(&["list", "--json"]).summary();
    assert_eq!(listed["participants"][2]["name"], "bob");
    assert_eq!(listed["participants"][2]["revoked"], true);
    for (args, code, why) in [
        (&["add", "ann"][..], 5, "already"),
        (&["add", "../ann"], 2, "is no name"),
        (&["revoke", "carl"], 5, "no participant carl"),
        (&["renew", "carl"], 5, "no participant carl"),
    ] {
        let refused = run(args);
        assert_eq!(refused.code, Some(code), "{refused:?}");
        assert!(refused.stderr.contains(why), "{refused:?}");
    }
    let mut elsewhere = crate::common::program();
    elsewhere.args(["access", "add", "dora", "--table", "/nowhere"]);
    let refused = end(&mut elsewhere);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(
        refused.stderr.contains("no coordinator was ever started"),
        "{refused:?}"
    );
}

/// Tokens expire after the days that were asked for, and after 365 by default.
#[test]
fn credentials_expire() {
    const DAY: u64 = 24 * 60 * 60;
    let cluster = Job::start(20, 12, &[]);
    let expiry = |file: &Path| -> u64 {
        let token = Access::read(file).unwrap().token.unwrap();
        let expires = token.secret().split('-').nth(3).map(str::parse);
        expires.expect("a time").expect("seconds since 1970")
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let in_days = |days: u64, found: u64| {
        let expected = now.as_secs() + days * DAY;
        assert!((expected - DAY..expected + DAY).contains(&found), "{found}");
    };
    in_days(365, expiry(&cluster.access()));
    in_days(365, expiry(&cluster.credential("ann")));
    for (what, days) in [("add", 30), ("renew", 3)] {
        let out = cluster.table().join("bob.json");
        let mut command = crate::common::program();
        command.args(["access", what, "bob", "--days", &days.to_string()]);
        command.arg("--table").arg(cluster.table());
        let ended = end(command.arg("--out").arg(&out));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        in_days(days, expiry(&out));
    }
}
