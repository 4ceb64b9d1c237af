//! A worker lies where one vote is enough: those that compute the same drawn ranges find it, what it delivered goes,
//! and the table is right.

use std::collections::BTreeSet;
use std::sync::mpsc::{self, TryRecvError};
use std::time::{Duration, Instant};

use crate::common::{FINGERPRINT_20, FINGERPRINT_24};
use crate::peers::client::{Client, Offer};
use crate::peers::lies::{Deeds, Speech, flip, say, work};
use crate::peers::{Job, assert_content, block_on};
use chomp_proto::v1;
use chomp_proto::v1::complete_reply::Verdict;
use chomp_proto::v1::task::Work;
use chomp_table::Range;
use chomp_table::rng::Rng;

const BITS: u32 = 24;
/// The message when the finished table contradicts itself.
const CONTRADICTION: &str = "looking for the range that is wrong";

/// Without replicas only second votes stand between a liar and the table. What it had delivered by the first that
/// differed is evaluated again.
#[test]
fn one_that_lies_often_where_nobody_compares() {
    // First with some true results, which stay.
    for truths in [0, 5] {
        let job = LoneJob::run(|client, random, tasks, truth| {
            if tasks <= truths {
                return Speech::Truth;
            }
            let mut ranges = truth.to_vec();
            for range in &mut ranges {
                let quarter = range.losing.len().div_ceil(4);
                for _ in 0..quarter {
                    let some = random.below(range.losing.len() as u64);
                    let some = usize::try_from(some).unwrap();
                    // The first is an edge too.
                    if range.losing[some] != 0 {
                        range.losing.remove(some);
                    }
                    flip(range, client.range_bits.positions(), random);
                }
            }
            Speech::Ranges(ranges)
        });
        job.assert_no_harm("sent a wrong content");
    }
}

/// One wrong position in each range is seen like many: votes are about whole ranges.
#[test]
fn one_that_lies_a_little_where_nobody_compares() {
    let job = LoneJob::run(|client, random, _, truth| {
        let mut ranges = truth.to_vec();
        for range in &mut ranges {
            flip(range, client.range_bits.positions(), random);
        }
        Speech::Ranges(ranges)
    });
    job.assert_no_harm("sent a wrong content");
}

/// One that finds something else in what another has computed is found out though nobody else works.
#[test]
fn one_that_lies_about_what_it_computes_second() {
    let mut cluster = Job::start(BITS, 12, &["--check-one-in", "1"]);
    let deeds = block_on(async {
        let mut ann = Client::join(&cluster.access_of("ann"), 1, "ann").await;
        let mut liar = Client::join(&cluster.access_of("liar"), 2, "liar").await;
        let mut deeds = Deeds::default();
        let second = deeds.next_task(&mut liar).await.unwrap();
        let (heads, verdict) = work_honestly(&mut ann).await.unwrap();
        assert!(matches!(verdict, Verdict::Noted(_)), "{verdict:?}");
        assert_eq!(heads_of(&second), Some(&heads));
        let lie = |liar: &Client, _: &v1::Task, truth: &[Range]| {
            let mut ranges = truth.to_vec();
            flip(&mut ranges[0], liar.range_bits.positions(), &mut Rng(5));
            Speech::Ranges(ranges)
        };
        say(&mut liar, &second, lie, &mut deeds).await;
        let end = work(&mut liar, |_, _, _| Speech::Truth).await.end;
        let worker = ann.worker;
        ann.rpc.leave(v1::LeaveRequest { worker }).await.unwrap();
        Deeds { end, ..deeds }
    });
    let honest = cluster.start_worker("honest");
    assert_eq!(cluster.published()["fingerprint"], FINGERPRINT_24);
    assert_content(honest);
    LoneJob { cluster, deeds }.assert_no_harm("sent a wrong content");
}

