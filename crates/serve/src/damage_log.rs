//! Damage of tables: the log tells the owner where it is, and others learn only that there is some.

use std::collections::VecDeque;
use std::time::Duration;

use chomp_table::TableError;
use chomp_table::format::describe;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::refusal::Refusal;

/// How often the same complaint is written to the log, however many requests meet it.
const SAME_EVERY: Duration = Duration::from_mins(1);

/// The complaints that are remembered: more files than these are seldom damaged at once.
const KEPT: usize = 64;

/// The complaints so far, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct DamageLog {
    kept: Mutex<VecDeque<(String, Instant)>>,
}

impl DamageLog {
    /// Why a table does not answer: the question is beyond it, or it is damaged.
    pub(crate) fn refusal(&self, error: &TableError) -> Refusal {
        match error {
            TableError::Beyond { .. } | TableError::BeyondTiles { .. } => {
                Refusal::Wrong(error.to_string())
            }
            _ => self.damaged(&describe(error)),
        }
    }

    /// Logs damage for the owner, and answers without saying where it is.
    pub(crate) fn damaged(&self, what: &str) -> Refusal {
        self.log(what);
        Refusal::Damaged
    }

    /// Writes to the log that a table cannot be served; says whether that was new.
    pub(crate) fn log(&self, what: &str) -> bool {
        let now = Instant::now();
        // Complaints are put in whole, whoever panicked.
        let mut kept = self.kept.lock();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_same_is_said_once_a_minute() {
        let damage_log = DamageLog::default();
        assert!(damage_log.log("a"));
        assert!(!damage_log.log("a"));
        assert!(damage_log.log("b"));
        // Two that take turns are no news either.
        assert!(!damage_log.log("a"));
        assert!(!damage_log.log("b"));
        tokio::time::sleep(SAME_EVERY).await;
        assert!(damage_log.log("b"));
        for number in 0..2 * KEPT {
            assert!(damage_log.log(&number.to_string()));
        }
        assert_eq!(damage_log.kept.lock().len(), KEPT);
    }
}
