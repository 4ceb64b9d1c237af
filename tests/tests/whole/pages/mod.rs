//! The pages in a real browser: games that are played by clicks and keys, what the pages say of a
//! table beside W by its definition, a job that is watched, and servers that are slow, gone or empty.
//!
//! The browser ([`browser`]) is Chromium, driven by chromedriver, or with `CHOMP_BROWSER=firefox` Firefox, driven by
//! geckodriver; the server is `chomp serve` ([`site`]). Without a browser there is nothing to test: the tests say so
//! and pass, unless `CHOMP_REQUIRE_BROWSER=1`, or `CHOMP_REQUIRE_FIREFOX=1`. `CHOMP_SCREENSHOTS=DIR` keeps a picture of
//! every page there.

mod browser;
mod driver;
mod engine;
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
