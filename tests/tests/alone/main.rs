//! Tests of the whole that need the machine for themselves: they count what it does in a time, or keep it from all
//! else.

#[path = "../common/mod.rs"]
mod common;
#[path = "../peers/mod.rs"]
mod peers;

mod floods;
mod hostile;
