//! Retries of failed requests, for every client: pauses that grow, a line in the log once a minute during an outage,
//! and one when it is over.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The first pause before another attempt, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(8));
const REPORT_AFTER: Duration = Duration::from_secs(1);
const REPORT_INTERVAL: Duration = Duration::from_mins(1);

/// The pauses between the attempts at one request.
#[derive(Debug, Default)]
pub struct Backoff {
    rng: fastrand::Rng,
    pauses: u32,
}

impl Backoff {
    /// Pauses whose jitter comes from `rng`.
    pub fn new(rng: fastrand::Rng) -> Backoff {
        Backoff { rng, pauses: 0 }
    }

    /// The next pause: a random time from half of a limit to the limit, which begins with 100 ms and doubles up to 8 s.
    /// So most requests that failed at the same time are repeated at different times.
    pub fn next_delay(&mut self) -> Duration {
        let longest = PAUSES.0.saturating_mul(2_u32.saturating_pow(self.pauses));
        self.pauses += 1;
        longest.min(PAUSES.1).mul_f64(0.5 + self.rng.f64() / 2.0)
    }
}

/// The outages of one storage or server, which all requests to it share.
#[derive(Debug)]
pub struct Outages {
    target: String,
    state: Mutex<OutageState>,
}

#[derive(Debug, Default)]
struct OutageState {
    /// When the first failed request of the present outage began; none without an outage.
    since: Option<Instant>,
    reason: String,
    /// When an outage was last reported: the present one, if this is later than `since`.
    last_report: Option<Instant>,
}

impl Outages {
    /// Without an outage yet. `target` is the name of the storage or server in messages.
    pub fn new(target: String) -> Outages {
        Outages {
            target,
            state: Mutex::default(),
        }
    }

    /// The name of the storage or server.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Notes that a request that began at `since` has failed or has no answer, and is tried until `until`.
    pub fn note(&self, since: Instant, until: Instant, reason: &str) {
        let now = Instant::now();
        let mut state = self.state.lock();
        let elapsed = now - *state.since.get_or_insert(since);
        reason.clone_into(&mut state.reason);
        let is_recent = |at| now - at < REPORT_INTERVAL;
        if elapsed < REPORT_AFTER || now >= until || state.last_report.is_some_and(is_recent) {
            return;
        }
        state.last_report = Some(now);
        drop(state);
        let (elapsed, left) = (elapsed.as_secs(), (until - now).as_secs() + 1);
        let target = &self.target;
        tracing::warn!("waiting for {target} for {elapsed} s: {reason}; trying for {left} s more");
    }

    /// Notes that no request waits any more; `recovered` says whether the last one had an answer.
    pub fn end(&self, recovered: bool) {
        let mut state = self.state.lock();
        let (since, last_report) = (state.since.take(), state.last_report);
        drop(state);
        if let Some(since) = since
            && last_report >= Some(since)
            && recovered
        {
            let seconds = since.elapsed().as_secs();
            tracing::warn!("the wait for {} is over, after {seconds} s", self.target);
        }
    }

    /// The present outage, for people, if it is worth a report.
    pub fn current(&self) -> Option<String> {
        let state = self.state.lock();
        let elapsed = state.since?.elapsed();
        (elapsed >= REPORT_AFTER).then(|| {
            let (target, seconds, reason) = (&self.target, elapsed.as_secs(), &state.reason);
            format!("waiting for {target} for {seconds} s: {reason}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_eight_seconds_and_differ() {
        let (mut one, mut other) = (Backoff::default(), Backoff::default());
        let mut longest = PAUSES.0;
        let mut differ = false;
        for _ in 0..20 {
            let pauses = [one.next_delay(), other.next_delay()];
            for pause in pauses {
                assert!(longest / 2 <= pause && pause <= longest, "{pause:?}");
            }
            differ |= pauses[0] != pauses[1];
            longest = PAUSES.1.min(longest * 2);
        }
        assert!(differ && longest == PAUSES.1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_reported_once_and_a_hiccup_is_not() {
        let outages = Outages::new("a store".to_owned());
        let since = Instant::now();
        let until = since + Duration::from_mins(10);
        let last_report = || outages.state.lock().last_report;
        outages.note(since, until, "no answer");
        assert_eq!((last_report(), outages.current()), (None, None));
        outages.end(true);
        tokio::time::advance(REPORT_AFTER).await;
        assert_eq!(outages.current(), None);
        outages.note(since, until, "no answer");
        let reported = last_report();
        assert_eq!(reported, Some(Instant::now()));
        tokio::time::advance(REPORT_AFTER).await;
        outages.note(Instant::now(), until, "refused");
        let expected = "waiting for a store for 2 s: refused";
        assert_eq!(outages.current().unwrap(), expected);
        assert_eq!(last_report(), reported);
        outages.end(true);
        assert_eq!(outages.current(), None);
    }
}
