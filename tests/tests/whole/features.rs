//! The program under test has what a build may leave out, so no test passes for want of it.

use crate::common::{end, program, run};

#[test]
fn the_program_under_test_has_all_features() {
    let home = tempfile::tempdir().unwrap();
    end(&mut run(home.path(), 8)).summary();
    let mut parquet = program();
    parquet.args(["export", "--format", "parquet", "--table"]);
    parquet.arg(home.path()).arg("--out");
    let ended = end(parquet.arg(home.path().join("positions.parquet")));
    assert_eq!(ended.code, Some(0), "{ended:?}");

    // The endpoint in the environment is no URL, which only the library for buckets finds out.
    let mut bucket = program();
    bucket.args(["query", "--table", "s3://bucket", "2x2"]);
    let ended = end(bucket.env("AWS_ENDPOINT_URL", "nowhere"));
    assert_ne!(ended.code, Some(0), "{ended:?}");
    assert!(!ended.stderr.contains("built without"), "{ended:?}");
}
