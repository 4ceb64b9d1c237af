//! Damage of tables: the log tells the owner where it is, and others learn only that there is some.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::response::Response;
use http::StatusCode;
use tokio::time::Instant;

use crate::answer::problem;

/// How often the same complaint is written to the log, however many requests meet it.
const SAME_EVERY: Duration = Duration::from_mins(1);

/// The complaints that are remembered: more files than these are seldom damaged at once.
const KEPT: usize = 64;

/// The complaints so far, the oldest first. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct DamageLog {
    kept: Arc<Mutex<VecDeque<(String, Instant)>>>,
}

impl DamageLog {
    /// Logs damage for the owner, and answers without saying where it is.
    pub(crate) fn broken(&self, what: &str) -> Response {
        self.log(what);
        damaged()
    }

    /// Writes to the log that a table cannot be served; says whether that was new.
    pub(crate) fn log(&self, what: &str) -> bool {
        let now = Instant::now();
        // Complaints are put in whole, whoever panicked.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(_, at)| now - *at < SAME_EVERY);
        if kept.iter().any(|(text, _)| text == what) {
            return false;
        }
        tracing::error!("a table cannot be served: {what}");
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back((what.to_owned(), now));
        true
    }
}

/// The answer to a request that meets damage.
pub(crate) fn damaged() -> Response {
    problem(
        StatusCode::INTERNAL_SERVER_ERROR,
        "the table is damaged here: tell its owner",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_same_is_said_once_a_minute() {
        let damage_log = DamageLog::default();
        assert!(damage_log.log("a"));
        assert!(!damage_log.clone().log("a"));
        assert!(damage_log.log("b"));
        // Two that take turns are no news either.
        assert!(!damage_log.log("a"));
        assert!(!damage_log.log("b"));
        tokio::time::sleep(SAME_EVERY).await;
        assert!(damage_log.log("b"));
        for number in 0..2 * KEPT {
            assert!(damage_log.log(&number.to_string()));
        }
        assert_eq!(damage_log.kept.lock().unwrap().len(), KEPT);
    }
}
