//! One worker among three lies: the table is right, the liar is named, and nobody else is.

use std::pin::pin;
use std::sync::mpsc;
use std::time::Duration;

use crate::common::FINGERPRINT_24;
use crate::peers::client::{Client, Offer, connect, hello, key_of};
use crate::peers::lies::{Deeds, MISSHAPEN, Speech, changed, flip, flip_at, misshapen, say, work};
use crate::peers::{Job, assert_content, assert_nobody_honest_was_blamed, block_on};
use bytes::Bytes;
use chomp_access::Access;
use chomp_proto::v1;
use chomp_proto::v1::complete_reply::Verdict;
use chomp_proto::v1::complete_request::Result as Said;
use chomp_proto::v1::task::Work;
use chomp_store::{ShardSummary, published};
use chomp_table::manifest::folder_name;
use chomp_table::rng::Rng;
use chomp_table::shard::shard_name;
use chomp_table::{Digest, Range, Table};
use chomp_testing::waiting::{HANG, arrives};
use http::StatusCode;
use tokio::sync::oneshot;
use tonic::{Code, Status};

const BITS: u32 = 24;
/// The most memory that a coordinator may need, whatever is sent to it.
const PEAK_BYTES_MAX: u64 = 300 << 20;

/// Says when the honest workers are there; a liar sends before that whatever it wants to be done.
struct Others {
    /// Says that they may come.
    may_come: mpsc::Sender<()>,
    /// Hears that they are there.
    are_there: oneshot::Receiver<()>,
    /// The access of one of them.
    access: Access,
}

impl Others {
    /// Lets them come.
    fn invite(&self) {
        self.may_come.send(()).unwrap();
    }

    async fn wait(self) {
        self.invite();
        self.are_there.await.unwrap();
    }

    /// Runs a liar beside an honest client on the same thread, so that neither is done before the other has begun. The
    /// others come when the liar has ended.
    async fn after<T>(&self, liar: impl Future<Output = T>) -> T {
        let mut friend = Client::join(&self.access, 2, "friend").await;
        let liar = async {
            let told = liar.await;
            self.invite();
            told
        };
        let help = Box::pin(work(&mut friend, |_, _, _| Speech::Truth));
        let (told, _) = tokio::join!(liar, help);
        told
    }
}

/// The outcome of a job with a liar in it.
struct Aftermath<T> {
    /// The result of the liar.
    told: T,
    /// The last status of the coordinator.
    status: serde_json::Value,
    /// The standard error of the coordinator.
    log: String,
}

/// Runs a job with two honest workers and `liar`, which has a thread of its own, and asserts that
/// nobody is worse off for it.
fn outlive<T: Send>(
    range_bits: u32,
    liar: impl AsyncFnOnce(&Access, Others) -> T + Send,
) -> Aftermath<T> {
    outlive_with(2, 1, range_bits, liar)
}

/// Like [`outlive`], with more replicas and with leases divided by `haste`.
fn outlive_with<T: Send>(
    replicas: u32,
    haste: u32,
    range_bits: u32,
    liar: impl AsyncFnOnce(&Access, Others) -> T + Send,
) -> Aftermath<T> {
    let args = ["--replicas", &replicas.to_string()];
    let mut cluster = Job::start_in_haste(haste, BITS, range_bits, &args);
    let access = cluster.access_of("liar");
    let (may_come, they_may_come) = mpsc::channel();
    let (they_are_there, are_there) = oneshot::channel();
    let others = Others {
        may_come,
        are_there,
        access: cluster.access_of("honest-direct"),
    };
    let told = std::thread::scope(|scope| {
        let liar = scope.spawn(move || block_on(liar(&access, others)));
        // A liar that is gone without a word has failed, and its failure is told below.
        let _ = they_may_come.recv_timeout(HANG);
        let honest = ["honest-direct", "honest-proxied"].map(|name| cluster.start_worker(name));
        cluster.wait_until("the honest workers", |cluster| {
            let status = cluster.status();
            let workers = status["workers"].as_array().unwrap().iter();
            let names = workers.map(|worker| worker["name"].as_str().unwrap());
            let there = names.filter(|name| name.starts_with("honest")).count();
            there == 2 || status["phase"] == "finished"
        });
        let _ = they_are_there.send(());
        let manifest = cluster.published();
        assert_eq!(manifest["fingerprint"], FINGERPRINT_24, "{}", cluster.log());
        assert_eq!(manifest["replicas"], replicas);
        let table = Table::open(cluster.manifest_path().parent().unwrap()).unwrap();
        table.verify_bytes().unwrap();
        honest.into_iter().for_each(assert_content);
        liar.join().expect("the liar tells what it did")
    });
    let mut status = cluster.status();
    cluster.wait_until("the end of the job", |cluster| {
        status = cluster.status();
        status["phase"] == "finished"
    });
    let peak = cluster.peak_bytes();
    assert!(peak < PEAK_BYTES_MAX, "{peak} bytes");
    let log = cluster.stop();
    assert_nobody_honest_was_blamed(&log);
    Aftermath { told, status, log }
}

