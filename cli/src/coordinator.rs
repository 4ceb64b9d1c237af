//! `chomp coordinator`: a job for workers anywhere, and the finished table for everybody.

use std::net::{IpAddr, SocketAddr};
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use chomp_access::local::{self, LocalAccess};
use chomp_access::{Access, Hosts, Participants};
use chomp_coordinator::job::JobOutcome;
use chomp_coordinator::server::{Coordinator, CoordinatorOptions, Listeners};
use chomp_download::{Reach, ServerPatience};
use chomp_plan::Phase;
use chomp_plan::REPLICAS_MAX;
use chomp_store::location::StoreLocation;
use chomp_store::objects::TableLock;
use chomp_table::format::describe;
use tokio::task::JoinSet;

use crate::access::{self, ACCESS_NAME};
use crate::exit::Interruption;
use crate::flags::{Advertised, TableArgs, WantedTable, address, advertised, flag, number, path};
use crate::machine;
use crate::owned_store::{OwnedStore, in_table};
use crate::progress::Display;
use crate::restore::restore;
use crate::serve::{self, listen};
use crate::signals::unless_stopped;
use crate::summary::Meter;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  chomp coordinator --bits 36 --listen 0.0.0.0:7171
  chomp coordinator --bits 40 --replicas 2 --listen 0.0.0.0:7171 --http :8080
  chomp coordinator --bits 44 --store s3://my-bucket/chomp --listen 0.0.0.0:7171")]
pub(crate) struct CoordinatorArgs {
    #[command(flatten)]
    pub(crate) wanted: WantedTable,
    #[command(flatten)]
    pub(crate) table: TableArgs,

    /// Where to listen for workers, downloads and questions, with TLS: HOST:PORT, the port alone for this machine only,
    /// or :PORT for everybody who can reach it
    #[arg(long, value_parser = address, value_name = "ADDR", default_value = "127.0.0.1:7171")]
    pub(crate) listen: SocketAddr,

    /// A second address to listen at, for downloads, questions and browsers, but not for workers
    #[arg(long, value_parser = address, value_name = "ADDR")]
    pub(crate) http: Option<SocketAddr>,

    /// Count a range as done when this many participants have found the same
    #[arg(long, value_name = "N", default_value = "1",
        value_parser = number::<u32>(1..=REPLICAS_MAX.into()))]
    pub(crate) replicas: u32,

    /// The name or address by which workers reach this machine, and the port if a router has another one for it
    /// [default: that of --listen, or the machine's name]
    #[arg(long, value_name = "HOST[:PORT]", value_parser = advertised)]
    pub(crate) advertise: Option<Advertised>,

    /// Where to write the access file for workers [default: access.json in the table's directory]
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) access: Option<PathBuf>,

    /// Listen without TLS. Others on the network can then read and change tokens and data. On loopback nobody can, but
    /// a process that listens on the port when this one has ended
    #[arg(long, value_parser = flag)]
    pub(crate) no_tls: bool,

    /// End when the table is published, instead of serving it
    #[arg(long, value_parser = flag)]
    pub(crate) exit_when_done: bool,
}

/// Range bits are chosen for these threads and bytes, as the workers are not known yet.
pub(crate) const ASSUMED_WORKER_THREADS: NonZeroUsize = NonZeroUsize::new(64).unwrap();
pub(crate) const ASSUMED_WORKER_MEMORY_BYTES: u64 = 64 << 30;
/// The interval at which the coordinator checks that its directory is still there.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long this process tries to reach itself at the address that workers are told.
const SELF_PATIENCE: Duration = Duration::from_secs(3);
const SELF_ANSWER_BYTES_MAX: u64 = 1 << 10;
/// How long workers have to hear that the table is finished, with `--exit-when-done`.
const GOODBYE: Duration = Duration::from_secs(15);

