//! A coordinator without a runtime: it does what the job does, when it is told to.

use std::collections::BTreeMap;
use std::sync::Arc;

use chomp_table::RangeSummary;
use chomp_table::manifest::Manifest;

use super::expected::{Record, STEPS, range_bits};
use crate::audit::Audit;
use crate::errands::Errand;
use crate::job::JobError;
use crate::plan::{
    Action, Answer, Event, LeaseId, Millis, Phase, Plan, RequestId, Settings, SubmissionId,
    Verdict, WorkerId,
};
use crate::ready;
use crate::server::StartError;
use crate::storage::SimulatedStorage;
use crate::store::{Progress, Store};

/// What a worker hears.
#[derive(Debug)]
pub(super) enum Told {
    Answer(RequestId, Answer),
    Settled(Vec<RangeSummary>, Verdict),
    Quarantined(String),
}

#[derive(Debug)]
pub(super) struct Coordinator {
    pub(super) store: Arc<Store>,
    audit: Audit,
    pub(super) plan: Plan,
    /// The errands that were begun; they end in any order.
    pub(super) under_way: Vec<Errand>,
    pub(super) fault: Option<JobError>,
    pub(super) manifest: Option<Manifest>,
    submissions: BTreeMap<SubmissionId, Vec<Record>>,
    ids: u64,
}

impl Coordinator {
    /// Starts on what is in the storage, and tells what it found there.
    pub(super) fn start(
        storage: &Arc<SimulatedStorage>,
        settings: Settings,
    ) -> Result<(Coordinator, Progress), StartError> {
        let (store, found) = ready(Store::open(storage.clone(), range_bits(), settings.bits))?;
        let (plan, first) = Plan::new(settings, &found.done, &found.expected, found.sealed_layers)?;
        let store = Arc::new(store);
        let mut coordinator = Coordinator {
            audit: Audit::new(Arc::clone(&store), 0),
            store,
            plan,
            under_way: Vec::new(),
            fault: None,
            manifest: None,
            submissions: BTreeMap::new(),
            ids: 0,
        };
        let told = coordinator.perform(first);
        assert!(told.is_empty(), "nobody has asked");
        Ok((coordinator, found))
    }

    pub(super) fn is_running(&self) -> bool {
        *self.plan.phase() == Phase::Running
    }

    pub(super) fn handle(&mut self, now: u64, event: Event) -> Vec<Told> {
        let actions = self.plan.handle(Millis(now), event);
        self.perform(actions)
    }

    pub(super) fn submit(
        &mut self,
        now: u64,
        worker: WorkerId,
        lease: LeaseId,
        records: Vec<Record>,
    ) -> Vec<Told> {
        self.ids += 1;
        let submission = SubmissionId(self.ids);
        let ranges = records.iter().map(|(summary, _)| *summary).collect();
        self.submissions.insert(submission, records);
        let event = Event::Submitted {
            submission,
            worker,
            lease,
            ranges,
        };
        self.handle(now, event)
    }

    /// One of the writes under way is done, well or not.
    pub(super) fn write(&mut self, now: u64, index: usize) -> (Event, Vec<Told>) {
        let write = self.under_way.remove(index);
        let written = ready(write.perform(&self.store, &self.audit, STEPS));
        self.fault = self.fault.take().or(written.fault);
        self.manifest = self.manifest.take().or(written.manifest);
        if let (Event::Evaluated { submission, .. }, Some(record)) =
            (&written.event, written.record)
        {
            self.submissions.insert(*submission, vec![record]);
        }
        (written.event.clone(), self.handle(now, written.event))
    }

    fn perform(&mut self, actions: Vec<Action>) -> Vec<Told> {
        let mut told = Vec::new();
        for action in actions {
            match action {
                Action::Answer { request, answer } => told.push(Told::Answer(request, answer)),
                Action::Settle {
                    submission,
                    verdict,
                } => {
                    let records = self.submissions.remove(&submission).unwrap();
                    let ranges = records.iter().map(|(summary, _)| *summary);
                    told.push(Told::Settled(ranges.collect(), verdict));
                }
                Action::Commit {
                    submission,
                    layer,
                    heads,
                } => {
                    let records = self.submissions[&submission].iter();
                    let chosen = records.filter(|(summary, _)| heads.contains(&summary.head));
                    self.under_way.push(Errand::Commit {
                        submission,
                        layer,
                        records: chosen.cloned().collect(),
                    });
                }
                Action::Seal { layer, ranges } => {
                    self.under_way.push(Errand::Seal { layer, ranges });
                }
                Action::Publish => self.under_way.push(Errand::Publish),
                Action::Forget { submission } => {
                    self.submissions.remove(&submission).unwrap();
                }
                Action::Evaluate { head } => {
                    self.ids += 1;
                    let submission = SubmissionId(self.ids);
                    self.under_way.push(Errand::Evaluate { submission, head });
                }
                Action::Quarantine { name, .. } => told.push(Told::Quarantined(name)),
                Action::Renewal { .. } | Action::Stop { .. } => {}
            }
        }
        told
    }
}
