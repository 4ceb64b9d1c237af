//! Ascending numbers as the gaps between them: the form in which ranges and shards hold positions.
//!
//! A *gap* is the distance from the smallest value that a number may have: the number itself for the first, the
//! difference to the one before it less 1 for the others. A **gap block** of n numbers is
//!
//! ```text
//! near bytes   n         for each gap, in order:
//!                        0 to 223    the gap itself
//!                        224 to 254  a far gap, 224 to 8159: 224 + (gap - 224) / 256
//!                        255         a wide gap, 8160 or more
//! far bytes    1 each    for each far gap, in order: (gap - 224) % 256
//! wide gaps    8 each    for each wide gap, in order: the gap, little-endian
//! ```
//!
//! so every list of numbers has exactly one block. Losing positions are dense and irregular: their gaps are nearly
//! independent of each other, and a good code needs about as many bits as the entropy of the gaps. zstd's Huffman coder
//! is such a code for the near bytes: most gaps are a single symbol, and little is lost by rounding codes up to whole
//! bits. The far bytes are nearly uniformly distributed. So a block is stored as **one zstd frame** with a checksum and
//! its length. A zstd block ends where the near bytes end, so that the near bytes have a Huffman table of their own. A
//! reader need not know where zstd blocks end.
//!
//! Limits: values below 2^63. Version history: the formats that use blocks have versions.

use std::cell::RefCell;

use zstd::zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd::zstd_safe::{self, CCtx, CParameter, DCtx, InBuffer, OutBuffer};

use crate::format::{Damage, Fields, ensure};

/// The smallest far gap. It is also the near byte of the far gaps below 480.
const FAR: u8 = 224;

/// The near byte of wide gaps.
const WIDE_MARK: u8 = 255;

/// The smallest wide gap.
const WIDE: u64 = FAR as u64 + ((WIDE_MARK - FAR) as u64) * 256;

const WIDE_LENGTH: u64 = 8;

/// The number of gaps that are encoded together.
const CHUNK: usize = 64;

/// zstd never turns one byte into more than this: a block of 128 KiB takes at least 4 bytes.
const ZSTD_RATIO_MAX: u64 = 1 << 15;

/// The fastest with Huffman codes: higher levels look harder for matches, of which there are next to none.
const LEVEL: i32 = 1;

/// The most wide gaps between numbers that are all below `end`.
pub(crate) const fn wide_max(end: u64) -> u64 {
    end / WIDE
}

/// The longest block of `count` numbers with at most `wide` wide gaps.
pub(crate) const fn block_len_max(count: u64, wide: u64) -> u64 {
    2 * count + (WIDE_LENGTH - 1) * if wide < count { wide } else { count }
}

/// The longest frame of a block of `length` bytes: zstd adds 3 bytes to each of its blocks, which
/// hold 1 KiB or more unless the frame is shorter, and the frame's own fields.
pub(crate) const fn frame_len_max(length: u64) -> u64 {
    length + length / 256 + 64
}

/// The gap block of `values`, all below 2^63. Panics if the values do not ascend.
pub(crate) fn encode(values: &[u64]) -> Vec<u8> {
    let count = values.len();
    // With room for the first gap, which is wide wherever a block starts far from 0.
    let mut block = Vec::with_capacity(2 * count + 64);
    block.resize(2 * count, 0);
    let (near, far) = block.split_at_mut(count);
    let mut far_count = 0;
    let mut wide = Vec::new();
    let mut least = 0;
    // The gaps are encoded `CHUNK` at a time, with a loop of few variables for each step, for speed.
    for (values, near) in values.chunks(CHUNK).zip(near.chunks_mut(CHUNK)) {
        let wholes = values.iter().scan(least, |least, &value| {
            Some(value.wrapping_sub(std::mem::replace(least, value + 1)))
        });
        least = values.last().map_or(least, |last| last + 1);
        let mut gaps = [0; CHUNK];
        let mut any = 0;
        for (gap, whole) in gaps.iter_mut().zip(wholes.clone()) {
            any |= whole;
            *gap = u16::try_from(whole.min(WIDE)).expect("at most 8,160");
        }
        assert!(any >> 63 == 0, "the numbers of a gap block ascend");
        let gaps = &gaps[..values.len()];
        for (near, &gap) in near.iter_mut().zip(gaps) {
            // For a wide gap, which was cut to `WIDE`, this is `WIDE_MARK`.
            let marked = u16::from(FAR) + (gap.wrapping_sub(u16::from(FAR)) >> 8);
            let is_far = gap >= u16::from(FAR);
            [*near, _] = if is_far { marked } else { gap }.to_le_bytes();
        }
        for &gap in gaps {
            // A CPU cannot predict which gaps are far. So each gap writes a far byte, and the next one overwrites it
            // unless the gap is far.
            let beyond = gap.wrapping_sub(u16::from(FAR));
            [far[far_count], _] = beyond.to_le_bytes();
            far_count += usize::from(u64::from(beyond) < WIDE - u64::from(FAR));
        }
        if any >= WIDE {
            let these = wholes.filter(|&whole| whole >= WIDE);
            wide.extend(these.flat_map(u64::to_le_bytes));
        }
    }
    block.truncate(count + far_count);
    block.extend_from_slice(&wide);
    block
}

