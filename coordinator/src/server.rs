//! A coordinator at work: the job, and the server that workers call.

#[cfg(feature = "simulation")]
mod simulated;

#[cfg(test)]
pub(crate) mod tests;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, any_service};
use axum::{Extension, Router};
use chomp_access::participants::OWNER_NUMBER;
use chomp_access::{Participants, Secrets};
use chomp_plan::{JobProgress, ParticipantId, Past, Phase, PlanError, Settings, StopReason};
use chomp_proto::v1::coordinator_server::CoordinatorServer;
use chomp_serve::net::{Endpoint, Limits, Listener, Permits, Server};
use chomp_serve::{Site, StatusSource};
use chomp_store::tasks::output;
use chomp_store::{Finders, Journal, RangeRow, Storage, StoreError};
use chomp_table::RangeBits;
use chomp_table::manifest::{Manifest, folder_name};
use chomp_table::shard::ShardSize;
use ring::rand::{SystemRandom, generate};
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tonic::service::Routes;

use crate::auth::{CALLS, Gate};
#[cfg(feature = "simulation")]
use crate::job::JobHandle;
use crate::job::{Job, JobOutcome, StatusFeed};
use crate::message_budget::{MESSAGE_BYTES_MAX, MessageBudget, with_message};
use crate::pages::JobPages;
use crate::participants::{AuthenticatedParticipant, ParticipantList};
use crate::relay::Relay;
use crate::service::{JobDescription, Service};
use crate::status::Status;
use crate::tools::{Action, Plan, Tools};

#[cfg(feature = "simulation")]
pub use simulated::SimulatedCoordinator;

/// Why a coordinator does not start.
#[expect(missing_docs, reason = "the variants are named for what they are")]
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// There are no random numbers, and workers must not be able to guess which units are sampled.
    #[error("the system gives no random numbers")]
    Random,
    #[error("cannot listen for workers")]
    Listen(#[from] io::Error),
}

/// The options of a coordinator.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug)]
pub struct CoordinatorOptions {
    pub range_bits: RangeBits,
    pub bits: u32,
    /// How many participants have to compute each range alike.
    pub replicas: u32,
    /// Whether parts stay when their ranges are merged.
    pub keep_parts: bool,
    /// Of 1,000 ranges, how many are checked. Without it, as [`Settings`] has it.
    pub checks_per_1000: Option<u32>,
    /// The location of the store as a text that workers parse, if they may reach it.
    pub store_hint: Option<String>,
    pub secrets: Arc<Secrets>,
    /// The participants at the start.
    pub participants: Participants,
    /// The file with the list of participants, read again when it changes; none if it never does.
    pub participants_file: Option<PathBuf>,
    /// The certificate to show, if calls come from beyond this machine.
    pub tls: Option<Arc<ServerConfig>>,
    /// The site that is open to everybody: the directory of finished tables, and the limits of its cache and questions.
    pub site: Option<chomp_serve::SiteOptions>,
    /// Whether everybody may see the status of the job, and not only callers with a token.
    pub open_status: bool,
    pub limits: Limits,
    /// The divisor of the times of leases: 1, but in tests.
    pub haste: u32,
}

/// Where a coordinator listens.
#[derive(Debug)]
pub struct Listeners {
    /// For calls and pages; none if only a worker in this process calls.
    pub calls: Option<TcpListener>,
    /// For pages alone.
    pub pages: Option<TcpListener>,
}

/// A running coordinator. Dropping it ends it at once; what is committed is kept.
#[derive(Debug)]
pub struct Coordinator {
    address: Option<SocketAddr>,
    owner_calls: Routes,
    journal: Arc<Journal>,
    progress: watch::Receiver<JobProgress>,
    status: watch::Receiver<Arc<Status>>,
    job: AbortOnDropHandle<JobOutcome>,
    _participants: Option<AbortOnDropHandle<()>>,
    server: Server,
    stop_job: CancellationToken,
}

