//! How calls reach the job: each is one command in its queue, and most wait for an answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chomp_plan::{
    Answer, Event, LeaseId, Misdeed, Phase, Progress, RequestId, Verdict, WorkerId, WorkerProgress,
};
use chomp_table::{Digest, Head};
use tokio::sync::{mpsc, oneshot};

use super::desk::{Handed, Reply, Target};

/// How long a request for a task waits before the worker is told to ask again.
const LEASE_WAIT: Duration = Duration::from_secs(10);
/// The most workers of a participant that are there at a time.
pub(crate) const WORKERS_MAX: usize = 4096;

/// Something that a worker asks of the job.
#[derive(Debug)]
pub(super) enum Command {
    Event(Event),
    Join {
        worker: WorkerId,
        name: String,
        threads: u32,
        reply: oneshot::Sender<Result<(), Refusal>>,
    },
    Lease {
        request: RequestId,
        worker: WorkerId,
        reply: oneshot::Sender<Reply>,
    },
    Renew {
        worker: WorkerId,
        leases: Vec<LeaseId>,
        stats: WorkerStats,
        reply: oneshot::Sender<Result<Vec<LeaseId>, Refusal>>,
    },
    Complete {
        worker: WorkerId,
        lease: LeaseId,
        handed: Handed,
        reply: oneshot::Sender<Verdict>,
    },
    Report {
        worker: WorkerId,
        records: Vec<(Head, Digest)>,
        reply: oneshot::Sender<Result<(), Refusal>>,
    },
    MayPut {
        worker: WorkerId,
        target: Target,
        reply: oneshot::Sender<bool>,
    },
    Inspect {
        reply: oneshot::Sender<Snapshot>,
    },
}

/// Why a worker has no part in the job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// It has not joined, or was forgotten.
    #[error("this worker has not joined the job")]
    NotJoined,
    /// Its participant has as many as it may have.
    #[error(
        "a participant has at most {WORKERS_MAX} workers at a time: give each fewer processes with more threads"
    )]
    TooMany,
    /// It gets no more tasks.
    #[error("{0}")]
    Quarantined(Misdeed),
}

/// What a worker says of itself, for people to look at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerStats {
    /// The bytes of the ranges that it keeps.
    pub cache_bytes: u64,
    /// The sources that it found among them since it started.
    pub cache_hits: u64,
    /// The sources that it had to fetch since it started.
    pub cache_misses: u64,
}

/// The job at some moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// What it is about.
    pub phase: Phase,
    /// How far it has come.
    pub progress: Progress,
    /// For each layer from the lowest, how many ranges it has, and how many of them are committed.
    pub layers: Vec<(u64, u64)>,
    /// Why nobody works on anything, if that is so and not the end.
    pub waits_for: Option<String>,
    /// How long it will take to the end of the publication, if that can be told.
    pub time_left: Option<Duration>,
    /// The ranges committed in the last minute, by its seconds.
    pub ranges_per_second: f64,
    /// The workers that are there, and those that get no more tasks.
    pub workers: Vec<WorkerSnapshot>,
}

/// A worker at some moment.
#[derive(Clone, Debug)]
pub struct WorkerSnapshot {
    /// What the plan knows of it.
    pub progress: WorkerProgress,
    /// What it says of itself.
    pub stats: WorkerStats,
    /// The time since it was last heard of.
    pub last_contact: Duration,
    /// Its ranges of the last minute, by its seconds.
    pub ranges_per_second: f64,
}

/// The job is over and takes no more calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the coordinator is shutting down")]
pub(crate) struct Over;

/// How the calls of workers reach the job. Clones reach the same job.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    commands: mpsc::UnboundedSender<Command>,
    requests: Arc<AtomicU64>,
}

