//! How a connection is used: whether calls are under way, when the last one ended, and whether
//! the peer takes the answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The calls of one connection, and whether it has to end.
#[derive(Debug)]
pub(super) struct ConnectionUse {
    state: Mutex<UseState>,
    /// Cancelled when it has to end at once.
    pub(super) over: CancellationToken,
}

#[derive(Debug)]
struct UseState {
    /// Whether a call with a valid token came over it.
    admitted: bool,
    calls: usize,
    /// When the last call ended that was of use; when the connection began, if none was.
    useful: Instant,
    next: u64,
    /// Until when the peer has to take what the calls of these numbers have for it.
    waits: HashMap<u64, Instant>,
}

/// Whether a connection may stay, or why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stay {
    Stays,
    /// Nothing was asked for too long.
    Idle,
    /// The peer does not take an answer.
    Slow,
}

/// A call under way: from its head to the last byte of its answer.
#[derive(Debug)]
pub(super) struct Call {
    usage: Arc<ConnectionUse>,
    number: u64,
    useful: bool,
}

impl Default for ConnectionUse {
    fn default() -> ConnectionUse {
        ConnectionUse {
            state: Mutex::new(UseState {
                admitted: false,
                calls: 0,
                useful: Instant::now(),
                next: 0,
                waits: HashMap::new(),
            }),
            over: CancellationToken::new(),
        }
    }
}

impl ConnectionUse {
    /// A token was shown; whether that is new.
    pub(super) fn admit(&self) -> bool {
        !std::mem::replace(&mut self.now().admitted, true)
    }

    pub(super) fn is_admitted(&self) -> bool {
        self.now().admitted
    }

    /// How many calls are under way.
    pub(super) fn calls(&self) -> usize {
        self.now().calls
    }

    /// Since when nothing is under way; none if something is.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let state = self.now();
        (state.calls == 0).then_some(state.useful)
    }

    /// Whether the connection may stay, with `idle_time` between calls.
    pub(super) fn judge(&self, idle_time: Duration) -> Stay {
        let (state, now) = (self.now(), Instant::now());
        if state.waits.values().any(|until| *until < now) {
            Stay::Slow
        } else if state.calls == 0 && now.duration_since(state.useful) >= idle_time {
            Stay::Idle
        } else {
            Stay::Stays
        }
    }

    fn now(&self) -> MutexGuard<'_, UseState> {
        // Nothing in it panics between two changes.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Call {
    pub(super) fn begin(usage: &Arc<ConnectionUse>) -> Call {
        let mut state = usage.now();
        state.calls += 1;
        state.next += 1;
        Call {
            usage: Arc::clone(usage),
            number: state.next,
            useful: false,
        }
    }

    /// It was not refused: its status is below 400.
    pub(super) fn is_useful(&mut self) {
        self.useful = true;
    }

    /// There is something for the peer to take, within `time`.
    pub(super) fn offers(&self, time: Duration) {
        let until = Instant::now() + time;
        self.usage.now().waits.insert(self.number, until);
    }

    /// The peer has taken it.
    pub(super) fn taken(&self) {
        self.usage.now().waits.remove(&self.number);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let mut state = self.usage.now();
        state.calls -= 1;
        state.waits.remove(&self.number);
        if self.useful || state.admitted {
            state.useful = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_mins(1);
    const ALMOST: Duration = Duration::from_secs(59);
    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_connection_stays_while_it_is_of_use() {
        let usage = Arc::new(ConnectionUse::default());
        let wait = async |time: Duration| {
            tokio::time::sleep(time).await;
            usage.judge(IDLE)
        };
        let call = |useful: bool| {
            let mut call = Call::begin(&usage);
            if useful {
                call.is_useful();
            }
            call
        };
        assert_eq!(wait(ALMOST).await, Stay::Stays);
        // A call that is refused buys no time, and one under way all that it takes.
        drop(call(false));
        let under_way = call(true);
        assert_eq!(usage.idle_since(), None);
        assert_eq!(wait(2 * IDLE).await, Stay::Stays);
        drop(under_way);
        assert_eq!(wait(ALMOST).await, Stay::Stays);
        drop(call(false));
        assert_eq!(wait(SECOND).await, Stay::Idle);
        // Of those who have shown a token, every call counts.
        assert!(usage.admit());
        assert!(!usage.admit() && usage.is_admitted());
        drop(call(false));
        assert_eq!(wait(ALMOST).await, Stay::Stays);
        assert_eq!(wait(SECOND).await, Stay::Idle);
    }

    #[tokio::test(start_paused = true)]
    async fn one_answer_that_is_not_taken_is_too_many() {
        let usage = Arc::new(ConnectionUse::default());
        let calls: Vec<Call> = (0..3).map(|_| Call::begin(&usage)).collect();
        for call in &calls {
            call.offers(SECOND);
        }
        calls[0].taken();
        calls[1].offers(3 * SECOND);
        tokio::time::sleep(SECOND + SECOND / 2).await;
        assert_eq!(usage.judge(IDLE), Stay::Slow);
        drop(calls);
        assert_eq!(usage.judge(IDLE), Stay::Stays);
    }
}
