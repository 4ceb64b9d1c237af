//! A coordinator at work: the job, and the server that workers call.

#[cfg(feature = "simulation")]
mod simulated;

#[cfg(test)]
pub(crate) mod tests;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use axum::middleware::map_request;
use axum::routing::{MethodRouter, any_service};
use chomp_access::{Participants, Secrets};
use chomp_plan::{
    Action, Found, JobProgress, ParticipantId, Past, Phase, Plan, PlanError, Settings, StopReason,
    Unit,
};
use chomp_proto::v1::coordinator_server::CoordinatorServer;
use chomp_serve::net::{Endpoint, Limits, Permits, Server};
use chomp_serve::{Site, StatusSource};
use chomp_store::{Finders, Journal, QUARANTINED, Storage, StoreError};
use chomp_table::RangeBits;
use chomp_table::manifest::{Manifest, folder_name};
use chomp_table::shard::ShardSize;
use ring::rand::{SystemRandom, generate};
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::auth::{CALLS, Gate};
use crate::job::{DeskJob, Handle, Job, JobOutcome};
use crate::messages::{MESSAGE_BYTES_MAX, Messages};
use crate::pages::JobPages;
use crate::participants::ParticipantList;
use crate::proxy::Proxy;
use crate::service::{Hello, Service};
use crate::status::{JobPhase, Status};
use crate::status_feed::StatusFeed;
use crate::tools::Tools;

#[cfg(feature = "simulation")]
pub use simulated::SimulatedCoordinator;

/// How the paths of the calls of workers begin.
const CALLS_PATH: &str = "/chomp.v1.Coordinator/";
/// The largest health check, which anybody may send.
const HEALTH_BYTES_MAX: usize = 1 << 10;

/// Why a coordinator does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The job cannot be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// There are no random numbers, and workers must not be able to guess what is drawn.
    #[error("the system gives no random numbers")]
    Random,
    /// No address to listen on.
    #[error("cannot listen for workers")]
    Listen(#[from] io::Error),
}

/// The options of a coordinator.
#[derive(Clone, Debug)]
pub struct CoordinatorOptions {
    /// How many low bits of a word a range spans.
    pub range_bits: RangeBits,
    /// The bits of the table.
    pub size: u32,
    /// How many participants have to compute each range alike.
    pub replicas: u32,
    /// Whether parts stay when their ranges are merged.
    pub keep_parts: bool,
    /// One range in `draw_one_in` is drawn, so it needs one more vote; 0: none. Without it, as [`Settings`] has it.
    pub draw_one_in: Option<u32>,
    /// Where workers find the store, as they write it, if they may reach it.
    pub store_hint: Option<String>,
    /// The secrets of the table.
    pub secrets: Arc<Secrets>,
    /// The participants at the start.
    pub participants: Participants,
    /// The file with the list of participants, read again when it changes; none if it never does.
    pub participants_file: Option<PathBuf>,
    /// The certificate to show, if calls come from beyond this machine.
    pub tls: Option<Arc<ServerConfig>>,
    /// The directory whose finished tables are open to everybody, and what that may cost.
    pub site: Option<chomp_serve::SiteOptions>,
    /// Whether everybody may see the status of the job, and not only callers with a token.
    pub open_status: bool,
    /// The limits on the number and times of connections.
    pub limits: Limits,
    /// The divisor of the times of leases: 1, but in tests.
    pub haste: u32,
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
    journal: Arc<Journal>,
    progress: watch::Receiver<JobProgress>,
    feed: Arc<StatusFeed>,
    job: AbortOnDropHandle<JobOutcome>,
    _status: AbortOnDropHandle<()>,
    _participants: Option<AbortOnDropHandle<()>>,
    server: Server,
    stop_job: CancellationToken,
}

