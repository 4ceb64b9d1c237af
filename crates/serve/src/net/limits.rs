//! How much of the network's patience and memory one peer may take.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

/// How much there is of something for all peers of a kind, and how much of it one peer gets: an address of strangers,
/// or one IPv6 network of 64 bits; or a participant, wherever it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// For all together.
    pub all: u32,
    /// For each.
    pub each: u32,
}

/// Requests of an address in a second, and twice as many at once. A page makes a few. A program that asks one after the
/// other makes some thousands at most.
pub const REQUESTS_A_SECOND: u32 = 1000;
/// Memory for answers that strangers have not taken yet, in units of [`ANSWER_UNIT`]. Smaller ones are not counted: no
/// more of them are under way than calls.
pub const ANSWERS: Limit = Limit {
    all: 64 << 8,
    each: 8 << 8,
};
/// The unit in which `ANSWERS` counts, in bytes.
pub const ANSWER_UNIT: u32 = 4 << 10;
/// The most bytes of an answer that count: a shard is read as it is taken, and a
/// manifest is in memory once, however many take it.
pub const ANSWER_BYTES_MAX: u64 = 256 << 10;
/// Strangers that listen at a time. Each has one status in memory, which its connection has not sent yet.
pub const LISTENERS: Limit = Limit { all: 256, each: 32 };
/// Questions of strangers that wait for a thread. A warm lookup takes a tenth of a millisecond, so the last of them
/// waits a fraction of a second. Nobody asks much more than its rate before it is known what that costs.
pub const QUESTIONS: Limit = Limit {
    all: 1024,
    each: 128,
};
/// Questions of strangers about small games, which have a thread of their own. One takes at most a tenth of a second.
pub const GAME_QUESTIONS: Limit = Limit { all: 64, each: 16 };

/// The limits of connections. The defaults are what a coordinator should have; tests use shorter times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time over which no token was shown. Each is a file descriptor and some tens of KiB. If there
    /// are more, one makes room of the address that has the most. A browser has six; of the workers behind one address
    /// each is a stranger for a moment.
    pub strangers: Limit,
    /// Connections at a time over which a token was shown. If there are more, one makes room of the participant that
    /// has the most. A thousand workers of one with two connections each fit.
    pub participants: Limit,
    /// TLS handshakes from one address in a second, and twice as many at once: all workers of one
    /// address come back within half a minute.
    pub handshake_rate: NonZeroU32,
    /// Calls from one address that are refused for want of a token, in a second, and twice as many
    /// at once. Connections that bring more are closed.
    pub refusal_rate: NonZeroU32,
    /// Calls of one connection at a time. A worker has a few for each of its threads' lanes, and
    /// queues the rest.
    pub calls_per_connection: u32,
    /// How long the TLS handshake may take: a few round trips on a bad line.
    pub tls_time: Duration,
    /// How long the head of an HTTP/1 request may take, and how long until the next one comes.
    pub header_time: Duration,
    /// How long a connection may have no call under way, whatever else it sends: workers are heard
    /// of every few seconds. Calls of strangers that are refused do not count.
    pub idle_time: Duration,
    /// How long the answer to a call may take to begin when nobody has shown a token: some have work
    /// to do first, and none has more.
    pub answer_time: Duration,
    /// The bytes a second that a peer takes of an answer, or sends with a call, at the least. Four
    /// downloads go on at a time on a line of 1 Mbit/s.
    pub rate_min: NonZeroU64,
    /// How long that is averaged over.
    pub rate_time: Duration,
    /// How often a quiet HTTP/2 connection is checked, and how long the answer may take.
    pub keepalive: Duration,
    /// The bytes of the head of a request. Tokens are short, and nothing else is in there.
    pub header_bytes: u32,
    /// How long workers have for the tasks in their hands when the job is told to stop: most take a
    /// second.
    pub finish_time: Duration,
    /// How long open calls have when the server goes down.
    pub drain_time: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            strangers: Limit {
                all: 1536,
                each: 256,
            },
            participants: Limit {
                all: 2560,
                each: 2048,
            },
            handshake_rate: HANDSHAKE_RATE,
            refusal_rate: REFUSAL_RATE,
            calls_per_connection: 64,
            tls_time: Duration::from_secs(10),
            header_time: Duration::from_secs(10),
            idle_time: Duration::from_mins(1),
            answer_time: Duration::from_mins(1),
            rate_min: RATE_MIN,
            rate_time: RATE_TIME,
            keepalive: Duration::from_secs(20),
            header_bytes: 16 << 10,
            finish_time: Duration::from_secs(10),
            drain_time: Duration::from_secs(5),
        }
    }
}

