//! The manifest of a table of values: what it is, and the digest of every byte of it.
//!
//! A table of values is a folder with the same file names as a table of losing positions. Shards are numbered by area,
//! then by ranks, so a table of more tiles begins with the shards of a table of fewer.
//!
//! **Fingerprint**: the leaf of a shard is the SHA-256 of its values, one byte each. The fingerprint of an area is the
//! SHA-256 of its leaves, and that of a table the SHA-256 of the fingerprints of its areas, 32 bytes each, in their
//! order. With the shards of published tables it depends on the mathematics alone.
//!
//! Limits: 1 to 120 tiles, 65,536 shards, 32 MiB for the manifest, 256 bytes for the name of the program. The counts
//! have to add up to the positions of each area, so a manifest cannot promise more than there is.
//!
//! Version history: 1 is the first.

use serde::{Deserialize, Serialize};

use super::shard::{ShardSpan, ValueShardInfo, ValueShardSize};
use crate::digest::{Digest, DigestBuilder};
use crate::format::{Damage, FormatError, ensure};
use crate::manifest::bounded::at_most;
use crate::manifest::{SHARDS_MAX, SOFTWARE_BYTES_MAX, from_json, sums, to_json};
use crate::partition::{AREA_MAX, count, count_representatives};
use crate::shard::shard_name;

const FORMAT: u32 = 1;

/// The folder of the published table of values of at most `tiles` tiles in the directory of a table.
pub fn values_folder_name(tiles: u32) -> String {
    format!("values-{tiles:03}")
}

/// The content of `manifest.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are named for what they are")]
pub struct ValuesManifest {
    pub format: u32,
    /// The table has the values of all positions of 1 to `tiles` tiles.
    pub tiles: u32,
    pub frame_bits: u32,
    pub shard_bits: u32,
    pub fingerprint: Digest,
    /// At least `replicas` participants computed each range, all with the same result.
    pub replicas: u32,
    /// The program that made it, as `chomp 1.2.3`.
    pub software: String,
    /// The areas, from one tile on.
    #[serde(deserialize_with = "at_most::<_, _, { AREA_MAX as usize }>")]
    pub areas: Vec<AreaInfo>,
}

/// The positions of one number of tiles, as a manifest describes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AreaInfo {
    /// The number of tiles.
    pub tiles: u32,
    /// The fingerprint of the area.
    pub fingerprint: Digest,
    /// The shards, in the order of their ranks.
    #[serde(deserialize_with = "at_most::<_, _, SHARDS_MAX>")]
    pub shards: Vec<ValueShardInfo>,
}

impl AreaInfo {
    /// Index v holds the number of positions with the value v, both of a mirror pair counted; the last number is not 0.
    pub fn positions_by_value(&self) -> Vec<u64> {
        let mut all: Vec<u64> = Vec::new();
        for shard in &self.shards {
            let counts = &shard.positions_by_value;
            all.resize(all.len().max(counts.len()), 0);
            for (sum, more) in all.iter_mut().zip(counts) {
                *sum = sum.saturating_add(*more);
            }
        }
        all
    }

    fn fingerprint_of_leaves(&self) -> Digest {
        combine(self.shards.iter().map(|shard| shard.values_sha256))
    }
}

fn combine(digests: impl Iterator<Item = Digest>) -> Digest {
    let mut builder = DigestBuilder::default();
    digests.for_each(|digest| builder.push(&digest.0));
    builder.finish()
}

impl ValuesManifest {
    /// The manifest of a table of `tiles` tiles with these shards. Fails if they are not the shards of such a table.
    pub fn new(
        tiles: u32,
        size: ValueShardSize,
        replicas: u32,
        software: String,
        shards: Vec<ValueShardInfo>,
    ) -> Result<ValuesManifest, Damage> {
        let tiles_possible = (1..=AREA_MAX).contains(&tiles) && size.is_valid();
        ensure(tiles_possible, || format!("a table of {tiles} tiles"))?;
        let mut shards = shards.into_iter();
        let area = |tiles| {
            let number = count(tiles).div_ceil(1 << size.shard_bits);
            let number = usize::try_from(number).expect("at most 2^31");
            let mut area = AreaInfo {
                tiles,
                fingerprint: Digest::default(),
                shards: shards.by_ref().take(number).collect(),
            };
            area.fingerprint = area.fingerprint_of_leaves();
            area
        };
        let areas: Vec<AreaInfo> = (1..=tiles).map(area).collect();
        ensure(shards.next().is_none(), || "more shards than the table has")?;
        let manifest = ValuesManifest {
            format: FORMAT,
            tiles,
            frame_bits: size.frame_bits,
            shard_bits: size.shard_bits,
            fingerprint: combine(areas.iter().map(|area| area.fingerprint)),
            replicas,
            software,
            areas,
        };
        manifest.check()?;
        Ok(manifest)
    }