impl<T> Aftermath<T> {
    /// Asserts that the coordinator says of the worker called `name` that it gets no more tasks,
    /// because of `why`.
    fn assert_named(&self, name: &str, why: &str) {
        let of = format!("worker {name} (participant ");
        let named = |line: &&str| line.contains(&of) && line.contains("gets no more tasks");
        let line = self.log.lines().find(named);
        assert!(line.is_some_and(|line| line.contains(why)), "{}", self.log);
        let workers = self.status["workers"].as_array().unwrap();
        let named = workers.iter().any(|worker| {
            let reason = worker["quarantined"].as_str();
            worker["name"] == name && reason.is_some_and(|reason| reason.contains(why))
        });
        assert!(named, "{}", self.status);
    }
}

const LIED: &str = "sent a wrong content of range";
/// The least number of misshapen results that are refused without a look into the part.
const SEEN_AT_ONCE: usize = 18;

#[test]
fn a_wrong_bit_now_and_then() {
    let aftermath = outlive(12, async |access, others| {
        let mut client = Client::join(access, 1, "liar").await;
        let mut random = Rng(1);
        let mut tasks = 0;
        let lies = work(&mut client, |client, _, truth| {
            tasks += 1;
            if tasks % 3 != 0 {
                return Speech::Truth;
            }
            let some = random.index(truth.len()).unwrap();
            changed(truth, |ranges| flip(&mut ranges[some], client, &mut random))
        });
        others.after(Box::pin(lies)).await
    });
    aftermath.told.assert_expelled();
    assert!(aftermath.told.tasks >= 3);
    aftermath.assert_named("liar", LIED);
}

/// While nobody else is there to contradict it, it lies about all it can get; from then on it
/// tells the truth.
#[test]
fn wrong_as_long_as_it_is_alone() {
    let aftermath = outlive(14, async |access, others| {
        let mut client = Client::join(access, 1, "liar").await;
        let mut random = Rng(2);
        let mut deeds = Deeds::default();
        while deeds.tasks == 0 {
            let task = deeds.next_task(&mut client).await;
            let task = task.expect("there is a task for the first worker");
            let lie = |client: &Client, _: &v1::Task, truth: &[Range]| {
                changed(truth, |ranges| flip(&mut ranges[0], client, &mut random))
            };
            say(&mut client, &task, lie, &mut deeds).await;
        }
        others.wait().await;
        let end = work(&mut client, |_, _, _| Speech::Truth).await.end;
        Deeds { end, ..deeds }
    });
    aftermath.told.assert_expelled();
    aftermath.assert_named("liar", LIED);
}

#[test]
fn the_content_of_another_range() {
    let aftermath = outlive(12, async |access, others| {
        let mut client = Client::join(access, 1, "liar").await;
        let mut last = Range::default();
        let lies = work(&mut client, |_, _, truth| {
            let head = truth[0].head;
            let last = std::mem::replace(&mut last, truth[0].clone());
            let other = Range { head, ..last };
            if other == truth[0] || other.losing.is_empty() {
                return Speech::Truth;
            }
            changed(truth, |ranges| ranges[0] = other)
        });
        others.after(Box::pin(lies)).await
    });
    aftermath.told.assert_expelled();
    aftermath.assert_named("liar", LIED);
}