/// The ranges of a task, if there are any to be evaluated.
fn heads_of(task: &v1::Task) -> Option<&Vec<u64>> {
    match &task.work {
        Some(Work::Evaluate(evaluate)) => Some(&evaluate.heads),
        _ => None,
    }
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

/// A job without replicas that a liar takes part in.
struct LoneJob {
    cluster: Job,
    deeds: Deeds,
}

impl LoneJob {
    fn run(mut speech: impl FnMut(&Client, &mut Rng, usize, &[Range]) -> Speech + Send) -> LoneJob {
        LoneJob::with(async move |client| {
            let (mut random, mut tasks) = (Rng(5), 0);
            work(client, |client, _, truth| {
                tasks += 1;
                speech(client, &mut random, tasks, truth)
            })
            .await
        })
    }

    fn with(liar: impl AsyncFnOnce(&mut Client) -> Deeds + Send) -> LoneJob {
        let mut cluster = Job::start(BITS, 12, &[]);
        let access = cluster.access_of("liar");
        let (joined, has_joined) = mpsc::channel();
        let deeds = std::thread::scope(|scope| {
            let liar = scope.spawn(move || {
                block_on(async {
                    let mut client = Client::join(&access, 1, "liar").await;
                    joined.send(()).unwrap();
                    liar(&mut client).await
                })
            });
            has_joined.recv().unwrap();
            let honest = cluster.start_worker("honest");
            let manifest = cluster.published();
            assert_eq!(manifest["fingerprint"], FINGERPRINT_24);
            assert_eq!(manifest["replicas"], 1);
            assert_content(honest);
            liar.join().unwrap()
        });
        LoneJob { cluster, deeds }
    }

    /// Asserts that the liar was found by votes, and nobody else.
    fn assert_no_harm(self, why: &str) {
        self.deeds.assert_expelled();
        let log = self.cluster.stop();
        assert!(!log.contains(CONTRADICTION), "{log}");
        let blamed: Vec<_> = log
            .lines()
            .filter(|line| line.contains("gets no more tasks"))
            .collect();
        let is_right = |line: &&str| line.contains("worker liar") && line.contains(why);
        assert!(!blamed.is_empty() && blamed.iter().all(is_right), "{log}");
    }
}

/// Which ranges two participants computed, each in its turn.
fn computed(args: &[&str]) -> [BTreeSet<u64>; 2] {
    let cluster = Job::start(20, 12, args);
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
        let [ann, bob] = computed(&[]);
        &ann & &bob
    };
    assert_ne!(drawn(), drawn());
}

#[test]
fn all_ranges_are_drawn_or_none_if_the_owner_wants_so() {
    let all: BTreeSet<u64> = (0..1 << 8).collect();
    let [ann, bob] = computed(&["--check-one-in", "1"]);
    assert!(ann == all && bob == all, "{ann:?} {bob:?}");
    let [ann, bob] = computed(&["--check-one-in", "0"]);
    let (both, either) = (&ann & &bob, &ann | &bob);
    assert!(both.is_empty() && either == all, "{ann:?} {bob:?}");
}

/// It joins, and says that it is there, and that is all: nobody waits for its votes.
#[test]
fn one_that_takes_no_task_holds_up_nothing() {
    const LEASE: Duration = Duration::from_secs(30);
    let mut cluster = Job::start(20, 12, &["--check-one-in", "1"]);
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
                let worker = idler.worker;
                idler.rpc.leave(v1::LeaveRequest { worker }).await.unwrap();
            });
        });
        has_joined.recv().unwrap();
        let begin = Instant::now();
        let access = cluster.credential("honest");
        let workers = ["one", "two"].map(|name| cluster.start_worker_with(name, &access));
        cluster.wait_until("all ranges", |cluster| {
            assert!(begin.elapsed() < LEASE, "they wait for the idler");
            cluster.metric("chomp_ranges_done") == 1 << 8
        });
        assert_eq!(cluster.published()["fingerprint"], FINGERPRINT_20);
        assert!(begin.elapsed() < LEASE, "nobody else reads the shards");
        drop(done);
        workers.into_iter().for_each(assert_content);
    });
    cluster.stop();
}

/// While it is alone nobody else votes, and it lies once, about one word and not about its mirror image. When the
/// table is counted that is seen, and found; all that it delivered is evaluated again.
#[test]
fn one_that_lies_once_while_it_is_alone() {
    let mut cluster = Job::start(20, 12, &[]);
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
                flip(&mut ranges[0], client.range_bits.positions(), &mut Rng(5));
                has_lied = true;
            }
            client.submit(&task, &ranges).await.unwrap();
        }
        assert!(has_lied);
        let worker = client.worker;
        client.rpc.leave(v1::LeaveRequest { worker }).await.unwrap();
    });
    let honest = cluster.start_worker("honest");
    let manifest = cluster.published();
    assert_eq!(manifest["fingerprint"], FINGERPRINT_20);
    assert_content(honest);
    let log = cluster.stop();
    assert!(log.contains(CONTRADICTION), "{log}");
    let blamed = log
        .lines()
        .filter(|line| line.contains("gets no more tasks"));
    let blamed: Vec<_> = blamed.collect();
    assert!(
        blamed.len() == 1 && blamed[0].contains("(participant liar) gets no more"),
        "{log}"
    );
}
