//! Fetches a published table over HTTP.
