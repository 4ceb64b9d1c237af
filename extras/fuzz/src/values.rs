//! The decoders of tables of Grundy values. The values are made up.

use std::ops::Range;

use chomp_table::Digest;
use chomp_table::partition::{Partition, count};
use chomp_table::shard::Index;
use chomp_table::values::ValuesManifest;
use chomp_table::values::shard::{
    ShardSpan, ValueShardIndex, ValueShardInfo, ValueShardSize, ValueShardWriter, decode_shard,
};
use fastrand::Rng;

use crate::seal::{field, put};

/// The bytes of a shard before its data, of its index before the entries, and of an entry.
const SHARD_HEADER: usize = 20;
const INDEX_HEADER: usize = 40;
const ENTRY: usize = 36;
/// The most bytes of a shard for each of its ranks, in frames of one, and for itself.
const RANK_BYTES_MAX: u64 = 1 + 64 + ENTRY as u64;
const SHARD_BYTES_MAX: u64 = (SHARD_HEADER + INDEX_HEADER) as u64;

fn values(span: &ShardSpan) -> Vec<u8> {
    let value = |rank| rank * 7 % u64::from(span.area.min(5));
    let values = span.ranks.clone().map(value);
    values
        .map(|value| u8::try_from(value).expect("below 5"))
        .collect()
}

fn start_of_index(bytes: &[u8]) -> Option<usize> {
    let name = &b"chompvix"[..];
    let at = bytes.windows(name.len()).rposition(|at| at == name);
    at?.checked_sub(8)
}

/// The ranks of the shard with this index, if a table has such shards.
fn span(index: &[u8]) -> Option<ShardSpan> {
    let number = |at| field(index, at).map(u32::from_le_bytes);
    let (area, frame_bits, frames) = (number(20)?, number(32)?, number(36)?);
    let start = field(index, 24).map(u64::from_le_bytes)?;
    // The most that there may be.
    let shard_bits = frame_bits.saturating_add(10);
    let size = ValueShardSize {
        frame_bits,
        shard_bits,
    };
    if !(1..=120).contains(&area) || !size.is_valid() || start >= count(area) {
        return None;
    }
    let ranks = u64::from(frames) << frame_bits;
    let end = count(area).min(start.checked_add(ranks)?);
    let ranks = start..end;
    let possible = (1..=1 << shard_bits).contains(&(end - start));
    possible.then_some(ShardSpan {
        area,
        ranks,
        frame_bits,
    })
}

/// The manifest's entry for a shard whose values nobody has seen.
fn promised(bytes: &[u8], start: usize) -> ValueShardInfo {
    ValueShardInfo {
        name: "shard-0000.zst".to_owned(),
        stored: 0,
        bytes: bytes.len() as u64,
        sha256: Digest::of(bytes),
        index_offset: start as u64,
        index_sha256: Digest::of(&bytes[start..]),
        values_sha256: Digest::default(),
        positions_by_value: Vec::new(),
    }
}

/// The values in a shard for all its ranks, none where one is missing, and 0 where none belongs; `info` says of them
/// what a liar would. And whether each representative has one, and there are no others.
fn counted(bytes: &[u8], info: &mut ValueShardInfo, span: &ShardSpan) -> Option<(Vec<u8>, bool)> {
    let index = usize::try_from(info.index_offset).expect("in memory");
    let index = ValueShardIndex::parse(&bytes[index..], info, span).ok()?;
    let mut position = Partition::at(span.area, span.ranks.start);
    let (mut all, mut stored, mut counts) = (Vec::new(), Vec::new(), [0; 256]);
    let mut complete = true;
    for number in 0..span.frames() {
        let Range { start, end } = index.location(number);
        let start = usize::try_from(start).ok()?;
        let frame = bytes.get(start..usize::try_from(end).ok()?)?;
        let values = index.decode_frame(number, frame).ok()?;
        stored.extend_from_slice(&values);
        let mut values = values.into_iter();
        for _ in span.frame(number) {
            let positions = position.stands_for();
            position.advance();
            let value = if positions > 0 {
                values.next()
            } else {
                Some(0)
            };
            complete &= value.is_some();
            counts[usize::from(value.unwrap_or_default())] +=
                positions * u64::from(value.is_some());
            info.stored += u64::from(positions > 0 && value.is_some());
            all.extend(value);
        }
        complete &= values.next().is_none();
    }
    info.values_sha256 = Digest::of(&stored);
    let last = counts.iter().rposition(|&count| count > 0);
    info.positions_by_value = counts[..last.map_or(0, |last| last + 1)].to_vec();
    Some((all, complete))
}

