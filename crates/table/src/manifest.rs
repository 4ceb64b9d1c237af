//! The manifest: what a published table is, and the digest of every byte of it.
//!
//! A published table is a folder with the shards `shard-0000.zst`, `shard-0001.zst`, …, the file `SHA256SUMS` and
//! `manifest.json`, which is written last: a folder without it is not a table. `SHA256SUMS` is what `sha256sum -c`
//! reads, and a function of the manifest. `docs/FORMAT.md` describes the fields, which are those of [`Manifest`].
//!
//! Limits: 64 bits, 65,536 shards, which 48 bits do not fill, 32 MiB for the manifest, 256 bytes for the name of the
//! program. No more positions are losing than half of them, and no shard is longer than its words can make it: so a
//! manifest cannot promise more bytes than a table of its bits can have.
//!
//! The format is 2. Manifests of other formats are refused.

use std::fmt::Write;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::digest::{Digest, DigestBuilder};
use crate::fingerprint::Fingerprints;
use crate::format::{Damage, FormatError, ensure};
use crate::head::RangeBits;
use crate::shard::{ShardInfo, shard_name};

pub(crate) mod bounded;

use bounded::at_most;

/// The file name of a manifest.
pub const MANIFEST_NAME: &str = "manifest.json";
/// The file name of the list of digests.
pub const SHA256SUMS_NAME: &str = "SHA256SUMS";
/// The most bytes of a manifest.
pub const MANIFEST_BYTES_MAX: u64 = 32 << 20;

const FORMAT: u32 = 2;
/// The most shards of a table.
pub const SHARDS_MAX: usize = 1 << 16;
/// The most entries of a list with one entry for each number of bits, from 0 on.
const LENGTHS_MAX: usize = u64::BITS as usize + 1;
/// The most characters of a wrong file name that an error shows.
const NAME_CHARS_SHOWN: usize = 80;
pub(crate) const SOFTWARE_BYTES_MAX: usize = 256;

/// The folder of the published table of `bits` bits in the directory of a table.
pub fn folder_name(bits: u32) -> String {
    format!("table-{bits:02}")
}

/// The content of `manifest.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are named for what they are")]
pub struct Manifest {
    /// The version of the format: of the manifest, and with it of the fingerprint.
    pub format: u32,
    pub bits: u32,
    /// The number of positions of at most `bits` bits, the empty one included.
    pub positions: u64,
    /// How many of them are losing; both of a mirror pair are counted.
    pub losing: u64,
    /// How many words the shards hold: one for each mirror pair.
    pub stored: u64,
    /// Index k holds the number of losing positions of at most k bits.
    #[serde(deserialize_with = "at_most::<_, _, LENGTHS_MAX>")]
    pub losing_by_bits: Vec<u64>,
    pub fingerprint: Digest,
    #[serde(deserialize_with = "at_most::<_, _, LENGTHS_MAX>")]
    pub fingerprints_by_bits: Vec<Digest>,
    /// The range bits with which it was made. They do not change its content.
    pub range_bits: u32,
    /// At least `replicas` participants computed each range, all with the same result.
    pub replicas: u32,
    /// The program that made it, as `chomp 1.2.3`.
    pub software: String,
    /// The shards, in the order of their words.
    #[serde(deserialize_with = "at_most::<_, _, SHARDS_MAX>")]
    pub shards: Vec<ShardInfo>,
}

/// The part of a manifest that every format has.
#[derive(Deserialize)]
struct AnyFormat {
    format: u32,
}

/// The manifest in `bytes`. Fails if its format is not `known`. Does not check whether it contradicts itself.
pub(crate) fn from_json<M: DeserializeOwned>(
    bytes: &[u8],
    kind: &str,
    known: u32,
) -> Result<M, FormatError> {
    let not_json = |error| Damage::new(format!("it is not {kind}: {error}"));
    let AnyFormat { format } = serde_json::from_slice(bytes).map_err(not_json)?;
    if format > known {
        return Err(FormatError::Newer {
            what: "the manifest",
            found: format,
            known,
        });
    }
    ensure(format == known, || format!("the unknown format {format}"))?;
    Ok(serde_json::from_slice(bytes).map_err(not_json)?)
}

