//! A coordinator at work: the job, and the server that workers call.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, any_service};
use chomp_access::Issuer;
use chomp_proto::v1::coordinator_server::CoordinatorServer;
use chomp_table::pieces::PIECE_BYTES_MAX;
use chomp_table::{RangeBits, Table};
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::audit::Audit;
use crate::auth::{CALLS, Gate};
use crate::http::job::Job as JobPages;
use crate::http::metrics::{Traffic, count_fetched, count_submitted};
use crate::http::tables::Tables;
use crate::import::{self, ImportError};
use crate::job::{Handle, Job, Outcome};
use crate::net::{Endpoint, Limits, Server};
use crate::plan::{Plan, PlanError, Progress, Settings};
use crate::service::Service;
use crate::status::{Status, Told};
use crate::storage::Storage;
use crate::store::{Store, StoreError};

/// The largest message that is read: a message of pieces and its framing.
const MESSAGE_BYTES_MAX: usize = 2 * PIECE_BYTES_MAX;
/// How often the status is made anew.
const STATUS_EVERY: Duration = Duration::from_millis(500);

/// Why a coordinator does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Ranges of the published table cannot be used.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The job cannot be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// No address to listen on.
    #[error("cannot listen for workers")]
    Listen(#[from] io::Error),
}

/// What a coordinator is told before it starts.
#[derive(Clone, Debug)]
pub struct Options {
    /// The bits of the table.
    pub bits: u32,
    /// The bits of a range.
    pub range_bits: RangeBits,
    /// How many workers have to compute each range alike.
    pub replicas: u32,
    /// Tells who may call.
    pub issuer: Arc<Issuer>,
    /// The certificate to show, if calls come from beyond this machine.
    pub tls: Option<Arc<ServerConfig>>,
    /// The directory whose finished tables everybody may download.
    pub tables: Option<PathBuf>,
    /// What connections may cost.
    pub limits: Limits,
}

/// Where a coordinator listens.
#[derive(Debug)]
pub struct Listeners {
    /// For calls and pages.
    pub calls: TcpListener,
    /// For pages alone.
    pub pages: Option<TcpListener>,
}

/// A running coordinator. Dropping it ends it at once; what is committed is kept.
#[derive(Debug)]
pub struct Coordinator {
    address: SocketAddr,
    store: Arc<Store>,
    progress: watch::Receiver<Progress>,
    status: watch::Receiver<Arc<Status>>,
    job: AbortOnDropHandle<Outcome>,
    _status: AbortOnDropHandle<()>,
    server: Server,
    stop_job: CancellationToken,
}

impl Coordinator {
    /// Opens the store of a table for a job, and serves workers on `listeners`. What it lacks is
    /// taken from `published`, a table of fewer bits, as far as that goes.
    ///
    /// # Errors
    ///
    /// If the store cannot be used, or not for this job.
    #[expect(clippy::disallowed_methods, reason = "`stop` waits for the job")]
    pub async fn start(
        storage: Arc<dyn Storage>,
        options: Options,
        published: Option<Table>,
        listeners: Listeners,
    ) -> Result<Coordinator, StartError> {
        let Options {
            bits, range_bits, ..
        } = options;
        let mut settings = Settings::new(bits, range_bits);
        settings.check()?;
        settings.replicas = options.replicas;
        let (store, found) = Store::open(storage, range_bits, bits).await?;
        settings.epoch = store.epoch();
        let store = Arc::new(store.with_replicas(options.replicas));
        let found = import::complete(&store, found, published).await?;
        let (plan, first) = Plan::new(settings, &found.done, &found.expected, found.sealed_layers)?;
        let audit = Arc::new(Audit::new(
            Arc::clone(&store),
            options.issuer.seed(store.epoch()),
        ));
        let (job, handle, progress) = Job::new(plan, Arc::clone(&store), audit);

        let address = listeners.calls.local_addr()?;
        let told = Told {
            bits,
            range_bits,
            replicas: options.replicas,
            epoch: store.epoch(),
        };
        let (sender, status) = watch::channel(Arc::new(Status::default()));
        let follow = follow(told, handle.clone(), sender);
        let shared = Arc::clone(&store);
        let service = CoordinatorServer::new(Service {
            handle,
            store: shared,
        })
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let server = serve(options, service, status.clone(), listeners).await;
        let stop_job = CancellationToken::new();
        Ok(Coordinator {
            address,
            store,
            progress,
            status,
            job: AbortOnDropHandle::new(tokio::spawn(job.run(first, stop_job.clone()))),
            _status: AbortOnDropHandle::new(tokio::spawn(follow)),
            server,
            stop_job,
        })
    }

