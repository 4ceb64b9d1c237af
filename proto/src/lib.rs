//! The protocol between coordinator and workers, generated from `proto/chomp.proto`.
//!
//! These are wire types. They end at the transport modules of the coordinator and the worker,
//! which turn them into types that cannot be wrong.

/// The version of the protocol. Both sides must have the same.
pub const PROTOCOL: u32 = 4;

/// Where the coordinator's proxy has the objects of the store: `GET` and `PUT` of this, followed by the
/// key of an object.
pub const OBJECTS_PATH: &str = "/objects/";

/// The header of a `PUT` that names the worker, as a decimal number.
pub const WORKER_HEADER: &str = "chomp-worker";

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
