//! Instruction sets, chosen at run time.

use std::fmt;
use std::hint::select_unpredictable;
use std::str::FromStr;

use crate::chunk::Chunk;

/// An instruction set that the kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// The instructions that every CPU of the target has.
    Portable,
    /// x86-64 with AVX2, BMI1, BMI2, LZCNT and POPCNT.
    Avx2,
    /// [`Isa::Avx2`] with AVX-512 F, BW, DQ and VL.
    Avx512,
}

impl Isa {
    /// All instruction sets, the narrowest first.
    pub const ALL: [Isa; 3] = [Isa::Portable, Isa::Avx2, Isa::Avx512];

    /// The widest instruction set of this CPU.
    pub fn detect() -> Isa {
        Isa::ALL
            .into_iter()
            .rfind(|isa| isa.is_available())
            .unwrap_or(Isa::Portable)
    }

    /// Whether this CPU has the instruction set.
    #[cfg(target_arch = "x86_64")]
    pub fn is_available(self) -> bool {
        let avx2 = || {
            is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("lzcnt")
                && is_x86_feature_detected!("popcnt")
        };
        match self {
            Isa::Portable => true,
            Isa::Avx2 => avx2(),
            Isa::Avx512 => {
                avx2()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
        }
    }

    /// Whether this CPU has the instruction set.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn is_available(self) -> bool {
        self == Isa::Portable
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Isa::Portable => "portable",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
        })
    }
}

impl FromStr for Isa {
    type Err = String;

    fn from_str(name: &str) -> Result<Isa, String> {
        let isa = Isa::ALL.into_iter().find(|isa| isa.to_string() == name);
        isa.ok_or_else(|| {
            format!("\"{name}\" is not an instruction set: use portable, avx2 or avx512")
        })
    }
}

/// The search for the lowest indices of a chunk, which is fastest with instructions that plain code does not compile
/// to.
pub(crate) trait Lowest {
    /// The smallest two indices in the chunk; [`NOTHING`](crate::masks::NOTHING) or more where there is none.
    fn lowest(chunk: &Chunk) -> [u32; 2];
}

pub(crate) struct PortableLowest;

impl Lowest for PortableLowest {
    #[inline(always)]
    fn lowest(chunk: &Chunk) -> [u32; 2] {
        let mut lanes = 0u32;
        for (i, &word) in chunk.0.iter().enumerate() {
            lanes |= u32::from(word != 0) << i;
        }
        let word = |lanes: u32| {
            chunk
                .0
                .get(lanes.trailing_zeros() as usize)
                .copied()
                .unwrap_or(0)
        };
        lowest_of(lanes, word(lanes), word(rest(lanes)))
    }
}

/// AVX2: a test of four words at once. Only for code compiled with that feature.
#[cfg(target_arch = "x86_64")]
pub(crate) struct Avx2Lowest;

#[cfg(target_arch = "x86_64")]
#[expect(
    unsafe_code,
    reason = "the intrinsics are unsafe to call from code without the feature"
)]
impl Lowest for Avx2Lowest {
    #[inline(always)]
    fn lowest(chunk: &Chunk) -> [u32; 2] {
        use std::arch::x86_64::{
            _mm256_castsi256_pd, _mm256_cmpeq_epi64, _mm256_load_si256, _mm256_movemask_pd,
            _mm256_setzero_si256,
        };
        let empty = |half: &[u64]| {
            // SAFETY: `Avx2Lowest` is named only in `evaluate::avx2`, which is entered after `Isa::Avx2` was found
            // available. Each half of a chunk is 32 bytes long and aligned to 32.
            let empty = unsafe {
                let words = _mm256_load_si256(half.as_ptr().cast());
                let empty = _mm256_cmpeq_epi64(words, _mm256_setzero_si256());
                _mm256_movemask_pd(_mm256_castsi256_pd(empty))
            };
            empty.cast_unsigned()
        };
        let (low, high) = chunk.0.split_at(4);
        let lanes = (empty(low) | empty(high) << 4) ^ 0xff;
        let word = |lanes: u32| chunk.0[lanes.trailing_zeros() as usize % 8];
        let second = select_unpredictable(rest(lanes) == 0, 0, word(rest(lanes)));
        lowest_of(lanes, word(lanes), second)
    }
}

/// AVX-512: tests all words at once, finds the first two without a detour by memory. Only for code compiled with it.
#[cfg(target_arch = "x86_64")]
pub(crate) struct Avx512Lowest;

#[cfg(target_arch = "x86_64")]
#[expect(
    unsafe_code,
    reason = "the intrinsics are unsafe to call from code without the feature"
)]
impl Lowest for Avx512Lowest {
    #[inline(always)]
    fn lowest(chunk: &Chunk) -> [u32; 2] {
        use std::arch::x86_64::{
            _mm_cvtsi128_si64, _mm_extract_epi64, _mm512_castsi512_si128, _mm512_load_si512,
            _mm512_maskz_compress_epi64, _mm512_test_epi64_mask,
        };
        // SAFETY: `Avx512Lowest` is named only in `evaluate::avx512`, which is entered after
        // `Isa::Avx512` was found available. A chunk is 64 bytes long and aligned to 64.
        let (lanes, first, second) = unsafe {
            let words = _mm512_load_si512(chunk.0.as_ptr().cast());
            let lanes = _mm512_test_epi64_mask(words, words);
            let found = _mm512_castsi512_si128(_mm512_maskz_compress_epi64(lanes, words));
            let (first, second) = (_mm_cvtsi128_si64(found), _mm_extract_epi64::<1>(found));
            (
                u32::from(lanes),
                first.cast_unsigned(),
                second.cast_unsigned(),
            )
        };
        lowest_of(lanes, first, second)
    }
}

/// The smallest two indices of a chunk. `lanes` has a bit for each word of the chunk that is not 0, and `first` and
/// `second` are the first two of these words.
#[inline(always)]
fn lowest_of(lanes: u32, first: u64, second: u64) -> [u32; 2] {
    // A lane after the last, so that the index is 512 or more if no word is left.
    let index = |lanes: u32, word: u64| {
        (lanes | 1 << 8).trailing_zeros() * u64::BITS + word.trailing_zeros()
    };
    let more = first & first.wrapping_sub(1);
    let lanes_left = select_unpredictable(more != 0, lanes, rest(lanes));
    let word = select_unpredictable(more != 0, more, second);
    [index(lanes, first), index(lanes_left, word)]
}

#[inline(always)]
fn rest(lanes: u32) -> u32 {
    lanes & lanes.wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for isa in Isa::ALL {
            assert_eq!(isa.to_string().parse(), Ok(isa));
        }
        assert!("sse9".parse::<Isa>().is_err());
        assert!(Isa::Portable.is_available() && Isa::detect().is_available());
    }
}