/// Each of the misshapen results once, with true ones between them, so that all get their turn. What is
/// said of the last ones looks true, and can be the content that is taken: then the records are lost,
/// and the ranges are computed again.
#[test]
fn results_that_are_none() {
    let aftermath = outlive(12, async |access, others| {
        let mut client = Client::join(access, 1, "liar").await;
        let mut tasks = 0;
        let mut tried = Vec::new();
        let results = work(&mut client, |client, _, truth| {
            tasks += 1;
            if tasks % 2 == 0 || tried.len() == MISSHAPEN.len() {
                return Speech::Truth;
            }
            let name = MISSHAPEN[tried.len()];
            tried.push(name);
            if tried.len() > SEEN_AT_ONCE {
                // From now on records may be lost, which others report.
                others.invite();
            }
            misshapen(name, client, truth, BITS)
        });
        let deeds = others.after(Box::pin(results)).await;
        (deeds, tried)
    });
    let (deeds, tried) = &aftermath.told;
    assert!(tried.len() > SEEN_AT_ONCE, "not all of them: {tried:?}");
    assert!(deeds.refusals.len() >= SEEN_AT_ONCE, "{deeds:?}");
}

/// It merges as nobody else does, or says what is right and writes something else. Three have to agree, so
/// that it has its turn.
#[test]
fn shards_that_are_wrong() {
    let job = |lie: fn(&mut ShardSummary, &mut Vec<u8>)| {
        outlive_with(3, 1, 16, async move |access, others| {
            let mut client = Client::join(access, 1, "liar").await;
            others.wait().await;
            let mut deeds = Deeds::default();
            while let Some(task) = deeds.next_task(&mut client).await {
                if !matches!(task.work, Some(Work::Merge(_))) {
                    say(&mut client, &task, |_, _, _| Speech::Truth, &mut deeds).await;
                    continue;
                }
                let (mut merged, bytes) = client.merge(&task, BITS).await;
                let mut bytes = bytes.to_vec();
                lie(&mut merged, &mut bytes);
                deeds.lies += 1;
                let put = client.put_shard(bytes.into()).await;
                let answer = client.say(&task, None, Some(is_merged(&merged))).await;
                deeds.refusals.push(format!("{put:?} {answer:?}"));
            }
            deeds
        })
    };
    let other = job(|merged, _| merged.leaf.digest.0[7] ^= 1);
    other.told.assert_expelled();
    other.assert_named("liar", "sent a wrong content of shard 0");
    let rotten = job(|_, bytes| bytes[1000] ^= 1);
    assert!(rotten.told.lies > 0, "{:?}", rotten.told);
}

/// It does all that has to be done before, and writes a file of random bytes, of which it says what is right.
#[test]
fn a_shard_that_is_no_shard() {
    let aftermath = outlive_with(1, 1, 16, async |access, others| {
        let mut client = Client::join(access, 1, "liar").await;
        let mut deeds = Deeds::default();
        let task = loop {
            let task = deeds.next_task(&mut client).await.expect("it is trusted");
            if matches!(task.work, Some(Work::Merge(_))) {
                break task;
            }
            say(&mut client, &task, |_, _, _| Speech::Truth, &mut deeds).await;
        };
        let (mut merged, bytes) = client.merge(&task, BITS).await;
        let mut random = Rng(5);
        let noise = bytes.iter().map(|_| (random.below(256) & 0xff) as u8);
        let noise: Bytes = noise.collect();
        merged.shard.as_mut().unwrap().sha256 = Digest::of(&noise);
        let (status, text) = client.put_shard(noise).await;
        assert_eq!(status, StatusCode::CREATED, "{text}");
        // A second lease on a shard is given when the first has stood for long, and no third one. While this one stands
        // nobody merges before the liar has spoken, however long the others take to come.
        let mut witness = Client::join(&others.access, 2, "witness").await;
        let second = Deeds::default().next_task(&mut witness).await;
        let second = second.expect("the shard is not done");
        let mut are_there = pin!(others.wait());
        loop {
            tokio::select! {
                () = &mut are_there => break,
                () = tokio::time::sleep(Duration::from_secs(1)) => {
                    client.renew(vec![task.lease]).await.unwrap();
                    witness.renew(vec![second.lease]).await.unwrap();
                }
            }
        }
        let said = client.say(&task, None, Some(is_merged(&merged))).await;
        said.unwrap()
    });
    let told = &aftermath.told;
    assert!(matches!(told, Verdict::Accepted(_)), "{told:?}");
    aftermath.assert_named("liar", "sent a wrong content of shard 0");
}

impl Client {
    /// Puts the only shard.
    async fn put_shard(&self, bytes: Bytes) -> (StatusCode, String) {
        let key = published::key(&folder_name(BITS), &shard_name(0)).unwrap();
        self.link.put(self.worker, &key, bytes).await
    }
}

