//! Checks of right tables, of tables with one mistake, and of each byte, beside slow twins.

#![expect(
    clippy::disallowed_methods,
    reason = "a table made for a test need not be durable"
)]

mod common;
mod every_byte;
#[path = "../../examples/check/others/mod.rs"]
mod others;
mod right_tables;
mod values;
mod windows;
mod wrong_tables;
