//! Tables that are larger than the disk.

use super::server::{BITS, Server};
use super::*;

/// A manifest of 64 bits may promise terabytes.
#[tokio::test]
async fn more_than_the_disk_has_is_refused() {
    let server = Server::start().await;
    let out = tempfile::tempdir().unwrap();
    let report = get(config(&server.url(), out.path())).await.unwrap();
    let shards = report.manifest.shards();
    let last = shards.last().unwrap();
    let promised = |bytes| ShardFileInfo {
        bytes,
        name: "shard-9999.zst".into(),
        ..last.clone()
    };
    let shards = [promised(1 << 40), last.clone(), promised(1 << 41)];
    let target = TargetFolder::acquire(out.path(), TableName::Losing(BITS)).unwrap();
    target.check_free(&shards, 3 << 40).unwrap();
    let error = target
        .check_free(&shards, (3 << 40) - 1)
        .unwrap_err()
        .to_string();
    assert!(error.contains("takes 3298534883328 bytes more"), "{error}");
    // The bytes of a partial file are not needed again, unless it is too long.
    write(&report.folder.join("shard-9999.zst.partial"), &[0; 100]);
    target.check_free(&shards[..1], (1 << 40) - 100).unwrap();
    target
        .check_free(&shards[..1], (1 << 40) - 101)
        .unwrap_err();
    target.check_free(&[promised(99)], 98).unwrap_err();
}
