//! The HTTP pages of a coordinator's job.
//!
//! | module | holds |
//! |---|---|
//! | `job` | `/healthz`, `/readyz`, `/status`, `/metrics` |
//! | `metrics` | the numbers behind `/metrics` |

pub(crate) mod job;
pub(crate) mod metrics;
#[cfg(test)]
mod tests;
