//! Finds which of many positions a table lists, in one pass over the table. Positions and words are sorted.

use chomp_table::{Table, Word};

use crate::{CheckError, Watch, each_piece};

/// A position that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Query {
    /// The smaller of its word and its mirror image.
    representative: u64,
    /// The number by which the caller knows the query.
    tag: u32,
}

impl Query {
    /// Asks for the position of `word`.
    pub fn new(word: Word, tag: u32) -> Query {
        Query {
            representative: word.representative().get(),
            tag,
        }
    }
}

/// Calls `found` with the tag of each query whose position the table lists. Sorts the queries.
pub fn join(
    table: &Table,
    queries: &mut [Query],
    watch: Watch<'_>,
    mut found: impl FnMut(u32),
) -> Result<(), CheckError> {
    queries.sort_unstable();
    let mut rest = &*queries;
    each_piece(table, watch, |words| {
        let mut words = words.iter().copied().peekable();
        while let (Some(&word), Some(query)) = (words.peek(), rest.first()) {
            if word < query.representative {
                words.next();
            } else {
                if word == query.representative {
                    found(query.tag);
                }
                rest = &rest[1..];
            }
        }
        Ok(())
    })
}