/// The `count` numbers of `block`, all below `end`, each as `from` makes it. Allocates `count` results, after it has
/// seen that the block has the bytes for them.
pub(crate) fn decode<T: Copy + Default>(
    block: &[u8],
    count: u64,
    end: u64,
    mut from: impl FnMut(u64) -> T,
) -> Result<Vec<T>, Damage> {
    debug_assert!(end <= 1 << 63, "a sum of two values must not overflow");
    let (near, far, wide) = split(block, count).ok_or_else(|| {
        Damage::new(format!(
            "a block of {} bytes for {count} numbers",
            block.len()
        ))
    })?;
    let mut wide = Fields::new("the list of wide gaps", wide);
    let mut values = vec![T::default(); near.len()];
    let mut far_at = 0;
    let mut least = 0;
    for (result, &near) in values.iter_mut().zip(near) {
        let value = if near < WIDE_MARK {
            // No branch on `is_far`, as in `encode`. A near gap after the last far one finds no far byte, and ignores
            // the 0.
            let far = far.get(far_at).copied().unwrap_or(0);
            let is_far = near >= FAR;
            far_at += usize::from(is_far);
            let more = u64::from(near.wrapping_sub(FAR)) * 255 + u64::from(far);
            least + u64::from(near) + if is_far { more } else { 0 }
        } else {
            let gap = wide.u64()?;
            ensure(gap >= WIDE, || "a wide gap that is not wide")?;
            let value = gap.saturating_add(least);
            check_below(value, end)?;
            value
        };
        least = value + 1;
        *result = from(value);
    }
    if let Some(last) = least.checked_sub(1) {
        check_below(last, end)?;
    }
    ensure(wide.rest().is_empty(), || "bytes after the last wide gap")?;
    Ok(values)
}

/// The near bytes of a block of `count` numbers, its far bytes and its wide gaps.
fn split(block: &[u8], count: u64) -> Option<(&[u8], &[u8], &[u8])> {
    let (near, rest) = block.split_at_checked(usize::try_from(count).ok()?)?;
    let is_far = |near: u8| (FAR..WIDE_MARK).contains(&near);
    let far_count = near.iter().filter(|&&near| is_far(near)).count();
    let (far, wide) = rest.split_at_checked(far_count)?;
    Some((near, far, wide))
}

fn check_below(value: u64, end: u64) -> Result<(), Damage> {
    ensure(value < end, || {
        format!("the number {value} where all are below {end}")
    })
}

thread_local! {
    /// Contexts take longer to make than a frame to compress, so each thread keeps its own.
    static COMPRESSOR: RefCell<CCtx<'static>> = RefCell::new(compressor());
    static DECOMPRESSOR: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
}

fn compressor() -> CCtx<'static> {
    let mut context = CCtx::create();
    for parameter in [
        CParameter::CompressionLevel(LEVEL),
        CParameter::ChecksumFlag(true),
    ] {
        context.set_parameter(parameter).expect("a valid parameter");
    }
    context
}

/// `block`, which has `count` numbers, as one zstd frame.
pub(crate) fn compress(block: &[u8], count: usize) -> Vec<u8> {
    let (near, rest) = block.split_at(count);
    let length_max = usize::try_from(frame_len_max(block.len() as u64));
    let mut frame = Vec::with_capacity(length_max.expect("no more than the memory has"));
    let mut output = OutBuffer::around(&mut frame);
    COMPRESSOR.with_borrow_mut(|context| {
        let pledged = context.set_pledged_src_size(Some(block.len() as u64));
        pledged.expect("a frame begins");
        for (part, end) in [
            (near, ZSTD_EndDirective::ZSTD_e_flush),
            (rest, ZSTD_EndDirective::ZSTD_e_end),
        ] {
            let mut input = InBuffer::around(part);
            let left = context.compress_stream2(&mut output, &mut input, end);
            assert_eq!(left, Ok(0), "a frame has room in `frame_len_max`");
        }
    });
    frame
}

