//! The list of participants as a coordinator knows it now.

use chomp_access::{Holder, Participants};
use chomp_plan::ParticipantId;
use tokio::sync::watch;

/// The participants of a job. Clones share the list.
#[derive(Clone, Debug, Default)]
pub(crate) struct ParticipantList(watch::Sender<Participants>);

impl ParticipantList {
    pub(crate) fn new(participants: Participants) -> ParticipantList {
        ParticipantList(watch::Sender::new(participants))
    }

    /// The serial of the credential of a participant; 0 if it never had one.
    pub(crate) fn serial(&self, ParticipantId(number): ParticipantId) -> u32 {
        self.read().get(number).map_or(0, |one| one.serial)
    }

    /// The name of a participant, if it is on the list.
    pub(crate) fn name(&self, ParticipantId(number): ParticipantId) -> Option<String> {
        self.read().get(number).map(|one| one.name.clone())
    }

    pub(crate) fn read(&self) -> watch::Ref<'_, Participants> {
        self.0.borrow()
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Participants)) {
        self.0.send_modify(change);
    }

    /// Waits until a credential is not good any more.
    pub(crate) async fn revocation(self, holder: Holder) {
        let is_revoked = |list: &Participants| list.admit(holder).is_err();
        drop(self.0.subscribe().wait_for(is_revoked).await);
    }
}
