//! Each game's theorem against the search, the search against plain recursion, and both against published facts.

mod answers;
mod common;
mod orders;
mod poisons;
mod search;
mod theorems;
mod transfinite;