pub(crate) async fn run(args: CoordinatorArgs, display: &Display) -> anyhow::Result<()> {
    let meter = Meter::start();
    let stop = display.stop_token();
    let table = &args.table;
    let assumed = (ASSUMED_WORKER_THREADS, ASSUMED_WORKER_MEMORY_BYTES);
    let opening = OwnedStore::prepare(args.wanted, table, assumed, display);
    let store = unless_stopped(&stop, opening).await?;
    let (size, was_finished) = (args.wanted.bits, store.finished.is_some());

    let home = &table.table;
    let _home = lock_home(home, &store.location, table.journal.as_deref())?;
    let share = (machine::threads(), machine::memory_bytes()?);
    restore(&store, size, share, home, &stop, display).await?;
    let calls = listen(args.listen, "--listen").await?;
    let address = calls.local_addr()?;
    let listeners = Listeners {
        calls: Some(calls),
        pages: match args.http {
            Some(address) => Some(listen(address, "--http").await?),
            None => None,
        },
    };
    let (url, loopback, hosts) = endpoints(&args, address);
    // TLS on loopback too: another process can take the port after this one has ended, and clients that reconnect would
    // send it their tokens. The pages of `--http` also use TLS, as they ask for the token.
    let tls = !args.no_tls;
    let (secrets, certificate) = access::secrets(home, &hosts)?;
    let file = args.access.clone();
    let file = file.unwrap_or_else(|| table.table.join(ACCESS_NAME));
    let access = Access {
        coordinator: url.clone(),
        ca: tls.then(|| certificate.pem().to_owned()),
        token: Some(access::keep_or_renew_owner_token(home, &file)?),
    };
    let list_file = access::list_file(home);
    let options = CoordinatorOptions {
        range_bits: store.range_bits,
        bits: size,
        replicas: args.replicas,
        keep_parts: table.keep_parts,
        checks_per_1000: display.overrides().checks_per_1000,
        store_hint: Some(store.location.clone().absolute()?.to_string()),
        secrets: Arc::new(secrets),
        participants: Participants::read(&list_file)?,
        participants_file: Some(list_file),
        tls: tls
            .then(|| certificate.server_config())
            .transpose()?
            .map(Arc::new),
        // Tables in a bucket are read from the bucket, so this server does not serve them.
        site: matches!(store.location, StoreLocation::Directory(_))
            .then(|| serve::beside_job(table.table.clone(), display)),
        open_status: false,
        limits: machine::raise_file_limit().hastened(display.overrides().limit_haste),
        haste: display.overrides().lease_haste,
    };
    let has_pages = options.site.is_some();
    let in_table = || in_table(&store.location);
    let (storage, finished) = (store.storage.clone(), store.finished.clone());
    let starting = Box::pin(Coordinator::start(storage, options, finished, listeners));
    let starting = async { starting.await.with_context(in_table) };
    let coordinator = unless_stopped(&stop, starting).await?;
    access.write(&file)?;
    let _local = leave_local(loopback, &access, display);
    let mut trial = JoinSet::new();
    trial.spawn(reach_self(access));
    say_addresses(&url, &file, has_pages, display);

    let work = async {
        tokio::select! {
            biased;
            ended = coordinator.ended() => Ok(Some(ended)),
            () = stop.cancelled() => Ok(None),
            () = lost(&store) => Err(anyhow::anyhow!(
                "the table {} is not where it was: it was renamed or removed, or its volume was detached. What was \
                 acknowledged is in it: bring it back and run the same command again",
                store.location
            )),
        }
    };
    let ended = match display.during_job(coordinator.status(), false, work).await {
        Ok(ended) => ended,
        Err(lost) => {
            coordinator.stop().await;
            return Err(lost);
        }
    };
    if ended == Some(Phase::Finished) {
        let (journal, mut cost) = (coordinator.journal(), store.cost(meter));
        cost.checks_lapsed = NonZeroU64::new(coordinator.progress().borrow().checks_lapsed);
        let journal = (!was_finished).then_some(&*journal);
        store.conclude(table, size, journal, cost, display).await?;
        if args.exit_when_done {
            say_goodbye(&coordinator).await;
        } else {
            display.say("serving the finished table until stopped");
            stop.cancelled().await;
        }
    }
    match coordinator.stop().await {
        JobOutcome::Finished(_) => Ok(()),
        JobOutcome::Interrupted => Err(Interruption::Resumable.into()),
        JobOutcome::Failed(error) => Err(error).with_context(in_table),
    }
}

