//! Results that others found with programs of their own, the comparison with them, and the
//! fingerprints that this project published.

use chomp_table::Digest;
use chomp_table::known::{LOSING_BY_TILES, digests_by_bits};

use crate::survey::Survey;
use crate::{CheckError, ensure};

pub use chomp_table::known::fingerprints;

/// The published [linear SHA-256](crate::linear) of tables, with their bits.
pub fn linear_sha256() -> impl Iterator<Item = (u32, Digest)> {
    // A line for each number of bits whose linear SHA-256 is in `docs/FORMAT.md` or `docs/RESULTS.md`.
    digests_by_bits(include_str!("known/linear.txt"))
}

/// Losing positions of at most k bits, from k = 25: S. Volodarsky, 2009.
pub const BY_BITS: (u32, [u64; 8]) = (
    25,
    [
        189_710, 363_603, 632_105, 1_154_468, 2_356_886, 3_893_679, 8_295_977, 15_220_362,
    ],
);

/// Losing partitions of n, from n = 1: sequence A112470 of the On-Line Encyclopedia of Integer Sequences.
pub const BY_AREA: &[u64] = LOSING_BY_TILES.split_at(39).0;

/// Losing positions inside boxes: at index r - 3 those of r rows and r to 14 columns. From
/// `data.txt` of the repository CharCoding/Chomp.
pub const INSIDE_SMALL: [&[u64]; 12] = [
    &[5, 7, 10, 13, 17, 20, 25, 29, 33, 39, 44, 51],
    &[10, 16, 20, 30, 38, 54, 75, 87, 107, 141, 175],
    &[23, 35, 48, 77, 109, 141, 195, 263, 352, 419],
    &[48, 88, 142, 179, 287, 429, 575, 895, 1195],
    &[129, 225, 312, 447, 811, 1278, 1959, 2765],
    &[322, 594, 1000, 1746, 2334, 4001, 6175],
    &[867, 1739, 3377, 4981, 7210, 11737],
    &[2612, 5324, 8772, 14652, 25648],
    &[8037, 17437, 30816, 56396],
    &[26838, 56196, 112_020],
    &[85555, 170_960],
    &[256_366],
];

/// Losing positions inside squares: the side, and the number. 16 from `solver.cpp` of
/// CharCoding/Chomp, the others from the manifests of georgeyanceyjr-hash/chomp-fast (V5 to V11).
pub const INSIDE_SQUARES: [(u32, u64); 4] = [
    (16, 3_317_972),
    (18, 37_993_832),
    (19, 146_561_777),
    (20, 451_253_296),
];

/// How many numbers were compared, by source.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    pub by_bits: u64,
    pub by_area: u64,
    pub inside: u64,
}

/// Compares a survey with all results of others that the table covers. Fails if a number differs.
pub fn compare(survey: &Survey) -> Result<Compared, CheckError> {
    let mut compared = Compared::default();
    let equal = |what: &dyn Fn() -> String, found: u64, known: u64| {
        ensure(found == known, || {
            format!(
                "the table has {found} losing {}; others have found {known}",
                what()
            )
        })
    };
    for (bits, known) in (BY_BITS.0..=survey.bits()).zip(BY_BITS.1) {
        let what = || format!("positions of at most {bits} bits");
        equal(&what, survey.losing(bits), known)?;
        compared.by_bits += 1;
    }
    for ((area, &found), &known) in (0..).zip(survey.by_area()).skip(1).zip(BY_AREA) {
        equal(&|| format!("partitions of {area}"), found, known)?;
        compared.by_area += 1;
    }
    let small = (3..).zip(INSIDE_SMALL).flat_map(|(rows, counts)| {
        (rows..)
            .zip(counts)
            .map(move |(columns, &known)| (rows, columns, known))
    });
    let squares = INSIDE_SQUARES.map(|(side, known)| (side, side, known));
    for (rows, columns, known) in small.chain(squares) {
        let (Some(found), Some(mirrored)) =
            (survey.inside(rows, columns), survey.inside(columns, rows))
        else {
            continue;
        };
        let what = || format!("positions inside {rows}x{columns}");
        equal(&what, found, known)?;
        equal(&what, mirrored, known)?;
        compared.inside += 1;
    }
    Ok(compared)
}
