//! Connections, and what everybody may see of finished tables over HTTP: their files, answers to
//! questions as JSON, and pages for people.
//!
//! | module | holds |
//! |---|---|
//! | [`net`] | connections, and what they may cost |
//! | [`site`] | all that is open, put together |
//! | `door` | what every open route has in common |
//! | `tables` | the list of finished tables, and their files |
//! | `published` | which files that are |
//! | `conditions`, `body` | which part of a file a request wants; its bytes on their way |
//! | `current` | the table that answers questions |
//! | `api` | the questions about positions, boards and the table |
//! | `openings`, `counts`, `facts` | what is found out of a table once |
//! | `values` | the table of Grundy values that answers |
//! | `games` | the small games beside Chomp |
//! | `lookups` | the threads that work answers out, and the queues for them |
//! | [`status`] | how a job gets on, once or as events |
//! | `pages` | the pages for people, and their files |
//! | [`answer`] | answers that are short texts |
//! | `complaints` | what is damaged, told to the owner alone |

pub mod answer;
mod api;
mod body;
mod complaints;
mod conditions;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use conditions::is_part;
mod counts;
mod current;
mod door;
mod facts;
mod games;
mod lookups;
pub mod net;
mod openings;
mod pages;
mod published;
pub mod site;
pub mod status;
mod tables;
#[cfg(test)]
mod tests;
mod values;

pub use site::{Options, Site, Source};
pub use status::Told;
