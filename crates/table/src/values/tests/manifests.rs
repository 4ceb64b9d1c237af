//! Tests of the manifests of values: their content, and what is refused.

use super::*;

#[test]
fn a_manifest_of_either_kind_tells_of_its_files() {
    let directory = tempfile::tempdir().unwrap();
    let shards = shards(11);
    let manifest = manifest(11, &shards);
    publish(directory.path(), &manifest, &shards);
    let bytes = manifest.to_bytes();
    let any = AnyManifest::parse(&bytes).unwrap();
    assert_eq!(any, AnyManifest::Values(manifest.clone()));
    assert_eq!(any.size(), 11);
    assert_eq!(any.sha256sums(&bytes), manifest.sha256sums(&bytes));
    let files = any.shards().into_iter();
    assert!(
        files
            .map(|file| (file.name, file.bytes, file.sha256))
            .eq(shards.iter().map(|(info, bytes)| {
                (info.name.clone(), bytes.len() as u64, Digest::of(bytes))
            }))
    );
    let verify = || any.verify_bytes(directory.path().to_path_buf());
    verify().unwrap();
    let mut damaged = shards;
    damaged.last_mut().unwrap().1[0] ^= 1;
    publish(directory.path(), &manifest, &damaged);
    assert!(verify().is_err());
}

#[test]
fn manifests_count_what_the_shards_hold() {
    let tiles = 17;
    let shards = shards(tiles);
    let manifest = manifest(tiles, &shards);
    assert_eq!(
        ValuesManifest::parse(&manifest.to_bytes()),
        Ok(manifest.clone())
    );
    let mut all = SMALL.spans(tiles).zip(&shards).peekable();
    for info in &manifest.areas {
        let mut counts = vec![0; 17];
        for value in area(info.tiles) {
            counts[usize::from(value)] += 1;
        }
        while counts.last() == Some(&0) {
            counts.pop();
        }
        assert_eq!(info.positions_by_value(), counts);
        let mut stored = Vec::new();
        while let Some((span, (info, bytes))) = all.next_if(|(p, _)| p.area == info.tiles) {
            stored.extend(decode_shard(bytes, info, &span).unwrap());
        }
        let representatives = (0..count(info.tiles)).map(|rank| Partition::at(info.tiles, rank));
        let representatives = representatives.filter(Partition::is_representative);
        assert!(
            representatives
                .map(|one| made_up(&one))
                .eq(stored.iter().copied())
        );
        assert_eq!(stored.len() as u64, count_representatives(info.tiles));
    }
    // A table of fewer tiles is the first files of one of more.
    let fewer = self::shards(16);
    assert_eq!(fewer, shards[..fewer.len()]);
    let fewer = self::manifest(16, &fewer);
    assert_eq!(manifest.fingerprint_of(16), Some(fewer.fingerprint));
    assert_eq!(manifest.fingerprint_of(18), None);
    // The fingerprint by hand.
    let area = |area: &manifest::AreaInfo| {
        let leaves = area.shards.iter().flat_map(|shard| shard.values_sha256.0);
        Digest::of(&leaves.collect::<Vec<u8>>()).0
    };
    let areas: Vec<u8> = manifest.areas.iter().flat_map(area).collect();
    assert_eq!(manifest.fingerprint, Digest::of(&areas));
}

#[test]
fn manifests_that_contradict_themselves_are_refused() {
    let manifest = manifest(12, &shards(12));
    let honest: Value = serde_json::from_slice(&manifest.to_bytes()).unwrap();
    for (pointer, value) in [
        ("/format", json!(0)),
        ("/tiles", json!(11)),
        ("/tiles", json!(121)),
        ("/frame_bits", json!(15)),
        ("/frame_bits", json!(4)),
        ("/shard_bits", json!(4)),
        ("/shard_bits", json!(16)),
        ("/shard_bits", json!(25)),
        ("/replicas", json!(0)),
        ("/software", json!("a".repeat(257))),
        ("/fingerprint", json!(Digest::of(b""))),
        ("/areas/3/fingerprint", json!(Digest::of(b""))),
        ("/areas/3/tiles", json!(5)),
        ("/areas/3/shards", json!([])),
        ("/areas/3/shards/0/name", json!("../shard-0003.zst")),
        ("/areas/3/shards/0/stored", json!(4)),
        ("/areas/3/shards/0/stored", json!(u64::MAX)),
        ("/areas/3/shards/0/bytes", json!(400)),
        ("/areas/3/shards/0/index_offset", json!(u64::MAX)),
        ("/areas/3/shards/0/values_sha256", json!(Digest::of(b""))),
        ("/areas/3/shards/0/positions_by_value", json!([2, 2])),
        ("/areas/3/shards/0/positions_by_value", json!([5, 0])),
        (
            "/areas/3/shards/0/positions_by_value",
            json!([1, 1, 1, 1, 1]),
        ),
        ("/areas/3/shards/0/positions_by_value", json!(vec![1; 121])),
        ("/areas/3/shards/0/positions_by_value", json!([u64::MAX, 6])),
    ] {
        let mut changed = honest.clone();
        *changed.pointer_mut(pointer).unwrap() = value.clone();
        let parsed = ValuesManifest::parse(changed.to_string().as_bytes());
        assert!(
            matches!(parsed, Err(FormatError::Damaged(_))),
            "{pointer} {value}"
        );
    }
    let mut newer = honest;
    newer["format"] = json!(2);
    newer["more"] = json!(1);
    let newer = ValuesManifest::parse(newer.to_string().as_bytes());
    assert!(matches!(newer, Err(FormatError::Newer { .. })));
    let infos = |tiles| shards(tiles).into_iter().map(|(info, _)| info).collect();
    for (tiles, shards) in [(0, 1), (121, 1), (3, 4), (4, 3)] {
        let made = ValuesManifest::new(tiles, SMALL, 1, String::new(), infos(shards));
        assert!(made.is_err(), "{tiles}");
    }
}
