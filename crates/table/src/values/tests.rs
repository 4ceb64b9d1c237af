//! Shards, manifest and reader of tables of values. The values are made up: what they mean does not matter here.

mod manifests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::manifest::{ValuesManifest, values_folder_name};
use super::shard::{ValueShardInfo, ValueShardSize, ValueShardWriter, decode_shard};
use super::*;
use crate::format::FormatError;
use crate::gaps;
use crate::manifest::{MANIFEST_NAME, SHA256SUMS_NAME};
use crate::partition::{Partition, count, count_representatives};
use crate::reader::{AnyManifest, FileSlice, Files, locate};
use crate::rng::mix;
use crate::shard::Index;
use crate::{Digest, TableError};

const SMALL: ValueShardSize = ValueShardSize {
    frame_bits: 5,
    shard_bits: 8,
};

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

/// A number below the area, the same for both of a mirror pair.
fn made_up(position: &Partition) -> u8 {
    let area = position.area();
    let seed = u64::from(area) << 32 | position.clone().representative().rank();
    u8::try_from(mix(seed) % u64::from(area)).unwrap()
}

fn area(tiles: u32) -> Vec<u8> {
    let positions = (0..count(tiles)).map(|rank| Partition::at(tiles, rank));
    positions.map(|position| made_up(&position)).collect()
}

/// The shards of a table, and what a manifest says about them.
fn shards(tiles: u32) -> Vec<(ValueShardInfo, Vec<u8>)> {
    let spans = (0..).zip(SMALL.spans(tiles));
    let shard = |(number, span): (usize, shard::ShardSpan)| {
        let values = area(span.area);
        let values = &values[size(span.ranks.start)..size(span.ranks.end)];
        let mut writer = ValueShardWriter::new(number, span);
        let (some, others) = values.split_at(values.len() / 3);
        writer.push(some);
        writer.push(others);
        writer.finish()
    };
    spans.map(shard).collect()
}

fn manifest(tiles: u32, shards: &[(ValueShardInfo, Vec<u8>)]) -> ValuesManifest {
    let infos = shards.iter().map(|(info, _)| info.clone()).collect();
    ValuesManifest::new(tiles, SMALL, 1, "chomp 0.1.0".into(), infos).unwrap()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a folder that only this test sees"
)]
fn publish(folder: &Path, manifest: &ValuesManifest, shards: &[(ValueShardInfo, Vec<u8>)]) {
    std::fs::create_dir_all(folder).unwrap();
    for (info, bytes) in shards {
        std::fs::write(folder.join(&info.name), bytes).unwrap();
    }
    let bytes = manifest.to_bytes();
    std::fs::write(folder.join(SHA256SUMS_NAME), manifest.sha256sums(&bytes)).unwrap();
    std::fs::write(folder.join(MANIFEST_NAME), bytes).unwrap();
}

#[test]
fn a_table_answers_for_both_of_each_mirror_pair() {
    let directory = tempfile::tempdir().unwrap();
    let tiles = 18;
    let shards = shards(tiles);
    let manifest = manifest(tiles, &shards);
    publish(&directory.path().join("values-007"), &manifest, &[]);
    publish(
        &directory.path().join(values_folder_name(tiles)),
        &manifest,
        &shards,
    );
    let table = Values::open(directory.path()).unwrap();
    assert_eq!(table.manifest(), &manifest);
    let folder = locate(directory.path()).unwrap();
    assert_eq!(folder, directory.path().join("values-018"));
    for tiles in 1..=tiles {
        assert_eq!(table.area(tiles).unwrap(), area(tiles));
        let positions = (0..count(tiles)).map(|rank| Partition::at(tiles, rank));
        let positions: Vec<Partition> = positions.collect();
        assert_eq!(table.values(&positions).unwrap(), area(tiles));
    }
    let one_by_one = Values::open(&directory.path().join("values-018")).unwrap();
    for rank in (0..count(tiles)).rev().step_by(7) {
        let position = Partition::at(tiles, rank);
        assert_eq!(one_by_one.value(&position).unwrap(), made_up(&position));
    }
    for tiles in [0, 19] {
        let of_one = table.value(&Partition::first(tiles)).map(drop);
        for refused in [of_one, table.area(tiles).map(drop)] {
            let error = refused.unwrap_err().to_string();
            let expected = format!("has {tiles} tiles, and the table covers those of 1 to 18");
            assert!(error.contains(&expected), "{error}");
        }
    }
    assert!(matches!(
        Values::open(&directory.path().join("nothing")),
        Err(TableError::NotFound { .. })
    ));
}

/// The files of a table, in memory, and how many slices were asked for at a time.
#[derive(Clone, Debug, Default)]
struct Memory(BTreeMap<String, Vec<u8>>, Arc<Mutex<Vec<usize>>>);

impl Files for Memory {
    fn full_name(&self, name: &str) -> PathBuf {
        name.into()
    }

    fn whole(&self, name: &str, _most: u64) -> Result<Vec<u8>, TableError> {
        Ok(self.0[name].clone())
    }