/// Makes the directory of the coordinator's secrets and access file, and locks it unless it is locked already, as the
/// directory of the store or of the journal. Without the lock, coordinators of two stores could overwrite each other's
/// access file, and workers would join the wrong one.
fn lock_home(
    home: &Path,
    store: &StoreLocation,
    journal: Option<&Path>,
) -> anyhow::Result<Option<TableLock>> {
    // If the store is elsewhere, the directory may be missing.
    let made = chomp_durable_files::make_folders(home);
    made.with_context(|| format!("cannot create the directory {}", home.display()))?;
    let is_home = |path: &Path| {
        let found = std::fs::canonicalize(path).ok();
        found.is_some() && found == std::fs::canonicalize(home).ok()
    };
    let is_store = matches!(store, StoreLocation::Directory(path) if is_home(path));
    let is_locked = is_store || journal.is_some_and(is_home);
    let lock = (!is_locked).then(|| TableLock::acquire(home));
    Ok(lock.transpose()?)
}

/// Waits until the directory of the table is gone. Workers cannot go on without it, and a coordinator without work does
/// not use it, so it would not notice.
async fn lost(store: &OwnedStore) {
    while store.storage.is_in_place().await {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn say_goodbye(coordinator: &Coordinator) {
    let mut progress = coordinator.progress();
    let all_gone = progress.wait_for(|progress| progress.workers == 0);
    // Workers that make no call in this time find no coordinator later.
    let _ = tokio::time::timeout(GOODBYE, all_gone).await;
}

/// The URL of the coordinator, its port if it listens on loopback, and the names and addresses for its certificate.
fn endpoints(args: &CoordinatorArgs, address: SocketAddr) -> (String, Option<u16>, Hosts) {
    let (ip, port) = (address.ip(), address.port());
    let (host, advertised_port) = args.advertise.clone().unwrap_or_else(|| {
        let host = match ip {
            _ if ip.is_unspecified() => machine::host_name(),
            IpAddr::V6(ip) => format!("[{ip}]"),
            IpAddr::V4(ip) => ip.to_string(),
        };
        (host, None)
    });
    let scheme = if args.no_tls { "http" } else { "https" };
    let own = host.trim_matches(['[', ']']).to_owned();
    // `machine::addresses` has only one address of loopback, and `ip` may be another.
    let mut others = vec![machine::host_name(), ip.to_string()];
    others.extend(machine::addresses().iter().map(IpAddr::to_string));
    let hosts = Hosts {
        advertised: vec![own, "localhost".to_owned()],
        others,
    };
    let is_local = ip.is_loopback() || ip.is_unspecified();
    let url = format!("{scheme}://{host}:{}", advertised_port.unwrap_or(port));
    (url, is_local.then_some(port), hosts)
}

fn say_addresses(url: &str, access: &Path, has_pages: bool, display: &Display) {
    let file = access.display();
    display.say(&format!(
        "listening on {url}; workers join with: chomp worker --access {file}"
    ));
    if has_pages {
        let told = format!("open {url}/job to watch it; the page asks for that file");
        display.say(&told);
    }
}

/// Warns if the address that workers are told does not work from here. Behind a router it may work for others.
async fn reach_self(access: Access) {
    let url = access.coordinator;
    let reach = Reach {
        from: url.clone(),
        ca: access.ca,
        token: None,
        patience: ServerPatience {
            first: SELF_PATIENCE,
            later: SELF_PATIENCE,
        },
    };
    if let Err(error) = chomp_download::ask(reach, "healthz", SELF_ANSWER_BYTES_MAX).await {
        let error = describe(&error);
        tracing::warn!(
            "workers are told {url}, which does not work from this machine: {error}; if they cannot join, give \
             --advertise HOST[:PORT]"
        );
    }
}

/// Leaves the access file where workers of the same user on this machine find it by themselves. Dropping the result
/// removes it.
fn leave_local(port: Option<u16>, access: &Access, display: &Display) -> Option<LocalAccess> {
    let left = LocalAccess::leave(&local::folder()?, port?, access);
    left.inspect_err(|error| {
        let error = describe(error);
        display.say(&format!("workers on this machine need --access: {error}"));
    })
    .ok()
}
