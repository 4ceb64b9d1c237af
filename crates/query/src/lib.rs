//! Answers about positions, from a table or without one.
//!
//! | module | holds |
//! |---|---|
//! | [`answer`](mod@answer) | all answers about one position |
//! | [`certificate`] | proofs that a first move wins |
//! | [`openings`](mod@openings) | the winning first moves of rectangles |
//! | [`inside`] | how many moves a game takes, perfect play, and Grundy values, without a table |
//! | [`solve`](mod@solve) | an answer without a table |
//! | [`sum`](mod@sum) | the value of boards side by side, and the moves that win |
//! | [`drawing`] | a board as lines of text |
//! | [`values`] | answers from a table of Grundy values |
//!
//! # What always holds
//!
//! * An answer depends only on which positions are losing. A caller gives a [`Losing`], or limits of the work that
//!   computes them.

pub mod answer;
pub mod certificate;
pub mod drawing;
pub mod inside;
pub mod openings;
pub mod solve;
pub mod sum;
pub mod values;

pub use answer::{Answer, PositionVerdict, answer, answers, reply, verdicts};
pub use certificate::{Certificate, CertificateError, Found, Search};
pub use inside::{INSIDE_MAX, Inside, TooManyInside, mirrored};
pub use openings::{Opening, of_board, of_box, opening, openings, openings_to, with_boxes};
pub use solve::{SolveError, SolveLimits, solve};
pub use sum::{SumAnswer, SumError, sum};
pub use values::{ValueAnswer, Valued, value_answers, valued};

use chomp_table::{ShardFile, Table, TableError, Word};

/// A source that knows which positions are losing, up to some number of bits.
pub trait Losing {
    /// Whether each of `words` is losing, in their order. Fails if a position is not covered, or if the part that holds
    /// the answer cannot be read or is damaged.
    fn are_losing(&self, words: &[Word]) -> Result<Vec<bool>, TableError>;

    /// All positions of at most this many bits are covered.
    fn bits(&self) -> u32;
}

impl Losing for Table {
    fn are_losing(&self, words: &[Word]) -> Result<Vec<bool>, TableError> {
        Table::are_losing(self, words)
    }

    fn bits(&self) -> u32 {
        self.manifest().bits
    }
}

impl Losing for ShardFile {
    fn are_losing(&self, words: &[Word]) -> Result<Vec<bool>, TableError> {
        words.iter().map(|&word| self.is_losing(word)).collect()
    }

    fn bits(&self) -> u32 {
        ShardFile::bits(self)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The definition of W as a table, to ask the same questions of.
    #[derive(Debug)]
    pub(crate) struct ByDefinition {
        bits: u32,
        losing: Vec<bool>,
    }

    impl ByDefinition {
        pub(crate) fn new(bits: u32) -> ByDefinition {
            let losing = chomp_testing::definition::losing(bits);
            ByDefinition { bits, losing }
        }

        pub(crate) fn is_losing(&self, word: Word) -> bool {
            self.losing[chomp_testing::definition::index_of(word)]
        }
    }

    impl Losing for ByDefinition {
        fn are_losing(&self, words: &[Word]) -> Result<Vec<bool>, TableError> {
            let answers = words.iter().map(|&word| {
                if word.bits() > self.bits {
                    let (bits, table_bits) = (word.bits(), self.bits);
                    return Err(TableError::Beyond { bits, table_bits });
                }
                Ok(self.is_losing(word))
            });
            answers.collect()
        }

        fn bits(&self) -> u32 {
            self.bits
        }
    }
}
