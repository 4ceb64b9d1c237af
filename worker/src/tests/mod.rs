//! The whole worker against a coordinator that fails, hangs, forgets, moves and refuses.

mod ends;
mod fake;
mod outages;
