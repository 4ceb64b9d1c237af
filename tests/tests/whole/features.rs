//! The program under test has what a build may leave out, so no test passes for want of it.

use crate::common::{chomp, end, finished};

#[test]
fn the_program_under_test_has_all_features() {
    let home = finished(8);
    for format in ["parquet", "roaring"] {
        let mut export = chomp(&format!("export --format {format} --table"));
        export.arg(home.path()).arg("--out");
        end(export.arg(home.path().join(format))).done();
    }

    // The endpoint in the environment is no URL, which only the library for buckets finds out.
    let mut bucket = chomp("query --table s3://bucket 2x2");
    let ended = end(bucket.env("AWS_ENDPOINT_URL", "nowhere"));
    assert_ne!(ended.code, Some(0), "{ended:?}");
    ended.says_nothing_of("built without");
}
