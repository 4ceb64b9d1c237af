//! A coordinator at work: the job, and the server that workers call.

#[cfg(feature = "simulation")]
mod simulated;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::routing::{MethodRouter, any_service};
use chomp_access::Issuer;
use chomp_proto::v1::coordinator_server::CoordinatorServer;
use chomp_serve::net::{Endpoint, Limits, Server};
use chomp_serve::{Site, Source};
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
use crate::http::metrics::Traffic;
use crate::import::{self, ImportError};
use crate::job::{Handle, Job, Outcome};
use crate::plan::{Action, Phase, Plan, PlanError, Progress, Settings, StopReason};
use crate::service::Service;
use crate::status::{JobPhase, Status, Told};
use crate::storage::Storage;
use crate::store::{Store, StoreError};

#[cfg(feature = "simulation")]
pub use simulated::SimulatedCoordinator;

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
    /// The directory whose finished tables are open to everybody, and what that may cost.
    pub site: Option<chomp_serve::Options>,
    /// Whether everybody may hear how the job gets on, and not only who has a token.
    pub open_status: bool,
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
    /// Opens the store of a table for a job, and serves workers on `listeners`. What the store
    /// lacks is taken from the `published` table, as far as that goes; if it has all the bits of
    /// the job, that is finished.
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
        let mut settings = Settings::new(options.bits, options.range_bits);
        settings.replicas = options.replicas;
        let issuer = Arc::clone(&options.issuer);
        let seed = move |epoch| issuer.seed(epoch);
        let table = options.issuer.table_id();
        let opened = Opened::new(storage, settings, published, table, seed).await?;
        let Opened {
            job,
            first,
            handle,
            store,
            progress,
            service,
            traffic,
        } = opened;

        let address = listeners.calls.local_addr()?;
        let told = Told {
            bits: options.bits,
            range_bits: options.range_bits,
            replicas: options.replicas,
            epoch: store.epoch(),
        };
        let (sender, status) = watch::channel(Arc::new(Status::default()));
        let (teller, text) = watch::channel(chomp_serve::Told::default());
        let follow = follow(told, handle, progress.clone(), sender, teller);
        let finish_time = options.limits.finish_time;
        let server = serve(options, service, (status.clone(), text), traffic, listeners).await;
        let stop_job = CancellationToken::new();
        Ok(Coordinator {
            address,
            store,
            progress,
            status,
            job: AbortOnDropHandle::new(tokio::spawn(job.run(
                first,
                stop_job.clone(),
                finish_time,
            ))),
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

    /// Waits until the job is finished, or has stopped.
    pub async fn ended(&self) -> Phase {
        let mut progress = self.progress();
        let ended = progress.wait_for(|progress| progress.phase != Phase::Running);
        match ended.await {
            Ok(progress) => progress.phase.clone(),
            // The job is gone, and `stop` tells why.
            Err(_) => Phase::Stopped(StopReason::Shutdown),
        }
    }

    /// The same, as others see it.
    pub fn status(&self) -> watch::Receiver<Arc<Status>> {
        self.status.clone()
    }

    /// Waits until those who follow an ended job have heard of its end: they are not asked again.
    async fn tell_the_end(&self) {
        if self.progress.borrow().phase == Phase::Running {
            return;
        }
        let has_ended = |phase| matches!(phase, JobPhase::Finished | JobPhase::Stopped);
        let mut status = self.status();
        let told = status.wait_for(|status| has_ended(status.phase));
        // The job itself may be gone, and then there is nobody to tell of it.
        let _ = tokio::time::timeout(STATUS_EVERY, told).await;
    }

    /// Ends the job and the server. What workers are submitting is still committed, and they have
    /// some seconds for what they are at.
    pub async fn stop(self) -> Outcome {
        self.tell_the_end().await;
        self.stop_job.cancel();
        let ended = self.job.await;
        self.server.stop().await;
        ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }
}

/// A job that nobody works on yet, and what answers calls to it.
#[derive(Debug)]
struct Opened {
    job: Job,
    /// The actions that the plan began with.
    first: Vec<Action>,
    handle: Handle,
    store: Arc<Store>,
    progress: watch::Receiver<Progress>,
    service: CoordinatorServer<Service>,
    traffic: Arc<Traffic>,
}

impl Opened {
    /// Opens the store for a job. `table` names it to workers; `seed` makes, of the number of this
    /// owner, what workers must not guess.
    async fn new(
        storage: Arc<dyn Storage>,
        mut settings: Settings,
        published: Option<Table>,
        table: u64,
        seed: impl FnOnce(u64) -> u64,
    ) -> Result<Opened, StartError> {
        settings.check()?;
        let Settings {
            bits,
            range_bits,
            replicas,
            lease_ms,
            ..
        } = settings;
        let (store, found) = Store::open(storage, range_bits, bits).await?;
        settings.epoch = store.epoch();
        let store = Arc::new(store.with_replicas(replicas));
        let finished = published.as_ref().map(Table::manifest);
        let finished = finished.filter(|manifest| manifest.bits >= bits).cloned();
        let (plan, first) = if let Some(manifest) = &finished {
            let losing = manifest.losing_by_bits[bits as usize];
            (Plan::finished(settings, losing)?, Vec::new())
        } else {
            let found = import::complete(&store, found, published).await?;
            Plan::new(settings, &found.done, &found.expected, found.sealed_layers)?
        };
        let audit = Arc::new(Audit::new(Arc::clone(&store), seed(store.epoch())));
        let (job, handle, progress) =
            Job::new(plan, Arc::clone(&store), Arc::clone(&audit), finished);
        let service = Service::new(handle.clone(), Arc::clone(&store), audit, table, lease_ms);
        let traffic = Arc::clone(&service.traffic);
        let service = CoordinatorServer::new(service)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        Ok(Opened {
            job,
            first,
            handle,
            store,
            progress,
            service,
            traffic,
        })
    }
}

/// Serves calls and pages, each behind its rule.
async fn serve(
    options: Options,
    service: CoordinatorServer<Service>,
    (status, told): (
        watch::Receiver<Arc<Status>>,
        watch::Receiver<chomp_serve::Told>,
    ),
    traffic: Arc<Traffic>,
    listeners: Listeners,
) -> Server {
    let gate = Gate::new(options.issuer, options.open_status);
    let slots = options.limits.slots();
    let job = JobPages {
        status,
        slots: slots.clone(),
        traffic,
        gate: gate.clone(),
    };
    let mut pages = job.routes();
    if let Some(site) = options.site {
        let open = options.open_status;
        pages.extend(Site::open(site).await.routes(Source::Job { told, open }));
    }
    let mut calls = calls(&service).await;
    calls.extend(pages.iter().cloned());

    let mut endpoints = vec![Endpoint {
        listener: listeners.calls,
        router: gate.router(calls),
    }];
    endpoints.extend(listeners.pages.map(|listener| Endpoint {
        listener,
        router: gate.router(pages),
    }));
    Server::start(endpoints, options.tls.as_ref(), options.limits, &slots)
}

/// The gRPC calls that have a rule, by their paths.
async fn calls(service: &CoordinatorServer<Service>) -> Vec<(&'static str, MethodRouter)> {
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_serving::<CoordinatorServer<Service>>().await;
    let route = |path: &'static str| {
        let call = match path.strip_prefix("/chomp.v1.Coordinator/") {
            Some(_) => any_service(service.clone()),
            None => any_service(health.clone()),
        };
        (path, call)
    };
    CALLS.iter().map(|(path, _)| route(path)).collect()
}