pub(crate) fn to_json(manifest: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(manifest).expect("a manifest always becomes JSON");
    bytes.push(b'\n');
    bytes
}

impl Manifest {
    /// The manifest of a table with this content. Fails if the content is no valid table, as when shards are in another
    /// order, or have other words than `fingerprints`. Panics if `fingerprints` are empty.
    pub fn new(
        range_bits: RangeBits,
        replicas: u32,
        software: String,
        fingerprints: Fingerprints,
        shards: Vec<ShardInfo>,
    ) -> Result<Manifest, Damage> {
        let losing_by_bits = losing_by_bits(&fingerprints.stored_by_bits);
        let last = fingerprints
            .by_bits
            .len()
            .checked_sub(1)
            .expect("0 bits have a fingerprint too");
        let bits = u32::try_from(last).expect("at most 64 bits");
        let manifest = Manifest {
            format: FORMAT,
            bits,
            positions: positions(bits),
            losing: losing_by_bits[last],
            stored: fingerprints.stored_by_bits[last],
            losing_by_bits,
            fingerprint: fingerprints.by_bits[last],
            fingerprints_by_bits: fingerprints.by_bits,
            range_bits: range_bits.get(),
            replicas,
            software,
            shards,
        };
        manifest.check()?;
        Ok(manifest)
    }

    /// Fails if the bytes are no manifest, one of a newer format, or one that contradicts itself.
    pub fn parse(bytes: &[u8]) -> Result<Manifest, FormatError> {
        let manifest: Manifest = from_json(bytes, "a manifest", FORMAT)?;
        manifest.check()?;
        Ok(manifest)
    }

    /// The bytes of `manifest.json`.
    pub fn to_bytes(&self) -> Vec<u8> {
        to_json(self)
    }

    fn check(&self) -> Result<(), Damage> {
        ensure(self.bits <= u64::BITS, || {
            format!("{} bits; at most 64 are possible", self.bits)
        })?;
        ensure(self.positions == positions(self.bits), || {
            format!(
                "{} positions; there are {}",
                self.positions,
                positions(self.bits)
            )
        })?;
        ensure(RangeBits::new(self.range_bits).is_some(), || {
            format!("{} range bits, beyond the limits", self.range_bits)
        })?;
        ensure(self.replicas > 0, || "ranges that nobody computed")?;
        ensure(self.software.len() <= SOFTWARE_BYTES_MAX, || {
            format!(
                "a program with a name of {} bytes; {SOFTWARE_BYTES_MAX} are possible",
                self.software.len()
            )
        })?;
        self.check_counts()?;
        self.check_fingerprints()?;
        self.check_shards()?;
        self.check_leaves()
    }

    fn check_counts(&self) -> Result<(), Damage> {
        let counts = &self.losing_by_bits;
        ensure(counts.len() == self.bits as usize + 1, || {
            format!(
                "losing_by_bits has {} numbers for {} bits",
                counts.len(),
                self.bits
            )
        })?;
        let possible = |(bits, &count)| count <= losing_max(bits);
        ensure(
            counts.is_sorted() && (0..).zip(counts).all(possible),
            || "losing_by_bits falls, or counts more than there are",
        )?;
        ensure(counts.last() == Some(&self.losing), || {
            format!(
                "losing_by_bits does not end with the {} losing positions",
                self.losing
            )
        })?;
        // The losing positions that are their own mirror image: one for each even number of bits.
        let both = self.losing + u64::from(self.bits / 2);
        ensure(both.is_multiple_of(2) && self.stored == both / 2, || {
            format!(
                "{} stored words for {} losing positions",
                self.stored, self.losing
            )
        })
    }