    fn read_slices(&self, slices: &[FileSlice<'_>]) -> Result<Vec<Vec<u8>>, TableError> {
        self.1.lock().unwrap().push(slices.len());
        let slice = |slice: &FileSlice<'_>| {
            let bytes = &self.0[slice.name];
            let [start, end] = [slice.range.start, slice.range.end].map(size);
            bytes[start..bytes.len().min(end)].to_vec()
        };
        Ok(slices.iter().map(slice).collect())
    }
}

fn in_memory(manifest: &ValuesManifest, shards: Vec<(ValueShardInfo, Vec<u8>)>) -> Memory {
    let mut files = Memory::default();
    let bytes = manifest.to_bytes();
    let sums = manifest.sha256sums(&bytes).into_bytes();
    files.0.insert(SHA256SUMS_NAME.into(), sums);
    files.0.insert(MANIFEST_NAME.into(), bytes);
    let shards = shards.into_iter().map(|(info, bytes)| (info.name, bytes));
    files.0.extend(shards);
    files
}

/// As many indices as there is room for are not read again, those used last; and of many frames no more are read
/// together than 64.
#[test]
fn indices_and_frames_in_memory_are_bounded() {
    let tiles = 23;
    let shards = shards(tiles);
    let manifest = manifest(tiles, &shards);
    let files = in_memory(&manifest, shards);
    let asked = Arc::clone(&files.1);
    let open = || Values::from_files(Box::new(files.clone()), Some(tiles)).unwrap();
    // Each of these areas has a shard of its own, with two to four frames; only the last one asked for is there.
    let ask = |table: &Values, tiles| {
        let last = Partition::at(tiles, 40);
        asked.lock().unwrap().clear();
        assert_eq!(table.value(&last).unwrap(), made_up(&last));
        asked.lock().unwrap().iter().sum::<usize>()
    };
    let frames = [11, 12, 13].map(|area| SMALL.spans_of(area).next().unwrap().frames());
    assert_eq!(frames, [2, 3, 4]);
    let index = |frames: usize| (size_of::<shard::ValueShardIndex>() + 40 * frames + 8) as u64;
    for (bytes, kept) in [
        (index(3) + index(4), true),
        (index(3) + index(4) - 1, false),
    ] {
        let table = open().keeping(bytes, 0);
        // The index and the frame, or the frame alone.
        assert_eq!([11, 12, 13].map(|area| ask(&table, area)), [2, 2, 2]);
        assert_eq!(ask(&table, 12), if kept { 1 } else { 2 }, "{bytes}");
        assert_eq!(ask(&table, 11), 2, "{bytes}");
    }

    let all: Vec<Partition> = (1..=tiles)
        .flat_map(|tiles| (0..count(tiles)).map(move |rank| Partition::at(tiles, rank)))
        .collect();
    asked.lock().unwrap().clear();
    let values: Vec<u8> = (1..=tiles).flat_map(area).collect();
    assert_eq!(open().values(&all).unwrap(), values);
    assert_eq!(asked.lock().unwrap().iter().max(), Some(&64));
}

#[test]
fn every_byte_is_checked() {
    let tiles = 11;
    let shards = shards(tiles);
    let manifest = manifest(tiles, &shards);
    let mut files = in_memory(&manifest, shards);
    let column = Partition::first(tiles);
    let check = |files: &Memory| {
        let table = Values::from_files(Box::new(files.clone()), Some(tiles))?;
        let answer = table.value(&column);
        assert!(answer.is_err() || answer.unwrap() == made_up(&column));
        (0..manifest.shards().count()).try_for_each(|shard| table.read_shard(shard).map(drop))
    };
    assert!(check(&files).is_ok());
    for (name, bytes) in files.0.clone() {
        for at in 0..bytes.len() {
            files.0.get_mut(&name).unwrap()[at] ^= 1;
            assert!(check(&files).is_err(), "{name} {at}");
            files.0.get_mut(&name).unwrap()[at] ^= 1;
        }
        files.0.insert(name.clone(), bytes[1..].to_vec());
        assert!(check(&files).is_err(), "{name}");
        files.0.insert(name, bytes);
    }
}

/// A shard of zeros at the span, and what a manifest says about it.
fn zeros(span: &shard::ShardSpan) -> (ValueShardInfo, Vec<u8>) {
    let mut writer = ValueShardWriter::new(0, span.clone());
    writer.push(&vec![0; size(span.ranks.end - span.ranks.start)]);
    writer.finish()
}

/// Also the one that `sha256sum -c` compares, when nothing else is wrong.
#[test]
fn the_digest_of_a_whole_shard_is_compared() {
    let tiles = 11;
    let (info, bytes) = shards(tiles).pop().unwrap();
    let span = SMALL.spans(tiles).last().unwrap();
    assert!(decode_shard(&bytes, &info, &span).is_ok());
    let sha256 = Digest::of(b"something else");
    let other = ValueShardInfo { sha256, ..info };
    let error = decode_shard(&bytes, &other, &span).unwrap_err();
    assert!(error.to_string().starts_with("the shard has the SHA-256"));
}