/// A shard with the manifest that it would have.
pub(crate) fn shard(bytes: &[u8]) -> bool {
    let Some(start) = start_of_index(bytes) else {
        return false;
    };
    let Some(span) = span(&bytes[start..]) else {
        return false;
    };
    let mut info = promised(bytes, start);
    let counted = counted(bytes, &mut info, &span);
    let Ok(stored) = decode_shard(bytes, &info, &span) else {
        return false;
    };
    let (values, complete) = counted.expect("what is a shard has an index and frames");
    assert!(complete, "a shard has a value for each representative");
    assert_eq!(Digest::of(&stored), info.values_sha256);
    assert_eq!(
        info.check(&span),
        Ok(()),
        "a shard has a size that it can have"
    );
    let mut writer = ValueShardWriter::new(0, span.clone());
    writer.push(&values);
    let (again, bytes) = writer.finish();
    assert_eq!(
        again.values_sha256, info.values_sha256,
        "values have one leaf"
    );
    assert_eq!(again.positions_by_value, info.positions_by_value);
    assert_eq!(decode_shard(&bytes, &again, &span), Ok(stored));
    true
}

fn shards_of(size: ValueShardSize, tiles: u32) -> Vec<(ValueShardInfo, Vec<u8>)> {
    let spans = size.spans(tiles).enumerate();
    let shard = |(number, span)| {
        let values = values(&span);
        let mut writer = ValueShardWriter::new(number, span);
        writer.push(&values);
        writer.finish()
    };
    spans.map(shard).collect()
}

fn size(frame_bits: u32, shard_bits: u32) -> ValueShardSize {
    ValueShardSize {
        frame_bits,
        shard_bits,
    }
}

pub(crate) fn shards() -> Vec<Vec<u8>> {
    let of = |size: ValueShardSize, tiles| shards_of(size, tiles).pop().expect("at least one").1;
    vec![
        of(size(0, 4), 6),
        of(size(3, 6), 12),
        of(size(5, 8), 17),
        of(ValueShardSize::PUBLISHED, 20),
    ]
}

/// Puts the lengths of an index, mostly, and the digests of the data frames.
pub(crate) fn seal_shard(bytes: &mut [u8], rng: &mut Rng) {
    let Some(start) = start_of_index(bytes) else {
        return;
    };
    let (data, index) = bytes.split_at_mut(start);
    if rng.bool() {
        let length = index.len();
        put(index, 4, length - 8);
        put(
            index,
            INDEX_HEADER - 4,
            length.saturating_sub(INDEX_HEADER) / ENTRY,
        );
    }
    let mut at = SHARD_HEADER;
    let entries = index.get_mut(INDEX_HEADER..).unwrap_or_default();
    for entry in entries.chunks_exact_mut(ENTRY) {
        let length = field(entry, 0).map_or(0, u32::from_le_bytes);
        let end = at.saturating_add(length as usize);
        if let Some(frame) = data.get(at..end) {
            entry[4..].copy_from_slice(&Digest::of(frame).0);
        }
        at = end;
    }
}

pub(crate) fn manifest(bytes: &[u8]) -> bool {
    let Ok(manifest) = ValuesManifest::parse(bytes) else {
        return false;
    };
    let again = manifest.to_bytes();
    assert_eq!(ValuesManifest::parse(&again).as_ref(), Ok(&manifest));
    // Nobody fetches more than the values of its tiles can take.
    let promised: u64 = manifest.shards().map(|shard| shard.bytes).sum();
    let ranks: u64 = (1..=manifest.tiles).map(count).sum();
    let most = RANK_BYTES_MAX * ranks + SHARD_BYTES_MAX * manifest.shards().count() as u64;
    assert!(promised <= most, "{promised} bytes");
    true
}

pub(crate) fn manifests() -> Vec<Vec<u8>> {
    [
        (size(0, 0), 3),
        (size(2, 3), 9),
        (ValueShardSize::PUBLISHED, 12),
    ]
    .map(|(size, tiles)| {
        let shards = shards_of(size, tiles).into_iter().map(|(info, _)| info);
        let software = "chomp 0.1.0".to_owned();
        let made = ValuesManifest::new(tiles, size, 1, software, shards.collect());
        made.expect("the shards of a table").to_bytes()
    })
    .to_vec()
}