    fn check_fingerprints(&self) -> Result<(), Damage> {
        let fingerprints = &self.fingerprints_by_bits;
        ensure(fingerprints.len() == self.bits as usize + 1, || {
            format!(
                "fingerprints_by_bits has {} for {} bits",
                fingerprints.len(),
                self.bits
            )
        })?;
        ensure(
            fingerprints.last() == Some(&self.fingerprint),
            || "fingerprints_by_bits does not end with the fingerprint",
        )
    }

    fn check_leaves(&self) -> Result<(), Damage> {
        let mut fingerprint = DigestBuilder::default();
        for shard in &self.shards {
            fingerprint.push(&shard.words_sha256.0);
        }
        ensure(
            fingerprint.finish() == self.fingerprint,
            || "the fingerprint is not that of the words_sha256 of the shards",
        )
    }

    fn check_shards(&self) -> Result<(), Damage> {
        ensure(self.shards.len() <= SHARDS_MAX, || {
            format!("{} shards", self.shards.len())
        })?;
        let full = self.shards.first().map_or(0, |shard| shard.entries);
        let mut least = 2;
        let mut entries = 0;
        for (number, shard) in self.shards.iter().enumerate() {
            ensure(shard.name == shard_name(number), || {
                let start: String = shard.name.chars().take(NAME_CHARS_SHOWN).collect();
                format!("shard {number} is called {start:?}")
            })?;
            self.check_shard(shard, least)?;
            ensure(
                shard.entries <= full && entries == full * number as u64,
                || {
                    format!(
                        "{} is larger than the first shard, or not the first smaller one",
                        shard.name
                    )
                },
            )?;
            entries += shard.entries;
            least = shard.last.saturating_add(2);
        }
        ensure(entries == self.stored, || {
            format!("the shards hold {entries} words of {}", self.stored)
        })
    }

    /// Whether `shard` can hold what it says, in words that are at least `least`.
    fn check_shard(&self, shard: &ShardInfo, least: u64) -> Result<(), Damage> {
        ensure(
            least <= shard.first && shard.last / 2 < positions(self.bits),
            || {
                format!(
                    "{} goes from word {} to {}",
                    shard.name, shard.first, shard.last
                )
            },
        )?;
        shard.check_sizes()
    }
}

/// The numbers of losing positions by bits. Each stored word counts with its mirror image, but one word of each even
/// number of bits is its own mirror image.
pub fn losing_by_bits(stored_by_bits: &[u64]) -> Vec<u64> {
    let both = |(bits, stored): (u64, &u64)| (2 * stored).saturating_sub(bits / 2);
    (0..).zip(stored_by_bits).map(both).collect()
}

/// The number of positions of at most `bits` bits.
const fn positions(bits: u32) -> u64 {
    1 << bits.saturating_sub(1)
}

/// At most half of the positions can be losing. Among positions that differ in their first row alone, each has a move
/// to all with a shorter first row, so at most one of them is losing. Their words have the same bits without the last
/// 0, the 1s before it and the 0 before these 1s. What is left is a number of two bits less, so there are 2^(bits - 2)
/// such families.
const fn losing_max(bits: u32) -> u64 {
    if bits < 2 { 0 } else { 1 << (bits - 2) }
}

/// The content of `SHA256SUMS` for the table of `manifest`, whose bytes are `manifest_bytes`.
pub fn sha256sums(manifest_bytes: &[u8], manifest: &Manifest) -> String {
    let shards = manifest.shards.iter();
    sums(
        manifest_bytes,
        shards.map(|shard| (&shard.name[..], shard.sha256)),
    )
}

/// The digests of a manifest and of some files, each with its name.
pub(crate) fn sums<'a>(
    manifest_bytes: &[u8],
    files: impl Iterator<Item = (&'a str, Digest)>,
) -> String {
    let mut sums = format!("{}  {MANIFEST_NAME}\n", Digest::of(manifest_bytes));
    for (name, digest) in files {
        writeln!(sums, "{digest}  {name}").expect("a string takes any text");
    }
    sums
}

#[cfg(test)]
mod tests;
