//! The reader, asked about small tables on disk, and the test vectors of the formats.

#![expect(
    clippy::disallowed_methods,
    reason = "a table made for a test need not be durable"
)]

mod alone;
mod format;
mod published;
mod together;
