//! Connections, and what is shown of finished tables over HTTP.
//!
//! | module | holds |
//! |---|---|
//! | [`net`] | connections, and what they may cost |
//! | [`tables`] | the list of finished tables, and their files |
//! | `published` | which files that are |
//! | `conditions` | which part of a file a request wants |
//! | `body` | the bytes of a file on their way |
//! | [`answer`] | answers that are short texts |

pub mod answer;
mod body;
mod conditions;
pub mod net;
mod published;
pub mod tables;
#[cfg(test)]
mod tests;