    /// Fails if the bytes are no manifest, one of a newer format, or one that contradicts itself.
    pub fn parse(bytes: &[u8]) -> Result<ValuesManifest, FormatError> {
        let manifest: ValuesManifest = from_json(bytes, "a manifest of values", FORMAT)?;
        manifest.check()?;
        Ok(manifest)
    }

    /// The bytes of `manifest.json`.
    pub fn to_bytes(&self) -> Vec<u8> {
        to_json(self)
    }

    /// The content of `SHA256SUMS` for this manifest, whose bytes are `manifest_bytes`.
    pub fn sha256sums(&self, manifest_bytes: &[u8]) -> String {
        let files = self.shards().map(|shard| (&shard.name[..], shard.sha256));
        sums(manifest_bytes, files)
    }

    /// The sizes of the frames and shards.
    pub fn size(&self) -> ValueShardSize {
        ValueShardSize {
            frame_bits: self.frame_bits,
            shard_bits: self.shard_bits,
        }
    }

    /// All shards, in the order of their numbers.
    pub fn shards(&self) -> impl Iterator<Item = &ValueShardInfo> {
        self.areas.iter().flat_map(|area| &area.shards)
    }

    /// The ranks of all shards, in the order of their numbers.
    pub fn spans(&self) -> impl Iterator<Item = ShardSpan> {
        self.size().spans(self.tiles)
    }

    /// The fingerprint of the table of at most `tiles` tiles that this one contains.
    pub fn fingerprint_of(&self, tiles: u32) -> Option<Digest> {
        let areas = self.areas.get(..tiles as usize)?;
        Some(combine(areas.iter().map(|area| area.fingerprint)))
    }

    fn check(&self) -> Result<(), Damage> {
        ensure(
            (1..=AREA_MAX).contains(&self.tiles) && self.size().is_valid(),
            || "tiles or bits beyond the limits",
        )?;
        ensure(self.replicas > 0, || "ranges that nobody computed")?;
        ensure(
            self.software.len() <= SOFTWARE_BYTES_MAX,
            || "a program with too long a name",
        )?;
        let tiles = self.areas.iter().map(|area| area.tiles);
        ensure(tiles.eq(1..=self.tiles), || "areas are missing")?;
        let mut numbers = 0..;
        for area in &self.areas {
            self.check_area(area, numbers.by_ref())?;
        }
        ensure(
            Some(self.fingerprint) == self.fingerprint_of(self.tiles),
            || "the fingerprint is not that of the areas",
        )
    }

    fn check_area(
        &self,
        area: &AreaInfo,
        numbers: impl Iterator<Item = usize>,
    ) -> Result<(), Damage> {
        let tiles = area.tiles;
        let shards = count(tiles).div_ceil(1 << self.shard_bits);
        ensure(area.shards.len() as u64 == shards, || {
            format!("{} shards of {tiles} tiles", area.shards.len())
        })?;
        for ((span, shard), number) in self.size().spans_of(tiles).zip(&area.shards).zip(numbers) {
            ensure(shard.name == shard_name(number), || {
                format!("shard {number} has another name")
            })?;
            shard.check(&span)?;
        }
        let stored: u64 = area.shards.iter().map(|shard| shard.stored).sum();
        let positions = area.positions_by_value().iter().sum::<u64>();
        ensure(
            stored == count_representatives(tiles) && positions == count(tiles),
            || format!("{stored} values for {positions} positions of {tiles} tiles"),
        )?;
        ensure(area.fingerprint == area.fingerprint_of_leaves(), || {
            format!("the fingerprint of {tiles} tiles is not that of the shards")
        })
    }
}
