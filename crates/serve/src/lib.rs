//! The HTTP server: connections, and what everybody may see of finished tables: their files, answers to questions as
//! JSON, and pages for people.
//!
//! | module | holds |
//! |---|---|
//! | [`net`] | connections and their limits |
//! | `routes` | all open routes and their common rules |
//! | [`site`] | the state that the routes share |
//! | [`answer`] | short texts as answers; refusals |
//! | `published` | which files of finished tables are for everybody; damage, which is logged for the owner alone |
//! | `files` | which bytes of a file a request wants; the body that sends them |
//! | `tables` | the list of finished tables, and their files |
//! | `current` | the tables that answer questions |
//! | `open_table`, `once` | a table of losing positions, and results that are computed from it once |
//! | `api` | the questions about positions, boards and the table |
//! | `games` | the small games beside Chomp |
//! | `question_threads` | the threads that work answers out, and the queues for them |
//! | [`job`] | the status of a job: the fields of its JSON |
//! | [`status`] | the progress of a job, once or as events |
//! | `pages` | the pages for people, and their files |
//! | `plain_files` | the pages without a server |
//!
//! # What always holds
//!
//! * Open routes send no file of the disk but manifests, and the shards that a manifest lists. A shard is sent only if
//!   its digest is the one in the manifest. Pages and descriptions are part of the program, and no path of a request
//!   becomes a path of a file.
//! * An answer is right, or an error. A damaged table gives status 500. Only the log says where the damage is.
//! * Named limits say how much memory, connections and time peers may take: in `net/limits.rs`, and for questions at
//!   the top of `answer`, `question_threads`, `api` and `games`.
//! * The threads that serve calls read no table.
//! * Each subscriber keeps only the newest status, so a slow reader delays nobody.
//! * The pages need no build step and load nothing from other servers. Their scripts insert texts as text, never as
//!   HTML. Pages ask the table what is won or lost, and the server for the moves of small games.
//! * A page drops an answer that comes after the visitor did something else, so it makes no move nobody asked for.

pub mod answer;
mod api;
mod current;
mod files;
mod games;
pub mod job;
pub mod net;
mod once;
mod open_table;
mod pages;
mod plain_files;
mod published;
mod question_threads;
mod routes;
pub mod site;
pub mod status;
mod tables;
#[cfg(test)]
mod tests;

#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use files::is_satisfiable;
pub use files::{BodyChunk, ChunkBody};
pub use plain_files::{PlainFile, plain_files};
pub use question_threads::QuestionLimits;
pub use routes::StatusSource;
pub use site::{Site, SiteOptions};
pub use status::StatusText;
