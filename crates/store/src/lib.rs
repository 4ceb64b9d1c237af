//! The store: immutable objects that coordinator and workers share, and the meaning of each object of a table.
//!
//! | module | holds |
//! |---|---|
//! | [`objects`] | objects by key: a directory, a bucket, or a simulation that fails on demand |
//! | [`location`] | where a store is, as users write it, and how it is opened |
//! | [`part`] | the result of a task: the records of some ranges |
//! | [`tasks`] | the outputs of tasks, also while a runtime is shut down |
//! | `entry`, `shard_summary` | what a journal says: which ranges and shards are done, by whom |
//! | [`journal`] | numbered segments with entries, each created only if absent |
//! | [`ledger`] | what a journal adds up to: where the record of each range is |
//! | [`merge`] | how ranges become the words of a shard |
//! | [`published`] | the shards and the manifest of a table |
//! | [`restore`] | how the ranges of a published table are made from its shards |
//! | [`retry`] | pauses before attempts, and what the log says of outages |
//! | `envelope`, `keys` | the frame of the journal's objects, and the names of all objects |
//!
//! Workers put parts and shards. The coordinator alone writes the journal.
//!
//! # What always holds
//!
//! * An object is created whole, and never overwritten. Only a file of a table without manifest is removed and created
//!   anew, if it is not what it should be. `clippy.toml` bans the functions that overwrite, or that write without a
//!   sync.
//! * The journal is the only record of what is done. No range or shard counts as finished before a segment says so. A
//!   worker uses a record only after it has compared the digest with the one in the journal.
//! * A fault of the storage that can pass ([`FaultKind::Passing`]) is retried here, and by no caller. A creation whose
//!   outcome is not known is read back. After the failed sync of a folder nothing is written any more, and the process
//!   ends: see [`objects`].
//! * The store decides nothing about work.
//!
//! # What a crash can do
//!
//! | object | says | a crash before it is durable | a crash after |
//! |---|---|---|---|
//! | `lock` | a process owns the directory | the next process makes it | the system has given the lock back, and the next process takes it |
//! | `work/journal/<n>` | segment n, with entries: ranges are done, with their part and their finders; ranges are withdrawn, lost or confirmed; a shard is done; a party is out; a coordinator took over | nothing was acknowledged; the worker completes the task again | the entries count |
//! | `work/checkpoints/<n>` | what all segments below n add up to | the next coordinator reads the segments instead | it reads fewer segments |
//! | `work/parts/<layer>/<lease>` | records of ranges of one layer, the result of one lease | the worker has not completed the task: another one computes it | the worker completes the task. If it dies first, no segment names the part. Publication removes the part; a coordinator that relayed it removes it earlier |
//! | `table-<bits>/shard-<n>.zst` | the losing positions after those of shard n - 1 | a worker merges the shard again | the worker completes the task. If it dies first, another one merges the shard again. If its bytes differ, they replace the file, as there is no manifest yet |
//! | `table-<bits>/SHA256SUMS` | the digests of the other files | the next coordinator makes it again | the next coordinator finds it right, and writes the manifest |
//! | `table-<bits>/manifest.json` | there is a table | there is none: nobody reads the other files | the table is finished, and no byte of it is ever replaced |
//!
//! The system may show segments that the disk does not have, if a sync of an earlier process failed. So a coordinator,
//! when it starts, writes a checkpoint of the segments that it has read, before it relies on them: the checkpoint is
//! durable.
//!
//! Under its own name an object is complete or absent: in a directory by the steps that `objects/local.rs` lists; in a
//! bucket the server promises it, and a coordinator tries that out when it starts.
//!
//! A coordinator that reads a damaged segment ends with code 3 and the name of the object. In place of a damaged
//! checkpoint it reads an older one and the segments after that, or all segments; it ends with code 3 if these do not
//! reach as far as the damaged checkpoint.
//!
//! When the table is published, parts and older checkpoints are removed. Where the owner alone has computed the table,
//! a part is removed earlier: as soon as its ranges, and all ranges after them, are in durable shards. If the mirror
//! sums then show that the table is wrong, the ranges without a part are computed again, so that the wrong range is
//! found. The journal's segments stay: see [`journal`].

mod entry;
mod envelope;
pub mod journal;
mod keys;
pub mod ledger;
pub mod location;
pub mod merge;
pub mod objects;
pub mod part;
pub mod published;
pub mod restore;
pub mod retry;
mod shard_summary;
pub mod tasks;

use chomp_table::{Head, RangeBits};

pub use chomp_durable_files::FaultKind;
pub use chomp_plan::Finders;
pub use entry::Entry;
pub use journal::{Follower, Journal};
pub use keys::PartName;
pub use ledger::Ledger;
pub use objects::{Key, KeyError, READS_MAX, Storage, StorageError, StorageProblem};
pub use part::{PlacedRange, RangeRow};
pub use shard_summary::{Difference, LengthSums, ShardSummary};

/// A failure of a store, by how a caller can react to it.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the variants are named for what they are")]
pub enum StoreError {
    /// The journal is intact, but what was asked for does not fit it: another version or other range bits, say. The
    /// text says what to do.
    #[error("{0}")]
    Refused(String),
    /// An object of the journal or of the table is not what was written under its key.
    #[error("{key} is damaged: {what}")]
    Damaged { key: Key, what: String },
    #[error("the table was taken over by another coordinator: it wrote {key}")]
    Fenced { key: Key },
    /// The record of a range is missing, or is not what the journal says. The range has to be computed again.
    #[error("the record of range {head} in {key} is lost or damaged: {what}")]
    Lost { head: Head, key: Key, what: String },
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl StoreError {
    /// The table was begun with ranges of `table` bits, and a job asks for others.
    pub fn other_range_bits(table: RangeBits, asked: RangeBits) -> StoreError {
        StoreError::Refused(format!(
            "the table has {table} range bits, {asked} range bits were asked for: leave them out, or use another directory"
        ))
    }

    fn damaged(key: &Key, what: impl Into<String>) -> StoreError {
        StoreError::Damaged {
            key: key.clone(),
            what: what.into(),
        }
    }
}

/// Runs a future that is complete when first polled, as those of simulations and of directories
/// without a runtime are.
#[cfg(test)]
fn ready<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("the future is not complete when first polled"),
    }
}
