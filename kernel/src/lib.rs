//! Evaluates W over a whole range of positions at once.
//!
//! # Definitions
//!
//! A **word** is a string of 0s and 1s. A **segment** of a word is a run of adjacent bits. A **move** picks a segment
//! that begins with 1 and ends with 0, and *sorts* it: it writes all 0s of the segment first, then all its 1s. A move
//! keeps the length of the word and its number of 1s, and makes the number that the word is smaller. Words are
//! [positions of Chomp](chomp_table::word), and W is the truth value of "the player to move wins": W of a word is
//! true if and only if some move leads to a word whose W is false. Such a word is **marked**. The words whose 0s all
//! stand before their 1s have no move; they are the empty position, whose W is true by definition, so they are marked
//! from the start. A word that is not marked is **losing**.
//!
//! | symbol | meaning |
//! |---|---|
//! | X | the bits before the 1 at which a move starts |
//! | m | the number of bits after that 1 |
//! | t, u, r | strings of bits that follow the 1 |
//! | j, z | the length of t, and its number of 0s |
//! | P | the strings p of m bits for which X 0 p is losing |
//! | `0^a 1^c` | a 0s and then c 1s |
//! | q | the number of index bits of a range |
//! | g | the bits of a head from a 1 on, `ones` of which are 1s |
//! | d | the 0s that a move takes from the index; it takes the place of z |
//! | s | the index bits above a chunk, q - 9 for a whole range |
//!
//! # One half into the other
//!
//! **Lemma 1.** *Let t have j bits, z of them 0s, z ≥ 1. The word X 1 t r has a move to X `0^z 1^(j+1-z)` r. All
//! moves that start at this 1 are of this kind.* Proof: sorting 1 t gives `0^z 1^(j+1-z)`. If t ends with 1s, they
//! are in their place already, so sorting 1 t gives the same as the move whose segment ends at the last 0 of t. A
//! move that starts at this 1 sorts 1 t for a t that ends with 0. ∎
//!
//! What the move leads to begins with X 0, and depends on t by j and z alone. So for 1 ≤ z ≤ j ≤ m let
//!
//! * `R_j[z]` be the strings r of m - j bits for which `0^(z-1) 1^(j+1-z)` r is in P, and `R_j[0]` be empty: sorting
//!   1 t changes nothing if t has no 0;
//! * `M_j[z]` be the strings r of m - j bits that have the form u r' with r' in `R_{j+i}[z + y]`, where i is the
//!   length of u and y its number of 0s.
//!
//! In words: r is in `M_j[z]` if sorting 1 t, or 1 t and some of the bits after it, makes X 1 t r a losing word. That
//! holds for every t of j bits with z 0s or for none.
//!
//! **Lemma 2.** `M_j[z] = R_j[z] ∪ 0·M_{j+1}[z+1] ∪ 1·M_{j+1}[z]` *for j < m, and* `M_m[z] = R_m[z]`. Proof: u is
//! empty, or begins with 0, or begins with 1. ∎
//!
//! **Theorem.** *`M_0[0]` is the set of the strings x of m bits for which a move of X 1 x that starts at this 1 leads
//! to a losing word.* Proof: with j = 0, t is empty, and Lemma 1 says that all these moves are counted. ∎
//!
//! To write `M_0[0]` as marks into the half X 1 is to **lift** P. Each of the sets `M_j[0]` to `M_j[j]` is a bitmap of
//! 2^(m-j) bits and an OR of three slices; all sets together have less than 4·2^m bits. So a lift costs about four
//! passes over the half, whatever the number of its moves. A losing word may be in several `R_j[z]`, because Lemma 1
//! finds the same move for t and for t 1; that does no harm.
//!
//! # A range
//!
//! A [range](chomp_table::head) has 2^q positions. Their words are a *head*, an *index* of q bits, and a last 0. One
//! bitmap over the indices says which positions are marked. A move starts in the head or in the index.
//!
//! **Solving.** [`solve`] takes the positions of a half X 0, lifts them into X 1, and takes those of X 1; it does the
//! same within each half. When it reaches a position, all moves of it that start in the index have been looked at.
//! Proof, by induction on the bits of the half: a move of X 1 x starts at this 1, and the lift has seen it, as the
//! half X 0 was finished; or it starts in x. ∎ Positions are taken in ascending order, so one that is not marked when
//! it is reached is losing.
//!
//! **Lemma 3.** *Let a 1 of the head be given: X is what stands before it in the head, g the bits from it to the end
//! of the head, and the index t r with d ≥ 1 0s in t. Sorting g t leads, if d ≤ `ones`, to the head that has the 0s
//! of g, d more 0s and `ones` - d 1s in place of g, and the index `1^j` r; else to the head X `0^|g|` and the index
//! `0^(d-ones) 1^(j-d+ones)` r.* Proof: g t has |g| - `ones` + d 0s, and the first |g| bits are the head's. ∎
//!
//! Again only j and d matter. So [`draw`] collects, for all starts in the head, the strings r into sets `N_j[d]`,
//! which take the place of `R_j[z]`, and Lemma 2 turns them into marks. Moves that end within the head leave the
//! index as it is: their sources are OR'ed into the bitmap.
//!
//! **The last 0.** A move whose segment ends with the last 0 leaves 1s at the end of the word. That is a shorter
//! word, known from a range of a lower layer, and [`trailing`] applies it.
//!
//! [`pyramid`] is Lemma 2 on bitmaps. The lowest nine bits of an index are one [`Chunk`](chunk::Chunk) of 512 bits,
//! for which [`masks`] holds every answer as a table, and [`bases`] puts together what these mean for a lift.
//!
//! # Four bits
//!
//! Take all words of four bits, X empty and m = 3. Of the half 0 the words 0000, 0001, 0011 and 0111 are marked from
//! the start; 0100 and 0110 have a move to 0010 or to 0101, which are losing (both are the single cell). So P = {010,
//! 101}, and
//!
//! ```text
//! R_1[1] = {01}   for 1·01 is in P         R_2[2] = {0}   for 01·0 is in P         the other R_j[z] are empty
//! M_2[2] = {0}    M_1[1] = R_1[1] ∪ 0·M_2[2] = {01, 00}    M_0[0] = 0·M_1[1] = {001, 000}
//! ```
//!
//! 1000 and 1001 are marked: 1000 sorts 100 to get to 0010, and 1001 sorts 10 to get to 0101. Within the half 1, 1010
//! is not marked and so losing, and so is 1011; 1100 and 1101 have moves to them, as has 1110, and 1111 is marked
//! from the start. `tests/paper.rs` does this, and more, on sets of strings.
//!
//! # Grundy values
//!
//! [`grundy`] is apart from all this: values of positions by their area, as sets of bytes.
//!
//! # Instruction sets
//!
//! There is one implementation, written on arrays of eight `u64`; it is compiled once for each [`Isa`] and the widest
//! that the CPU has is chosen at run time. All give the same bits.
//!
//! # What always holds
//!
//! * No I/O of any kind, no threads, no clock, no async.
//! * `unsafe` occurs in this crate and in no other: to enter code that is compiled for an instruction set, and to see the
//!   bits of chunks as words.

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

pub use evaluate::{Evaluator, evaluate_table};
pub use fingerprint::fingerprint;
pub use isa::Isa;
pub use source::{MissingSource, Source, Sources};
