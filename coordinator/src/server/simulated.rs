//! A coordinator without sockets: for simulations of a whole cluster.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::middleware::map_request;
use chomp_access::Participants;
use chomp_plan::{JobProgress, ParticipantId, Settings};
use chomp_store::tasks::output;
use chomp_store::{Journal, Storage, published};
use chomp_table::manifest::{Manifest, folder_name};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tonic::body::Body;
use tonic::codegen::Service as Answers;
use tonic::service::Routes;

use super::{JobInputs, Opened, StartError, calls_of, unguarded};
use crate::job::{Job, JobHandle, JobOutcome};
use crate::participants::AuthenticatedParticipant;
use crate::status::Status;

/// A running coordinator whose owner passes calls to it directly. Dropping it ends it at once.
#[derive(Debug)]
pub struct SimulatedCoordinator {
    journal: Arc<Journal>,
    handle: JobHandle,
    progress: watch::Receiver<JobProgress>,
    calls: Routes,
    job: AbortOnDropHandle<JobOutcome>,
    stop: CancellationToken,
}

impl SimulatedCoordinator {
    /// Opens the store of a table for the job that `settings` describe. `table` is the number that names the table to
    /// workers, if the table is new. With the same `seed` the coordinator does the same. Fails if the store cannot be
    /// used, or not for this job.
    #[expect(clippy::disallowed_methods, reason = "`stop` waits for the job")]
    pub async fn start(
        storage: Arc<dyn Storage>,
        settings: Settings,
        table: u64,
        seed: u64,
    ) -> Result<SimulatedCoordinator, StartError> {
        let folder = folder_name(settings.bits);
        let published = published::manifest(&*storage, &folder).await?;
        let parse = |bytes: bytes::Bytes| Manifest::parse(&bytes);
        let published = published.map(|bytes| parse(bytes).expect("it is whole"));
        let (_, nobody) = watch::channel(Participants::default());
        let inputs = JobInputs {
            participants: nobody,
            settings,
            coordinator_secret: seed,
            table,
            store_hint: None,
            published,
        };
        let opened = Opened::new(storage, inputs, |epoch| seed ^ epoch).await?;
        let router = unguarded(&opened.service);
        let (path, objects) = opened.relay.route();
        let stop = CancellationToken::new();
        let referee_calls = calls_of(ParticipantId::REFEREE, &opened.service, &opened.relay);
        let job = opened.job.run(stop.clone(), Duration::ZERO, referee_calls);
        Ok(SimulatedCoordinator {
            journal: opened.journal,
            handle: opened.handle,
            progress: opened.progress,
            calls: router
                .route(path, objects)
                .layer(map_request(name_caller))
                .into(),
            job: AbortOnDropHandle::new(tokio::spawn(job)),
            stop,
        })
    }

    /// The service for the calls of workers and for the objects of the store. It believes tokens, which are the
    /// numbers of participants.
    pub fn calls(
        &self,
    ) -> impl Answers<
        http::Request<Body>,
        Response = http::Response<Body>,
        Error = Infallible,
        Future: Send,
    > + Clone
    + Send
    + use<> {
        self.calls.clone()
    }

    /// The journal of the table.
    pub fn journal(&self) -> Arc<Journal> {
        Arc::clone(&self.journal)
    }

    /// How far the job has come. It changes with the phase of the job.
    pub fn progress(&self) -> watch::Receiver<JobProgress> {
        self.progress.clone()
    }

    /// The job as it is now; none if it is over.
    pub async fn look(&self) -> Option<Status> {
        self.handle.ask(Job::status).await.ok()
    }

    /// Ends the job. What is being written is still committed.
    pub async fn stop(self) -> JobOutcome {
        self.stop.cancel();
        let ended = self.job.await;
        output(ended).await
    }
}

async fn name_caller(mut request: Request) -> Request {
    let shown = request.headers().get(http::header::AUTHORIZATION);
    let number = shown.and_then(|shown| shown.to_str().ok()?.strip_prefix("Bearer ")?.parse().ok());
    if let Some(number) = number {
        request
            .extensions_mut()
            .insert(AuthenticatedParticipant(ParticipantId(number)));
    }
    request
}
