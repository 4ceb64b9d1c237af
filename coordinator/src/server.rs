//! A coordinator at work: the job, and the server that workers call.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use chomp_proto::v1::coordinator_server::CoordinatorServer;
use chomp_table::RangeBits;
use chomp_table::pieces::PIECE_BYTES_MAX;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tonic::transport::Server;

use crate::job::{Job, Outcome};
use crate::plan::{Plan, PlanError, Progress, Settings};
use crate::service::Service;
use crate::storage::Storage;
use crate::store::{Store, StoreError};

/// The largest message that is read: a message of pieces and its framing.
const MESSAGE_BYTES_MAX: usize = 2 * PIECE_BYTES_MAX;
/// The calls of one connection that are served at a time.
const CALLS_PER_CONNECTION: u32 = 1024;
/// How often a quiet connection is checked, and how long the answer may take.
const KEEPALIVE: Duration = Duration::from_secs(20);
/// How long open calls have when the server goes down.
const DRAIN: Duration = Duration::from_secs(5);

/// Why a coordinator does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The job cannot be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// No address to listen on.
    #[error("cannot listen for workers")]
    Listen(#[from] io::Error),
}

/// A running coordinator. Dropping it ends it at once; what is committed is kept.
#[derive(Debug)]
pub struct Coordinator {
    address: SocketAddr,
    progress: watch::Receiver<Progress>,
    job: AbortOnDropHandle<Outcome>,
    server: AbortOnDropHandle<Result<(), tonic::transport::Error>>,
    stop_job: CancellationToken,
    stop_server: CancellationToken,
}

impl Coordinator {
    /// Opens the store of a table for a job of `bits` bits, and serves workers on `listener`.
    ///
    /// # Errors
    ///
    /// If the store cannot be used, or not for this job.
    #[expect(clippy::disallowed_methods, reason = "`stop` waits for both tasks")]
    pub async fn start(
        storage: Arc<dyn Storage>,
        bits: u32,
        range_bits: RangeBits,
        listener: TcpListener,
    ) -> Result<Coordinator, StartError> {
        let settings = Settings::new(bits, range_bits);
        settings.check()?;
        let lease_ms = settings.lease_ms;
        let (store, found) = Store::open(storage, range_bits, bits).await?;
        let (plan, first) = Plan::new(settings, &found.done, &found.expected, found.sealed_layers)?;
        let store = Arc::new(store);
        let (job, handle, progress) = Job::new(plan, Arc::clone(&store));

        let address = listener.local_addr()?;
        let (stop_job, stop_server) = (CancellationToken::new(), CancellationToken::new());
        let service = CoordinatorServer::new(Service::new(handle, store, 0, lease_ms))
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let server = Server::builder()
            .http2_keepalive_interval(Some(KEEPALIVE))
            .http2_keepalive_timeout(Some(KEEPALIVE))
            .max_concurrent_streams(CALLS_PER_CONNECTION)
            .tcp_nodelay(true)
            .add_service(service)
            .serve_with_incoming_shutdown(
                TcpListenerStream::new(listener),
                stop_server.clone().cancelled_owned(),
            );
        Ok(Coordinator {
            address,
            progress,
            job: AbortOnDropHandle::new(tokio::spawn(job.run(first, stop_job.clone()))),
            server: AbortOnDropHandle::new(tokio::spawn(server)),
            stop_job,
            stop_server,
        })
    }

    /// Where workers find it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How far the job has come; changes as it goes on.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.clone()
    }

    /// Ends the job and the server: what workers are submitting is still committed.
    pub async fn stop(self) -> Outcome {
        self.stop_job.cancel();
        let outcome = self
            .job
            .await
            .unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        self.stop_server.cancel();
        match tokio::time::timeout(DRAIN, self.server).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => tracing::warn!("the server ended badly: {error}"),
            Ok(Err(error)) => tracing::warn!("the server ended badly: {error}"),
            Err(_) => tracing::debug!("connections were open when the server ended"),
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::SimulatedStorage;

    #[tokio::test]
    async fn dropping_it_ends_it() {
        let storage = Arc::new(SimulatedStorage::new(0));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let range_bits = RangeBits::new(12).unwrap();
        let coordinator = Coordinator::start(storage.clone(), 14, range_bits, listener);
        let coordinator = coordinator.await.unwrap();
        tokio::task::yield_now().await;
        assert!(Arc::strong_count(&storage) > 1);
        drop(coordinator);
        for _ in 0..1000 {
            if Arc::strong_count(&storage) == 1 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the table is still in use");
    }
}
