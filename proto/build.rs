//! Generates the gRPC code with a protobuf compiler written in Rust: no system protoc is needed.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(["proto/chomp.proto"], ["proto"])?;
    tonic_prost_build::configure()
        .bytes(".chomp.v1.Piece.data")
        .compile_fds(descriptors)?;
    Ok(())
}