fn is_merged(merged: &ShardSummary) -> Said {
    let json = merged.to_json();
    Said::Merged(v1::Merged {
        json,
        is_forged: false,
    })
}

#[test]
fn strangers_and_latecomers() {
    let aftermath = outlive(14, async |access, others| {
        let mut link = connect(access).await;
        let wrong: [fn(&mut v1::JoinRequest); 6] = [
            |hello| hello.protocol = 2,
            |hello| hello.format = 1,
            |hello| hello.kernel = vec![7; 32],
            |hello| hello.kernel.clear(),
            |hello| hello.threads = u32::MAX,
            |hello| hello.name = "a\nb".to_owned(),
        ];
        for spoil in wrong {
            let mut request = hello(1, "liar");
            spoil(&mut request);
            let refused = link.rpc.join(request.clone()).await.expect_err("refused");
            let unfit = [Code::FailedPrecondition, Code::InvalidArgument];
            let is_unfit = unfit.contains(&refused.code());
            assert!(is_unfit, "{request:?}: {refused:?}");
        }
        let mut client = Client::join(access, 1, "liar").await;
        // Under another number nobody has joined.
        client.worker = 2;
        let refused = client.lease().await;
        let is_unknown = |status: &Status| status.code() == Code::NotFound;
        let is_right = matches!(&refused, Offer::Refused(status) if is_unknown(status));
        assert!(is_right, "{refused:?}");
        client.worker = 1;

        let (task, truth) = client.first_task().await;
        // Somebody else's lease is not to be written under, nor is what was written to be replaced.
        let part = client.part(&truth).0;
        let mut stranger = Client::join(access, 3, "liar").await;
        let put = async |client: &Client, bytes| {
            let key = key_of(&task);
            client.link.put(client.worker, &key, bytes).await.0
        };
        assert_eq!(put(&stranger, part.clone()).await, StatusCode::FORBIDDEN);
        assert_eq!(put(&client, part).await, StatusCode::CREATED);
        let other = vec![0; 100].into();
        assert_eq!(put(&client, other).await, StatusCode::PRECONDITION_FAILED);
        let stolen = stranger.say(&task, None, None).await;
        assert!(stolen.is_err(), "{stolen:?}");

        client.give_back(task.lease).await.unwrap();
        assert_eq!(client.renew(vec![task.lease]).await.unwrap(), [task.lease]);
        // A result without a lease counts for nothing, unless it is done already.
        let ranges = client.part(&truth).1;
        let said = Said::Evaluated(v1::Evaluated { ranges });
        let late = client.say(&task, None, Some(said)).await;
        assert!(matches!(late, Ok(Verdict::Rejected(_))), "{late:?}");

        let mut random = Rng(3);
        let mut old = None;
        let lies = async {
            let mut deeds = Deeds::default();
            while let Some(task) = deeds.next_task(&mut client).await {
                // Some of it is said under a lease that ended.
                let is_evaluation = matches!(task.work, Some(Work::Evaluate(_)));
                let old = *old.get_or_insert(task.lease);
                let lease = if is_evaluation && random.below(8) == 0 {
                    client.give_back(task.lease).await.unwrap();
                    old
                } else {
                    task.lease
                };
                let task = v1::Task { lease, ..task };
                let lie = |client: &Client, _: &v1::Task, truth: &[Range]| {
                    if random.below(4) > 0 {
                        return Speech::Truth;
                    }
                    changed(truth, |ranges| flip(&mut ranges[0], client, &mut random))
                };
                say(&mut client, &task, lie, &mut deeds).await;
            }
            deeds
        };
        others.after(Box::pin(lies)).await
    });
    aftermath.told.assert_expelled();
    aftermath.assert_named("liar", LIED);
    // As it stands in the JSON lines of the log.
    let refusals = |name: &str| {
        let text = format!("refused the worker \"{name}\" from 127.0.0.1: ");
        let text = serde_json::Value::from(text).to_string();
        aftermath.log.matches(text.trim_matches('"')).count()
    };
    assert_eq!(refusals("liar"), 5, "{}", aftermath.log);
    assert!(refusals("a\\u000ab") > 0, "{}", aftermath.log);
}

