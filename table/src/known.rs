//! The fingerprints of tables that `docs/FORMAT.md` and `docs/RESULTS.md` publish: what any correct program gets.
//!
//! Up to 31 bits there is one leaf, so the fingerprint is the SHA-256 of the linear one.

use crate::Digest;

/// The published fingerprints of tables, with their bits, ascending.
pub fn fingerprints() -> impl Iterator<Item = (u32, Digest)> {
    FINGERPRINTS
        .into_iter()
        .map(|(bits, text)| (bits, text.parse().expect("a digest in its text form")))
}

/// Bits, and the fingerprint of the table of so many.
const FINGERPRINTS: [(u32, &str); 22] = [
    (
        20,
        "38b1c11383f729f4fb66748224af0f5f63390d172ccf4a6297e1ac3ac2c6c5fc",
    ),
    (
        24,
        "b3bbb2560d37c8de2354c3d1250b3f23f9bd49ab2ddc196c5386d55044a1f26b",
    ),
    (
        25,
        "f707b2bce3b11ca910af69f1c51310587f5db404a4d1cbeebc8fb19ae4721a08",
    ),
    (
        26,
        "efa2da1c9884fd1738bb130f408cfd5cc65b7747c88b73cfa23b417b4171222b",
    ),
    (
        27,
        "a4b0fde5a421f765608527dd36e643ce2ca13c35706ddef0b06f6d3fe23b35da",
    ),
    (
        28,
        "f93ec4bb97dec9255a7e9f0e29d07ae3b8cee081f8194637a19d976de9129601",
    ),
    (
        29,
        "2f9190722c5dd94a48b4c8e865d46273dbb25fbf6a704617a30d0445628f9e0d",
    ),
    (
        30,
        "51d67c8bc40114ddad27f1f18678985007395fe4bbcc9799e5b343a8a7d6646d",
    ),
    (
        31,
        "350e5c31e8fa62d7e20f65af8d1254d9a50dfe5b27e28ce1faf57bbc3b5e2ee7",
    ),
    (
        32,
        "72ef91e9475325085ce990723d7543eaa6dd94ac3964d2cababcff5b712c199f",
    ),
    (
        33,
        "eb9323696223d7b5f0d02c4f1b55a9ee506d1d5dd24567373ab89929b6157c57",
    ),
    (
        34,
        "913ef4a2554d6d3eb2f8816799ec882321cfdc03aa1f0cd431ee0bbe3e263ccb",
    ),
    (
        35,
        "47455e1b27a58ce493b603253036a71d2ee68c4f720743fa41896492da3c4bf7",
    ),
    (
        36,
        "edd8b064002860ccf3cde1ccb959291ff55c9fd6bce3ee96246b9a212aac0d00",
    ),
    (
        37,
        "83406ab09584a222b7f69c86f2f54f48514b5c01cd2b004b9cf3c31189dc31ef",
    ),
    (
        38,
        "293fdeecf088db7bd36ea881607407619e6f321196a2e2289c74f96cc7270ead",
    ),
    (
        39,
        "e1a362d293d74afde91085ff140393885181699e8123a84b4a1827e5486ab0be",
    ),
    (
        40,
        "7db1110fa72b96a134886aab759f3db19f54a1a19a57255972f7c599c11b9410",
    ),
    (
        41,
        "08cdccd46fe90919fe97de8bd2c7f3a3e831c787c4a58db24f8df5cbf38d79c2",
    ),
    (
        42,
        "6154668ec155cae8ea1e7805e57d23ba9c495e7af6ccd3324a32492000ae664e",
    ),
    (
        43,
        "52b5938f94d3be93b9d488e7528e3245524846504a32b8b2c46f7b1d0ca7d9bc",
    ),
    (
        44,
        "c5c94b22710c494ea315c96b617e444891008431d2fcd2294ca140743f735f6f",
    ),
];

/// How many positions of 1, 2, … 100 tiles are losing. Up to 39 they are those of OEIS A112470; we found the others, and no
/// terms published beyond.
pub const LOSING_BY_TILES: [u64; 100] = [
    1, 0, 1, 0, 3, 0, 3, 2, 5, 2, 3, 10, 9, 10, 9, 14, 17, 14, 23, 42, 45, 28, 55, 74, 67, 96, 107,
    136, 177, 220, 241, 302, 315, 422, 421, 542, 641, 812, 877, 1022, 1221, 1490, 1655, 1970, 2173,
    2754, 3117, 3542, 3993, 4976, 5485, 6508, 7477, 8758, 9859, 11_530, 13_189, 15_152, 17_503,
    20_106, 22_943, 26_436, 30_527, 34_624, 39_715, 45_456, 51_595, 59_752, 67_245, 76_688, 87_977,
    99_212, 112_221, 128_746, 145_481, 165_426, 188_193, 210_864, 240_353, 270_142, 307_365,
    345_732, 390_295, 439_090, 496_109, 558_500, 630_305, 710_768, 796_641, 897_964, 1_007_243,
    1_131_506, 1_269_553, 1_426_284, 1_596_957, 1_789_396, 2_006_333, 2_244_092, 2_512_815,
    2_806_958,
];
