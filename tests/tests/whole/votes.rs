//! A worker lies where one vote is enough: those that compute the same drawn ranges find it, what it delivered goes,
//! and the table is right.

use std::collections::BTreeSet;
use std::sync::mpsc::{self, TryRecvError};
use std::time::Duration;

use crate::common::{FINGERPRINT_20, FINGERPRINT_24};
use crate::liars::CONTRADICTION;
use crate::peers::client::{Client, Offer, heads_of};
use crate::peers::lies::{Deeds, Speech, changed, flip, say, work};
use crate::peers::{Job, assert_content, block_on};
use chomp_proto::v1;
use chomp_proto::v1::complete_reply::Verdict;
use chomp_proto::v1::task::Work;
use chomp_table::Range;
use chomp_table::rng::Rng;

/// One that finds something else in what another has computed is quarantined though nobody else works.
#[test]
fn one_that_lies_about_what_it_computes_second() {
    let cluster = Job::start_with_checks(1, 24, 12);
    let deeds = block_on(async {
        let mut ann = Client::join(&cluster.access_of("ann"), 1, "ann").await;
        let mut liar = Client::join(&cluster.access_of("liar"), 2, "liar").await;
        let mut deeds = Deeds::default();
        let second = deeds.next_task(&mut liar).await.unwrap();
        let (heads, verdict) = work_honestly(&mut ann).await.unwrap();
        assert!(matches!(verdict, Verdict::Noted(_)), "{verdict:?}");
        assert_eq!(heads_of(&second), Some(&heads));
        let lie = |liar: &Client, _: &v1::Task, truth: &[Range]| {
            changed(truth, |ranges| flip(&mut ranges[0], liar, &mut Rng(5)))
        };
        say(&mut liar, &second, lie, &mut deeds).await;
        let end = work(&mut liar, |_, _, _| Speech::Truth).await.end;
        ann.leave().await;
        Deeds { end, ..deeds }
    });
    deeds.assert_expelled();
    let (log, blamed) = finish(cluster, FINGERPRINT_24);
    assert!(!log.contains(CONTRADICTION), "{log}");
    let is_right =
        |line: &String| line.contains("worker liar") && line.contains("sent a wrong content");
    assert!(!blamed.is_empty() && blamed.iter().all(is_right), "{log}");
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

/// Which ranges two participants of a job computed, each in its turn.
fn computed(cluster: &Job) -> [BTreeSet<u64>; 2] {
    block_on(async {
        let mut clients = Vec::new();
        for (number, name) in [(1, "ann"), (2, "bob")] {
            let mut client = Client::join(&cluster.access_of(name), number, name).await;
            // Nobody counts on one that has not asked yet.
            let task = Deeds::default().next_task(&mut client).await.unwrap();
            client.give_back(task.lease).await.unwrap();
            clients.push(client);
        }
        let mut computed = [BTreeSet::new(), BTreeSet::new()];
        for turn in (0..2).cycle() {
            let Some((heads, _)) = work_honestly(&mut clients[turn]).await else {
                break;
            };
            computed[turn].extend(heads);
        }
        computed
    })
}

/// Whoever computes a range does not know whether another will, though all else is known.
#[test]
fn what_is_drawn_follows_from_secrets() {
    let drawn = || {
        let [ann, bob] = computed(&Job::start(20, 12, &[]));
        &ann & &bob
    };
    assert_ne!(drawn(), drawn());
}

#[test]
fn as_many_ranges_are_drawn_as_the_plan_wants() {
    let all: BTreeSet<u64> = (0..1 << 8).collect();
    let [ann, bob] = computed(&Job::start_with_checks(1, 20, 12));
    assert!(ann == all && bob == all, "{ann:?} {bob:?}");
    let [ann, bob] = computed(&Job::start_with_checks(0, 20, 12));
    let (both, either) = (&ann & &bob, &ann | &bob);
    assert!(both.is_empty() && either == all, "{ann:?} {bob:?}");
}

/// It joins, and says that it is there, and that is all: nobody waits for its votes.
#[test]
fn one_that_takes_no_task_holds_up_nothing() {
    let mut cluster = Job::start_with_checks(1, 20, 12);
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

/// While it is alone nobody else votes, and it lies once, about one word and not about its mirror image. When the
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
