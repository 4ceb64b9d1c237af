//! Tables of Grundy values for tests: evaluated by the kernel, changed as a test likes, and published.

use std::fs;
use std::path::{Path, PathBuf};

use chomp_kernel::Isa;
use chomp_kernel::grundy::{AreaValues, GrundyEvaluator};
use chomp_table::manifest::{MANIFEST_NAME, SHA256SUMS_NAME};
use chomp_table::values::ValuesManifest;
use chomp_table::values::manifest::values_folder_name;
use chomp_table::values::shard::{ValueShardSize, ValueShardWriter};

/// Several shards for an area of some 20 tiles.
pub const SMALL: ValueShardSize = ValueShardSize {
    frame_bits: 5,
    shard_bits: 8,
};

/// The values of all positions of each area up to `tiles`, by rank; none of 0 tiles.
pub fn areas(tiles: u32) -> Vec<Vec<u8>> {
    let mut evaluator = GrundyEvaluator::new(Isa::detect());
    let mut areas = vec![AreaValues::zeros(0)];
    for area in 1..=tiles {
        let mut values = AreaValues::zeros(area);
        evaluator.evaluate(area, 0, values.get_mut(), &areas);
        areas.push(values);
    }
    areas.iter().map(|values| values.get().to_vec()).collect()
}

/// Publishes a table with these values in the directory; what was there is replaced. Returns its folder.
pub fn publish(directory: &Path, size: ValueShardSize, areas: &[Vec<u8>]) -> PathBuf {
    let tiles = u32::try_from(areas.len()).unwrap() - 1;
    let folder = directory.join(values_folder_name(tiles));
    fs::create_dir_all(&folder).unwrap();
    let mut infos = Vec::new();
    for (number, span) in size.spans(tiles).enumerate() {
        let [start, end] =
            [span.ranks.start, span.ranks.end].map(|rank| usize::try_from(rank).unwrap());
        let values = &areas[span.area as usize][start..end];
        let mut writer = ValueShardWriter::new(number, span);
        writer.push(values);
        let (info, bytes) = writer.finish();
        fs::write(folder.join(&info.name), bytes).unwrap();
        infos.push(info);
    }
    let manifest = ValuesManifest::new(tiles, size, 1, "chomp 0.1.0".into(), infos).unwrap();
    let bytes = manifest.to_bytes();
    fs::write(folder.join(SHA256SUMS_NAME), manifest.sha256sums(&bytes)).unwrap();
    fs::write(folder.join(MANIFEST_NAME), bytes).unwrap();
    folder
}
