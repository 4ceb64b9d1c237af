//! Bytes that each decoder must accept, made by the writers of this project.

use std::ops::ControlFlow;
use std::sync::Arc;

use chomp_plan::{ParticipantId, Party, WorkerId};
use chomp_proto::v1::{self, complete_request, lease_reply, task};
use chomp_query::Certificate;
use chomp_store::objects::SimulatedStorage;
use chomp_store::part::{self, PartBuilder};
use chomp_store::{Entry, Finders, Journal, Key, LengthSums, PartName, RangeRow, ShardSummary};
use chomp_table::fingerprint::Leaf;
use chomp_table::shard::{ShardInfo, ShardSize, ShardWriter};
use chomp_table::{Cell, Digest, Head, Range, RangeBits, fuzzing, range};
use chomp_testing::definition::{index_of, losing};
use chomp_testing::tables::{self, words};
use futures_util::FutureExt;
use prost::Message;

/// The bits of the jobs that messages speak of.
pub(crate) const BITS: u32 = 19;

pub(crate) fn range_bits() -> RangeBits {
    RangeBits::new(12).expect("the least")
}

/// In access files: what must not be told.
pub(crate) const SECRET: &str = "chomp-never-0123456789abcdef";

fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("nothing here waits")
}

fn ranges() -> Vec<Range> {
    let all = losing(14);
    let range = |head: usize| {
        let start = head << 11;
        let indices = (0_u32..1 << 11).filter(|&index| all[start + index as usize]);
        let losing: Vec<u32> = indices.collect();
        let edges = u64::from(losing.first() == Some(&0)) << 12 | 5;
        Range {
            head: Head(head as u64),
            losing: losing.into_iter().collect(),
            edges,
        }
    };
    (0..4).map(range).collect()
}

pub(crate) fn records() -> Vec<Vec<u8>> {
    let all = ranges();
    let records = all.iter().map(|range| range::encode(range, range_bits()).1);
    let mut records: Vec<Vec<u8>> = records.collect();
    let few = Range {
        losing: [1, 300, 65_535].into_iter().collect(),
        ..all[1].clone()
    };
    let wide = RangeBits::new(18).expect("within the limits");
    records.push(range::encode(&Range { edges: 0, ..few }, wide).1);
    records
}

fn shard_of(words: &[u64], frame_words: usize) -> (ShardInfo, Leaf, Vec<u8>) {
    let size = ShardSize {
        frame_words,
        shard_words: 1 << 12,
    };
    let mut writer = ShardWriter::new(0, size);
    assert!(writer.push(words).is_empty(), "a shard has room for them");
    writer.finish()
}

pub(crate) fn shards() -> Vec<Vec<u8>> {
    let words = words(12);
    let far: Vec<u64> = (1..40).map(|number| number << 50).collect();
    [(&words[..], 7), (&words, 1 << 12), (&[2], 1), (&far, 16)]
        .map(|(words, frame_words)| shard_of(words, frame_words).2)
        .to_vec()
}

pub(crate) fn indices() -> Vec<Vec<u8>> {
    let words = words(12);
    [7, 100, 1000]
        .map(|frame_words| {
            let (info, _, bytes) = shard_of(&words, frame_words);
            let start = usize::try_from(info.index_offset).expect("a small shard");
            bytes[start..].to_vec()
        })
        .to_vec()
}

/// The blocks of the data frames of a shard, each behind the number of its numbers.
pub(crate) fn class_blocks() -> Vec<Vec<u8>> {
    let words = words(13);
    let pieces = words.chunks(100);
    pieces
        .map(|words| {
            let (info, _, bytes) = shard_of(words, 100);
            let end = usize::try_from(info.index_offset).expect("a small shard");
            let block = fuzzing::frame(&bytes[20..end], 1 << 17).expect("one data frame");
            behind_count(words.len(), &block)
        })
        .collect()
}

pub(crate) fn gap_blocks() -> Vec<Vec<u8>> {
    let near: Vec<u8> = (0..224).collect();
    let far = [224, 69, 254, 255];
    let wide = [&[255, 3][..], &8160_u64.to_le_bytes()].concat();
    vec![
        behind_count(224, &near),
        behind_count(2, &[far[0], far[2], far[1], far[3]]),
        behind_count(2, &wide),
        behind_count(0, &[]),
    ]
}

fn behind_count(count: usize, block: &[u8]) -> Vec<u8> {
    let count = u16::try_from(count).expect("few numbers");
    [&count.to_le_bytes()[..], block].concat()
}

pub(crate) fn frames() -> Vec<Vec<u8>> {
    let blocks = class_blocks();
    let blocks = blocks.iter().take(3).map(|block| &block[2..]);
    let all = blocks.chain([&[][..], &[7; 5000]]);
    all.map(fuzzing::compressed).collect()
}

fn manifest(bits: u32, shard_words: usize) -> Vec<u8> {
    let size = ShardSize {
        frame_words: 16,
        shard_words,
    };
    let (manifest, _) = tables::shards(bits, size, &words(bits));
    manifest.to_bytes()
}

