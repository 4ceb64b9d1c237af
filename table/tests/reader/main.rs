//! The reader, asked about small tables on disk.

#![expect(
    clippy::disallowed_methods,
    reason = "a table made for a test need not be durable"
)]

mod alone;
mod common;
mod published;
mod together;
