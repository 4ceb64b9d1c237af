//! A coordinator without sockets: for simulations of a whole cluster.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use chomp_proto::v1::coordinator_server::CoordinatorServer;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tonic::body::Body;
use tonic::codegen::Service as Answers;

use super::{Opened, StartError};
use crate::job::Outcome;
use crate::plan::{Progress, Settings};
use crate::service::Service;
use crate::storage::Storage;
use crate::store::Store;

/// A running coordinator that whoever started it makes the calls to. Dropping it ends it at once.
#[derive(Debug)]
pub struct SimulatedCoordinator {
    store: Arc<Store>,
    progress: watch::Receiver<Progress>,
    service: CoordinatorServer<Service>,
    job: AbortOnDropHandle<Outcome>,
    stop: CancellationToken,
}

impl SimulatedCoordinator {
    /// Opens the store of a table for the job that `settings` describe. `table` names it to
    /// workers. With the same `seed` it does the same.
    ///
    /// # Errors
    ///
    /// If the store cannot be used, or not for this job.
    #[expect(clippy::disallowed_methods, reason = "`stop` waits for the job")]
    pub async fn start(
        storage: Arc<dyn Storage>,
        settings: Settings,
        table: u64,
        seed: u64,
    ) -> Result<SimulatedCoordinator, StartError> {
        let opened = Opened::new(storage, settings, None, table, |epoch| seed ^ epoch).await?;
        let stop = CancellationToken::new();
        let job = opened.job.run(opened.first, stop.clone(), Duration::ZERO);
        Ok(SimulatedCoordinator {
            store: opened.store,
            progress: opened.progress,
            service: opened.service,
            job: AbortOnDropHandle::new(tokio::spawn(job)),
            stop,
        })
    }

    /// What answers the calls of workers.
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
        self.service.clone()
    }

    /// The store of the table.
    pub fn store(&self) -> Arc<Store> {
        Arc::clone(&self.store)
    }

    /// How far the job has come; changes as it goes on.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.clone()
    }

    /// Ends the job. What is being written is still committed.
    pub async fn stop(self) -> Outcome {
        self.stop.cancel();
        let ended = self.job.await;
        ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }
}
