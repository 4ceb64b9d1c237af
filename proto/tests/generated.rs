//! The recipe of `src/v1.rs`: `just proto` writes that file anew from `proto/chomp.proto`, and
//! without `CHOMP_WRITE` it is compared with what the recipe makes.

use std::fs;
use std::path::Path;

#[test]
#[expect(clippy::disallowed_methods, reason = "a source is not part of a table")]
fn the_code_is_what_the_recipe_makes() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let protocol = here.join("proto");
    let descriptors = protox::compile([protocol.join("chomp.proto")], [protocol]).unwrap();
    tonic_prost_build::configure()
        .out_dir(folder.path())
        .compile_fds(descriptors)
        .unwrap();
    let made = fs::read_to_string(folder.path().join("chomp.v1.rs")).unwrap();
    let kept = here.join("src/v1.rs");
    if std::env::var_os("CHOMP_WRITE").is_some() {
        fs::write(&kept, &made).unwrap();
    }
    let kept = fs::read_to_string(kept).unwrap();
    assert!(
        kept == made,
        "src/v1.rs differs from what proto/chomp.proto says: run `just proto`"
    );
}
