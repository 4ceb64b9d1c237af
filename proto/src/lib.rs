//! The protocol between coordinator and workers, as `proto/chomp.proto` has it: `v1.rs` is
//! generated, and `tests/generated.rs` is its recipe.
//!
//! These are wire types. They end at the transport modules of the coordinator and the worker,
//! which turn them into types that cannot be wrong.

/// The version of the protocol. Both sides must have the same.
pub const PROTOCOL: u32 = 9;

/// Where the coordinator's relay has the objects of the store: `GET` and `PUT` of this, followed by the
/// key of an object.
pub const OBJECTS_PATH: &str = "/objects/";

/// The header of a `PUT` that names the worker, as a decimal number.
pub const WORKER_HEADER: &str = "chomp-worker";

/// The messages and services.
#[expect(
    missing_docs,
    clippy::allow_attributes_without_reason,
    clippy::pedantic,
    reason = "generated code; the .proto file documents it"
)]
#[rustfmt::skip]
pub mod v1;
