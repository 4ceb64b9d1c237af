//! What a worker may say instead of the truth.

use std::io::Write;
use std::mem::replace;

use bytes::Bytes;
use chomp_proto::v1::{self, submit_reply};
use chomp_table::{Head, Range};
use tonic::{Code, Status};

use super::Random;
use super::client::{Client, Offer, messages};

/// What is said about a task.
#[derive(Clone, Debug)]
pub(crate) enum Speech {
    /// What was found.
    Truth,
    /// Something else, in good form.
    Ranges(Vec<Range>),
    /// Bytes.
    Messages(Vec<v1::SubmitRequest>),
}

/// What a worker did, and what it was told.
#[derive(Debug, Default)]
pub(crate) struct Deeds {
    /// The tasks that it was given.
    pub(crate) tasks: usize,
    /// How often it did not tell the truth.
    pub(crate) lies: usize,
    /// How its lies were answered that were seen at once.
    pub(crate) refusals: Vec<String>,
    /// Why it got no more tasks, if the job was not done.
    pub(crate) end: Option<Status>,
}

impl Deeds {
    /// Asserts that it was told to go.
    pub(crate) fn assert_expelled(&self) {
        let code = self.end.as_ref().map(Status::code);
        assert_eq!(code, Some(Code::PermissionDenied), "{self:?}");
        assert!(self.lies > 0, "{self:?}");
    }
}

/// Takes tasks, and says of each what `speech` makes of the truth, until there are no more.
pub(crate) async fn work(
    client: &mut Client,
    mut speech: impl FnMut(&Client, &v1::Task, &[Range]) -> Speech,
) -> Deeds {
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
        say(client, &task, &mut speech, &mut deeds).await;
    }
}

/// Says something about one task.
pub(crate) async fn say(
    client: &mut Client,
    task: &v1::Task,
    mut speech: impl FnMut(&Client, &v1::Task, &[Range]) -> Speech,
    deeds: &mut Deeds,
) {
    deeds.tasks += 1;
    let truth = match client.evaluate(&task.heads).await {
        Ok(truth) => truth,
        Err(status) => {
            deeds.refusals.push(status.to_string());
            return;
        }
    };
    let said = speech(client, task, &truth);
    deeds.lies += usize::from(!matches!(said, Speech::Truth));
    let answer = match said {
        Speech::Truth => client.submit(task.lease, client.records(&truth)).await,
        Speech::Ranges(ranges) => client.submit(task.lease, client.records(&ranges)).await,
        Speech::Messages(messages) => client.send(messages).await,
    };
    match answer {
        Err(status) => deeds.refusals.push(status.to_string()),
        Ok(submit_reply::Verdict::Rejected(v1::Rejected { reason })) => {
            deeds.refusals.push(reason);
        }
        Ok(_) => {}
    }
}

/// Takes one position of `range` for the opposite of what it is. The first stays: it is an edge
/// too, and a contradiction would be seen at once.
pub(crate) fn flip(range: &mut Range, positions: u64, random: &mut Random) {
    let index = u32::try_from(1 + random.below(positions - 1)).unwrap();
    match range.losing.binary_search(&index) {
        Ok(at) => drop(range.losing.remove(at)),
        Err(at) => range.losing.insert(at, index),
    }
}

/// The ways to hand in what is no result, by their names.
pub(crate) const MISSHAPEN: [&str; 25] = [
    "a record cut short",
    "half a header",
    "a record of no bytes",
    "a wrong digest",
    "another magic",
    "another format version",
    "other range bits",
    "another head inside",
    "a huge count",
    "a wrong frame length",
    "a flipped bit in the frame",
    "more bytes declared than sent",
    "fewer bytes declared than sent",
    "a huge number of bytes declared",
    "records that interrupt each other",
    "a record without end",
    "no header",
    "a range twice",
    "a range of another layer",
    "no ranges",
    "a bomb that says how large it is",
    "a bomb that says it is small",
    "64 MiB of zeros in one record",
    "64 MiB of zeros in many records",
    "a range beyond the table",
];

/// The most bytes that a submission may declare.
const SUBMISSION_BYTES_MAX: usize = 64 << 20;
/// What a bomb becomes.
const BOMB_BYTES: u64 = 1 << 30;