/// The output of `chomp box --json` for boards up to 1x1, and up to 2x3.
pub(crate) fn boxes() -> Vec<Vec<u8>> {
    let solved = |rows: u32, columns: u32, openings: &[(u32, u32, &[[u32; 2]])]| {
        let opening = |(rows, columns, moves): &(u32, u32, &[[u32; 2]])| serde_json::json!({"rows": rows, "columns": columns, "moves": moves});
        let openings: Vec<_> = openings.iter().map(opening).collect();
        let solved = serde_json::json!({
            "rows": rows, "columns": columns, "losing": 1, "digest": Digest::of(&[]), "openings": openings,
        });
        solved.to_string().into_bytes()
    };
    vec![
        solved(1, 1, &[(1, 1, &[])]),
        solved(
            2,
            3,
            &[
                (1, 1, &[]),
                (1, 2, &[[1, 2]]),
                (1, 3, &[[1, 2]]),
                (2, 1, &[[2, 1]]),
                (2, 2, &[[2, 2]]),
                (2, 3, &[[2, 3]]),
            ],
        ),
    ]
}

pub(crate) fn manifests() -> Vec<Vec<u8>> {
    vec![manifest(1, 10), manifest(8, 100), manifest(12, 60)]
}

fn part_of(ranges: &[Range]) -> (Vec<u8>, Vec<part::PlacedRange>) {
    let mut builder = PartBuilder::default();
    for range in ranges {
        let (summary, record) = range::encode(range, range_bits());
        builder.push(summary, &record);
    }
    let (bytes, placed) = builder.finish();
    (bytes.to_vec(), placed)
}

pub(crate) fn parts() -> Vec<Vec<u8>> {
    vec![part_of(&ranges()[1..3]).0]
}

/// Whether the bytes after the header of a part are a range's record, and what the journal says of them comes back.
pub(crate) fn read_part(bytes: &[u8]) -> bool {
    let start = usize::try_from(part::HEADER_BYTES).expect("a few bytes");
    let Some(rest) = bytes.get(start..) else {
        return false;
    };
    // The record ends where the next begins, or with the part.
    let magic = &b"chomprng"[..];
    let next = rest.windows(8).skip(1).position(|at| at == magic);
    let record = &rest[..next.map_or(rest.len(), |at| at + 1)];
    let Ok(summary) = range::summary(record, range_bits()) else {
        return false;
    };
    let placed = part::PlacedRange {
        summary,
        offset: u32::try_from(start).expect("a few bytes"),
        length: u32::try_from(record.len()).expect("a small part"),
    };
    if placed.validate(range_bits()).is_err() {
        return false;
    }
    let row = RangeRow {
        layer: summary.head.layer(),
        lease: 1,
        offset: placed.offset,
        length: placed.length,
        replicas: 1,
        count: summary.count,
        stored: summary.stored,
        digest: summary.digest,
    };
    let storage = SimulatedStorage::new(1);
    let key = row.part().key();
    storage.overwrite(&key, bytes.to_vec());
    let read = now(part::read_record(&storage, summary.head, &row)).expect("it is there");
    assert_eq!(read, record);
    range::decode_trusting_stored(&read, range_bits()).is_ok()
}

fn merged() -> ShardSummary {
    let (shard, leaf, _) = shard_of(&words(12), 16);
    ShardSummary {
        number: 0,
        shard: Some(shard),
        leaf,
        sums: vec![LengthSums {
            bits: 12,
            losing: 9,
            mirror_sum: 3,
        }],
    }
}

fn finders(participants: &[u32]) -> Finders {
    let finders = participants.iter().map(|&of| WorkerId::new(of, 9));
    Finders::new(2, finders)
}

fn entries() -> Vec<Entry> {
    let (_, placed) = part_of(&ranges());
    let part = PartName {
        layer: placed[1].summary.head.layer(),
        lease: 7,
    };
    vec![
        Entry::Done {
            part,
            replicas: 2,
            finders: finders(&[1]),
            ranges: placed[1..2].to_vec(),
        },
        Entry::Withdrawn {
            heads: vec![Head(2), Head(9)],
        },
        Entry::Done {
            part,
            replicas: 1,
            finders: finders(&[1]),
            ranges: placed[2..3].to_vec(),
        },
        Entry::Confirmed {
            finders: finders(&[2]),
            heads: vec![Head(1)],
            shards: (BITS, vec![3]),
        },
        Entry::Lost {
            heads: vec![Head(1)],
        },
        Entry::Out {
            party: Party::Participant(ParticipantId(1)),
            reason: "it was wrong".to_owned(),
        },
        Entry::Shard {
            finders: finders(&[1, 3]),
            bits: BITS,
            summary: merged(),
        },
    ]
}

