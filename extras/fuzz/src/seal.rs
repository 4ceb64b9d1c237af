//! Makes digests right again, and mostly the lengths before them too, as whoever means ill would.

use chomp_table::Digest;
use fastrand::Rng;

/// The bytes of an index frame before its entries, of an entry, and after the last.
const INDEX_HEADER: usize = 24;
const ENTRY: usize = 56;
const TRAILER: usize = 48;
const DIGEST: usize = 32;

/// Puts the SHA-256 of all before it at the end.
fn sign(bytes: &mut [u8]) {
    if let Some((content, digest)) = bytes.split_last_chunk_mut::<DIGEST>() {
        *digest = Digest::of(content).0;
    }
}

/// Puts a number at a place, if the bytes go so far.
pub(crate) fn put(bytes: &mut [u8], at: usize, number: usize) {
    let number = u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
    if let Some(field) = bytes.get_mut(at..at + number.len()) {
        field.copy_from_slice(&number);
    }
}

pub(crate) fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// An object of the store: its length, and its digest.
pub(crate) fn envelope(bytes: &mut [u8], _: &mut Rng) {
    let length = bytes.len();
    put(bytes, 12, length);
    sign(bytes);
}

/// The index frame of a shard: its length and number of entries, where it says that it starts, its digest.
pub(crate) fn index(index: &mut [u8], rng: &mut Rng) {
    if rng.bool() && index.len() >= INDEX_HEADER + TRAILER {
        let length = index.len();
        put(index, 4, length - 8);
        put(
            index,
            INDEX_HEADER - 4,
            (length - INDEX_HEADER - TRAILER) / ENTRY,
        );
        let last = length - TRAILER;
        let mut end = 20_usize;
        for at in (INDEX_HEADER..last).step_by(ENTRY) {
            put(index, at + 8, end);
            let length = field(index, at + 20).map_or(0, u32::from_le_bytes);
            end = end.saturating_add(length as usize);
        }
        put(index, last + 8, end);
    }
    sign(index);
}

/// A shard: the digests of its data frames, and its index.
pub(crate) fn shard(bytes: &mut [u8], rng: &mut Rng) {
    let Some(trailer) = bytes.len().checked_sub(TRAILER) else {
        return;
    };
    let start = field(bytes, trailer + 8).map_or(0, u64::from_le_bytes);
    let start = usize::try_from(start).unwrap_or(usize::MAX);
    if start > trailer {
        return;
    }
    let (data, of_index) = bytes.split_at_mut(start);
    let end = of_index.len() - TRAILER;
    let entries = of_index.get_mut(INDEX_HEADER..end).unwrap_or_default();
    for entry in entries.chunks_exact_mut(ENTRY) {
        let offset = field(entry, 8).map_or(0, u64::from_le_bytes);
        let length = field(entry, 20).map_or(0, u32::from_le_bytes);
        let frame = usize::try_from(offset).ok().and_then(|offset| {
            let end = offset.checked_add(length as usize)?;
            data.get(offset..end)
        });
        if let Some(frame) = frame {
            entry[ENTRY - DIGEST..].copy_from_slice(&Digest::of(frame).0);
        }
    }
    index(of_index, rng);
}
