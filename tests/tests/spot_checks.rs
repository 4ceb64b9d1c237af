//! A worker lies where no other computes the same: the checks that others make find it, what it
//! delivered goes, and the table is right.

mod common;
mod peers;

use std::sync::mpsc;
use std::time::Duration;

use chomp_proto::v1;
use chomp_proto::v1::complete_request::Result as Said;
use chomp_proto::v1::task::Work;
use chomp_table::{Head, Range};
use common::FINGERPRINT_24;
use peers::client::{Client, Offer};
use peers::lies::{Deeds, Speech, flip, work};
use peers::{Cluster, Random, assert_content, block_on};

const BITS: u32 = 24;

/// Without replicas only the checks stand between a liar and the table. Of this liar's ranges one
/// in four losing positions is missing, and as many are made up, which most checks see. What it had
/// delivered by then is evaluated again.
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

/// With one wrong position in each range a lie is often not seen at once, but not all of hundreds of
/// lies. Then all that the liar delivered is evaluated again, and what was drawn from it.
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

/// One that says of whatever it is to check that it is wrong is found out at its first check.
#[test]
fn one_that_slanders() {
    let job = LoneJob::with(async |client| {
        let mut deeds = Deeds::default();
        loop {
            let task = match client.lease().await {
                Offer::Task(task) => task,
                Offer::Wait => continue,
                Offer::Finished => return deeds,
                Offer::Refused(status) => {
                    deeds.end = Some(status);
                    return deeds;
                }
            };
            if let Some(Work::Check(check)) = &task.work {
                let head = Head(check.range.as_ref().unwrap().head);
                let word = head.word(1, client.range_bits).get();
                let refutation = Some(v1::Refutation { word });
                let wrong = Said::Checked(v1::Checked { refutation });
                let _ = client.say(&task, None, Some(wrong)).await;
                deeds.lies += 1;
            } else {
                let _ = client.give_back(task.lease).await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    });
    job.assert_no_harm("found range");
}

/// A job without replicas that a liar takes part in.
struct LoneJob {
    cluster: Cluster,
    deeds: Deeds,
}

impl LoneJob {
    fn run(
        mut speech: impl FnMut(&Client, &mut Random, usize, &[Range]) -> Speech + Send,
    ) -> LoneJob {
        LoneJob::with(async move |client| {
            let (mut random, mut tasks) = (Random(5), 0);
            work(client, |client, _, truth| {
                tasks += 1;
                speech(client, &mut random, tasks, truth)
            })
            .await
        })
    }

    fn with(liar: impl AsyncFnOnce(&mut Client) -> Deeds + Send) -> LoneJob {
        let mut cluster = Cluster::start(BITS, &["--range-bits", "12"]);
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
            let honest = cluster.worker("honest");
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

/// The seed of the first check that there is in a job, and the range that it is about.
async fn first_check(cluster: &Cluster) -> (u64, u64) {
    let mut ann = Client::join(&cluster.access_of("ann"), 1, "ann").await;
    let mut bob = Client::join(&cluster.access_of("bob"), 2, "bob").await;
    let Offer::Task(task) = ann.lease().await else {
        panic!("there is something to do");
    };
    let Some(Work::Evaluate(evaluate)) = &task.work else {
        panic!("{task:?}");
    };
    let truth = ann.evaluate(&evaluate.heads, task.journal).await.unwrap();
    ann.submit(&task, &truth).await.unwrap();
    for _ in 0..20 {
        let Offer::Task(task) = bob.lease().await else {
            continue;
        };
        if let Some(Work::Check(check)) = task.work {
            return (check.range.unwrap().head, check.seed);
        }
        bob.give_back(task.lease).await.unwrap();
    }
    panic!("a first result is checked");
}

/// Whoever computed a range does not know what will be looked at, though all else is known.
#[test]
fn what_is_checked_follows_from_secrets() {
    let check = || {
        let cluster = Cluster::start(BITS, &["--range-bits", "12"]);
        block_on(first_check(&cluster))
    };
    let (first, second) = (check(), check());
    assert_eq!(first.0, second.0, "the first range");
    assert_ne!(first.1, second.1, "its seed");
}
