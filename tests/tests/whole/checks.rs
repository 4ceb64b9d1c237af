//! A worker lies where one result is enough: others that check what it found first find it, all that it alone found is
//! checked, and the table is right.

use std::sync::mpsc::{self, TryRecvError};
use std::time::Duration;

use crate::common::FINGERPRINT_20;
use crate::liars::CONTRADICTION;
use crate::peers::client::{Client, Offer, heads_of};
use crate::peers::lies::{Deeds, Speech, changed, flip, misshapen, say, work};
use crate::peers::{Job, assert_content, block_on};
use chomp_proto::v1;
use chomp_proto::v1::complete_reply::Verdict;
use chomp_proto::v1::task::Work;
use chomp_table::Range;
use chomp_table::rng::Rng;

/// One that finds something else in what another has computed is out, though nobody else works.
#[test]
fn one_that_lies_in_a_check() {
    let cluster = Job::start_with_checks(1000, 1, 20, 12);
    let deeds = block_on(async {
        let mut ann = Client::join(&cluster.access_of("ann"), 1, "ann").await;
        let mut liar = Client::join(&cluster.access_of("liar"), 2, "liar").await;
        while let Some((_, verdict)) = work_honestly(&mut ann).await {
            assert!(matches!(verdict, Verdict::Accepted(_)), "{verdict:?}");
        }
        let mut deeds = Deeds::default();
        // It is given the shard first, and keeps it.
        let shard = deeds.next_task(&mut liar).await.unwrap();
        assert!(matches!(shard.work, Some(Work::Merge(_))), "{shard:?}");
        let check = deeds.next_task(&mut liar).await.unwrap();
        let is_check = matches!(&check.work, Some(Work::Evaluate(work)) if work.is_check);
        assert!(is_check, "{check:?}");
        let lie = |liar: &Client, _: &v1::Task, truth: &[Range]| {
            changed(truth, |ranges| flip(&mut ranges[0], liar, &mut Rng(5)))
        };
        say(&mut liar, &check, lie, &mut deeds).await;
        let end = work(&mut liar, |_, _, _| Speech::Truth).await.end;
        ann.leave().await;
        Deeds { end, ..deeds }
    });
    deeds.assert_expelled();
    let (log, blamed) = finish(cluster, FINGERPRINT_20);
    assert!(!log.contains(CONTRADICTION), "{log}");
    let is_right =
        |line: &String| line.contains("worker liar") && line.contains("sent a wrong content");
    assert!(!blamed.is_empty() && blamed.iter().all(is_right), "{log}");
}

/// The record is right, and not what is said of it: no check is drawn, and whoever merges the range finds it.
#[test]
fn one_that_counts_wrong() {
    let cluster = Job::start_with_checks(0, 1, 20, 12);
    let lies = block_on(async {
        let mut liar = Client::join(&cluster.access_of("liar"), 1, "liar").await;
        let mut deeds = Deeds::default();
        loop {
            let task = deeds.next_task(&mut liar).await.unwrap();
            if matches!(task.work, Some(Work::Merge(_))) {
                break;
            }
            let is_it = deeds.tasks == 20;
            let count = |liar: &Client, _: &v1::Task, truth: &[Range]| {
                let lie = || misshapen("another number of stored positions", liar, truth, 20);
                is_it.then(lie).unwrap_or(Speech::Truth)
            };
            say(&mut liar, &task, count, &mut deeds).await;
        }
        liar.leave().await;
        deeds.lies
    });
    assert_eq!(lies, 1);
    let (log, blamed) = finish(cluster, FINGERPRINT_20);
    let [blamed] = &blamed[..] else {
        panic!("{log}");
    };
    assert!(blamed.contains("(participant liar)"), "{log}");
}

/// Does the next task as it should be done, unless all ranges are done.
async fn work_honestly(client: &mut Client) -> Option<(Vec<u64>, Verdict)> {
    let task = Deeds::default().next_task(client).await?;
    let Some(heads) = heads_of(&task) else {
        client.give_back(task.lease).await.unwrap();
        return None;
    };
    let truth = client.evaluate(heads, task.journal).await.unwrap();
    let verdict = client.submit(&task, &truth).await.unwrap();
    Some((heads.clone(), verdict))
}

