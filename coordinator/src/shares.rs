//! Shares of what calls and transfers need: places, or memory. There is a limit for all and a smaller one for those of
//! one participant, so no participant has everything. Who waits for a share gets it in the order of coming.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use chomp_plan::ParticipantId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// A limited quantity of places or memory. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Shares {
    all: Arc<Semaphore>,
    each: u32,
    participants: Arc<Mutex<HashMap<ParticipantId, Weak<Semaphore>>>>,
}

/// A part of the quantity, given back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    _all: OwnedSemaphorePermit,
    /// It keeps the participant's entry too.
    _own: OwnedSemaphorePermit,
}

impl Shares {
    /// As much as this says.
    pub(crate) fn new(limit: chomp_serve::net::Limit) -> Shares {
        Shares {
            all: semaphore(limit.all),
            each: limit.each,
            participants: Arc::default(),
        }
    }

    /// A share of `count`, once that is free; none if it takes longer than `time`. `count` is no more than one
    /// participant gets.
    pub(crate) async fn take(
        &self,
        participant: ParticipantId,
        count: u32,
        time: Duration,
    ) -> Option<Share> {
        let own = self.of(participant);
        let taken = async {
            let own = own.acquire_many_owned(count).await;
            let all = Arc::clone(&self.all).acquire_many_owned(count).await;
            Share {
                _all: all.expect("it is never closed"),
                _own: own.expect("it is never closed"),
            }
        };
        timeout(time, taken).await.ok()
    }

    /// A share of `count` if that is free now.
    pub(crate) fn try_take(&self, participant: ParticipantId, count: u32) -> Option<Share> {
        let own = self.of(participant).try_acquire_many_owned(count).ok()?;
        let all = Arc::clone(&self.all).try_acquire_many_owned(count).ok()?;
        Some(Share {
            _all: all,
            _own: own,
        })
    }

    fn of(&self, participant: ParticipantId) -> Arc<Semaphore> {
        // Entries are put in whole, even if a thread panicked.
        let lock = self.participants.lock();
        let mut participants = lock.unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = participants.get(&participant).and_then(Weak::upgrade) {
            return own;
        }
        participants.retain(|_, own| own.strong_count() > 0);
        let own = semaphore(self.each);
        participants.insert(participant, Arc::downgrade(&own));
        own
    }

    #[cfg(test)]
    pub(crate) fn left(&self) -> usize {
        self.all.available_permits()
    }
}

fn semaphore(permits: u32) -> Arc<Semaphore> {
    let permits = usize::try_from(permits).expect("a number of 32 bits");
    Arc::new(Semaphore::new(permits))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn nobody_has_it_all() {
        let shares = Shares::new(chomp_serve::net::Limit { all: 8, each: 6 });
        let take = |number, count| shares.take(ParticipantId(number), count, TIME);
        let hostile = [take(1, 4).await.unwrap(), take(1, 2).await.unwrap()];
        assert!(take(1, 1).await.is_none());
        // Those who wait for it are in nobody's way.
        let waiting = take(1, 1);
        let honest = async {
            for _ in 0..100 {
                drop(take(2, 2).await.unwrap());
            }
        };
        let (waiting, ()) = tokio::join!(waiting, honest);
        assert!(waiting.is_none());
        assert!(
            take(1, 1).await.is_none(),
            "another came, and nothing changed"
        );
        drop(hostile);
        drop(take(3, 1).await.unwrap());
        assert_eq!(shares.left(), 8);
        drop(take(4, 1).await.unwrap());
        assert_eq!(shares.participants.lock().unwrap().len(), 1);
    }
}
