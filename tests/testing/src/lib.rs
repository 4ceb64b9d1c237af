//! Helpers for the tests of several crates.
//!
//! | module | what |
//! |---|---|
//! | [`mod@trials`] | random cases: a least number, and more for a stated time |
//! | [`waiting`] | waiting for an event, and the end of what hangs |
//! | [`needs`] | programs and rights that not every machine has |
//! | `definition` | W by its definition: slow, obvious, the oracle of every test |
//! | `tables` | small tables of losing positions, by the definition |
//! | `values` | small tables of Grundy values |
//!
//! The last three need the feature `tables`.

#[cfg(feature = "tables")]
pub mod definition;
pub mod needs;
#[cfg(feature = "tables")]
pub mod tables;
pub mod trials;
#[cfg(feature = "tables")]
pub mod values;
pub mod waiting;

pub use trials::{effort, ns_each, trials};