/// The first segment of a journal that has these entries in it.
fn journal(entries: Vec<Entry>) -> Vec<u8> {
    let storage = Arc::new(SimulatedStorage::new(1));
    let opened = Journal::open(storage.clone(), range_bits(), BITS, 5, 6);
    let journal = now(opened).expect("the storage is sound");
    now(journal.append(entries)).expect("the storage is sound");
    let key = Key::new("work/journal/0000000001").expect("a key");
    let mut bytes = storage.objects()[&key].to_vec();
    // As the first: nothing is before it.
    bytes[16..56].fill(0);
    seal(bytes)
}

fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let sealed = bytes.len() - 32;
    let digest = Digest::of(&bytes[..sealed]);
    bytes[sealed..].copy_from_slice(&digest.0);
    bytes
}

pub(crate) fn segments() -> Vec<Vec<u8>> {
    let each = entries().into_iter().map(|entry| vec![entry]);
    let all = each.chain([entries(), vec![Entry::Pruned]]);
    all.map(journal).collect()
}

/// Checkpoints have the entries of segments.
pub(crate) fn checkpoints() -> Vec<Vec<u8>> {
    let as_checkpoint = |mut bytes: Vec<u8>| {
        bytes[..8].copy_from_slice(b"chompchk");
        seal(bytes)
    };
    segments().into_iter().map(as_checkpoint).collect()
}

fn texts<const N: usize>(written: [impl ToString; N]) -> Vec<Vec<u8>> {
    written.map(|one| one.to_string().into_bytes()).to_vec()
}

pub(crate) fn access() -> Vec<Vec<u8>> {
    let ca = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
    let all = serde_json::json!({
        "coordinator": "https://example.org:7777", "ca": ca, "token": SECRET,
    });
    let least = serde_json::json!({ "coordinator": "http://127.0.0.1:1" });
    texts([all, least])
}

pub(crate) fn participants() -> Vec<Vec<u8>> {
    let one = |name: &str, number: u32, revoked: bool| {
        serde_json::json!({
            "name": name, "number": number, "token": format!("{number:064x}"), "revoked": revoked,
        })
    };
    let owner = one("owner", 0, false);
    let list = |participants: Vec<serde_json::Value>| serde_json::json!({ "format": 2, "participants": participants });
    let several = vec![owner.clone(), one("ann", 1, true), one("bob.2", 2, false)];
    texts([list(vec![owner]), list(several)])
}

pub(crate) fn positions() -> Vec<Vec<u8>> {
    texts(["5,4,2,1", "8x10", "0", "1,1,1", "32x32"])
}

pub(crate) fn certificates() -> Vec<Vec<u8>> {
    let losing = losing(9);
    let found = [
        ((2, 2), (2, 2)),
        ((1, 5), (1, 2)),
        ((3, 4), (2, 3)),
        ((4, 5), (3, 3)),
    ];
    let written = found.map(|(board, (row, column))| {
        let is_losing = |word| losing[index_of(word)];
        let found = Certificate::find(board, Cell { row, column }, &is_losing, &mut |_, _| {
            ControlFlow::Continue(())
        });
        let found = found.expect("a first move").expect("one that wins");
        found.certificate
    });
    texts(written)
}

pub(crate) fn range_headers() -> Vec<Vec<u8>> {
    texts(["bytes=0-99", "bytes=5-", "bytes=-7", "bytes = 999-999"])
}

fn wire(placed: &part::PlacedRange) -> v1::Summary {
    let summary = &placed.summary;
    v1::Summary {
        head: summary.head.0,
        count: summary.count,
        stored: summary.stored,
        digest: summary.digest.0.to_vec(),
        offset: placed.offset,
        length: placed.length,
    }
}

pub(crate) fn results() -> Vec<Vec<u8>> {
    let (_, placed) = part_of(&ranges());
    let ranges: Vec<v1::Summary> = placed.iter().map(wire).collect();
    let json = merged().to_json();
    [
        complete_request::Result::Evaluated(v1::Evaluated { ranges }),
        complete_request::Result::Merged(v1::Merged {
            json,
            is_forged: false,
        }),
    ]
    .map(|result| {
        let request = v1::CompleteRequest {
            worker: 1,
            lease: 2,
            result: Some(result),
            next: true,
        };
        request.encode_to_vec()
    })
    .to_vec()
}

pub(crate) fn answers() -> Vec<Vec<u8>> {
    let merge = |written| {
        task::Work::Merge(v1::Merge {
            shard: 0,
            head: 5,
            skip: 10,
            written,
        })
    };
    let written = v1::Written {
        json: merged().to_json(),
    };
    let works = [
        task::Work::Evaluate(v1::Evaluate {
            layer: 3,
            heads: vec![3, 4],
            is_check: false,
        }),
        merge(None),
        merge(Some(written)),
    ];
    let tasks = works.map(|work| {
        lease_reply::Answer::Task(v1::Task {
            lease: 9,
            journal: 3,
            work: Some(work),
            attempt: 1,
        })
    });
    let others = [
        lease_reply::Answer::Wait(v1::Wait {}),
        lease_reply::Answer::Finished(v1::Finished {}),
    ];
    let all = tasks.into_iter().chain(others).map(Some);
    all.map(|answer| v1::LeaseReply { answer }.encode_to_vec())
        .collect()
}
