//! Workers that do not tell the truth.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use chomp_proto::v1::complete_request::Result as Said;
use chomp_proto::v1::task::Work;
use chomp_proto::v1::{self, complete_reply};
use chomp_table::rng::Rng;
use chomp_table::{Head, Range};
use tonic::{Code, Status};

use super::client::{Client, Offer};

/// The result that a worker submits for a task.
#[derive(Clone, Debug)]
pub(crate) enum Speech {
    /// The right one.
    Truth,
    /// Something else, in good form.
    Ranges(Vec<Range>),
    /// Bytes to put, if any, and whatever.
    Other(Option<Bytes>, Option<Said>),
}

/// The tasks and the lies of a worker, and how they were answered.
#[derive(Debug, Default)]
pub(crate) struct Deeds {
    /// The evaluations that it was given.
    pub(crate) tasks: usize,
    /// How often it did not tell the truth.
    pub(crate) lies: usize,
    /// How its lies were answered that were seen at once.
    pub(crate) refusals: Vec<String>,
    /// Why it got no more tasks, if the job was not done.
    pub(crate) end: Option<Status>,
}

impl Deeds {
    /// The next task of the worker, or nothing when the job is done or it gets no more.
    pub(crate) async fn next_task(&mut self, client: &mut Client) -> Option<v1::Task> {
        loop {
            match client.lease().await {
                Offer::Task(task) => return Some(task),
                Offer::Wait => {}
                Offer::Finished => return None,
                Offer::Refused(status) => {
                    self.end = Some(status);
                    return None;
                }
            }
        }
    }

    /// Asserts that it was told to go.
    pub(crate) fn assert_expelled(&self) {
        let code = self.end.as_ref().map(Status::code);
        assert_eq!(code, Some(Code::PermissionDenied), "{self:?}");
        assert!(self.lies > 0, "{self:?}");
    }
}

/// Takes tasks, and says of each evaluation what `speech` makes of the truth, until there are no more.
pub(crate) async fn work(
    client: &mut Client,
    mut speech: impl FnMut(&Client, &v1::Task, &[Range]) -> Speech,
) -> Deeds {
    let mut deeds = Deeds::default();
    while let Some(task) = deeds.next_task(client).await {
        say(client, &task, &mut speech, &mut deeds).await;
    }
    deeds
}

/// Says something about one task. It leaves merging to others.
pub(crate) async fn say(
    client: &mut Client,
    task: &v1::Task,
    mut speech: impl FnMut(&Client, &v1::Task, &[Range]) -> Speech,
    deeds: &mut Deeds,
) {
    let evaluate = match task.work.as_ref().unwrap() {
        Work::Evaluate(evaluate) => evaluate,
        Work::Merge(_) => return leave(client, task).await,
    };
    let Some(truth) = client.evaluate(&evaluate.heads, task.journal).await else {
        return leave(client, task).await;
    };
    deeds.tasks += 1;
    let said = speech(client, task, &truth);
    deeds.lies += usize::from(!matches!(said, Speech::Truth));
    let answer = match said {
        Speech::Truth => client.submit(task, &truth).await,
        Speech::Ranges(ranges) => client.submit(task, &ranges).await,
        Speech::Other(bytes, said) => client.say(task, bytes, said).await,
    };
    match answer {
        Err(status) => deeds.refusals.push(status.to_string()),
        Ok(complete_reply::Verdict::Rejected(v1::Rejected { reason })) => {
            deeds.refusals.push(reason);
        }
        Ok(_) => {}
    }
}

/// Leaves a task to somebody else, who needs a moment to take it.
async fn leave(client: &mut Client, task: &v1::Task) {
    // A lease may have ended meanwhile.
    let _ = client.give_back(task.lease).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
}

/// A lie that is the truth with a change.
pub(crate) fn changed(truth: &[Range], change: impl FnOnce(&mut [Range])) -> Speech {
    let mut ranges = truth.to_vec();
    change(&mut ranges);
    Speech::Ranges(ranges)
}

/// Takes one position of `range` for the opposite of what it is. The first stays: it is an edge
/// too, and a contradiction would be seen at once.
pub(crate) fn flip(range: &mut Range, client: &Client, random: &mut Rng) {
    let positions = client.range_bits.positions();
    let index = u32::try_from(1 + random.below(positions - 1)).unwrap();
    flip_at(range, index);
}

