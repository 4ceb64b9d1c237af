//! The whole worker against a coordinator that fails, hangs, forgets, moves and refuses, and a store that
//! does the same.

mod calls;
mod ends;
mod fake;
mod outages;
mod relay;
mod stores;
mod wrong;
