//! What a coordinator shows of its job over HTTP.
//!
//! | module | holds |
//! |---|---|
//! | `job` | `/healthz`, `/readyz`, `/status`, `/metrics` |
//! | `metrics` | the numbers behind `/metrics` |

pub(crate) mod job;
pub(crate) mod metrics;
#[cfg(test)]
mod tests;