impl Handle {
    /// A handle, and the queue that the job takes its commands from.
    pub(super) fn new() -> (Handle, mpsc::UnboundedReceiver<Command>) {
        #[expect(
            clippy::disallowed_methods,
            reason = "the server bounds the calls, and each has one command under way"
        )]
        let (sender, commands) = mpsc::unbounded_channel();
        let handle = Handle {
            commands: sender,
            requests: Arc::default(),
        };
        (handle, commands)
    }

    /// Makes the caller a worker of the job, or one again.
    pub(crate) async fn join(
        &self,
        worker: WorkerId,
        name: String,
        threads: u32,
    ) -> Result<Result<(), Refusal>, Over> {
        self.ask(|reply| Command::Join {
            worker,
            name,
            threads,
            reply,
        })
        .await
    }

    /// A task for `worker`, or nothing if none was free for [`LEASE_WAIT`].
    pub(crate) async fn lease(&self, worker: WorkerId) -> Result<Option<Reply>, Over> {
        let request = RequestId(self.requests.fetch_add(1, Ordering::Relaxed));
        let (reply, answer) = oneshot::channel();
        self.send(Command::Lease {
            request,
            worker,
            reply,
        })?;
        let mut waiting = Waiting {
            handle: self,
            request,
            worker,
            answer,
        };
        match tokio::time::timeout(LEASE_WAIT, &mut waiting.answer).await {
            Ok(Ok(answer)) => Ok(Some(answer)),
            Ok(Err(_)) => Err(Over),
            Err(_) => Ok(None),
        }
    }

    /// Keeps a worker known and its leases alive; returns those that no longer stand.
    pub(crate) async fn renew(
        &self,
        worker: WorkerId,
        leases: Vec<LeaseId>,
        stats: WorkerStats,
    ) -> Result<Result<Vec<LeaseId>, Refusal>, Over> {
        self.ask(|reply| Command::Renew {
            worker,
            leases,
            stats,
            reply,
        })
        .await
    }

    /// Hands a result in; it is durable wherever it belongs.
    pub(crate) async fn complete(
        &self,
        worker: WorkerId,
        lease: LeaseId,
        handed: Handed,
    ) -> Result<Verdict, Over> {
        self.ask(|reply| Command::Complete {
            worker,
            lease,
            handed,
            reply,
        })
        .await
    }

    /// Tells that these records are lost.
    pub(crate) async fn report(
        &self,
        worker: WorkerId,
        records: Vec<(Head, Digest)>,
    ) -> Result<Result<(), Refusal>, Over> {
        self.ask(|reply| Command::Report {
            worker,
            records,
            reply,
        })
        .await
    }

    /// Whether `worker` may write `target` now.
    pub(crate) async fn may_put(&self, worker: WorkerId, target: Target) -> Result<bool, Over> {
        self.ask(|reply| Command::MayPut {
            worker,
            target,
            reply,
        })
        .await
    }

    /// Tells the job something that has no answer.
    pub(crate) fn tell(&self, event: Event) -> Result<(), Over> {
        self.send(Command::Event(event))
    }

    /// The job as it is now.
    pub(crate) async fn inspect(&self) -> Result<Snapshot, Over> {
        self.ask(|reply| Command::Inspect { reply }).await
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, Over> {
        let (reply, answer) = oneshot::channel();
        self.send(command(reply))?;
        answer.await.map_err(|_| Over)
    }

    fn send(&self, command: Command) -> Result<(), Over> {
        self.commands.send(command).map_err(|_| Over)
    }
}

/// A request for a task. If the call that waits for it is dropped, so is the request, and a task
/// that was just given to it goes back.
struct Waiting<'a> {
    handle: &'a Handle,
    request: RequestId,
    worker: WorkerId,
    answer: oneshot::Receiver<Reply>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.answer.close();
        let event = match self.answer.try_recv() {
            Ok(Reply {
                answer: Answer::Task(task),
                ..
            }) => Event::Returned {
                worker: self.worker,
                lease: task.lease,
            },
            Ok(_) => return,
            Err(_) => Event::Withdrawn {
                request: self.request,
            },
        };
        // A job that is over has no use for it.
        self.handle.tell(event).unwrap_or(());
    }
}

#[cfg(test)]
impl Handle {
    /// A handle to a job that does nothing but say who may write what, for as long as the set of
    /// tasks is kept.
    pub(crate) fn of_rights(
        may_put: impl Fn(WorkerId, Target) -> bool + Send + 'static,
    ) -> (Handle, tokio::task::JoinSet<()>) {
        let (handle, mut commands) = Handle::new();
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(async move {
            while let Some(command) = commands.recv().await {
                if let Command::MayPut {
                    worker,
                    target,
                    reply,
                } = command
                {
                    let _ = reply.send(may_put(worker, target));
                }
            }
        });
        (handle, tasks)
    }
}