impl Limits {
    /// The limits for a process that may have `files` files open: strangers do not take those that it needs for its own
    /// work. Of the rest, each connection has two, as it may read a file.
    #[must_use]
    pub fn within(self, files: u64) -> Limits {
        let files = u32::try_from(files).unwrap_or(u32::MAX);
        let room = (files.saturating_sub(OWN_FILES) / 2).max(CONNECTIONS_MIN);
        let all = self.strangers.all + self.participants.all;
        let part = |of: u32| of * room.min(all) / all;
        let strangers = part(self.strangers.all);
        Limits {
            strangers: Limit {
                all: strangers,
                each: self.strangers.each.min(strangers),
            },
            participants: Limit {
                all: part(self.participants.all),
                each: part(self.participants.each),
            },
            ..self
        }
    }

    /// Divides the times by `haste`: for tests, which wait for them.
    #[must_use]
    pub fn hastened(self, haste: u32) -> Limits {
        Limits {
            tls_time: self.tls_time / haste,
            header_time: self.header_time / haste,
            idle_time: self.idle_time / haste,
            answer_time: self.answer_time / haste,
            rate_time: self.rate_time / haste,
            keepalive: self.keepalive / haste,
            finish_time: self.finish_time / haste,
            drain_time: self.drain_time / haste,
            ..self
        }
    }
}

const HANDSHAKE_RATE: NonZeroU32 = NonZeroU32::new(100).unwrap();
const REFUSAL_RATE: NonZeroU32 = NonZeroU32::new(10).unwrap();
const RATE_MIN: NonZeroU64 = NonZeroU64::new(32 << 10).unwrap();
const RATE_TIME: Duration = Duration::from_secs(30);
/// How often connections are looked at, in parts of the shortest time that they have.
pub(super) const LOOKS: u32 = 8;
/// The files that a process has open besides connections and what they read: a job has a few for each of its threads.
const OWN_FILES: u32 = 192;
/// The connections to permit even to a process that may have few files open.
const CONNECTIONS_MIN: u32 = 32;
/// How long a peer may acknowledge nothing before it counts as gone.
pub(super) const GONE_TIME: Duration = Duration::from_mins(1);
/// The HTTP/2 receive window of a call: a message of pieces in flight.
pub(super) const STREAM_WINDOW_BYTES: u32 = 1 << 20;
/// The HTTP/2 receive window of a connection.
pub(super) const CONNECTION_WINDOW_BYTES: u32 = 2 << 20;
/// The HTTP/2 send buffer of a call. Streams refill it as it drains.
pub(super) const SEND_BUFFER_BYTES: usize = 256 << 10;
/// The largest HTTP/2 frame that is read: the smallest limit that the protocol permits.
pub(super) const FRAME_BYTES: u32 = 16 << 10;
/// Calls that were reset before anybody looked at them: beyond it the peer is an attacker.
pub(super) const PENDING_RESETS: usize = 20;
/// Calls that were reset because the peer broke the protocol: beyond it, too.
pub(super) const ERROR_RESETS: usize = 64;
/// The headers of an HTTP/1 request.
pub(super) const HEADERS: usize = 64;
/// The most unsent bytes in the kernel. Few, so that a slow reader is seen to make progress in small
/// steps: with megabytes in the kernel it would look as if it stood still.
pub(super) const UNSENT_BYTES: u32 = 128 << 10;
/// Connections that wait to be accepted: all workers come back at the same moment when a coordinator
/// starts again. The system may allow fewer.
pub(super) const BACKLOG: i32 = 4096;
/// How long to wait after a connection could not be accepted, as there may be no descriptors left.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often to tell people about it.
pub(super) const ACCEPT_WARNING_EVERY: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_to_the_process() {
        let all = Limits::default();
        assert_eq!(all.within(u64::MAX), all);
        for files in [0, 64, 256, 512, 1024, 4096] {
            let few = all.within(files);
            let connections = few.strangers.all + few.participants.all;
            assert!(connections < all.strangers.all + all.participants.all);
            assert!(connections + 2 >= CONNECTIONS_MIN);
            let least = u64::from(OWN_FILES + 2 * CONNECTIONS_MIN);
            let taken = u64::from(OWN_FILES + 2 * connections);
            assert!(taken <= files.max(least), "{files}: {few:?}");
            assert!(few.strangers.each <= few.strangers.all && few.strangers.all > 0);
            assert!(few.participants.each < few.participants.all);
        }
    }
}
