//! The protocol between coordinator and workers, generated from `proto/chomp.proto`.
//!
//! These are wire types. They end at the transport modules of the coordinator and the worker,
//! which turn them into types that cannot be wrong.

/// The version of the protocol. Both sides must have the same.
pub const PROTOCOL: u32 = 2;

/// The most ranges that may be asked for in one call of `Fetch`.
pub const FETCH_RANGES_MAX: usize = 1 << 12;

/// The descriptors of `chomp.proto`, as a `google.protobuf.FileDescriptorSet`: the list of all calls.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// The messages and services.
#[expect(
    missing_docs,
    clippy::allow_attributes_without_reason,
    clippy::pedantic,
    reason = "generated code; the .proto file documents it"
)]
pub mod v1 {
    tonic::include_proto!("chomp.v1");
}
