//! Evaluates W over a whole range of positions at once.
//!
//! # The mathematics
//!
//! Words, heads and sources are those of [`chomp_table`]. A range with b range bits has 2^(b-1)
//! positions; their words end with 0, and what stands between head and that 0 is the position's
//! *index*, a string of q = b - 1 bits. One bitmap over the indices says which positions are
//! *marked*: known to have a move to a losing one. Every move starts at some 1 of the word, and
//! each move is applied exactly once, at its start:
//!
//! * **in the head**: [`draw`] reads the sources of the range (other ranges, all finished);
//! * **in the index**: [`solve`] goes through the range in ascending order by the rule "solve the
//!   half X0; *lift* its losing positions to the half X1; solve X1".
//!
//! Both meet the same question: a set of strings `1^c r` or `0^x 1^c r` is losing; which strings
//! `t r` have a `t` that sorts to this? Only |t| = j and its number z of 0s matter, so the answer
//! is kept as sets `M_j[z]` of strings r, and [`pyramid`] turns them into marks by
//!
//! ```text
//! M_j[z] = R_j[z]  ∪  0·M_{j+1}[z+1]  ∪  1·M_{j+1}[z]
//! ```
//!
//! in about four passes over the range: all ORs of contiguous bit slices. The lowest nine bits of
//! an index are one [`Chunk`](chunk::Chunk) of 512 bits, for which [`masks`] holds every answer as a table, and
//! [`bases`] puts together what these mean for a lift.
//!
//! A move that ends at the last 0 leaves trailing 1s: a shorter word, whose value is known from a
//! range of a lower layer. [`trailing`] applies these.
//!
//! # Grundy values
//!
//! [`grundy`] is apart from all this: values of positions by their area, as sets of bytes.
//!
//! # Instruction sets
//!
//! There is one implementation, written on arrays of eight `u64`; it is compiled once for each
//! [`Isa`] and the widest that the CPU has is chosen at run time. All give the same bits.

#![allow(
    clippy::inline_always,
    reason = "what is compiled for each instruction set must be inlined into its entry point"
)]

mod bases;
mod chunk;
mod draw;
mod evaluate;
mod fingerprint;
pub mod grundy;
mod isa;
mod masks;
mod pyramid;
mod solve;
mod source;
mod trailing;

pub use evaluate::{Evaluator, MissingSource, Sources, evaluate_table};
pub use fingerprint::fingerprint;
pub use isa::Isa;
pub use source::Source;