impl Coordinator {
    /// Opens the store of a table for a job, and serves workers on `listeners`. If the `published`
    /// table has all the bits of the job, the job is finished.
    ///
    /// # Errors
    ///
    /// If the store cannot be used, or not for this job.
    #[expect(clippy::disallowed_methods, reason = "`stop` waits for the job")]
    pub async fn start(
        storage: Arc<dyn Storage>,
        options: CoordinatorOptions,
        published: Option<Manifest>,
        listeners: Listeners,
    ) -> Result<Coordinator, StartError> {
        let mut settings = Settings::new(options.size, options.range_bits).hastened(options.haste);
        (settings.replicas, settings.keep_parts) = (options.replicas, options.keep_parts);
        if let Some(one_in) = options.draw_one_in {
            (settings.draw_one_in, settings.draw_own_one_in) = (one_in, one_in);
        }
        let random = generate::<[u8; 8]>(&SystemRandom::new());
        let random = random.map_err(|_| StartError::Random)?.expose();
        let participants = ParticipantList::new(options.participants.clone());
        let wishes = Wishes {
            settings,
            participants: participants.subscribe(),
            coordinator: u64::from_le_bytes(random),
            table: options.secrets.table_id(),
            store_hint: options.store_hint.clone(),
            published,
        };
        let secrets = Arc::clone(&options.secrets);
        let opened = Opened::new(storage, wishes, move |epoch| secrets.seed(epoch)).await?;
        let Opened {
            job,
            first,
            handle,
            journal,
            progress,
            service,
            proxy,
        } = opened;

        let file = options.participants_file.clone();
        let participants = participants.following(file.map(|path| (path, handle.clone())));
        for revoked in participants.revoked() {
            // The job has not begun, so it is there to hear it.
            let _ = handle.tell(revoked);
        }
        let follow_list = participants.has_file();
        let follow_list = follow_list.then(|| tokio::spawn(participants.clone().follow()));
        let address = listeners.calls.local_addr()?;
        let feed = Arc::new(StatusFeed::new(handle));
        let (text, told) = watch::channel(chomp_serve::StatusText::default());
        let finish_time = options.limits.finish_time;
        let telling = (Arc::clone(&feed), told);
        let server = serve(options, participants, service, proxy, telling, listeners).await;
        let follow = Arc::clone(&feed).follow(progress.clone(), text);
        let stop_job = CancellationToken::new();
        Ok(Coordinator {
            address,
            journal,
            progress,
            feed,
            job: AbortOnDropHandle::new(tokio::spawn(job.run(
                first,
                stop_job.clone(),
                finish_time,
            ))),
            _status: AbortOnDropHandle::new(tokio::spawn(follow)),
            _participants: follow_list.map(AbortOnDropHandle::new),
            server,
            stop_job,
        })
    }

    /// The address where the coordinator listens for workers.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The journal of the table, for work that follows the job.
    pub fn journal(&self) -> Arc<Journal> {
        Arc::clone(&self.journal)
    }

