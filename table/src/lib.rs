//! What a table of losing Chomp positions is made of, without any network: [words](Word) and
//! [positions](Position), [ranges and layers](head), the bytes of a range and of a shard, and the
//! reader that answers from a published table.
//!
//! | module | holds |
//! |---|---|
//! | [`word`], [`position`] | the two ways to write a position, its moves, its mirror image |
//! | [`definition`] | W by its definition: slow, obvious, the oracle of every test |
//! | [`head`], [`sources`] | ranges, layers, and which ranges a range draws on |
//! | [`digest`], [`format`](mod@format) | SHA-256 digests; why bytes are refused |
//! | [`gaps`], [`classes`], [`range`], [`shard`], [`manifest`] | the bytes, as `docs/FORMAT.md` describes them |
//! | [`pieces`] | records cut for messages of bounded size |
//! | [`fingerprint`] | the one number that names a table's content |
//! | [`reader`] | opens a published table and looks positions up |

pub mod classes;
pub mod definition;
pub mod digest;
pub mod fingerprint;
pub mod format;
pub mod gaps;
pub mod head;
pub mod manifest;
pub mod pieces;
pub mod position;
pub mod range;
pub mod reader;
pub mod shard;
pub mod sources;
pub mod word;

pub use digest::Digest;
pub use head::{Head, RangeBits};
pub use position::{Cell, Position};
pub use range::{Range, RangeSummary};
pub use reader::{ShardFile, Table, TableError};
pub use word::Word;
