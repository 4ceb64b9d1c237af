//! The list of participants, read again and again from its file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use chomp_access::{Denied, FileError, Participants, TokenDigest};
use chomp_plan::ParticipantId;
use chomp_serve::net::Spare;
use chomp_store::tasks::output;
use chomp_table::format::describe;
use tokio::sync::watch;
use tokio::time::timeout;

/// The time from one reading of the file to the next: a token that is taken back opens nothing after that time, and
/// what it has opened ends.
const INTERVAL: Duration = Duration::from_millis(500);

/// The participant whose token a call has. The gate puts it into the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AuthenticatedParticipant(pub(crate) ParticipantId);

/// One place in this many is for the owner alone.
const OWNERS_SHARE: usize = 8;

/// How many of these places a participant must leave free: none may hold up the others, and the owner may take all.
pub(crate) fn spare(participant: ParticipantId, places: usize) -> Spare {
    if participant == ParticipantId::OWNER {
        Spare::Places(0)
    } else {
        Spare::Share(places / OWNERS_SHARE)
    }
}

/// The participants of a job. Clones share all.
#[derive(Clone, Debug)]
pub(crate) struct ParticipantList {
    list: watch::Sender<Participants>,
    /// Whether the list may change.
    has_file: bool,
}

impl ParticipantList {
    /// This list, which changes if somebody [follows](ParticipantList::follow) its file.
    pub(crate) fn new(list: Participants, has_file: bool) -> ParticipantList {
        ParticipantList {
            list: watch::Sender::new(list),
            has_file,
        }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Participants> {
        self.list.subscribe()
    }

    /// An unknown token may have been added since the file was read: it is judged when the file has been read again.
    pub(crate) async fn admit(&self, token: &TokenDigest) -> Result<ParticipantId, Denied> {
        let mut list = self.subscribe();
        if self.has_file {
            let is_known = |list: &Participants| list.admit(token) != Err(Denied::Wrong);
            let _ = timeout(2 * INTERVAL, list.wait_for(is_known)).await;
        }
        let list = list.borrow();
        list.admit(token).map(|one| ParticipantId(one.number))
    }

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

    pub(crate) fn change(&self, new: Participants) {
        self.list.send_if_modified(|list| {
            let is_new = new != *list;
            *list = new;
            is_new
        });
    }

    async fn refresh(&self, path: &Path) -> Result<(), FileError> {
        let from = path.to_owned();
        let read = tokio::task::spawn_blocking(move || Participants::read(&from));
        let new = output(read.await).await?;
        // Participants are never removed from the list, and a missing file reads as an empty one. So a shorter list
        // means that the file, or its directory, is gone.
        if new.iter().len() < self.list.borrow().iter().len() {
            return Err(FileError::Missing {
                path: path.to_owned(),
                kind: "list of participants",
            });
        }
        self.change(new);
        Ok(())
    }

    pub(crate) async fn follow(self, path: PathBuf) {
        let mut before = String::new();
        loop {
            tokio::time::sleep(INTERVAL).await;
            // Participants stay admitted: a file that is being mended must not stop a job.
            let now = match self.refresh(&path).await {
                Ok(()) => String::new(),
                Err(error) => describe(&error),
            };
            if now != before && !now.is_empty() {
                tracing::warn!("nobody is added or revoked: {now}");
            }
            before = now;
        }
    }
}

pub(crate) fn revoked(list: &Participants) -> Vec<ParticipantId> {
    let revoked = list.iter().filter(|one| one.revoked);
    revoked.map(|one| ParticipantId(one.number)).collect()
}

#[cfg(test)]
mod tests {
    use chomp_access::Token;

    use super::*;
    use crate::ready;

    fn admitted(list: &ParticipantList, token: &Token) -> Result<ParticipantId, Denied> {
        ready(list.admit(&TokenDigest::of(token.secret())))
    }

    #[test]
    fn who_was_revoked_is_admitted_no_more() {
        let mut list = Participants::default();
        let (ann, bob) = (list.add("ann").unwrap(), list.add("bob").unwrap());
        let shared = ParticipantList::new(list.clone(), false);
        let number = admitted(&shared, &ann).unwrap();
        let mut heard = shared.subscribe();
        shared.change(list.clone());
        assert!(revoked(&list).is_empty() && !heard.has_changed().unwrap());

        list.revoke("ann").unwrap();
        shared.change(list.clone());
        assert_eq!(revoked(&heard.borrow_and_update()), [number]);
        assert_eq!(admitted(&shared, &ann), Err(Denied::Revoked));
        assert!(admitted(&shared, &bob).is_ok());

        // A new participant with the name of a revoked one is another participant.
        let again = list.add("ann").unwrap();
        shared.change(list.clone());
        assert_eq!(revoked(&heard.borrow()), [number]);
        assert!(admitted(&shared, &again).is_ok_and(|new| new != number));
        assert_eq!(admitted(&shared, &ann), Err(Denied::Revoked));
    }

    /// A change of the file counts soon, and a new token waits for that.
    #[tokio::test(start_paused = true)]
    async fn the_list_is_read_again_when_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("participants.json");
        let add = |name| Participants::change(&path, |list| list.add(name)).unwrap();
        let ann = TokenDigest::of(add("ann").secret());
        let shared = ParticipantList::new(Participants::read(&path).unwrap(), true);
        let number = shared.admit(&ann).await.unwrap();
        let bob = TokenDigest::of(add("bob").secret());
        assert_eq!(shared.admit(&bob).await, Err(Denied::Wrong));
        let mut following = tokio::task::JoinSet::new();
        following.spawn(shared.clone().follow(path.clone()));
        assert!(shared.admit(&bob).await.is_ok());
        Participants::change(&path, |list| list.revoke("ann")).unwrap();
        let mut looks = 0..100;
        while shared.admit(&ann).await.is_ok() && looks.next().is_some() {
            tokio::time::sleep(INTERVAL).await;
        }
        let now_revoked = || revoked(&shared.subscribe().borrow());
        assert_eq!(now_revoked(), [number]);
        // A list that is gone is not one that has nobody.
        std::fs::remove_file(&path).unwrap();
        assert!(shared.refresh(&path).await.is_err());
        assert_eq!(now_revoked(), [number]);
    }
}
