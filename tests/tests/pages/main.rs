//! The pages in a real browser: games that are played by clicks and keys, what the pages say of a
//! table beside W by its definition, a job that is watched, and servers that are slow, gone or empty.
//!
//! The browser is Chromium, driven by chromedriver ([`browser`]); the server is `chomp serve`
//! ([`site`]). Without the two there is nothing to test: the tests say so and pass, unless
//! `CHOMP_REQUIRE_BROWSER=1`. `CHOMP_SCREENSHOTS=DIR` keeps a picture of every page there.

#[path = "../common/mod.rs"]
mod common;

mod browser;
mod explore;
mod games;
mod hints;
mod input;
mod job;
mod looks;
mod record;
mod site;
mod small;
mod troubles;