    /// Where workers find it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The store of the table, for what is to be done when the job is.
    pub fn store(&self) -> Arc<Store> {
        Arc::clone(&self.store)
    }

    /// How far the job has come; changes as it goes on.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.clone()
    }

    /// The same, as others see it.
    pub fn status(&self) -> watch::Receiver<Arc<Status>> {
        self.status.clone()
    }

    /// Ends the job and the server. What workers are submitting is still committed, and they have
    /// some seconds for what they are at.
    pub async fn stop(self) -> Outcome {
        self.stop_job.cancel();
        let ended = self.job.await;
        self.server.stop().await;
        ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }
}

/// Serves calls and pages, each behind its rule.
async fn serve(
    options: Options,
    service: CoordinatorServer<Service>,
    status: watch::Receiver<Arc<Status>>,
    listeners: Listeners,
) -> Server {
    let gate = Gate::new(options.issuer);
    let slots = options.limits.slots();
    let traffic = Arc::<Traffic>::default();
    let job = JobPages {
        status,
        slots: slots.clone(),
        traffic: Arc::clone(&traffic),
        gate: gate.clone(),
    };
    let mut pages = job.routes();
    pages.extend(
        options
            .tables
            .map(Tables::new)
            .into_iter()
            .flat_map(Tables::routes),
    );
    let mut calls = calls(&service, &traffic).await;
    calls.extend(pages.iter().cloned());

    let mut endpoints = vec![Endpoint {
        listener: listeners.calls,
        router: gate.router(calls),
    }];
    endpoints.extend(listeners.pages.map(|listener| Endpoint {
        listener,
        router: gate.router(pages),
    }));
    Server::start(endpoints, options.tls, options.limits, &slots)
}

/// The gRPC calls that have a rule, by their paths.
async fn calls(
    service: &CoordinatorServer<Service>,
    traffic: &Arc<Traffic>,
) -> Vec<(&'static str, MethodRouter)> {
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_serving::<CoordinatorServer<Service>>().await;
    let route = |path: &'static str| {
        let call = match path.strip_prefix("/chomp.v1.Coordinator/") {
            Some(_) => any_service(service.clone()),
            None => any_service(health.clone()),
        };
        let call = match path {
            "/chomp.v1.Coordinator/Fetch" => {
                call.layer(from_fn_with_state(Arc::clone(traffic), count_fetched))
            }
            "/chomp.v1.Coordinator/Submit" => {
                call.layer(from_fn_with_state(Arc::clone(traffic), count_submitted))
            }
            _ => call,
        };
        (path, call)
    };
    CALLS.iter().map(|(path, _)| route(path)).collect()
}

/// Tells others of the job for as long as it runs.
async fn follow(told: Told, handle: Handle, status: watch::Sender<Arc<Status>>) {
    while let Ok(snapshot) = handle.inspect().await {
        status.send_replace(Arc::new(Status::of(&told, snapshot)));
        tokio::time::sleep(STATUS_EVERY).await;
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
        let options = Options {
            bits: 14,
            range_bits,
            replicas: 1,
            issuer: Arc::new(Issuer::in_memory(0).unwrap()),
            tls: None,
            tables: None,
            limits: Limits::default(),
        };
        let listeners = Listeners {
            calls: listener,
            pages: None,
        };
        let coordinator = Coordinator::start(storage.clone(), options, None, listeners);
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
