//! Evaluates W over a whole range of positions at once.
//!
//! # Definitions
//!
//! A **path** is a string of 0s and 1s. It draws the border of a Young diagram, from the end of the first column to
//! the end of the first row: 1 is a step along a row, 0 a step up to the next row. Leading 0s and trailing 1s draw no
//! cell and have no part in a move, so all paths with the same bits between them stand for one position, and have the
//! same W. The [word](chomp_table::word) of a position is the path that begins with 1 and ends with 0; that of the
//! empty position has no bits.
//!
//! A **span** of a path is a run of adjacent bits. A **move** picks a span that begins with 1 and ends with 0,
//! and *sorts* it: it writes all 0s of the span first, then all its 1s. These are the moves of Chomp. For a cell is
//! a 1, the step below its column, and a later 0, the step at the end of its row. Without the cell and all cells beyond
//! it, the border goes from the beginning of the 1 up along the column, and then along the row to the end of the 0. A
//! move keeps the length of the path and its number of 1s, and makes the path smaller as a binary number.
//!
//! A path whose 0s all stand before its 1s has no move. It is the empty position, which is **winning** by definition:
//! the other player has just taken the poisoned cell. Any other path is **winning** exactly if some move leads to a
//! path that is not, and else **losing**. W is the truth value of "winning".
//!
//! The kernel **marks** a path, that is, it sets the path's bit, when it finds a move of it to a losing path. Paths of
//! the empty position are marked from the start. So all marked paths are winning. What has to be proved is that every
//! winning path is marked before the kernel comes to it.
//!
//! | symbol | meaning |
//! |---|---|
//! | X | the bits before the 1 at which a move starts |
//! | X0, X1 | the **halves**: all paths of one length that begin with X 0, with X 1 |
//! | m | the number of bits after that 1 |
//! | x | all m bits that follow the 1 |
//! | t, u, r, r' | parts of x, or of an index |
//! | j, z | the length of t, and its number of 0s |
//! | i, y | the length of u, and its number of 0s |
//! | P | the strings p of m bits for which X 0 p is losing |
//! | `0^a 1^c` | a 0s and then c 1s |
//! | 0·S, 1·S | the strings of the set S, each with a 0 or a 1 put before it |
//! | b, q | the bits of a word that follow its head; those of an index, b - 1 |
//! | g | the bits of a head from a 1 on, `ones` of which are 1s |
//! | d | the number of 0s that a move from the head takes from the bits after the head |
//! | s | the index bits above a chunk, q - 9 for a whole range |
//!
//! # One half into the other
//!
//! **Lemma 1.** *Let t have j bits, z of them 0s, z ≥ 1. The path X 1 t r has a move to X `0^z 1^(j+1-z)` r. All
//! moves that start at this 1 are of this kind.* Proof: sorting 1 t gives `0^z 1^(j+1-z)`. If t ends with 1s, they
//! are in their place already, so sorting 1 t gives the same as the move whose span ends at the last 0 of t. A
//! move that starts at this 1 sorts 1 t for a t that ends with 0. ∎
//!
//! The path after the move begins with X 0, and depends on t by j and z alone. So let
//!
//! * `R_j[z]`, for 1 ≤ z ≤ j ≤ m, be the strings r of m - j bits for which `0^(z-1) 1^(j+1-z)` r is in P; and
//!   `R_j[0]` be empty: sorting 1 t changes nothing if t has no 0;
//! * `M_j[z]`, for 0 ≤ z ≤ j ≤ m, be the strings r of m - j bits that have the form u r' with r' in `R_{j+i}[z+y]`.
//!
//! In words: r is in `M_j[z]` exactly if X 1 t r has a move to a losing path that sorts 1 t, or 1 t and some of the
//! bits after it. Whether it does depends on t through j and z alone.
//!
//! **Lemma 2.** `M_j[z] = R_j[z] ∪ 0·M_{j+1}[z+1] ∪ 1·M_{j+1}[z]` *for j < m, and* `M_m[z] = R_m[z]`. Proof: u is
//! empty, or begins with 0, or begins with 1. ∎
//!
//! **Theorem.** *`M_0[0]` is the set of the strings x for which a move of X 1 x that starts at this 1 leads to a
//! losing path.* Proof: x is in `M_0[0]` exactly if x = u r' and sorting 1 u, where u has a 0, gives a losing path. By
//! Lemma 1 each such sorting is a move of X 1 x, and each move that starts at this 1 is such a sorting. ∎
//!
//! To set the marks of `M_0[0]` in the half X1 is to **lift** P. Each of the sets `M_j[0]` to `M_j[j]` is a bitmap of
//! 2^(m-j) bits and an OR of three slices; all sets together have less than 4·2^m bits. So a lift costs about four
//! passes over the half, whatever the number of its moves.
//!
//! All `R_j[z]` follow from those with j = z: *r is in `R_{j+1}[z]` exactly if 1 r is in `R_j[z]`*, as both say that
//! `0^(z-1) 1^(j+2-z)` r is in P. So one losing path adds to several sets: Lemma 1 finds the same move for t and for
//! t 1. That does no harm.
//!
//! # A range
//!
//! A [range](chomp_table::head) has 2^q words. Each is a *head*, an *index* of q bits, and a last 0. One bitmap over
//! the indices holds the marks. A move starts in the head or in the index, and ends before the last 0 or at it. A move
//! that ends before the last 0 leaves this 0 in its place. So for these moves X, t, r and P are about head and index
//! alone, and "losing" about the word with its last 0.
//!
//! **Solving.** `solve` decides the positions of a half X0, lifts the losing ones into X1, and decides the positions of
//! X1; it does the same within each half. *When it decides a position, the position is marked exactly if it is
//! winning.* Proof by induction on the position as a number, as moves lead to smaller numbers. The marks of moves that
//! start in the head, or end at the last 0, are set by then, as is shown below: before the range is begun, or by a lift
//! into the half of the position, or, in the range of the empty head, when the smaller position is found. Any other
//! move starts at a 1 of the index. Let X be the bits before that 1. The half X0 is finished, and right by induction,
//! so by the theorem its lift has set the mark. And a mark is set only for a move to a losing position. ∎
//!
//! [`solve`] does this without recursion. In small halves it need not finish X0 to begin with X1: chunk by chunk of X1,
//! in the order of the [`schedule`], it collects the marks from the chunks of X0 that moves lead to. Once a chunk of
//! the bitmap is solved, its losing positions stand there in place of its marks.
//!
//! **Lemma 3.** *Let a 1 of the head be given: X is what stands before it in the head, g the bits from it to the end of
//! the head, and the index t r with d ≥ 1 0s in t. Sorting g t leads, if d ≤ `ones`, to the head that has the 0s of g,
//! d more 0s and `ones` - d 1s in place of g, and the index `1^j` r; else to the head X `0^|g|` and the index
//! `0^(d-ones) 1^(j-d+ones)` r. All moves that start at this 1 and end in the index are of this kind, and each such t
//! gives one, as in Lemma 1.* Proof: g t has
//! |g| - `ones` + d 0s, and the first |g| bits are the head's. A move sorts g t for a t that ends with 0. ∎
//!
//! Again only j and d matter. Let `N_j[d]`, for 1 ≤ d ≤ j ≤ q, be the strings r of q - j bits for which, with some 1 of
//! the head, the path of Lemma 3 is losing, and `N_j[0]` be empty. With N in place of R, Lemma 2 gives sets `M_j[z]`
//! again, and `M_0[0]` holds the indices from which a move that starts in the head and ends in the index leads to a
//! losing position: as in the theorem, but by Lemma 3. [`source_sets`] collects the sets N from the sources. Moves that
//! end within the head leave the index as it is: the losing positions of their sources are OR'ed into the bitmap.
//!
//! **The last 0.** A move that ends at it leads to a path that ends with c ≥ 1 1s. Without these the path is a word of
//! fewer bits with the same W, as trailing 1s draw no cell.
//!
//! * If the move starts in the index, the path has the head of the range, so its word is in the range head >> c, of a
//!   lower layer. The [evaluator](Evaluator) reads the losing words of these *trimmed* heads, and [`trailing`] marks
//!   the positions that move to them. For the empty head that word lies in the range itself: each losing position, once
//!   found, marks the larger ones that move to it.
//! * If the move starts in the head, the path is an *edge* of the source of Lemma 3: its head, some 0s, and 1s to the
//!   end. The [record](chomp_table::range) of each range tells which of its edges are losing. Such a move takes d 0s,
//!   the last 0 among them, and [`source_sets`] marks all indices with d - 1 0s.
//!
//! [`pyramid`] is Lemma 2 on bitmaps. The 512 indices that have all but their lowest nine bits in common are one
//! [`Chunk`](chunk::Chunk): [`masks`] has the moves within a chunk as tables, and [`bases`] joins entries of these
//! tables for a lift. `source.rs` holds finished ranges in the form that later ranges read. `fingerprint.rs` evaluates
//! known ranges, and by their digest a coordinator knows that a worker's kernel is right.
//!
//! # Four bits
//!
//! Take all paths of four bits, X empty and m = 3. Of the half 0, 0000, 0001, 0011 and 0111 are marked from the start;
//! 0100 and 0110 have a move to 0010 or to 0101, which are losing (both are the single cell). So P = {010, 101}, and
//!
//! ```text
//! R_1[1] = {01}   for 1·01 is in P         R_2[2] = {0}   for 01·0 is in P         the other R_j[z] are empty
//! M_2[2] = {0}    M_1[1] = R_1[1] ∪ 0·M_2[2] = {01, 00}    M_0[0] = 0·M_1[1] = {001, 000}
//! ```
//!
//! 1000 and 1001 are marked: 1000 sorts 100 to get to 0010, and 1001 sorts 10 to get to 0101. Within the half 1, X = 1
//! and m = 2. 1010 and 1011 are not marked and so losing: P = {10, 11}, and
//!
//! ```text
//! R_1[1] = {0, 1}   for 1·0 and 1·1 are in P     R_2[1] = {the empty string}   for 11 is in P
//! M_1[1] = R_1[1] ∪ 1·M_2[1] = {0, 1}            M_1[0] = 0·M_2[1] = {0}       M_0[0] = 0·M_1[1] ∪ 1·M_1[0] = {00, 01, 10}
//! ```
//!
//! So 1100, 1101 and 1110 are marked; 1111 was from the start. `tests/paper.rs` does this and more on sets of strings.
//!
//! # Grundy values
//!
//! [`grundy`] is apart from all this: values of positions by their area, as sets of bytes. It has symbols of its own.
//!
//! # Instruction sets
//!
//! The code is written once, on arrays of eight `u64`, and compiled once for each [`Isa`]. Only the search for the
//! lowest bits of a chunk has a form for each. The widest set of the CPU is chosen at run time. All give the same bits.
//!
//! # What always holds
//!
//! * No I/O of any kind, no threads, no clock, no async.
//! * `unsafe` occurs in this crate and in no other: to enter code that is compiled for an instruction set, to use
//!   instructions of AVX-512, and to see the bits of chunks as `u32`.

#![allow(
    clippy::inline_always,
    reason = "what is compiled for each instruction set must be inlined into its entry point"
)]

mod bases;
mod chunk;
mod evaluate;
mod fingerprint;
pub mod grundy;
mod isa;
mod masks;
mod pyramid;
mod schedule;
mod solve;
mod source;
mod source_sets;
mod trailing;

pub use evaluate::{Evaluator, evaluate_heads};
pub use fingerprint::fingerprint;
pub use isa::Isa;
pub use source::{MissingSource, Source, Sources};