/// Changes the index of a shard at a byte of it. All digests are those of the new bytes.
fn forged(span: &shard::ShardSpan, at: usize, with: &[u8]) -> (ValueShardInfo, Vec<u8>) {
    let (mut info, mut bytes) = zeros(span);
    let index = size(info.index_offset);
    bytes[index + at..index + at + with.len()].copy_from_slice(with);
    info.index_sha256 = Digest::of(&bytes[index..]);
    info.sha256 = Digest::of(&bytes);
    (info, bytes)
}

#[test]
fn frames_with_other_values_than_their_ranks_have_are_refused() {
    let spans: Vec<_> = SMALL.spans(22).filter(|span| span.area == 22).collect();
    let (first, later) = (&spans[0], &spans[2]);
    let (info, bytes) = zeros(later);
    assert!(decode_shard(&bytes, &info, later).is_ok());
    assert!(decode_shard(&bytes, &info, first).is_err());
    for change in [
        |info: &mut ValueShardInfo| info.positions_by_value.push(1),
        |info: &mut ValueShardInfo| info.stored -= 1,
        |info: &mut ValueShardInfo| info.values_sha256 = Digest::of(b""),
    ] {
        let mut other = info.clone();
        change(&mut other);
        let refused = decode_shard(&bytes, &other, later).unwrap_err();
        assert!(refused.to_string().contains("manifest"), "{refused}");
    }
    // The index says that it is that of other ranks, of the same area and as many frames.
    for (from, to) in [(first, later), (later, first)] {
        let (info, bytes) = forged(from, 24, &to.ranks.start.to_le_bytes());
        let index = &bytes[size(info.index_offset)..];
        assert!(shard::ValueShardIndex::parse(index, &info, to).is_ok());
        let error = decode_shard(&bytes, &info, to).unwrap_err().to_string();
        assert!(error.contains("frame 0 has"), "{error}");
    }
}

#[test]
fn indices_that_do_not_fit_are_refused() {
    let span = SMALL.spans(22).find(|span| span.area == 22).unwrap();
    let length = zeros(&span).1[size(zeros(&span).0.index_offset) + 40];
    for (at, with) in [
        (0, 0),
        (4, 0),
        (20, 21),
        (24, 1),
        (32, 4),
        (36, 7),
        (36, 9),
        (40, length + 1),
        (40, length - 1),
        (42, 1),
    ] {
        let (info, bytes) = forged(&span, at, &[with]);
        let index = &bytes[size(info.index_offset)..];
        let parsed = shard::ValueShardIndex::parse(index, &info, &span);
        assert!(
            matches!(parsed, Err(FormatError::Damaged(_))),
            "{at} {with}"
        );
    }
    let (info, bytes) = forged(&span, 16, &[2]);
    let newer = decode_shard(&bytes, &info, &span);
    assert!(matches!(newer, Err(FormatError::Newer { .. })));
}

/// The longest frame depends on the number of its ranks, and not on where they are.
#[test]
fn later_frames_have_no_more_than_the_first() {
    let span = SMALL.spans(22).find(|span| span.area == 22).unwrap();
    let parse = |(info, bytes): &(ValueShardInfo, Vec<u8>)| {
        shard::ValueShardIndex::parse(&bytes[size(info.index_offset)..], info, &span)
    };
    let info = zeros(&span).0;
    let data = size(info.index_offset) - 20;
    let entry =
        |length: usize| [&u32::try_from(length).unwrap().to_le_bytes()[..], &[0; 32]].concat();
    for (length, fits) in [(96, true), (97, false)] {
        let lengths = [0, length, 0, 0, 0, 0, 0, data - length];
        let entries = lengths.map(entry).concat();
        assert_eq!(
            parse(&forged(&span, 40, &entries)).is_ok(),
            fits,
            "{length}"
        );
    }
    // As long as the frame in its span, but of 40 values.
    let frame = gaps::compress(&[0; 40], 40);
    let digest = Digest::of(&frame).0;
    let index = parse(&forged(&span, 40 + 36 + 4, &digest)).unwrap();
    let location = index.location(1);
    assert_eq!(location.end - location.start, frame.len() as u64);
    let error = index.decode_frame(1, &frame).unwrap_err().to_string();
    assert!(!error.contains("SHA-256"), "{error}");
}

#[test]
fn frames_of_the_published_size_may_be_as_long_as_they_are() {
    let span = ValueShardSize::PUBLISHED.spans_of(32).next().unwrap();
    let mut writer = ValueShardWriter::new(31, span.clone());
    writer.push(&area(32));
    let (info, bytes) = writer.finish();
    assert!(info.bytes > 1_000, "noise");
    assert_eq!(info.check(&span), Ok(()));
    assert!(decode_shard(&bytes, &info, &span).is_ok());
}