    /// How far the job has come. It changes with the phase of the job, and when somebody looks.
    pub fn progress(&self) -> watch::Receiver<JobProgress> {
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

    /// The status of the job, made anew every half second for as long as anybody has this receiver.
    pub fn status(&self) -> watch::Receiver<Arc<Status>> {
        self.feed.subscribe()
    }

    /// Waits until a status says that an ended job has ended, for those that follow the job.
    async fn tell_the_end(&self) {
        if self.progress.borrow().phase == Phase::Running {
            return;
        }
        let has_ended = |phase| matches!(phase, JobPhase::Finished | JobPhase::Stopped);
        let mut status = self.status();
        let told = status.wait_for(|status| has_ended(status.phase));
        // The job itself may be gone, and then there is nobody to tell of it.
        let _ = tokio::time::timeout(crate::status_feed::EVERY, told).await;
    }

    /// Ends the job and the server. Results that workers are submitting are still committed, and workers
    /// have some seconds to finish their tasks.
    pub async fn stop(self) -> JobOutcome {
        self.tell_the_end().await;
        self.stop_job.cancel();
        let ended = self.job.await;
        self.server.stop().await;
        ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }
}

/// The options of a job to open.
#[derive(Debug)]
pub(crate) struct Wishes {
    pub(crate) settings: Settings,
    pub(crate) participants: watch::Receiver<Participants>,
    /// A random number that names this coordinator.
    pub(crate) coordinator: u64,
    /// One that names the table, if it is new.
    pub(crate) table: u64,
    pub(crate) store_hint: Option<String>,
    /// The largest table that is published.
    pub(crate) published: Option<Manifest>,
}

/// A job that nobody works on yet, and what answers calls to it.
pub(crate) struct Opened {
    pub(crate) job: Job,
    /// The actions that the plan began with.
    pub(crate) first: Vec<Action>,
    pub(crate) handle: Handle,
    pub(crate) journal: Arc<Journal>,
    pub(crate) progress: watch::Receiver<JobProgress>,
    pub(crate) service: CoordinatorServer<Service>,
    pub(crate) proxy: Proxy,
}

impl Opened {
    /// Opens the store for a job. `seed` turns the epoch into a seed that workers must not guess.
    pub(crate) async fn new(
        storage: Arc<dyn Storage>,
        wishes: Wishes,
        seed: impl FnOnce(u64) -> u64,
    ) -> Result<Opened, StartError> {
        let mut settings = wishes.settings;
        settings.check()?;
        let (size, range_bits) = (settings.size, settings.range_bits);
        let (coordinator, table) = (wishes.coordinator, wishes.table);
        let opening = Journal::open(Arc::clone(&storage), range_bits, size, coordinator, table);
        let journal = Arc::new(opening.await?);
        settings.key = seed(journal.epoch());
        let subject = DeskJob {
            bits: size,
            replicas: settings.replicas,
            participants: wishes.participants,
        };
        let hello = Hello {
            bits: size,
            lease_ms: settings.lease_ms,
            store: wishes.store_hint,
        };
        let shard = ShardSize {
            shard_words: usize::try_from(settings.shard_words).unwrap_or(usize::MAX),
            ..ShardSize::PUBLISHED
        };
        let finished = wishes.published.filter(|published| published.bits >= size);
        let (plan, first) = if let Some(published) = &finished {
            let plan = Plan::finished(settings, published.losing_by_bits[size as usize])?;
            (plan, Vec::new())
        } else {
            begin(settings, &journal)?
        };
        let tools = Tools::new(Arc::clone(&storage), &journal, size, shard);
        let (job, handle, progress) = Job::new(plan, tools, subject, finished);
        let service = Service::new(handle.clone(), Arc::clone(&journal), hello);
        let service = CoordinatorServer::new(service)
            .max_decoding_message_size(MESSAGE_BYTES_MAX as usize)
            .max_encoding_message_size(MESSAGE_BYTES_MAX as usize);
        Ok(Opened {
            job,
            first,
            proxy: {
                let journal = Arc::clone(&journal);
                let names = move |key: &_| journal.names(key);
                Proxy::new(storage, handle.clone(), names, &folder_name(size))
            },
            handle,
            journal,
            progress,
            service,
        })
    }
}

/// The plan of a job that goes on from what the journal says is done, and the actions that it begins with.
pub(crate) fn begin(
    mut settings: Settings,
    journal: &Journal,
) -> Result<(Plan, Vec<Action>), PlanError> {
    settings.epoch = journal.epoch();
    let ledger = journal.ledger();
    if ledger.withdrawn {
        settings.oldest_lease = settings.epoch << 32;
    }
    let heads = settings.range_bits.heads(settings.size);
    let mut past = Past::default();
    let trace = |past: &mut Past, unit: Unit, finders: &Finders, needed: u32| {
        if finders.is_empty() {
            return;
        }
        let finders = finders.iter().filter(|&number| number != QUARANTINED);
        let finders = finders.map(ParticipantId).collect();
        past.found.insert(unit, Found { finders, needed });
    };
    for (head, place, finders) in ledger.found(heads) {
        past.ranges.push(place.summary(head));
        trace(&mut past, Unit::Range(head), finders, place.replicas.max(1));
    }
    for (head, place, finders) in ledger.lost(heads) {
        past.lost.push(place.summary(head));
        trace(&mut past, Unit::Range(head), finders, place.replicas.max(1));
    }
    for (merged, finders) in ledger.found_shards(settings.size) {
        past.shards.push((merged.number, merged.words_digest()));
        trace(&mut past, Unit::Shard(merged.number), finders, 1);
    }
    past.quarantined = ledger
        .quarantined()
        .map(|(number, reason)| (ParticipantId(number), reason.to_owned()))
        .collect();
    drop(ledger);
    Plan::new(settings, &past)
}

/// Serves calls and pages, each behind its rule.
async fn serve(
    options: CoordinatorOptions,
    participants: ParticipantList,
    service: CoordinatorServer<Service>,
    proxy: Proxy,
    (feed, told): (Arc<StatusFeed>, watch::Receiver<chomp_serve::StatusText>),
    listeners: Listeners,
) -> Server {
    let gate = Gate::new(participants, options.open_status);
    let permits = Permits::new(&options.limits, Vec::new());
    let job = JobPages {
        feed,
        storage: proxy.storage(),
        permits: permits.clone(),
        traffic: proxy.traffic(),
        gate: gate.clone(),
    };
    let mut pages = job.routes();
    if let Some(site) = options.site {
        let open = options.open_status;
        pages.extend(
            Site::open(site)
                .await
                .routes(StatusSource::Job { told, open }),
        );
    }
    let mut calls = calls(&service).await;
    calls.push(proxy.route());
    calls.extend(pages.iter().cloned());

    let mut endpoints = vec![Endpoint {
        listener: listeners.calls,
        router: gate.router(calls),
    }];
    endpoints.extend(listeners.pages.map(|listener| Endpoint {
        listener,
        router: gate.router(pages),
    }));
    Server::start(endpoints, options.tls.as_ref(), options.limits, &permits)
}

/// The gRPC calls that have a rule, by their paths.
async fn calls(service: &CoordinatorServer<Service>) -> Vec<(&'static str, MethodRouter)> {
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_serving::<CoordinatorServer<Service>>().await;
    let health = health.max_decoding_message_size(HEALTH_BYTES_MAX);
    let messages = Messages::new();
    let guard = map_request(move |call| std::future::ready(messages.guard(call)));
    let route = |path: &'static str| {
        let call = match path.strip_prefix(CALLS_PATH) {
            Some(_) => any_service(service.clone()),
            None => any_service(health.clone()),
        };
        (path, call.layer(guard.clone()))
    };
    CALLS.iter().map(|(path, _)| route(path)).collect()
}
