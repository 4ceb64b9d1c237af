//! What a table of losing Chomp positions is made of, without any network: [words](Word) and
//! [positions](Position), [ranges and layers](head), the bytes of a range and of a shard, and the
//! reader that answers from a published table.
//!
//! | module | holds |
//! |---|---|
//! | [`word`], [`position`] | the two ways to write a position, its moves, its mirror image |
//! | [`definition`] | W by its definition: slow, obvious, the oracle of every test |

pub mod definition;
pub mod position;
pub mod word;

pub use position::{Cell, Position};
pub use word::Word;
