//! The fingerprints of tables that `docs/FORMAT.md` and `docs/RESULTS.md` publish, and those of the smaller tables of
//! values: what any correct program gets.
//!
//! A table of up to 31 bits has one leaf, the SHA-256 of all its words, so its fingerprint is the SHA-256 of this leaf.

use crate::Digest;

/// The published fingerprints of tables, with their bits, ascending.
pub fn fingerprints() -> impl Iterator<Item = (u32, Digest)> {
    digests_by_bits(include_str!("known.txt"))
}

/// The fingerprints of tables of values, with their tiles, ascending.
pub fn values_fingerprints() -> impl Iterator<Item = (u32, Digest)> {
    digests_by_bits(include_str!("known-values.txt"))
}

/// A table has another fingerprint than the known one for some number of bits or tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the positions of {size} {unit} have the fingerprint {found}, and that of the published table is {known}"
)]
#[expect(missing_docs, reason = "the fields are named for what they are")]
pub struct OtherThanKnown {
    pub size: u32,
    unit: &'static str,
    pub found: Digest,
    pub known: Digest,
}

/// Compares the fingerprints of a table, by bits, with the known ones. Fails at the first that differs.
pub fn compare_losing(by_bits: &[Digest]) -> Result<(), OtherThanKnown> {
    let of = |bits: u32| by_bits.get(bits as usize).copied();
    compare("bits", fingerprints(), of)
}

/// As [`compare_losing`], for a table of values: `of` gives the fingerprint for a number of tiles.
pub fn compare_values(of: impl Fn(u32) -> Option<Digest>) -> Result<(), OtherThanKnown> {
    compare("tiles", values_fingerprints(), of)
}

fn compare(
    unit: &'static str,
    mut known: impl Iterator<Item = (u32, Digest)>,
    of: impl Fn(u32) -> Option<Digest>,
) -> Result<(), OtherThanKnown> {
    let other = known.find_map(|(size, known)| {
        let found = of(size).filter(|found| *found != known)?;
        Some(OtherThanKnown {
            size,
            unit,
            found,
            known,
        })
    });
    other.map_or(Ok(()), Err)
}

/// The lines of `text`, each with a number of bits or tiles and a digest. Panics if a line has something else.
pub fn digests_by_bits(text: &str) -> impl Iterator<Item = (u32, Digest)> {
    let parse = |line: &str| {
        let (bits, digest) = line.split_once(' ')?;
        Some((bits.parse().ok()?, digest.parse().ok()?))
    };
    text.lines()
        .map(move |line| parse(line).expect("a line has bits and a digest"))
}

/// How many positions of 1, 2, … 120 tiles are losing. Up to 39 they are those of OEIS A112470. This program found the
/// others; no source with terms beyond 39 is known to us.
pub const LOSING_BY_TILES: [u64; 120] = [
    1, 0, 1, 0, 3, 0, 3, 2, 5, 2, 3, 10, 9, 10, 9, 14, 17, 14, 23, 42, 45, 28, 55, 74, 67, 96, 107,
    136, 177, 220, 241, 302, 315, 422, 421, 542, 641, 812, 877, 1022, 1221, 1490, 1655, 1970, 2173,
    2754, 3117, 3542, 3993, 4976, 5485, 6508, 7477, 8758, 9859, 11_530, 13_189, 15_152, 17_503,
    20_106, 22_943, 26_436, 30_527, 34_624, 39_715, 45_456, 51_595, 59_752, 67_245, 76_688, 87_977,
    99_212, 112_221, 128_746, 145_481, 165_426, 188_193, 210_864, 240_353, 270_142, 307_365,
    345_732, 390_295, 439_090, 496_109, 558_500, 630_305, 710_768, 796_641, 897_964, 1_007_243,
    1_131_506, 1_269_553, 1_426_284, 1_596_957, 1_789_396, 2_006_333, 2_244_092, 2_512_815,
    2_806_958, 3_146_183, 3_508_750, 3_924_301, 4_382_288, 4_884_751, 5_457_328, 6_078_327,
    6_780_834, 7_556_697, 8_418_344, 9_356_429, 10_410_040, 11_591_013, 12_875_684, 14_306_183,
    15_892_920, 17_661_907, 19_598_756, 21_752_785, 24_125_104,
];