impl Coordinator {
    /// Opens the store of a table for a job, and serves workers on `listeners`. If the `published` table has all the
    /// bits of the job, the job is finished. Fails if the store cannot be used, or not for this job.
    #[expect(clippy::disallowed_methods, reason = "`stop` waits for the job")]
    pub async fn start(
        storage: Arc<dyn Storage>,
        options: CoordinatorOptions,
        published: Option<Manifest>,
        listeners: Listeners,
    ) -> Result<Coordinator, StartError> {
        let mut settings = Settings::new(options.bits, options.range_bits).hastened(options.haste);
        (settings.replicas, settings.keep_parts) = (options.replicas, options.keep_parts);
        if let Some(checks) = options.checks_per_1000 {
            (settings.checks_per_1000, settings.owner_checks_per_1000) = (checks, checks);
            settings.newcomer_ranges = 0;
        }
        let random = generate::<[u8; 8]>(&SystemRandom::new());
        let random = random.map_err(|_| StartError::Random)?.expose();
        let file = options.participants_file.clone();
        let participants = ParticipantList::new(options.participants.clone(), file.is_some());
        let inputs = JobInputs {
            settings,
            participants: participants.subscribe(),
            coordinator_secret: u64::from_le_bytes(random),
            table: options.secrets.table_id(),
            store_hint: options.store_hint.clone(),
            published,
        };
        let secrets = Arc::clone(&options.secrets);
        let opened = Opened::new(storage, inputs, move |epoch| secrets.seed(epoch)).await?;
        let Opened {
            mut job,
            journal,
            progress,
            service,
            relay,
            ..
        } = opened;

        let follow = |path| tokio::spawn(participants.clone().follow(path));
        let follow_list = file.map(follow).map(AbortOnDropHandle::new);
        let address = listeners.calls.as_ref().map(TcpListener::local_addr);
        let address = address.transpose()?;
        let owner_calls = calls_of(ParticipantId(OWNER_NUMBER), &service, &relay);
        let referee_calls = calls_of(ParticipantId::REFEREE, &service, &relay);
        let feed = job.follow();
        let status = feed.status.clone();
        let finish_time = options.limits.finish_time;
        let server = serve(options, participants, service, relay, feed, listeners).await;
        let stop_job = CancellationToken::new();
        Ok(Coordinator {
            address,
            owner_calls,
            journal,
            progress,
            status,
            job: AbortOnDropHandle::new(tokio::spawn(job.run(
                stop_job.clone(),
                finish_time,
                referee_calls,
            ))),
            _participants: follow_list,
            server,
            stop_job,
        })
    }

    /// The address where the coordinator listens for workers, if it does.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The service for the calls of the owner's workers in this process, which need no token.
    pub fn owner_calls(&self) -> Routes {
        self.owner_calls.clone()
    }

    /// The journal of the table, for work that follows the job.
    pub fn journal(&self) -> Arc<Journal> {
        Arc::clone(&self.journal)
    }

    /// How far the job has come. It changes with the phase of the job, and with each status.
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

    /// The status of the job, made anew every half second.
    pub fn status(&self) -> watch::Receiver<Arc<Status>> {
        self.status.clone()
    }

    /// Ends job and server. Results being submitted are still committed; workers have some seconds to finish tasks.
    pub async fn stop(self) -> JobOutcome {
        self.stop_job.cancel();
        let ended = self.job.await;
        self.server.stop().await;
        output(ended).await
    }
}

#[derive(Debug)]
pub(crate) struct JobInputs {
    pub(crate) settings: Settings,
    pub(crate) participants: watch::Receiver<Participants>,
    /// A random number that only this coordinator and its workers know.
    pub(crate) coordinator_secret: u64,
    /// The number that names the table to workers, if the table is new.
    pub(crate) table: u64,
    pub(crate) store_hint: Option<String>,
    /// The largest table that is published.
    pub(crate) published: Option<Manifest>,
}

/// A job that nobody works on yet, and what answers calls to it.
pub(crate) struct Opened {
    pub(crate) job: Job,
    #[cfg(feature = "simulation")]
    pub(crate) handle: JobHandle,
    pub(crate) journal: Arc<Journal>,
    pub(crate) progress: watch::Receiver<JobProgress>,
    pub(crate) service: CoordinatorServer<Service>,
    pub(crate) relay: Relay,
}

