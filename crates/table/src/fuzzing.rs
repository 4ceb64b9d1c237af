//! Entries for fuzzing that are not public otherwise.

use crate::{classes, gaps};

/// Whether `block` is the gap block of `count` numbers. Panics if the numbers have another block.
pub fn gap_block(block: &[u8], count: u64) -> bool {
    let Ok(numbers) = gaps::decode(block, count, 1 << 63, |number| number) else {
        return false;
    };
    assert_eq!(gaps::encode(&numbers), block, "a list has one gap block");
    true
}

/// Whether `block` is the class block of `count` numbers. Panics if the numbers have another block.
pub fn class_block(block: &[u8], count: u64) -> bool {
    let Ok(numbers) = classes::decode(block, count, 1 << 63) else {
        return false;
    };
    let again = classes::encode(numbers.iter().copied());
    assert_eq!(again, block, "a list has one class block");
    true
}

/// The block in `frame`, if it is a frame with at most `most` bytes.
pub fn frame(frame: &[u8], most: u64) -> Option<Vec<u8>> {
    gaps::decompress(frame, most).ok()
}

/// The frame of `block`, as shards have it.
pub fn compressed(block: &[u8]) -> Vec<u8> {
    gaps::compress(block, block.len())
}
