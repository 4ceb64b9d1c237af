//! The highs of a bucket: the bit string that says which of its losing indices have which high.

use crate::head::RangeBits;

/// The number of low bits of an index that say where it is in its bucket.
pub const BUCKET_BITS: u32 = 16;
const LOW_BITS: u32 = u8::BITS;
/// The bits of a byte: highs are read a byte at a time.
const AT_ONCE: usize = 8;

/// The length in bits of the highs of a bucket: one for each of its losing positions, and one for each high.
const fn bits(count: u16, range_bits: RangeBits) -> usize {
    let index_bits = range_bits.get() - 1;
    let bucket_bits = if index_bits < BUCKET_BITS {
        index_bits
    } else {
        BUCKET_BITS
    };
    (1 << (bucket_bits - LOW_BITS)) + count as usize
}

/// The length in bytes of the highs of a bucket with `count` losing positions.
pub(super) const fn len(count: u16, range_bits: RangeBits) -> usize {
    bits(count, range_bits).div_ceil(AT_ONCE)
}

/// Appends the highs of the ascending `indices` of a bucket to `record`: `len` bytes.
pub(super) fn encode(indices: &[u16], len: usize, record: &mut Vec<u8>) {
    let end = record.len() + len;
    let (mut word, mut start) = (0u64, 0);
    for (number, index) in indices.iter().enumerate() {
        let bit = usize::from(index >> LOW_BITS) + number;
        while bit - start >= 64 {
            record.extend(word.to_le_bytes());
            (word, start) = (0, start + 64);
        }
        word |= 1 << (bit - start);
    }
    record.extend(word.to_le_bytes());
    record.resize(end, 0);
}

/// Whether the highs of a bucket with `count` losing positions end with the 0 of the last high, and only 0s follow.
pub(super) fn is_ended(highs: &[u8], count: u16, range_bits: RangeBits) -> bool {
    let last = bits(count, range_bits) - 1;
    highs[last / AT_ONCE] >> (last % AT_ONCE) == 0
}

/// Writes the indices of one bucket to the beginning of `indices`. `lows` begins with the lows of the bucket. Returns
/// the number of 1s in the highs, or none if there are fewer lows. `indices` is as long as `lows`, and some entries
/// after the bucket are overwritten.
pub(super) fn decode(highs: &[u8], lows: &[u8], indices: &mut [u16]) -> Option<usize> {
    let mut found = 0;
    for (number, &byte) in highs.iter().enumerate() {
        let step = &STEPS[usize::from(byte)];
        // The number of 0s before a 1 is its high.
        let zeros = AT_ONCE * number - found;
        let base = low_bits(zeros) << LOW_BITS;
        let (lows, indices) = (lows.get(found..)?, indices.get_mut(found..)?);
        if let (Some(lows), Some(indices)) = (
            lows.first_chunk::<AT_ONCE>(),
            indices.first_chunk_mut::<AT_ONCE>(),
        ) {
            // The byte may have fewer 1s than `AT_ONCE`, but a loop of variable length takes longer.
            for i in 0..AT_ONCE {
                indices[i] = base.wrapping_add(step.highs[i]) | u16::from(lows[i]);
            }
        } else {
            let (lows, indices) = (lows.get(..step.count)?, indices.get_mut(..step.count)?);
            for i in 0..step.count {
                indices[i] = base.wrapping_add(step.highs[i]) | u16::from(lows[i]);
            }
        }
        found += step.count;
    }
    (found <= lows.len()).then_some(found)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "highs that do not fit are damaged, which their number tells"
)]
fn low_bits(zeros: usize) -> u16 {
    zeros as u16
}

/// One byte of highs, decoded.
#[derive(Clone, Copy)]
struct Step {
    /// For each 1, the number of 0s before it in the byte, shifted to the place of the high in an index.
    highs: [u16; AT_ONCE],
    count: usize,
}

static STEPS: [Step; 256] = {
    let mut steps = [Step {
        highs: [0; AT_ONCE],
        count: 0,
    }; 256];
    let mut byte = 0;
    while byte < steps.len() {
        let step = &mut steps[byte];
        let (mut bit, mut zeros) = (0, 0);
        while bit < AT_ONCE {
            if byte >> bit & 1 == 1 {
                step.highs[step.count] = zeros << LOW_BITS;
                step.count += 1;
            } else {
                zeros += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    steps
};