impl Opened {
    /// Opens the store for a job. `seed` turns the epoch into a seed that workers must not guess.
    pub(crate) async fn new(
        storage: Arc<dyn Storage>,
        inputs: JobInputs,
        seed: impl FnOnce(u64) -> u64,
    ) -> Result<Opened, StartError> {
        let mut settings = inputs.settings;
        settings.validate()?;
        let (bits, range_bits) = (settings.bits, settings.range_bits);
        let (secret, table) = (inputs.coordinator_secret, inputs.table);
        let opening = Journal::open(Arc::clone(&storage), range_bits, bits, secret, table);
        let journal = Arc::new(opening.await?);
        settings.check_seed = seed(journal.epoch());
        let (replicas, participants) = (settings.replicas, inputs.participants);
        let description = JobDescription {
            bits,
            lease_ms: settings.lease_ms,
            store: inputs.store_hint,
        };
        let shard = ShardSize {
            shard_words: usize::try_from(settings.shard_words).unwrap_or(usize::MAX),
            ..ShardSize::PUBLISHED
        };
        let finished = inputs.published.filter(|published| published.bits >= bits);
        let begun = match &finished {
            Some(published) => {
                let losing = published.losing_by_bits[bits as usize];
                (Plan::of_published(settings, losing)?, Vec::new())
            }
            None => begin(settings, &journal)?,
        };
        let tools = Tools::new(Arc::clone(&storage), &journal, bits, shard);
        let (job, handle, progress) =
            Job::new(begun, Arc::clone(&tools), replicas, participants, finished);
        let service = Service::new(handle.clone(), &tools, description);
        let service = CoordinatorServer::new(service)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        Ok(Opened {
            job,
            #[cfg(feature = "simulation")]
            handle: handle.clone(),
            relay: {
                let journal = Arc::clone(&journal);
                let refers_to = move |key: &_| journal.refers_to(key);
                let shard_puts = Arc::clone(&tools.shard_puts);
                Relay::new(storage, handle, refers_to, &folder_name(bits), shard_puts)
            },
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
    let heads = settings.range_bits.head_count(settings.bits);
    let range = |(head, row, finders): (chomp_table::Head, &RangeRow, &Finders)| {
        (row.summary(head), finders.clone())
    };
    let shards = ledger.shards(settings.bits);
    let past = Past {
        ranges: ledger.done(heads).map(range).collect(),
        lost: ledger.lost(heads).map(range).collect(),
        shards: shards
            .map(|(summary, finders)| (summary.number, summary.words_digest(), finders.clone()))
            .collect(),
        out: ledger
            .out()
            .map(|(party, reason)| (party, reason.to_owned()))
            .collect(),
    };
    drop(ledger);
    Plan::new(settings, past)
}

async fn serve(
    options: CoordinatorOptions,
    participants: ParticipantList,
    service: CoordinatorServer<Service>,
    relay: Relay,
    feed: StatusFeed,
    listeners: Listeners,
) -> Server {
    let gate = Gate::new(participants, options.open_status);
    let permits = Permits::new(&options.limits, Vec::new());
    let told = feed.text.clone();
    let job = JobPages {
        feed,
        storage: Arc::clone(&relay.storage),
        permits: permits.clone(),
        traffic: Arc::clone(&relay.traffic),
        gate: gate.clone(),
    };
    let mut pages = job.routes();
    if let Some(site) = options.site {
        pages.extend(Site::open(site).await.routes(StatusSource::Job(told)));
    }
    let mut calls = calls(&service);
    calls.push(relay.route());
    calls.extend(pages.iter().cloned());

    let ports = [(listeners.calls, calls), (listeners.pages, pages)];
    let endpoints = ports.into_iter().filter_map(|(listener, routes)| {
        Some(Endpoint {
            listener: Listener::Port(listener?),
            router: gate.router(routes),
        })
    });
    Server::start(
        endpoints.collect(),
        options.tls.as_ref(),
        options.limits,
        &permits,
    )
}

fn calls(service: &CoordinatorServer<Service>) -> Vec<(&'static str, MethodRouter)> {
    let with_message = from_fn_with_state(MessageBudget::new(), with_message);
    let answer = any_service(service.clone()).layer(with_message);
    CALLS.map(|path| (path, answer.clone())).into()
}

/// The calls of the workers of this participant that are in this process, and the objects of the store for them.
fn calls_of(
    participant: ParticipantId,
    service: &CoordinatorServer<Service>,
    relay: &Relay,
) -> Routes {
    let caller = Extension(AuthenticatedParticipant(participant));
    let (path, objects) = relay.route();
    let all = unguarded(service).route(path, objects);
    all.layer(caller).into()
}

/// The calls of workers, for who has named the caller already.
fn unguarded(service: &CoordinatorServer<Service>) -> Router {
    let route = |router: Router, path| router.route(path, any_service(service.clone()));
    CALLS.into_iter().fold(Router::new(), route)
}