/// Takes the position of this number for the opposite of what it is.
pub(crate) fn flip_at(range: &mut Range, index: u32) {
    let mut losing: BTreeSet<u32> = range.losing.indices().collect();
    if !losing.remove(&index) {
        losing.insert(index);
    }
    range.losing = losing.into_iter().collect();
}

/// The ways to hand in what is no result, by their names. The last ones look like results.
pub(crate) const MISSHAPEN: [&str; 24] = [
    "nothing",
    "no ranges",
    "a range twice",
    "a range of another layer",
    "a range beyond the table",
    "a short digest",
    "no digest",
    "more stored than losing",
    "more losing than there are",
    "a record of no bytes",
    "a record of 4 GiB",
    "a shard that is no JSON",
    "a shard that was not asked for",
    "a hundred thousand ranges",
    "records at other places",
    "a part of no bytes",
    "a part with a byte too many",
    "a part of 48 MiB",
    "a part that was never put",
    "a part with a wrong bit",
    "a part of zeros",
    "another digest",
    "another count",
    "another number of stored positions",
];

/// Says something that is wrong in one of the [`MISSHAPEN`] ways.
pub(crate) fn misshapen(name: &str, client: &Client, truth: &[Range], bits: u32) -> Speech {
    let (bytes, mut ranges) = client.part(truth);
    let mut bytes = Some(bytes);
    let change = |bytes: &mut Option<Bytes>, change: fn(&mut Vec<u8>)| {
        let mut changed = bytes.take().unwrap().to_vec();
        change(&mut changed);
        *bytes = Some(changed.into());
    };
    let merged = |json: &[u8]| {
        let json = json.to_vec();
        Speech::Other(
            None,
            Some(Said::Merged(v1::Merged {
                json,
                is_forged: false,
            })),
        )
    };
    match name {
        "nothing" => return Speech::Other(None, None),
        "no ranges" => ranges.clear(),
        "a range twice" => ranges.push(ranges[0].clone()),
        "a range of another layer" => ranges.push(v1::Summary {
            head: ranges[0].head ^ 1,
            ..ranges[0].clone()
        }),
        "a range beyond the table" => {
            ranges[0].head = Head(1 << (bits - client.range_bits.get())).0;
        }
        "a short digest" => drop(ranges[0].digest.pop()),
        "no digest" => ranges[0].digest.clear(),
        "more stored than losing" => ranges[0].stored = ranges[0].count + 1,
        "more losing than there are" => ranges[0].count = u64::MAX,
        "a record of no bytes" => ranges[0].length = 0,
        "a record of 4 GiB" => (ranges[0].offset, ranges[0].length) = (u32::MAX, u32::MAX),
        "a shard that is no JSON" => return merged(&b"{".repeat(100_000)),
        "a shard that was not asked for" => {
            return merged(
                br#"{"number":0,"shard":null,"leaf":{"words":0,"digest":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","lengths":[]},"sums":[]}"#,
            );
        }
        "a hundred thousand ranges" => {
            let many = (0..100_000).map(|head| v1::Summary {
                head,
                ..ranges[0].clone()
            });
            ranges = many.collect();
        }
        "a part that was never put" => bytes = None,
        "a part of no bytes" => bytes = Some(Bytes::new()),
        "a part with a byte too many" => change(&mut bytes, |bytes| bytes.push(0)),
        "a part of 48 MiB" => change(&mut bytes, |bytes| bytes.resize(48 << 20, 0)),
        "a part with a wrong bit" => change(&mut bytes, |bytes| *bytes.last_mut().unwrap() ^= 1),
        "a part of zeros" => change(&mut bytes, |bytes| bytes.fill(0)),
        "records at other places" => {
            for summary in &mut ranges {
                summary.offset += 1;
            }
        }
        "another digest" => ranges[0].digest[7] ^= 1,
        "another count" => ranges[0].count += 1,
        "another number of stored positions" => ranges[0].stored ^= 1,
        name => panic!("{name} is not misshapen"),
    }
    Speech::Other(bytes, Some(Said::Evaluated(v1::Evaluated { ranges })))
}
