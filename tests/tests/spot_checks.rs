//! A worker lies where no other computes the same: the spot checks find it, and no wrong table is
//! published.

mod common;
mod peers;

use std::fs;
use std::sync::mpsc;

use chomp_table::Range;
use common::{FINGERPRINT_24, wait};
use peers::client::Client;
use peers::lies::{Deeds, Speech, flip, work};
use peers::{Cluster, Random, assert_content, block_on};

const BITS: u32 = 24;

/// Without replicas only the spot checks stand between a liar and the table. Of this liar's ranges one
/// in four losing positions is missing, and as many are made up. A check of one of them looks at
/// eight positions that are said to be losing: all eight are true with a probability of
/// 0.75^8 = 0.1, and a made-up one passes only if none of the losing positions that its moves lead
/// to is at hand. So it is seen in most of its submissions, and that it gets away with all of
/// them, dozens, is out of the question. What it had delivered by then is evaluated again.
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
        job.assert_no_harm();
    }
}

/// With one wrong position in each range a lie is often not seen at once, but not all of hundreds of
/// lies: a check looks at 41 of 2048 positions, most of them near losing ones, so that one in fifty
/// lies is seen at the least. Then all that the liar delivered is evaluated again, and found wrong.
#[test]
fn one_that_lies_a_little_where_nobody_compares() {
    let job = LoneJob::run(|client, random, _, truth| {
        let mut ranges = truth.to_vec();
        for range in &mut ranges {
            flip(range, client.range_bits.positions(), random);
        }
        Speech::Ranges(ranges)
    });
    job.assert_no_harm();
}

/// A job without replicas that a liar takes part in.
struct LoneJob {
    cluster: Cluster,
    deeds: Deeds,
    /// The exit code of the coordinator, unless the table was published.
    code: Option<i32>,
}

impl LoneJob {
    fn run(
        mut speech: impl FnMut(&Client, &mut Random, usize, &[Range]) -> Speech + Send,
    ) -> LoneJob {
        let mut cluster = Cluster::start(BITS, &["--range-bits", "12"]);
        let access = cluster.access.clone();
        let (joined, has_joined) = mpsc::channel();
        let (code, deeds) = std::thread::scope(|scope| {
            let liar = scope.spawn(move || {
                block_on(async {
                    let mut client = Client::join(&access, 1, "liar").await;
                    joined.send(()).unwrap();
                    let (mut random, mut tasks) = (Random(5), 0);
                    work(&mut client, |client, _, truth| {
                        tasks += 1;
                        speech(client, &mut random, tasks, truth)
                    })
                    .await
                })
            });
            has_joined.recv().unwrap();
            let mut honest = cluster.worker("honest");
            let code = cluster.published_or_ended();
            // If the job stopped, it would wait for another one.
            honest.kill().unwrap();
            wait(honest);
            (code, liar.join().unwrap())
        });
        LoneJob {
            cluster,
            deeds,
            code,
        }
    }

    /// Asserts that the liar was found, and that the table is right: at once, or after what the
    /// coordinator says when it stops.
    fn assert_no_harm(self) {
        let LoneJob {
            mut cluster,
            deeds,
            code,
        } = self;
        assert!(deeds.lies > 0, "{deeds:?}");
        let log = cluster.log();
        assert!(log.contains("worker liar gets no more tasks"), "{log}");
        if let Some(code) = code {
            assert_eq!(code, 3, "{log}");
            assert!(!cluster.manifest_path().try_exists().unwrap(), "{log}");
            let line = log
                .lines()
                .find(|line| line.contains("is wrong: evaluated anew"));
            let line = line.unwrap_or_else(|| panic!("no reason in {log}"));
            let layer = line.split("remove the folders of layer ").nth(1).unwrap();
            let layer: u32 = layer.split(' ').next().unwrap().parse().unwrap();
            let work = cluster.table().join("work");
            for folder in fs::read_dir(work.join("parts")).unwrap() {
                let folder = folder.unwrap();
                let name = folder.file_name().into_string().unwrap();
                if name.parse::<u32>().unwrap() >= layer {
                    fs::remove_dir_all(folder.path()).unwrap();
                }
            }
            let seals = fs::remove_dir_all(work.join("seals"));
            assert!(seals.is_ok() || layer == 0, "{seals:?}");
            cluster = cluster.restart(&[]);
            let honest = cluster.worker("honest");
            cluster.published();
            assert_content(honest);
        }
        let manifest = cluster.published();
        assert_eq!(manifest["fingerprint"], FINGERPRINT_24);
        assert_eq!(manifest["replicas"], 1);
        cluster.stop();
    }
}
