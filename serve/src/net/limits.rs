//! How much of the network's patience and memory one peer may take.

use std::time::Duration;

/// What bounds connections. The defaults are what a coordinator should have; tests use shorter times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time. Each is a file descriptor and some tens of KiB; a thousand workers with
    /// two connections each and as many downloads fit.
    pub connections: usize,
    /// Connections from one address, or one IPv6 network of 64 bits. A thousand workers on one
    /// machine, or behind one, fit.
    pub connections_per_address: usize,
    /// Calls of one connection at a time. A worker has a few for each of its threads' lanes, and
    /// queues the rest.
    pub calls_per_connection: u32,
    /// How long the TLS handshake may take: a few round trips on a bad line.
    pub tls_time: Duration,
    /// How long a peer may take from there to the first bytes that tell HTTP/1 from HTTP/2.
    pub greeting_time: Duration,
    /// How long the head of an HTTP/1 request may take, and how long until the next one comes.
    pub header_time: Duration,
    /// How long a connection may stand still, without a byte in either direction. More than two
    /// keepalives, so that workers which wait are not dropped.
    pub still_time: Duration,
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
            connections: 4096,
            connections_per_address: 2200,
            calls_per_connection: 64,
            tls_time: Duration::from_secs(10),
            greeting_time: Duration::from_secs(10),
            header_time: Duration::from_secs(10),
            still_time: Duration::from_mins(1),
            keepalive: Duration::from_secs(20),
            header_bytes: 16 << 10,
            finish_time: Duration::from_secs(10),
            drain_time: Duration::from_secs(5),
        }
    }
}

/// What a peer may send to one call before it is read: a message of pieces in flight.
pub(super) const STREAM_WINDOW_BYTES: u32 = 1 << 20;
/// The same for all calls of a connection.
pub(super) const CONNECTION_WINDOW_BYTES: u32 = 2 << 20;
/// What one call may have waiting to be sent. Streams refill it as it drains.
pub(super) const SEND_BUFFER_BYTES: usize = 256 << 10;
/// The largest HTTP/2 frame that is read: the smallest limit that the protocol permits.
pub(super) const FRAME_BYTES: u32 = 16 << 10;
/// Calls that were reset before anybody looked at them: beyond it the peer is an attacker.
pub(super) const PENDING_RESETS: usize = 20;
/// Calls that were reset because the peer broke the protocol: beyond it, too.
pub(super) const ERROR_RESETS: usize = 64;
/// The headers of an HTTP/1 request.
pub(super) const HEADERS: usize = 64;
/// What the kernel keeps unsent. Little, so that a slow reader is seen to make progress in small
/// steps: with megabytes in the kernel it would look as if it stood still.
pub(super) const UNSENT_BYTES: u32 = 128 << 10;
/// Connections that wait to be accepted: all workers come back at the same moment when a coordinator
/// starts again. The system may allow fewer.
pub(super) const BACKLOG: i32 = 4096;
/// How long to wait after a connection could not be accepted, as there may be no descriptors left.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often to tell people about it.
pub(super) const ACCEPT_WARNING_EVERY: Duration = Duration::from_mins(1);
