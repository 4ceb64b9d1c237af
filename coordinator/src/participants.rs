//! The list of participants, read again and again from its file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use chomp_access::{Denied, FileError, Participants, TokenDigest};
use chomp_plan::ParticipantId;
use chomp_table::format::describe;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use crate::job::Handle;
use crate::tools::Event;

/// The time from one reading of the file to the next: a token that is taken back opens nothing after that time, and what
/// it has opened ends.
const INTERVAL: Duration = Duration::from_millis(500);

/// The participant whose token a call has. The gate puts it into the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bearer(pub(crate) ParticipantId);

/// The participants of a job. Clones share all.
#[derive(Clone, Debug)]
pub(crate) struct ParticipantList {
    list: watch::Sender<Participants>,
    /// Notified whenever the file was read; none if the list never changes.
    was_read: Option<Arc<Notify>>,
}

impl ParticipantList {
    /// This list, which changes if somebody [follows](ParticipantList::follow) its file.
    pub(crate) fn new(list: Participants, has_file: bool) -> ParticipantList {
        ParticipantList {
            list: watch::Sender::new(list),
            was_read: has_file.then(Arc::default),
        }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Participants> {
        self.list.subscribe()
    }

    /// The participant whose token this is. A token that is not in the list may have been added since the file was
    /// read: it is judged when the file is read again.
    pub(crate) async fn admit(&self, token: &TokenDigest) -> Result<ParticipantId, Denied> {
        let known = || {
            let list = self.list.borrow();
            list.admit(token).map(|one| ParticipantId(one.number))
        };
        match (known(), &self.was_read) {
            (Err(Denied::Wrong), Some(was_read)) => {
                // A file that cannot be read adds nobody.
                let _ = timeout(2 * INTERVAL, was_read.notified()).await;
                known()
            }
            (known, _) => known,
        }
    }

    /// Waits until a token is not good any more.
    pub(crate) fn revocation(
        &self,
        token: TokenDigest,
    ) -> impl Future<Output = ()> + Send + 'static {
        let list = self.list.clone();
        async move {
            let is_revoked = |list: &Participants| list.admit(&token).is_err();
            drop(list.subscribe().wait_for(is_revoked).await);
        }
    }

    /// The participants that were revoked.
    pub(crate) fn revoked(&self) -> Vec<ParticipantId> {
        let list = self.list.borrow();
        let revoked = list.iter().filter(|one| one.revoked);
        revoked.map(|one| ParticipantId(one.number)).collect()
    }

    /// Takes a new list. It returns the participants that are revoked since the one before.
    pub(crate) fn change(&self, new: Participants) -> Vec<ParticipantId> {
        let before = self.list.send_replace(new);
        let list = self.list.borrow();
        let was_revoked = |number| before.get(number).is_some_and(|before| before.revoked);
        let revoked = list
            .iter()
            .filter(|one| one.revoked && !was_revoked(one.number));
        revoked.map(|one| ParticipantId(one.number)).collect()
    }

    /// Takes the list as it is in the file now.
    async fn refresh(&self, path: &Path, job: &Handle) -> Result<(), FileError> {
        let from = path.to_owned();
        let read = tokio::task::spawn_blocking(move || Participants::read(&from)).await;
        let new = read.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
        // Nobody ever leaves the list. What has fewer is not the list: its directory may be gone.
        if new.iter().len() < self.list.borrow().iter().len() {
            return Err(FileError::Missing {
                path: path.to_owned(),
                kind: "list of participants",
            });
        }
        if new != *self.list.borrow() {
            for participant in self.change(new) {
                // A job that is over gives out nothing more.
                let _ = job.send(move |job| job.handle(Event::Revoked { participant }));
            }
        }
        Ok(())
    }

    /// Reads the file again and again, for as long as the coordinator runs, and tells the job who is revoked.
    pub(crate) async fn follow(self, path: PathBuf, job: Handle) {
        let mut before = String::new();
        loop {
            tokio::time::sleep(INTERVAL).await;
            // Those that were admitted still are: a file that is being mended must not stop a job.
            let now = match self.refresh(&path, &job).await {
                Ok(()) => String::new(),
                Err(error) => describe(&error),
            };
            if let Some(was_read) = &self.was_read {
                was_read.notify_waiters();
            }
            if now != before && !now.is_empty() {
                tracing::warn!("nobody is added or revoked: {now}");
            }
            before = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use chomp_access::Token;
    use chomp_plan::WorkerId;

    use super::*;
    use crate::job::tests::job_with_lease;
    use crate::ready;

    fn admitted(list: &ParticipantList, token: &Token) -> Result<ParticipantId, Denied> {
        ready(list.admit(&TokenDigest::of(token.secret())))
    }

    #[test]
    fn the_plan_hears_who_was_revoked() {
        let mut list = Participants::default();
        let (ann, bob) = (list.add("ann").unwrap(), list.add("bob").unwrap());
        let shared = ParticipantList::new(list.clone(), false);
        let number = admitted(&shared, &ann).unwrap();
        assert!(shared.revoked().is_empty() && shared.change(list.clone()).is_empty());

        list.revoke("ann").unwrap();
        assert_eq!(shared.change(list.clone()), [number]);
        assert_eq!(shared.change(list.clone()), []);
        assert_eq!(shared.revoked(), [number]);
        assert_eq!(admitted(&shared, &ann), Err(Denied::Revoked));
        assert!(admitted(&shared, &bob).is_ok());

        // One of the same name is another one.
        let again = list.add("ann").unwrap();
        assert_eq!(shared.change(list.clone()), []);
        assert!(admitted(&shared, &again).is_ok_and(|new| new != number));
        assert_eq!(admitted(&shared, &ann), Err(Denied::Revoked));
        // One that is new and revoked at once.
        list.add("eve").unwrap();
        list.revoke("eve").unwrap();
        let eve = list.iter().last().unwrap().number;
        assert_eq!(shared.change(list), [ParticipantId(eve)]);
    }

    /// A change of the file counts soon, and a new token waits for that.
    #[tokio::test(start_paused = true)]
    async fn the_list_is_read_again_when_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("participants.json");
        let add = |name| Participants::change(&path, |list| list.add(name)).unwrap();
        let ann = TokenDigest::of(add("ann").secret());
        let (handle, _job, _) = job_with_lease(WorkerId::only(7));
        let shared = ParticipantList::new(Participants::read(&path).unwrap(), true);
        let number = shared.admit(&ann).await.unwrap();
        let bob = TokenDigest::of(add("bob").secret());
        assert_eq!(shared.admit(&bob).await, Err(Denied::Wrong));
        let mut following = tokio::task::JoinSet::new();
        following.spawn(shared.clone().follow(path.clone(), handle.clone()));
        assert!(shared.admit(&bob).await.is_ok());
        Participants::change(&path, |list| list.revoke("ann")).unwrap();
        let mut looks = 0..100;
        while shared.admit(&ann).await.is_ok() && looks.next().is_some() {
            tokio::time::sleep(INTERVAL).await;
        }
        assert_eq!(shared.revoked(), [number]);
        // A list that is gone is not one that has nobody.
        std::fs::remove_file(&path).unwrap();
        assert!(shared.refresh(&path, &handle).await.is_err());
        assert_eq!(shared.revoked(), [number]);
    }
}
