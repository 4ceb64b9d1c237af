//! The log lines that calls of participants cause: each participant has so many, and none fills the log.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chomp_plan::ParticipantId;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The most lines about workers of one participant in [`LINES_TIME`]: about each of a small cluster when it starts.
const LINES_MAX: u32 = 100;
const LINES_TIME: Duration = Duration::from_mins(1);

/// Counts lines. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogLines(Arc<Mutex<HashMap<ParticipantId, Lines>>>);

#[derive(Debug)]
struct Lines {
    since: Instant,
    count: u32,
}

impl LogLines {
    /// The end of the next line about a worker of this participant; none if there is to be no such line.
    pub(crate) fn next(&self, of: ParticipantId) -> Option<&'static str> {
        let mut all = self.0.lock();
        all.retain(|_, lines| lines.since.elapsed() < LINES_TIME);
        let lines = all.entry(of).or_insert_with(|| Lines {
            since: Instant::now(),
            count: 0,
        });
        lines.count = lines.count.saturating_add(1);
        match lines.count {
            ..LINES_MAX => Some(""),
            LINES_MAX => Some("; more lines of this participant are left out for a minute"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_participant_has_its_lines() {
        let all = LogLines::default();
        let loud = || (0..1000).filter_map(|_| all.next(ParticipantId(7)));
        for _ in 0..3 {
            let ends: Vec<_> = loud().collect();
            assert_eq!(ends.len(), 100);
            assert_eq!(ends.iter().filter(|end| !end.is_empty()).count(), 1);
            assert_eq!(all.next(ParticipantId(8)), Some(""));
            tokio::time::sleep(LINES_TIME / 2).await;
            assert_eq!(loud().count(), 0);
            tokio::time::sleep(LINES_TIME / 2).await;
        }
    }
}