/// A submission that is wrong in one of the [`MISSHAPEN`] ways.
pub(crate) fn misshapen(
    name: &str,
    client: &Client,
    task: &v1::Task,
    truth: &[Range],
    bits: u32,
) -> Vec<v1::SubmitRequest> {
    let mut records = client.records(truth);
    let honest: usize = records.iter().map(|(_, record)| record.len()).sum();
    let mut declared = None;
    // The frame is after 80 bytes; see the layout of a record.
    let change = |records: &mut Vec<(Head, Bytes)>, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = records[0].1.to_vec();
        change(&mut bytes);
        records[0].1 = bytes.into();
    };
    match name {
        "a record cut short" => change(&mut records, &|bytes| bytes.truncate(bytes.len() - 1)),
        "half a header" => change(&mut records, &|bytes| bytes.truncate(40)),
        "a record of no bytes" => change(&mut records, &Vec::clear),
        "a wrong digest" => change(&mut records, &|bytes| bytes[40] ^= 1),
        "another magic" => change(&mut records, &|bytes| bytes[0] ^= 1),
        "another format version" => change(&mut records, &|bytes| bytes[8] += 1),
        "other range bits" => change(&mut records, &|bytes| bytes[12] += 1),
        "another head inside" => change(&mut records, &|bytes| bytes[16] ^= 1),
        "a huge count" => change(&mut records, &|bytes| bytes[32..40].fill(0xff)),
        "a wrong frame length" => change(&mut records, &|bytes| bytes[72] ^= 1),
        "a flipped bit in the frame" => change(&mut records, &|bytes| {
            let middle = usize::midpoint(80, bytes.len());
            bytes[middle] ^= 1;
        }),
        "more bytes declared than sent" => declared = Some(honest as u64 + 1),
        "fewer bytes declared than sent" => declared = Some(honest as u64 - 1),
        "a huge number of bytes declared" => declared = Some(u64::MAX),
        "a range twice" => records.push(records[0].clone()),
        "a range of another layer" => {
            let source = client.sources.keys().next();
            let other = Range {
                head: *source.expect("it has fetched some by now"),
                ..Range::default()
            };
            records.extend(client.records(&[other]));
        }
        "a range beyond the table" => {
            let range = Range {
                head: Head(1 << (bits - client.range_bits.get())),
                ..Range::default()
            };
            records = client.records(&[range]);
        }
        "no ranges" => records.clear(),
        "a bomb that says how large it is" => change(&mut records, &|bytes| {
            put_frame(bytes, &bomb());
        }),
        "a bomb that says it is small" => change(&mut records, &|bytes| {
            // A magic of four bytes, the descriptor, the window; then the size in four bytes.
            let mut frame = bomb();
            let honest_size = u32::try_from(BOMB_BYTES).unwrap().to_le_bytes();
            assert_eq!(frame[6..10], honest_size);
            let count = u32::from_le_bytes(bytes[32..36].try_into().unwrap());
            frame[6..10].copy_from_slice(&(2 * count).to_le_bytes());
            put_frame(bytes, &frame);
        }),
        "64 MiB of zeros in one record" => {
            records = vec![(records[0].0, vec![0; SUBMISSION_BYTES_MAX].into())];
        }
        "64 MiB of zeros in many records" => {
            let zeros = Bytes::from(vec![0; 80]);
            let many = 0..(SUBMISSION_BYTES_MAX / 80) as u64;
            records = many.map(|head| (Head(head), zeros.clone())).collect();
        }
        // What is wrong with these is seen in the messages.
        "records that interrupt each other" | "a record without end" | "no header" => {}
        name => panic!("{name} is not misshapen"),
    }
    let bytes: usize = records.iter().map(|(_, record)| record.len()).sum();
    let declared = declared.unwrap_or(bytes as u64);
    let mut messages = messages(client.worker, task.lease, declared, records);
    match name {
        "records that interrupt each other" => {
            let piece = &mut messages[1].pieces[0];
            let rest = v1::Piece {
                head: piece.head ^ 1,
                data: piece.data.split_off(40),
                last: true,
            };
            let last = replace(&mut piece.last, false);
            assert!(last, "a small record is one piece");
            messages[1].pieces.insert(1, rest);
        }
        "a record without end" => {
            let last = messages.last_mut().and_then(|last| last.pieces.last_mut());
            last.unwrap().last = false;
        }
        "no header" => drop(messages.remove(0)),
        _ => {}
    }
    messages
}

fn put_frame(record: &mut Vec<u8>, frame: &[u8]) {
    record.truncate(72);
    record.extend_from_slice(&(frame.len() as u64).to_le_bytes());
    record.extend_from_slice(frame);
}

/// A short frame of zstd that becomes very long.
fn bomb() -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.set_pledged_src_size(Some(BOMB_BYTES)).unwrap();
    encoder.include_contentsize(true).unwrap();
    let zeros = vec![0; 1 << 20];
    for _ in 0..BOMB_BYTES >> 20 {
        encoder.write_all(&zeros).unwrap();
    }
    encoder.finish().unwrap()
}
