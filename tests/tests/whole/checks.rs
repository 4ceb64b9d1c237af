//! A worker lies where no other computes the same: the checks that others make find it, what it
//! delivered goes, and the table is right.

use std::sync::mpsc;
use std::time::Duration;

use crate::common::{FINGERPRINT_20, FINGERPRINT_24};
use crate::peers::client::{Client, Offer};
use crate::peers::lies::{Deeds, Speech, flip, work};
use crate::peers::{Job, assert_content, block_on};
use chomp_proto::v1;
use chomp_proto::v1::complete_request::Result as Said;
use chomp_proto::v1::task::Work;
use chomp_table::Range;
use chomp_table::rng::Rng;

const BITS: u32 = 24;

/// Without replicas only the checks stand between a liar and the table. What it had delivered by the first that found a
/// lie is evaluated again.
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

/// One wrong position in each range is seen like many: a check compares whole ranges.
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

/// One that finds something else in what it is to check is found out though nobody else works.
#[test]
fn one_that_lies_in_checks() {
    let mut cluster = Job::start(BITS, 12, &["--check-one-in", "1"]);
    let deeds = block_on(async {
        let mut ann = Client::join(&cluster.access_of("ann"), 1, "ann").await;
        let mut liar = Client::join(&cluster.access_of("liar"), 2, "liar").await;
        let evaluated = work_honestly(&mut ann).await.unwrap();
        let mut deeds = Deeds::default();
        let task = deeds.next_task(&mut liar).await.unwrap();
        let Some(Work::Check(check)) = &task.work else {
            panic!("{task:?}");
        };
        assert_eq!(check.heads, evaluated.heads);
        let truth = liar.evaluate(&check.heads, task.journal).await;
        let (_, mut ranges) = liar.part(&truth.unwrap());
        ranges[0].digest[7] ^= 1;
        let wrong = Said::Checked(v1::Checked { ranges });
        liar.say(&task, None, Some(wrong)).await.unwrap();
        deeds.lies += 1;
        while let Some(task) = deeds.next_task(&mut liar).await {
            let _ = liar.give_back(task.lease).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let worker = ann.worker;
        ann.rpc.leave(v1::LeaveRequest { worker }).await.unwrap();
        deeds
    });
    let honest = cluster.start_worker("honest");
    assert_eq!(cluster.published()["fingerprint"], FINGERPRINT_24);
    assert_content(honest);
    LoneJob { cluster, deeds }.assert_no_harm("sent a wrong content");
}

struct Done {
    heads: Vec<u64>,
    is_check: bool,
}

/// Does the next task as it should be done, if there is one now.
async fn work_honestly(client: &mut Client) -> Option<Done> {
    let Offer::Task(task) = client.lease().await else {
        return None;
    };
    let (heads, is_check) = match &task.work {
        Some(Work::Evaluate(evaluate)) => (evaluate.heads.clone(), false),
        Some(Work::Check(check)) => (check.heads.clone(), true),
        other => panic!("{other:?}"),
    };
    let truth = client.evaluate(&heads, task.journal).await.unwrap();
    if is_check {
        let (_, ranges) = client.part(&truth);
        let said = Said::Checked(v1::Checked { ranges });
        client.say(&task, None, Some(said)).await.unwrap();
    } else {
        client.submit(&task, &truth).await.unwrap();
    }
    Some(Done { heads, is_check })
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

    /// Asserts that the liar was found, and nobody else.
    fn assert_no_harm(self, why: &str) {
        self.deeds.assert_expelled();
        let log = self.cluster.stop();
        let blamed: Vec<_> = log
            .lines()
            .filter(|line| line.contains("gets no more tasks"))
            .collect();
        let is_right = |line: &&str| line.contains("worker liar") && line.contains(why);
        assert!(!blamed.is_empty() && blamed.iter().all(is_right), "{log}");
    }
}

/// The first ranges that are checked in a job in which one evaluates and one checks.
async fn checked(cluster: &Job) -> Vec<Vec<u64>> {
    let mut ann = Client::join(&cluster.access_of("ann"), 1, "ann").await;
    let mut bob = Client::join(&cluster.access_of("bob"), 2, "bob").await;
    let mut checked = Vec::new();
    while checked.len() < 20 {
        for client in [&mut ann, &mut bob] {
            let done = work_honestly(client).await;
            checked.extend(done.filter(|done| done.is_check).map(|done| done.heads));
        }
    }
    checked
}

/// Whoever computes a range does not know whether it will be looked at, though all else is known.
#[test]
fn what_is_checked_follows_from_secrets() {
    let check = || {
        let cluster = Job::start(BITS, 12, &[]);
        block_on(checked(&cluster))
    };
    // Two jobs alone may be checked alike.
    let first = check();
    assert!((0..5).any(|_| check() != first), "{first:?}");
}

/// While it is alone nobody checks it, and it lies once, about one word and not about its mirror image. When the table is
/// counted that is seen, and found; all that it delivered is evaluated again.
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
    assert!(log.contains("looking for the range that is wrong"), "{log}");
    let blamed = log
        .lines()
        .filter(|line| line.contains("gets no more tasks"));
    let blamed: Vec<_> = blamed.collect();
    assert!(
        blamed.len() == 1 && blamed[0].contains("(participant liar) gets no more"),
        "{log}"
    );
}

#[test]
fn all_ranges_are_checked_or_none_if_the_owner_wants_so() {
    for (one_in, is_checked) in [("1", true), ("0", false)] {
        let cluster = Job::start(BITS, 12, &["--check-one-in", one_in]);
        block_on(async {
            let mut ann = Client::join(&cluster.access_of("ann"), 1, "ann").await;
            let mut bob = Client::join(&cluster.access_of("bob"), 2, "bob").await;
            for _ in 0..30 {
                let evaluated = work_honestly(&mut ann).await.unwrap();
                assert!(!evaluated.is_check);
                if is_checked {
                    let checked = work_honestly(&mut bob).await.unwrap();
                    assert!(checked.is_check && checked.heads == evaluated.heads);
                } else {
                    assert!(!work_honestly(&mut bob).await.unwrap().is_check);
                }
            }
        });
    }
}
