//! Texts that tell people what a job waits for.

use super::{Phase, Plan};

impl Plan {
    /// Why no worker works on anything, if that is so and the table is not published.
    pub fn waits_for(&self) -> Option<String> {
        let replicas = self.settings.replicas;
        match &self.phase {
            Phase::Stopped(reason) => Some(reason.to_string()),
            Phase::Finished => None,
            Phase::Running if self.publishing => Some("the manifest is being written".to_owned()),
            Phase::Running if self.in_doubt() > 0 => Some(format!(
                "{} ranges or shards are computed again, since results differ or whoever found them is not trusted",
                self.in_doubt()
            )),
            Phase::Running if !self.leases.is_empty() => None,
            Phase::Running if self.workers.is_empty() => Some("no worker is there".to_owned()),
            Phase::Running if !self.awaited.since.is_empty() => Some(format!(
                "{} ranges wait for another participant to find the same",
                self.awaited.since.len()
            )),
            Phase::Running if !self.is_quiet() => None,
            Phase::Running if self.ready.is_shared() && replicas > 1 => Some(format!(
                "each range must be computed by {replicas} participants, and those that are there have done what they can: \
                 `chomp access add NAME` makes a credential for another one"
            )),
            Phase::Running => Some("no worker asks for a task".to_owned()),
        }
    }
}
