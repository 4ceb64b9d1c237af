//! Exports beside slow twins of each format and filter.

#![expect(
    clippy::disallowed_methods,
    reason = "a table made for a test need not be durable"
)]

mod common;
mod each;
mod filters;
