//! The list of participants as a coordinator knows it now.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use chomp_access::Participants;
use chomp_plan::ParticipantId;

/// The participants of a job. Clones share the list.
#[derive(Clone, Debug, Default)]
pub(crate) struct List(Arc<RwLock<Participants>>);

impl List {
    pub(crate) fn new(participants: Participants) -> List {
        List(Arc::new(RwLock::new(participants)))
    }

    /// The serial of the credential of a participant; 0 if it never had one.
    pub(crate) fn serial(&self, ParticipantId(number): ParticipantId) -> u32 {
        self.read().get(number).map_or(0, |one| one.serial)
    }

    /// The name of a participant, if it is on the list.
    pub(crate) fn name(&self, ParticipantId(number): ParticipantId) -> Option<String> {
        self.read().get(number).map(|one| one.name.clone())
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Participants> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Participants> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
