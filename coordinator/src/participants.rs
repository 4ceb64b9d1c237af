//! The list of participants, read again whenever its file changes.

use std::path::PathBuf;
use std::time::Duration;

use chomp_access::{Denied, FileError, Holder, Participants};
use chomp_plan::{Event, ParticipantId};
use chomp_table::format::describe;
use tokio::sync::watch;

use crate::job::Handle;

/// How often the file is looked at: a credential that is taken back opens nothing after that time, and what it has
/// opened ends.
const EVERY: Duration = Duration::from_millis(500);

/// The participant whose token a call has. The gate puts it into the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bearer(pub(crate) ParticipantId);

/// The participants of a job. Clones share all.
#[derive(Clone, Debug, Default)]
pub(crate) struct ParticipantList {
    pub(crate) list: watch::Sender<Participants>,
    /// The file of the list, and the job that hears of changes; none if the list never changes.
    pub(crate) file: Option<(PathBuf, Handle)>,
}

impl ParticipantList {
    /// Whether a credential is good. For one that is newer than the list, the file is read again.
    pub(crate) async fn admit(&self, holder: Holder) -> Result<(), Denied> {
        let is_newer = self.list.borrow().is_older_than(holder);
        if is_newer && let Err(error) = self.refresh().await {
            tracing::warn!("{}", describe(&error));
        }
        self.list.borrow().admit(holder)
    }

    /// Waits until a credential is not good any more.
    pub(crate) fn revocation(&self, holder: Holder) -> impl Future<Output = ()> + Send + 'static {
        let list = self.list.clone();
        async move {
            let is_revoked = |list: &Participants| list.admit(holder).is_err();
            drop(list.subscribe().wait_for(is_revoked).await);
        }
    }

    /// The events that tell the plan at its start which credentials were taken back.
    pub(crate) fn revoked(&self) -> Vec<Event> {
        let list = self.list.borrow();
        let revoked = list.iter().filter(|one| one.revoked);
        revoked.map(|one| revoked_event(one.number)).collect()
    }

    /// Takes a new list. It returns the events that tell the plan of the changes.
    fn change(&self, new: Participants) -> Vec<Event> {
        let mut events = Vec::new();
        self.list.send_modify(|list| {
            for one in new.iter() {
                let before = list.get(one.number);
                // The journal may name somebody who had the number of a new one before.
                let renewed = before.is_none_or(|before| before.serial < one.serial);
                let was_revoked = before.is_some_and(|before| before.revoked);
                if one.revoked && !was_revoked {
                    events.push(revoked_event(one.number));
                } else if !one.revoked && (renewed || was_revoked) {
                    let participant = ParticipantId(one.number);
                    events.push(Event::Readmitted { participant });
                }
            }
            *list = new;
        });
        events
    }

    /// Takes the list as it is in the file now.
    async fn refresh(&self) -> Result<(), FileError> {
        let Some((path, handle)) = &self.file else {
            return Ok(());
        };
        let file = path.clone();
        let read = tokio::task::spawn_blocking(move || Participants::read(&file)).await;
        let read = read.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        let new = read?;
        // Nobody ever leaves the list. What has fewer is not the list: its directory may be gone.
        if new.iter().count() < self.list.borrow().iter().count() {
            let path = path.clone();
            return Err(FileError::Missing {
                path,
                kind: "list of participants",
            });
        }
        if new != *self.list.borrow() {
            for event in self.change(new) {
                // A job that is over gives out nothing more.
                let _ = handle.tell(event);
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
    use chomp_plan::WorkerId;

    use super::*;
    use crate::job::tests::job_with_lease;
    use crate::ready;

    #[test]
    fn the_plan_hears_who_was_revoked_and_who_is_trusted_again() {
        let mut list = Participants::default();
        let (ann, bob) = (list.add("ann").unwrap(), list.add("bob").unwrap());
        let shared = ParticipantList {
            list: watch::Sender::new(list.clone()),
            file: None,
        };
        assert_eq!(ready(shared.admit(ann)), Ok(()));
        assert_eq!(
            (shared.revoked(), shared.change(list.clone())),
            (vec![], vec![])
        );

        list.revoke("ann").unwrap();
        assert_eq!(shared.change(list.clone()), [revoked_event(1)]);
        assert_eq!(shared.change(list.clone()), []);
        assert_eq!(shared.revoked(), [revoked_event(1)]);
        assert_eq!(ready(shared.admit(ann)), Err(Denied::Revoked));
        assert!(ready(shared.admit(bob)).is_ok());

        let again = list.renew("ann").unwrap();
        let participant = ParticipantId(1);
        assert_eq!(
            shared.change(list.clone()),
            [Event::Readmitted { participant }]
        );
        assert!(ready(shared.admit(again)).is_ok() && ready(shared.admit(ann)).is_err());
        // A second renewal, of one that was not revoked: the owner trusts it from now on.
        list.renew("ann").unwrap();
        assert_eq!(
            shared.change(list.clone()),
            [Event::Readmitted { participant }]
        );
        // One that is new and revoked at once.
        list.add("eve").unwrap();
        list.revoke("eve").unwrap();
        assert_eq!(shared.change(list), [revoked_event(3)]);
    }

    /// A change of the file counts at once for who has a newer credential, and soon for the others.
    #[tokio::test(start_paused = true)]
    async fn the_list_is_read_again_when_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("participants.json");
        let change = |change: fn(&mut Participants) -> Option<Holder>| {
            Participants::change(&path, |list| Ok(change(list))).unwrap()
        };
        let ann = change(|list| list.add("ann").ok()).unwrap();
        let (handle, _job, _) = job_with_lease(WorkerId::only(7));
        let shared = ParticipantList {
            list: watch::Sender::new(Participants::read(&path).unwrap()),
            file: Some((path.clone(), handle)),
        };
        assert!(shared.admit(ann).await.is_ok());
        let again = change(|list| list.renew("ann").ok()).unwrap();
        assert!(shared.admit(again).await.is_ok());
        let mut following = tokio::task::JoinSet::new();
        following.spawn(shared.clone().follow());
        change(|list| list.revoke("ann").map(|()| None).ok().flatten());
        let mut looks = 0..100;
        while shared.admit(again).await.is_ok() && looks.next().is_some() {
            tokio::time::sleep(EVERY).await;
        }
        assert_eq!(shared.revoked(), [revoked_event(1)]);
        // A list that is gone is not one that has nobody.
        std::fs::remove_file(&path).unwrap();
        assert!(shared.refresh().await.is_err());
        assert_eq!(shared.revoked(), [revoked_event(1)]);
    }
}
