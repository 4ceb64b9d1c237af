//! How much of the coordinator a participant gets: calls and requests with its token, whatever they are
//! for, wherever they come from.
//!
//! A participant that asks for more waits, and is told to come back later if the wait would be too long. So a
//! flood of calls is only as fast as its quota, and calls of others find the coordinator free.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Buf;

use chomp_access::participants::OWNER_NUMBER;
use chomp_plan::ParticipantId;
use chomp_serve::net::{Limit, Rates};
use tokio::time::Instant;
use tokio_stream::StreamExt;

use crate::shares::Shares;

/// The calls of a participant in a second, for each CPU of the coordinator's machine, and twice as many at
/// once. A worker makes one for each task, which takes up to a second, and one every 7.5 s besides; one that
/// goes through the coordinator some ten for each task. So this is a thousand threads.
pub(crate) const CALLS_EACH_CPU: u32 = 1000;
/// The least number of calls a second, however few CPUs there are.
pub(crate) const CALLS_MIN: u32 = 2000;
/// How long a call waits for its turn, and how long a refusal is held back.
const PATIENCE: Duration = Duration::from_secs(1);
/// The leases of a heartbeat, ranges of a result, or records of a report that cost as much as a call.
const ITEMS_OF_A_CALL: usize = 64;
/// The cost of joining, in calls: others hear of each worker.
pub(crate) const JOIN_COST: u32 = 8;

/// The largest message that is read: a heartbeat of the largest worker, or a shard.
pub(crate) const MESSAGE_BYTES_MAX: u32 = 2 << 20;
/// The bytes of messages that have not come to their end. A worker has a few of some KiB.
pub(crate) const MESSAGES_BYTES: Limit = Limit {
    all: 48 << 20,
    each: 16 << 20,
};

/// The bytes before a message: whether it is compressed, and its length.
const HEAD_BYTES: u32 = 5;

/// The owner of the table: no quota binds it.
const OWNER: ParticipantId = ParticipantId::OWNER;
const _: () = assert!(OWNER.0 == OWNER_NUMBER);

/// The quotas of all participants. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Quota {
    calls: Arc<Rates<ParticipantId>>,
    messages: Shares,
}

/// A participant asks for more than its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TooMuch {
    #[error(
        "your participant makes more calls than it may: come back in {} s; few workers with many threads \
         make fewer",
        self.seconds()
    )]
    Calls(Duration),
    #[error(
        "your participant has as many connections as it may have: come back in {} s, when others are closed",
        self.seconds()
    )]
    Connections,
}

impl TooMuch {
    /// When to come back.
    pub(crate) fn seconds(self) -> u64 {
        match self {
            TooMuch::Calls(wait) => wait.as_secs() + 1,
            TooMuch::Connections => 10,
        }
    }
}

impl Default for Quota {
    fn default() -> Quota {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);
        let calls = cpus.saturating_mul(CALLS_EACH_CPU).max(CALLS_MIN);
        Quota::new(NonZeroU32::new(calls).expect("more than nothing"))
    }
}

impl Quota {
    /// Allows each participant `a_second` calls a second.
    pub(crate) fn new(a_second: NonZeroU32) -> Quota {
        Quota {
            calls: Arc::new(Rates::new(a_second)),
            messages: Shares::new(MESSAGES_BYTES),
        }
    }

    /// The message of a call on its way, which has the memory that it announces, and more if more comes. It fails when
    /// messages that have not come to their end take too much.
    pub(crate) fn message(&self, participant: ParticipantId, body: Body) -> Body {
        let (messages, mut held) = (self.messages.clone(), Vec::new());
        let (mut start, mut come, mut taken) = (Vec::new(), 0, 0);
        Body::from_stream(body.into_data_stream().map(move |bytes| {
            let bytes = bytes?;
            come += u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            start.extend(bytes.iter().take(HEAD_BYTES as usize - start.len()));
            let more = come.max(announced(&start)).saturating_sub(taken);
            let share = messages.try_take(participant, more).ok_or_else(|| {
                let what = "too much of too many calls is on its way: come back in 1 s";
                axum::Error::new(tonic::Status::resource_exhausted(what))
            })?;
            held.push(share);
            taken += more;
            Ok::<_, axum::Error>(bytes)
        }))
    }

    /// Waits for the turn of a call.
    pub(crate) async fn turn(&self, participant: ParticipantId) -> Result<(), TooMuch> {
        if participant == OWNER {
            return Ok(());
        }
        let turn = self.calls.reserve(participant, PATIENCE, Instant::now());
        match turn {
            Ok(wait) if wait.is_zero() => Ok(()),
            Ok(wait) => {
                tokio::time::sleep(wait).await;
                Ok(())
            }
            Err(wait) => {
                // A participant that does not heed refusals is answered no faster.
                tokio::time::sleep(PATIENCE).await;
                Err(TooMuch::Calls(wait))
            }
        }
    }

