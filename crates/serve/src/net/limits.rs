//! How much memory, time and open files the peers of a server may take.

use std::time::Duration;

/// The unit in which [`Limits::answer_units`] counts. A call takes some more.
pub const ANSWER_UNIT_BYTES: u32 = 4 << 10;
/// The most bytes that are counted for one answer. A longer answer needs no more memory of its own: a shard is read in
/// chunks while it is sent, and all answers with a manifest share its bytes.
pub const ANSWER_BYTES_MAX: u64 = 256 << 10;
/// Subscribers to the status of a job at a time. Each keeps one unsent status in memory.
pub const SUBSCRIBERS_MAX: usize = 256;
/// The most questions that wait for a thread. The last question of a full queue waits a fraction of a second, as a warm
/// lookup takes a tenth of a millisecond.
pub const QUESTIONS: usize = 1024;
/// The most questions about small games, and about positions beyond the table, that wait. One takes half a second or so
/// at most.
pub const GAME_QUESTIONS: usize = 64;

/// The most questions under way from pages of other sites, which ask through the browser of a visitor.
pub const FOREIGN_QUESTIONS: usize = 4;

/// One connection in this many is reserved for other peers than trusted proxies.
pub(super) const KEPT_SHARE: usize = 8;

/// The limits of connections. The defaults are what a coordinator should have; tests use shorter times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time. Each is a file descriptor and some tens of KiB. One address or IPv6 network of 64 bits
    /// has no more than it leaves free: a thousand workers with two each fit.
    pub connections: usize,
    /// Memory for calls of anybody and for their answers until they are taken, in units of [`ANSWER_UNIT_BYTES`]: one
    /// for each call, and more for larger answers. Calls of participants are limited in another way.
    pub answer_units: usize,
    /// Calls of one connection at a time. A worker makes a few for each of its lanes, and queues those beyond the
    /// limit.
    pub calls_per_connection: u32,
    /// How long the TLS handshake may take: a few round trips on a bad line.
    pub tls_time: Duration,
    /// How long the head of an HTTP/1 request may take, and how long until the next one comes.
    pub header_time: Duration,
    /// How long a connection may stand still: without a call, or while its peer sends nothing of a body that is read,
    /// or takes nothing of what is written. So long a call over HTTP/2 may also stand still whose answer has no window.
    /// Workers send a heartbeat every few seconds.
    pub still_time: Duration,
    /// How often a quiet HTTP/2 connection is pinged, and how long the peer may take to answer the ping.
    pub keepalive: Duration,
    /// The most bytes of the head of a request. Its longest header is a token, and tokens are short.
    pub header_bytes: u32,
    /// How long workers have for the tasks in their hands when the job is told to stop: most take a second.
    pub finish_time: Duration,
    /// How long open calls have when the server goes down.
    pub drain_time: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 4096,
            answer_units: 64 << 8,
            calls_per_connection: 64,
            tls_time: Duration::from_secs(10),
            header_time: Duration::from_secs(10),
            still_time: Duration::from_secs(30),
            keepalive: Duration::from_secs(20),
            header_bytes: 16 << 10,
            finish_time: Duration::from_secs(10),
            drain_time: Duration::from_secs(5),
        }
    }
}

impl Limits {
    /// The limits for a process that may have `files` files open. `OWN_FILES` are kept for its own work, and each
    /// connection counts as two, as it may read a file.
    #[must_use]
    pub fn within(self, files: u64) -> Limits {
        let files = usize::try_from(files).unwrap_or(usize::MAX);
        let room = (files.saturating_sub(OWN_FILES) / 2).max(CONNECTIONS_MIN);
        let connections = self.connections.min(room);
        Limits {
            connections,
            ..self
        }
    }

    /// Divides the times by `haste`: for tests, which wait for them.
    #[must_use]
    pub fn hastened(self, haste: u32) -> Limits {
        Limits {
            tls_time: self.tls_time / haste,
            header_time: self.header_time / haste,
            still_time: self.still_time / haste,
            keepalive: self.keepalive / haste,
            finish_time: self.finish_time / haste,
            drain_time: self.drain_time / haste,
            ..self
        }
    }
}

/// The most bytes of an answer that are handed to hyper at a time: at little more than 1 KiB/s, they take less than
/// [`Limits::still_time`].
pub(super) const PIECE_BYTES: usize = 32 << 10;
/// How many times within `still_time` a connection or an answer is checked for standing still.
pub(super) const STILL_CHECKS: u32 = 8;
/// The files that a process has open besides connections and what they read: a job has a few for each of its threads.
const OWN_FILES: usize = 192;
/// The connections to permit even to a process that may have few files open.
const CONNECTIONS_MIN: usize = 32;
/// How long a peer may acknowledge nothing before it counts as gone.
pub(super) const GONE_TIME: Duration = Duration::from_mins(1);
/// The HTTP/2 receive window of a call: the most bytes of its message that are in flight.
pub(super) const STREAM_WINDOW_BYTES: u32 = 1 << 20;
pub(super) const CONNECTION_WINDOW_BYTES: u32 = 2 << 20;
/// The HTTP/2 send buffer of a call, which is refilled as the peer takes bytes.
pub(super) const SEND_BUFFER_BYTES: usize = 256 << 10;
/// The largest HTTP/2 frame that is read: the smallest limit that the protocol permits.
pub(super) const HTTP2_FRAME_BYTES: u32 = 16 << 10;
/// The smallest buffer that hyper permits for a request head.
pub(super) const HTTP1_BUFFER_BYTES_MIN: usize = 8 << 10;
/// The most calls that a peer may reset before the server began them; an attacker resets more.
pub(super) const PENDING_RESETS: usize = 20;
/// The most calls that are reset because the peer broke the protocol.
pub(super) const ERROR_RESETS: usize = 64;
/// The most headers of an HTTP/1 request.
pub(super) const HEADERS: usize = 64;
/// The most unsent bytes in the kernel, which asks for more when half of them are sent. There are few, so that a slow
/// reader makes progress in small steps: at little more than 1 KiB/s, a step takes less than [`Limits::still_time`].
pub(super) const UNSENT_BYTES: u32 = 64 << 10;
/// The most connections that wait to be accepted: all workers reconnect at once when a coordinator restarts. The system
/// may allow fewer.
pub(super) const BACKLOG: i32 = 4096;
/// How long to wait after a connection could not be accepted, as there may be no descriptors left.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_to_the_process() {
        let all = Limits::default();
        assert_eq!(all.within(u64::MAX), all);
        for files in [0, 64, 256, 512, 1024, 4096] {
            let few = all.within(files);
            assert!(few.connections < all.connections && few.connections >= CONNECTIONS_MIN);
            let least = OWN_FILES + 2 * CONNECTIONS_MIN;
            let taken = OWN_FILES + 2 * few.connections;
            let files = usize::try_from(files).unwrap();
            assert!(taken <= files.max(least), "{files}: {few:?}");
        }
    }
}
