//! Generates the gRPC code with a protobuf compiler written in Rust: no system protoc is needed.

use std::error::Error;
use std::path::PathBuf;

use prost::Message;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(["proto/chomp.proto"], ["proto"])?;
    let folder = PathBuf::from(std::env::var("OUT_DIR")?);
    #[expect(clippy::disallowed_methods, reason = "not part of a table")]
    std::fs::write(folder.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