    /// Charges a call that turned out to cost as much as `calls` more.
    pub(crate) fn charge(&self, participant: ParticipantId, calls: u32) {
        self.calls.charge(participant, calls, Instant::now());
    }

    /// Charges a call for its leases, ranges or records.
    pub(crate) fn charge_items(&self, participant: ParticipantId, items: usize) {
        let calls = u32::try_from(items / ITEMS_OF_A_CALL).unwrap_or(u32::MAX);
        self.charge(participant, calls);
    }
}

/// The bytes of a message that begins so, as gRPC announces them. Of more than a message may have none are kept.
fn announced(mut start: &[u8]) -> u32 {
    let bytes = start.try_get_u8().and_then(|_| start.try_get_u32());
    bytes.map_or(0, |bytes| {
        bytes.saturating_add(HEAD_BYTES).min(MESSAGE_BYTES_MAX)
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::BodyExt;

    use super::*;

    type BoxError = Box<dyn std::error::Error + Send + Sync>;

    const ANN: ParticipantId = ParticipantId(1);
    const BOB: ParticipantId = ParticipantId(2);

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_calls_waits_and_others_do_not() {
        let quota = Quota::new(NonZeroU32::new(100).unwrap());
        let start = Instant::now();
        let mut flood = tokio::task::JoinSet::new();
        for _ in 0..1000 {
            let quota = quota.clone();
            flood.spawn(async move { quota.turn(ANN).await });
        }
        tokio::task::yield_now().await;
        quota.turn(BOB).await.unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO);
        let answers = flood.join_all().await;
        // 200 at once, and those of the next second.
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 300);
        assert_eq!(start.elapsed(), PATIENCE, "refusals are no faster");
        let refused = answers.into_iter().find_map(Result::err).unwrap();
        assert!(
            refused.to_string().contains("come back in 1 s"),
            "{refused}"
        );
        // The cost of a call is paid before the next one.
        quota.charge_items(BOB, 64 * 399);
        let refused = quota.turn(BOB).await.unwrap_err();
        assert!(
            matches!(refused, TooMuch::Calls(wait) if wait > Duration::from_millis(900)),
            "{refused:?}"
        );
        tokio::time::sleep(Duration::from_secs(2)).await;
        quota.turn(BOB).await.unwrap();
        // The owner of the table is nobody to be kept from it.
        for _ in 0..1000 {
            quota.turn(OWNER).await.unwrap();
        }
    }

    /// Messages of which the end never comes.
    #[tokio::test]
    async fn messages_on_their_way_take_bounded_memory() {
        let quota = Quota::default();
        let endless = |participant| {
            let pieces =
                std::iter::repeat_with(|| Ok::<_, BoxError>(Bytes::from(vec![0; 1 << 20])));
            let body = Body::from_stream(tokio_stream::iter(pieces));
            quota.message(participant, body)
        };
        let mut held: Vec<Body> = (0..40).map(|_| endless(ANN)).collect();
        let mut taken = 0;
        for body in &mut held {
            let refusal = loop {
                match body.frame().await.expect("it has no end") {
                    Ok(_) => taken += 1 << 20,
                    Err(error) => break tonic::Status::from_error(error.into()),
                }
            };
            assert_eq!(refusal.code(), tonic::Code::ResourceExhausted);
        }
        assert_eq!(taken, MESSAGES_BYTES.each);
        let honest = quota.message(BOB, Body::from(vec![0; 1 << 20]));
        assert_eq!(honest.collect().await.unwrap().to_bytes().len(), 1 << 20);
        drop(held);
        assert!(endless(ANN).frame().await.unwrap().is_ok());
        // Announced bytes count before they come.
        let announces = |bytes: u8| {
            let [start, rest] = [vec![0], vec![0, bytes, 0, 0]].map(Bytes::from);
            let silence = tokio_stream::pending::<Result<Bytes, BoxError>>();
            let body = tokio_stream::iter([Ok(start), Ok(rest)]).chain(silence);
            quota.message(ANN, Body::from_stream(body))
        };
        let mut large: Vec<Body> = (0..7).map(|_| announces(0x20)).collect();
        for body in &mut large {
            assert!(body.frame().await.unwrap().is_ok());
            assert!(body.frame().await.unwrap().is_ok());
        }
        let mut last = [announces(0x10), announces(0x70), announces(0x7)];
        let mut fits = Vec::new();
        for body in &mut last {
            assert!(body.frame().await.unwrap().is_ok());
            fits.push(body.frame().await.unwrap().is_ok());
        }
        assert_eq!(fits, [true, false, true]);
    }
}