/// Lets an honest worker finish the job; what the coordinator says, and of whom it says that they get no more tasks.
fn finish(mut cluster: Job, known: &str) -> (String, Vec<String>) {
    let honest = cluster.start_worker("honest");
    assert_eq!(cluster.published()["fingerprint"], known);
    assert_content(honest);
    let log = cluster.stop();
    let blamed = log
        .lines()
        .filter(|line| line.contains("gets no more tasks"));
    let blamed = blamed.map(str::to_owned).collect();
    (log, blamed)
}

/// All is sampled, and the only other participant is revoked: nobody can check what is left, and nobody does, the
/// coordinator neither.
#[test]
fn sampled_checks_lapse_when_one_participant_is_left() {
    const RANGES: usize = 1 << (20 - 12);
    let mut cluster = Job::start_with_checks(1000, 1, 20, 12);
    let access = ["ann", "ben"].map(|name| cluster.access_of(name));
    block_on(async {
        let mut ann = Client::join(&access[0], 1, "ann").await;
        let mut ben = Client::join(&access[1], 2, "ben").await;
        for _ in 0..4 {
            work_honestly(&mut ann).await.unwrap();
            work_honestly(&mut ben).await.unwrap();
        }
        ann.leave().await;
    });
    cluster.change_access("revoke", "ben", None);
    let ann = cluster.start_worker("ann");
    assert_eq!(cluster.published()["fingerprint"], FINGERPRINT_20);
    assert_content(ann);
    let log = cluster.stop();
    // Of the ranges, and of the shard.
    let lapsed = format!("does not wait for {} sampled checks", RANGES + 1);
    assert!(log.contains(&lapsed), "{log}");
}

/// It joins, and says that it is there, and that is all: nobody waits for its checks.
#[test]
fn one_that_takes_no_task_holds_up_nothing() {
    let mut cluster = Job::start_with_checks(1000, 10, 20, 12);
    let access = cluster.access_of("idler");
    let (joined, has_joined) = mpsc::channel();
    let (done, is_done) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            block_on(async {
                let mut idler = Client::join(&access, 1, "idler").await;
                joined.send(()).unwrap();
                while is_done.try_recv() == Err(TryRecvError::Empty) {
                    idler.renew(Vec::new()).await.unwrap();
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                idler.leave().await;
            });
        });
        has_joined.recv().unwrap();
        let access = cluster.credential("honest");
        let workers = ["one", "two"].map(|name| cluster.start_worker_with(name, &access));
        assert_eq!(cluster.published()["fingerprint"], FINGERPRINT_20);
        drop(done);
        workers.into_iter().for_each(assert_content);
    });
    cluster.stop();
}

/// While it is alone nobody checks it, and it lies once, about one word and not about its mirror image. When the
/// table is counted that is seen, and found; all that it delivered is evaluated again.
#[test]
fn one_that_lies_once_while_it_is_alone() {
    let cluster = Job::start(20, 12, &[]);
    let access = cluster.access_of("liar");
    block_on(async {
        let mut client = Client::join(&access, 1, "liar").await;
        let mut has_lied = false;
        loop {
            let Offer::Task(task) = client.lease().await else {
                continue;
            };
            let Some(Work::Evaluate(evaluate)) = &task.work else {
                client.give_back(task.lease).await.unwrap();
                break;
            };
            let truth = client.evaluate(&evaluate.heads, task.journal).await;
            let mut ranges = truth.unwrap();
            if evaluate.layer == 20 && !has_lied {
                flip(&mut ranges[0], &client, &mut Rng(5));
                has_lied = true;
            }
            client.submit(&task, &ranges).await.unwrap();
        }
        assert!(has_lied);
        client.leave().await;
    });
    let (log, blamed) = finish(cluster, FINGERPRINT_20);
    assert!(log.contains(CONTRADICTION), "{log}");
    let [blamed] = &blamed[..] else {
        panic!("{log}")
    };
    assert!(blamed.contains("(participant liar) gets no more"), "{log}");
}