/// It takes tasks, says that it works on them, and never hands anything in. That is no lie, and a
/// slow worker looks the same; others do its work as well.
#[test]
fn one_that_never_submits() {
    /// More would cost a third of a second each, after which others are given the same.
    const TASKS: usize = 3;
    let aftermath = outlive_with(2, 10, 14, async |access, others| {
        let mut client = Client::join(access, 1, "idler").await;
        let mut leases = Vec::new();
        loop {
            if leases.len() < TASKS {
                match client.lease().await {
                    Offer::Task(task) => leases.push(task.lease),
                    Offer::Wait => {}
                    Offer::Finished | Offer::Refused(_) => break,
                }
                // It has its first task before they come.
                others.invite();
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
            // One that had to wait for its next task for too long is forgotten.
            match client.renew(leases.clone()).await {
                Ok(lost) if lost.len() < TASKS => {}
                _ => break,
            }
        }
        leases.len()
    });
    assert!(aftermath.told > 0);
}

/// It takes each task that it can get, and gives it back at once: two honest workers do all the work between them.
#[test]
fn one_that_gives_all_tasks_back() {
    let aftermath = outlive(14, async |access, others| {
        let mut client = Client::join(access, 1, "idler").await;
        let mut given_back = 0;
        let returns = async {
            loop {
                match client.lease().await {
                    Offer::Task(task) => {
                        client.give_back(task.lease).await.unwrap();
                        given_back += 1;
                        // It has had its first task before they come.
                        others.invite();
                    }
                    Offer::Wait => tokio::time::sleep(Duration::from_millis(10)).await,
                    Offer::Finished | Offer::Refused(_) => break,
                }
            }
        };
        arrives("the end of the job", returns).await;
        given_back
    });
    assert!(aftermath.told > 0);
}

/// A hundred identities, each of which says that it has many threads, and lies about its first task.
#[test]
fn one_that_joins_many_times() {
    const IDENTITIES: u64 = 100;
    let aftermath = outlive(14, async |access, others| {
        let mut rpc = connect(access).await.rpc;
        for worker in 1..=IDENTITIES {
            for threads in [1, 1000] {
                let mut request = hello(worker, &format!("liar-{worker}"));
                request.threads = threads;
                rpc.join(request).await.unwrap();
            }
        }
        let mut random = Rng(4);
        let mut client = Client::join(access, 1, "liar-1").await;
        let lies = async {
            let mut expelled = 0;
            for worker in 1..=IDENTITIES {
                client.worker = worker;
                let lie = |client: &Client, _: &v1::Task, truth: &[Range]| {
                    changed(truth, |ranges| flip(&mut ranges[0], client, &mut random))
                };
                if work(&mut client, lie).await.end.is_none() {
                    break;
                }
                expelled += 1;
            }
            expelled
        };
        others.after(Box::pin(lies)).await
    });
    assert!(aftermath.told > 0);
    aftermath.assert_named("liar-1", LIED);
}

/// The message when the finished table contradicts itself.
pub(crate) const CONTRADICTION: &str = "looking for the range that is wrong";

/// Without replicas only checks stand between a liar and the table. What it had delivered by the first that differed is
/// checked. It begins before the others are there, with so many true results, which stay.
fn lies_where_nobody_compares(
    truths: usize,
    mut lie: impl FnMut(&mut Range, &Client, &mut Rng) + Send,
) {
    let aftermath = outlive_with(1, 1, 12, async |access, others| {
        let mut client = Client::join(access, 1, "liar").await;
        others.invite();
        let (mut random, mut tasks) = (Rng(5), 0);
        work(&mut client, |client, _, truth| {
            tasks += 1;
            if tasks <= truths {
                return Speech::Truth;
            }
            changed(truth, |ranges| {
                let ranges = ranges.iter_mut();
                ranges.for_each(|range| lie(range, client, &mut random));
            })
        })
        .await
    });
    aftermath.told.assert_expelled();
    aftermath.assert_named("liar", "sent a wrong content");
    let log = &aftermath.log;
    assert!(!log.contains(CONTRADICTION), "{log}");
}

#[test]
fn one_that_lies_often_where_nobody_compares() {
    for truths in [0, 5] {
        lies_where_nobody_compares(truths, |range, client, random| {
            for _ in 0..range.losing.len().div_ceil(4) {
                let some = random.index(range.losing.len()).unwrap();
                let some = range.losing.indices().nth(some).unwrap();
                // The first is an edge too.
                if some != 0 {
                    flip_at(range, some);
                }
                flip(range, client, random);
            }
        });
    }
}

/// One wrong position in each range is seen like many: checks are of whole ranges.
#[test]
fn one_that_lies_a_little_where_nobody_compares() {
    lies_where_nobody_compares(0, flip);
}
