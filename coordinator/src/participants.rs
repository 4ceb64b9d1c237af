//! The list of participants, read again whenever its file changes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chomp_access::{Denied, FileError, Participants, TokenDigest};
use chomp_plan::{Event, ParticipantId};
use chomp_table::format::describe;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use crate::job::Handle;

/// How often the file is looked at: a token that is taken back opens nothing after that time, and what it has opened
/// ends.
const EVERY: Duration = Duration::from_millis(500);

/// The participant whose token a call has. The gate puts it into the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bearer(pub(crate) ParticipantId);

/// The participants of a job. Clones share all.
#[derive(Clone, Debug, Default)]
pub(crate) struct ParticipantList {
    list: watch::Sender<Participants>,
    /// None if the list never changes.
    file: Option<Arc<ListFile>>,
}

#[derive(Debug)]
struct ListFile {
    path: PathBuf,
    /// The job that hears of changes.
    job: Handle,
    /// When the last reading began. Locked while the file is read.
    last_read: Mutex<Option<Instant>>,
}

impl ParticipantList {
    /// A list that never changes.
    pub(crate) fn new(list: Participants) -> ParticipantList {
        ParticipantList {
            list: watch::Sender::new(list),
            file: None,
        }
    }

    /// The list that changes with this file, if there is one, and tells the job of it.
    pub(crate) fn following(self, file: Option<(PathBuf, Handle)>) -> ParticipantList {
        let file = file.map(|(path, job)| {
            Arc::new(ListFile {
                path,
                job,
                last_read: Mutex::default(),
            })
        });
        ParticipantList { file, ..self }
    }

    pub(crate) fn has_file(&self) -> bool {
        self.file.is_some()
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Participants> {
        self.list.subscribe()
    }

    /// The participant whose token this is. For a token that is not in the list, the file is read again.
    pub(crate) async fn admit(&self, token: &TokenDigest) -> Result<ParticipantId, Denied> {
        let known = || {
            let list = self.list.borrow();
            list.admit(token).map(|one| ParticipantId(one.number))
        };
        match known() {
            Err(Denied::Wrong) if self.has_file() => {
                if let Err(error) = self.refresh().await {
                    tracing::warn!("{}", describe(&error));
                }
                known()
            }
            known => known,
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

    /// The events that tell the plan at its start which participants were revoked.
    pub(crate) fn revoked(&self) -> Vec<Event> {
        let list = self.list.borrow();
        let revoked = list.iter().filter(|one| one.revoked);
        revoked.map(|one| revoked_event(one.number)).collect()
    }

    /// Takes a new list. It returns the events that tell the plan of the changes.
    pub(crate) fn change(&self, new: Participants) -> Vec<Event> {
        let before = self.list.send_replace(new);
        let list = self.list.borrow();
        let was_revoked = |number| before.get(number).is_some_and(|before| before.revoked);
        let revoked = list
            .iter()
            .filter(|one| one.revoked && !was_revoked(one.number));
        revoked.map(|one| revoked_event(one.number)).collect()
    }

    /// Takes the list as it is in the file now, or was after this was called. So callers with wrong tokens, however
    /// many, have the file read once at a time.
    async fn refresh(&self) -> Result<(), FileError> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let called = Instant::now();
        let mut last_read = file.last_read.lock().await;
        if last_read.is_some_and(|last_read| last_read > called) {
            return Ok(());
        }
        *last_read = Some(Instant::now());
        let path = file.path.clone();
        let read = tokio::task::spawn_blocking(move || Participants::read(&path)).await;
        let read = read.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        let new = read?;
        // Nobody ever leaves the list. What has fewer is not the list: its directory may be gone.
        if new.iter().len() < self.list.borrow().iter().len() {
            return Err(FileError::Missing {
                path: file.path.clone(),
                kind: "list of participants",
            });
        }
        if new != *self.list.borrow() {
            for event in self.change(new) {
                // A job that is over gives out nothing more.
                let _ = file.job.tell(event);
            }
        }
        Ok(())
    }

    /// Looks at the file for as long as the coordinator runs.
    pub(crate) async fn follow(self) {
        let mut before = String::new();
        loop {
            tokio::time::sleep(EVERY).await;
            // Those that were admitted still are: a file that is being mended must not stop a job.
            let now = match self.refresh().await {
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

fn revoked_event(number: u32) -> Event {
    let participant = ParticipantId(number);
    Event::Revoked { participant }
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
        let shared = ParticipantList::new(list.clone());
        let ParticipantId(number) = admitted(&shared, &ann).unwrap();
        assert_eq!(
            (shared.revoked(), shared.change(list.clone())),
            (vec![], vec![])
        );

        list.revoke("ann").unwrap();
        assert_eq!(shared.change(list.clone()), [revoked_event(number)]);
        assert_eq!(shared.change(list.clone()), []);
        assert_eq!(shared.revoked(), [revoked_event(number)]);
        assert_eq!(admitted(&shared, &ann), Err(Denied::Revoked));
        assert!(admitted(&shared, &bob).is_ok());

        // One of the same name is another one.
        let again = list.add("ann").unwrap();
        assert_eq!(shared.change(list.clone()), []);
        assert!(admitted(&shared, &again).is_ok_and(|new| new != ParticipantId(number)));
        assert_eq!(admitted(&shared, &ann), Err(Denied::Revoked));
        // One that is new and revoked at once.
        list.add("eve").unwrap();
        list.revoke("eve").unwrap();
        let eve = list.iter().last().unwrap().number;
        assert_eq!(shared.change(list), [revoked_event(eve)]);
    }

    /// A change of the file counts at once for who was added, and soon for the others.
    #[tokio::test(start_paused = true)]
    async fn the_list_is_read_again_when_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("participants.json");
        let add = |name| Participants::change(&path, |list| list.add(name)).unwrap();
        let ann = TokenDigest::of(add("ann").secret());
        let (handle, _job, _) = job_with_lease(WorkerId::only(7));
        let shared = ParticipantList::new(Participants::read(&path).unwrap());
        let shared = shared.following(Some((path.clone(), handle)));
        let ParticipantId(number) = shared.admit(&ann).await.unwrap();
        let bob = TokenDigest::of(add("bob").secret());
        assert!(shared.admit(&bob).await.is_ok());
        let mut following = tokio::task::JoinSet::new();
        following.spawn(shared.clone().follow());
        Participants::change(&path, |list| list.revoke("ann")).unwrap();
        let mut looks = 0..100;
        while shared.admit(&ann).await.is_ok() && looks.next().is_some() {
            tokio::time::sleep(EVERY).await;
        }
        assert_eq!(shared.revoked(), [revoked_event(number)]);
        // A list that is gone is not one that has nobody.
        std::fs::remove_file(&path).unwrap();
        assert!(shared.refresh().await.is_err());
        assert_eq!(shared.revoked(), [revoked_event(number)]);
    }
}
