//! A table of Grundy values from the kernel to the bytes, against the fingerprints in `docs/FORMAT.md`.

use chomp_kernel::grundy::{Evaluation, Lower};
use chomp_table::partition::count;
use chomp_table::values::ValuesManifest;
use chomp_table::values::record::{decode, encode};
use chomp_table::values::shard::{ShardSize, ValueShardInfo, ValueShardWriter};

/// The shards of a table, each area evaluated from the records of those before.
fn shards(tiles: u32) -> Vec<ValueShardInfo> {
    let mut records: Vec<Vec<u8>> = Vec::new();
    let size = ShardSize::PUBLISHED;
    for area in 1..=tiles {
        let read = records.iter().map(|record| decode(record).unwrap().2);
        let values: Vec<Vec<u8>> = read.collect();
        let mut lower = Lower::new(24);
        for (area, values) in (1..).zip(&values) {
            lower.put(area, vec![values]);
        }
        let mut evaluation = Evaluation::new(area, 0..count(area));
        evaluation.apply(&lower);
        records.push(encode(area, 0, &evaluation.finish()));
    }
    let shards = size.places(tiles).zip(&records).enumerate();
    let shards = shards.map(|(number, (place, record))| {
        let mut writer = ValueShardWriter::new(number, place);
        writer.push(&decode(record).unwrap().2);
        writer.finish().0
    });
    shards.collect()
}

#[test]
fn tables_have_the_fingerprints_on_the_page() {
    let page = include_str!("../../docs/FORMAT.md");
    let manifest = ValuesManifest::new(40, ShardSize::PUBLISHED, 1, "chomp".into(), shards(40));
    let manifest = manifest.unwrap();
    for tiles in [10, 26, 40] {
        let fingerprint = manifest.fingerprint_of(tiles).unwrap();
        let line = format!("| {tiles} tiles | {fingerprint} |\n");
        assert!(page.contains(&line), "{line}");
    }
    let losing = manifest
        .areas
        .iter()
        .map(|area| area.positions_by_value()[0]);
    assert_eq!(
        losing.skip(26).take(4).collect::<Vec<_>>(),
        [107, 136, 177, 220]
    );
}