/// Fails if the block is longer than `length_max`. Allocates at most [`ZSTD_RATIO_MAX`] times the frame's length.
pub(crate) fn decompress(frame: &[u8], length_max: u64) -> Result<Vec<u8>, Damage> {
    let length = block_len(frame)?;
    ensure(length <= length_max, || {
        format!("a zstd frame of {length} bytes where {length_max} are possible")
    })?;
    ensure(
        zstd_safe::find_frame_compressed_size(frame) == Ok(frame.len()),
        || "not exactly one zstd frame",
    )?;
    let length =
        usize::try_from(length).map_err(|_| Damage::new("a block larger than the memory"))?;
    let mut block = Vec::with_capacity(length);
    DECOMPRESSOR
        .with_borrow_mut(|context| context.decompress(&mut block, frame))
        .map_err(|code| Damage::new(format!("zstd: {}", zstd_safe::get_error_name(code))))?;
    ensure(
        block.len() == length,
        || "a zstd frame that is shorter than it says",
    )?;
    Ok(block)
}

/// The length of the block in `frame`, as the frame's header has it.
pub(crate) fn block_len(frame: &[u8]) -> Result<u64, Damage> {
    let magic = zstd_safe::MAGICNUMBER.to_le_bytes();
    ensure(frame.starts_with(&magic), || "not a zstd frame")?;
    let length = zstd_safe::get_frame_content_size(frame).ok().flatten();
    let length = length.ok_or_else(|| Damage::new("a zstd frame that does not say its length"))?;
    ensure(length / ZSTD_RATIO_MAX <= frame.len() as u64, || {
        format!(
            "a zstd frame of {} bytes that claims to hold {length}",
            frame.len()
        )
    })?;
    Ok(length)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    /// The block of `values`, one number after the other as the layout has it.
    fn encode_slowly(values: &[u64]) -> Vec<u8> {
        let starts = std::iter::once(0).chain(values.iter().map(|value| value + 1));
        let gaps: Vec<u64> = values
            .iter()
            .zip(starts)
            .map(|(value, start)| value - start)
            .collect();
        let near = gaps.iter().map(|&gap| match gap {
            0..224 => u8::try_from(gap).unwrap(),
            224..8160 => u8::try_from(224 + (gap - 224) / 256).unwrap(),
            8160.. => 255,
        });
        let far = gaps.iter().filter(|gap| (224..8160).contains(*gap));
        let far = far.map(|gap| u8::try_from((gap - 224) % 256).unwrap());
        let wide = gaps.iter().filter(|gap| **gap >= 8160);
        let wide = wide.flat_map(|gap| gap.to_le_bytes());
        near.chain(far).chain(wide).collect()
    }

    fn decode_all(block: &[u8], count: usize) -> Result<Vec<u64>, Damage> {
        decode(block, count as u64, 1 << 63, |value| value)
    }

    fn check_round_trip(values: &[u64]) {
        let block = encode(values);
        assert_eq!(block, encode_slowly(values));
        let end = values.last().map_or(0, |last| last + 1);
        assert!(block.len() as u64 <= block_len_max(values.len() as u64, wide_max(end)));
        assert_eq!(decode_all(&block, values.len()).unwrap(), values);
        assert_eq!(
            decode(&block, values.len() as u64, end, |value| value).unwrap(),
            values
        );
        if let Some(last) = values.last() {
            assert!(decode(&block, values.len() as u64, *last, |value| value).is_err());
        }
        assert!(decode_all(&block, values.len() + 1).is_err());
        assert!(values.is_empty() || decode_all(&block, values.len() - 1).is_err());
        assert!(block.is_empty() || decode_all(&block[..block.len() - 1], values.len()).is_err());

        let frame = compress(&block, values.len());
        assert!(frame.len() as u64 <= frame_len_max(block.len() as u64));
        assert!(frame[4] & 4 != 0, "the frame's descriptor: a checksum");
        assert_eq!(block_len(&frame).unwrap(), block.len() as u64);
        assert_eq!(decompress(&frame, block.len() as u64).unwrap(), block);
        assert!(block.is_empty() || decompress(&frame, block.len() as u64 - 1).is_err());
    }

    #[test]
    fn known_blocks() {
        for (values, block) in [
            (vec![], vec![]),
            (vec![0], vec![0]),
            (vec![5, 6, 300], vec![5, 0, 224, 69]),
            (vec![223, 448], vec![223, 224, 0]),
            (vec![479, 960], vec![224, 225, 255, 0]),
            (vec![8159], vec![254, 255]),
            (vec![8160], vec![255, 0xe0, 0x1f, 0, 0, 0, 0, 0, 0]),
            ((0..4).collect(), vec![0; 4]),
        ] {
            assert_eq!(encode(&values), block, "{values:?}");
            check_round_trip(&values);
        }
        check_round_trip(&[(1 << 63) - 1]);
        check_round_trip(&[0, (1 << 32) - 1, 1 << 32, (1 << 63) - 1]);
        check_round_trip(&(0..1 << 18).collect::<Vec<u64>>());
    }

    #[test]
    fn values_that_do_not_ascend_are_refused() {
        let last = [63, 64, 65].map(|last| (0..last).chain([last - 1]).collect());
        for values in last.into_iter().chain([vec![2, 1], vec![1 << 62, 0]]) {
            let result = std::panic::catch_unwind(|| encode(&values));
            assert!(result.is_err(), "{values:?}");
        }
    }

    #[test]
    fn bytes_that_do_not_compress_stay_within_the_bound() {
        let mut state = 1u64;
        let bytes = std::iter::repeat_with(|| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            ((state >> 40) % 255, state >> 32 & 255)
        });
        // Every near byte but 255 equally often, and every far byte.
        let values = bytes.scan(0, |sum, (near, far)| {
            let beyond = near.checked_sub(u64::from(FAR));
            *sum += near + beyond.map_or(0, |beyond| beyond * 255 + far) + 1;
            Some(*sum)
        });
        let values: Vec<u64> = values.take(300_000).collect();
        let block = encode(&values);
        assert!(compress(&block, values.len()).len() > block.len() * 99 / 100);
        check_round_trip(&values);
    }

    #[test]
    fn malformed_blocks() {
        let wide = |gap: u64| [&[255][..], &gap.to_le_bytes()].concat();
        assert_eq!(decode_all(&wide(WIDE), 1), Ok(vec![WIDE]));
        assert!(decode_all(&wide(WIDE - 1), 1).is_err());
        assert!(decode_all(&wide(u64::MAX), 1).is_err());
        assert!(decode_all(&wide(1 << 63), 1).is_err());
        assert!(decode_all(&[255], 1).is_err(), "the wide gap is missing");
        assert!(decode_all(&wide(WIDE)[..8], 1).is_err(), "a part of it");
        assert!(decode_all(&[224], 1).is_err(), "the far byte is missing");
        assert!(decode_all(&[224, 0, 0], 1).is_err(), "a byte more");
        let wide_gaps = [(1u64 << 63) - 1, (1 << 63) + 5]
            .map(u64::to_le_bytes)
            .concat();
        let two = [&[255, 255][..], &wide_gaps].concat();
        assert!(decode_all(&two, 2).is_err(), "the sum overflows");
        let beyond = [&[255, 0][..], &wide_gaps[..8]].concat();
        assert!(decode_all(&beyond, 2).is_err(), "the last is too large");
        assert!(decode(&[], u64::MAX, 10, |value| value).is_err());
        assert!(decode(&[0; 64], 1 << 63, 10, |value| value).is_err());
    }

    #[test]
    fn malformed_frames() {
        let block = encode(&(0..100).collect::<Vec<u64>>());
        let frame = compress(&block, 100);
        assert!(
            decompress(&[&frame[..], &frame].concat(), 1000).is_err(),
            "two frames"
        );
        assert!(
            decompress(&[&frame[..], &[0]].concat(), 1000).is_err(),
            "a byte more"
        );
        let skippable = b"\x50\x2a\x4d\x18\0\0\0\0";
        assert!(decompress(skippable, 1000).is_err(), "a skippable frame");
        assert!(
            decompress(&[&frame[..], skippable].concat(), 1000).is_err(),
            "a skippable frame more"
        );
        assert!(
            decompress(&[&frame[..], &compress(&[], 0)].concat(), 1000).is_err(),
            "an empty frame more"
        );
        for length in 0..frame.len() {
            assert!(decompress(&frame[..length], 1000).is_err(), "{length}");
        }
        let mut unsized_frame = Vec::new();
        zstd::Encoder::new(&mut unsized_frame, 1)
            .unwrap()
            .auto_finish()
            .write_all(&block)
            .unwrap();
        assert!(decompress(&unsized_frame, 1000).is_err(), "no length");
    }

    #[test]
    fn a_frame_that_claims_too_much_is_refused_before_memory_is_taken() {
        // Magic, descriptor "single segment, length of 8 bytes, checksum", length 2^40, one empty block.
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0b1110_0100];
        frame.extend_from_slice(&(1u64 << 40).to_le_bytes());
        frame.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0]);
        let error = decompress(&frame, u64::MAX).unwrap_err().to_string();
        assert!(error.contains("claims to hold 1099511627776"), "{error}");
    }

    proptest! {
        #[test]
        fn round_trips(
            gaps in prop::collection::vec((0u64..1 << 50, 0u32..50), 0..200),
            start in (0u64..1 << 62, 0u32..62)
        ) {
            let mut values: Vec<u64> = gaps.iter().map(|(gap, shift)| gap >> shift).collect();
            values.insert(0, start.0 >> start.1);
            for i in 1..values.len() {
                values[i] += values[i - 1] + 1;
            }
            check_round_trip(&values);
        }
    }
}