/// Tells others of the job for as long as it runs; of its end at once.
async fn follow(
    told: Told,
    handle: Handle,
    mut progress: watch::Receiver<Progress>,
    status: watch::Sender<Arc<Status>>,
    text: watch::Sender<chomp_serve::Told>,
) {
    while let Ok(snapshot) = handle.inspect().await {
        let ended = snapshot.phase != Phase::Running;
        let now = Status::of(&told, snapshot);
        text.send_replace(chomp_serve::Told::new(&now));
        status.send_replace(Arc::new(now));
        let ends = progress.wait_for(|progress| progress.phase != Phase::Running);
        tokio::select! {
            () = tokio::time::sleep(STATUS_EVERY) => {}
            // A job that is gone is found to be gone when it is asked next.
            _ = ends, if !ended => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use chomp_proto::PROTOCOL;
    use chomp_proto::v1::coordinator_client::CoordinatorClient;
    use chomp_proto::v1::{self, lease_reply};
    use chomp_table::range;
    use tonic::Request;

    use super::*;
    use crate::storage::SimulatedStorage;

    async fn start(storage: Arc<SimulatedStorage>, limits: Limits) -> (Coordinator, Arc<Issuer>) {
        let issuer = Arc::new(Issuer::in_memory(0).unwrap());
        let options = Options {
            bits: 14,
            range_bits: RangeBits::new(12).unwrap(),
            replicas: 1,
            issuer: Arc::clone(&issuer),
            tls: None,
            site: None,
            open_status: false,
            limits,
        };
        let listeners = Listeners {
            calls: TcpListener::bind("127.0.0.1:0").await.unwrap(),
            pages: None,
        };
        let coordinator = Coordinator::start(storage, options, None, listeners).await;
        (coordinator.unwrap(), issuer)
    }

    fn with<T>(token: &str, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let token = token.parse().unwrap();
        request.metadata_mut().insert("authorization", token);
        request
    }

    #[tokio::test]
    async fn dropping_it_ends_it() {
        let storage = Arc::new(SimulatedStorage::new(0));
        let (coordinator, _) = start(storage.clone(), Limits::default()).await;
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

    #[tokio::test]
    async fn a_worker_that_holds_on_for_ever_does_not_hold_the_end() {
        let limits = Limits {
            finish_time: Duration::from_millis(500),
            drain_time: Duration::from_millis(500),
            ..Limits::default()
        };
        let (coordinator, issuer) = start(Arc::new(SimulatedStorage::new(0)), limits).await;
        let url = format!("http://{}", coordinator.address());
        let mut client = CoordinatorClient::new(
            tonic::transport::Endpoint::from_shared(url)
                .unwrap()
                .connect()
                .await
                .unwrap(),
        );
        let token = format!("Bearer {}", issuer.issue(None).secret());
        let join = v1::JoinRequest {
            protocol: PROTOCOL,
            format: range::VERSION,
            threads: 1,
            worker: 7,
            kernel: chomp_kernel::fingerprint(chomp_kernel::Isa::Portable)
                .0
                .to_vec(),
            ..v1::JoinRequest::default()
        };
        client.join(with(&token, join)).await.unwrap();
        let lease = client.lease(with(&token, v1::LeaseRequest { worker: 7 }));
        let Some(lease_reply::Answer::Task(task)) = lease.await.unwrap().into_inner().answer else {
            panic!("the first worker gets a task");
        };

        let renewing = async {
            let renew = v1::RenewRequest {
                worker: 7,
                leases: vec![task.lease],
                stats: None,
            };
            let mut renewed = 0;
            while let Ok(reply) = client.renew(with(&token, renew.clone())).await {
                assert_eq!(reply.into_inner().lost, [0; 0]);
                renewed += 1;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            renewed
        };
        let (renewed, outcome) = tokio::join!(renewing, coordinator.stop());
        assert!(renewed > 5, "{renewed}: it was not cut off at once");
        assert!(matches!(outcome, Outcome::Interrupted), "{outcome:?}");
    }
}
