//! Evictions as in a cluster of containers: TERM, then KILL when the grace is over; a new name and a new address each
//! time; a volume that comes back under another path, or is detached from processes that use it. The table is that of
//! an undisturbed run.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::cluster::{Cluster, HASTE, Process, free_port, wait_for};
use crate::common::http::serve;
use crate::common::random::Random;
use crate::common::{Ended, FINGERPRINT_24, FINGERPRINT_28, end, files, hasten, ranges_done};
use chomp_testing::needs;
use chomp_testing::trials;
use chomp_testing::waiting::HANG;
use nix::sys::signal::Signal;

const BITS: u32 = 28;
/// Small ranges: a job of some hundred tasks, which takes long enough to be disturbed.
const RANGE_BITS: u32 = 16;
const WORKERS: usize = 2;
/// How long a deployment is disturbed, and the least number of evictions.
const DISTURBED: Duration = Duration::from_millis(1500);
const EVICTIONS_MIN: u32 = 5;
/// The longest grace, in milliseconds: some are killed in the middle of what they do on TERM.
const GRACE_MILLIS: u64 = 300;
/// One eviction in so many has as much grace as it takes.
const AMPLE_ONE_IN: u32 = 4;
/// The longest time from an eviction to the next, in milliseconds.
const STEP_MILLIS: u64 = 150;

/// The name under which a coordinator is reached, wherever it is at the time.
struct Service {
    port: u16,
    behind: Arc<Mutex<SocketAddr>>,
}

impl Service {
    fn start() -> Service {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let behind = Arc::new(Mutex::new(listener.local_addr().unwrap()));
        let shared = Arc::clone(&behind);
        let connection = move |client| {
            let address = *shared.lock().unwrap();
            pass(client, address)
        };
        thread::spawn(move || serve(&listener, || true, connection));
        Service { port, behind }
    }
}

/// Passes on what both sides say, until one of them ends.
fn pass(client: TcpStream, address: SocketAddr) -> io::Result<()> {
    let server = TcpStream::connect(address)?;
    // Short messages are not held back.
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    for (mut from, mut to) in [(client.try_clone()?, server.try_clone()?), (server, client)] {
        thread::spawn(move || {
            let passed = io::copy(&mut from, &mut to);
            let _gone = to.shutdown(std::net::Shutdown::Both);
            passed
        });
    }
    Ok(())
}

/// A deployment: its coordinator and workers, and what each start of one counts up.
struct Deployment {
    cluster: Cluster,
    service: Service,
    volume: PathBuf,
    starts: usize,
    bits: u32,
}

impl Deployment {
    fn new() -> Deployment {
        let cluster = Cluster::new();
        Deployment {
            volume: cluster.home().join("volume-0"),
            service: Service::start(),
            cluster,
            starts: 0,
            bits: BITS,
        }
    }

    /// A coordinator on another address, with the volume under another path.
    fn coordinator(&mut self) -> Process {
        self.starts += 1;
        let volume = self.cluster.home().join(format!("volume-{}", self.starts));
        if self.starts > 1 {
            fs::rename(&self.volume, &volume).unwrap();
        }
        self.volume = volume;
        let port = free_port();
        let address = format!("127.0.1.{}:{port}", self.starts);
        let mut command = self.cluster.chomp("coordinator --json --exit-when-done");
        let size = format!("--bits {} --range-bits {RANGE_BITS}", self.bits);
        command.args(size.split(' '));
        command.args(["--listen", &address, "--advertise", "localhost", "--table"]);
        hasten(command.arg(&self.volume), HASTE);
        let mut coordinator = self.cluster.start(&mut command);
        wait_for("a coordinator", || {
            coordinator.said().contains("listening on ") || coordinator.ended().is_some()
        });
        *self.service.behind.lock().unwrap() = address.parse().unwrap();
        coordinator
    }

    /// The credential of the workers, as a secret that is mounted.
    fn secret(&self) -> PathBuf {
        let mut add = self.cluster.chomp("access add workers --out - --table");
        let printed = end(add.arg(&self.volume)).done();
        let file = self.cluster.home().join("access.json");
        fs::write(&file, printed.stdout).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o400);
        fs::set_permissions(&file, private).unwrap();
        file
    }

    /// A worker with a new name.
    fn worker(&mut self) -> Process {
        self.starts += 1;
        let access = self.cluster.home().join("access.json");
        let name = format!("worker-{}", self.starts);
        let mut command = self.cluster.worker_with(&name, &access);
        let url = format!("https://localhost:{}", self.service.port);
        let command = command.args(["--patience", "3600", "--coordinator", &url]);
        self.cluster.start(command)
    }
}

/// TERM, and KILL when the grace is over; without one, whoever has begun to work ends by itself.
fn evict(mut process: Process, grace: Option<Duration>) -> Ended {
    if grace.is_none() {
        let mut ended = None;
        wait_for("a handler for TERM", || {
            ended = process.ended();
            ended.is_some() || process.catches(Signal::SIGTERM)
        });
        if let Some(ended) = ended {
            return ended;
        }
    }
    process.send(Signal::SIGTERM);
    let start = Instant::now();
    while start.elapsed() < grace.unwrap_or(HANG) {
        if let Some(ended) = process.ended() {
            return ended;
        }
        thread::sleep(Duration::from_millis(5));
    }
    process.kill()
}

/// Counts of evictions.
#[derive(Clone, Copy, Debug, Default)]
struct Evictions {
    all: u32,
    /// Workers that had not ended when the grace was over.
    killed: u32,
    coordinators: u32,
}

/// Builds a table, and evicts those who do for a while.
fn build(seed: u64) -> Evictions {
    let mut random = Random::of(seed);
    let mut evictions = Evictions::default();
    let mut deployment = Deployment::new();
    let mut coordinator = deployment.coordinator();
    deployment.secret();
    let mut workers: Vec<Process> = (0..WORKERS).map(|_| deployment.worker()).collect();
    wait_for("some ranges", || ranges_done(&deployment.volume) > 0);
    let start = Instant::now();
    let ended = loop {
        thread::sleep(random.millis(0, STEP_MILLIS));
        if let Some(ended) = coordinator.ended() {
            break ended;
        }
        if start.elapsed() > DISTURBED && evictions.all >= EVICTIONS_MIN {
            continue;
        }
        // Some have no time at all.
        let most = [0, GRACE_MILLIS, GRACE_MILLIS][evictions.all as usize % 3];
        let ample = evictions.all % AMPLE_ONE_IN == 1;
        let grace = (!ample).then(|| random.millis(0, most));
        // The first are of both kinds. A coordinator with time that follows another would wait for workers, who look
        // for some seconds where the volume was.
        let place = match evictions.all {
            0 | 2 => 0,
            1 | 3 => WORKERS,
            _ => random.below(WORKERS + 1),
        };
        let ended = if place < WORKERS {
            let new = deployment.worker();
            evict(std::mem::replace(&mut workers[place], new), grace)
        } else {
            // The volume moves when the old one is gone for good.
            let ended = evict(coordinator, grace);
            evictions.coordinators += 1;
            coordinator = deployment.coordinator();
            ended
        };
        let allowed = matches!(ended.code, None | Some(0 | 75));
        assert!(allowed && !(ample && ended.code.is_none()), "{ended:?}");
        evictions.all += 1;
        evictions.killed += u32::from(ended.code.is_none());
    };
    ended.made(FINGERPRINT_28);
    for worker in workers {
        // A worker that comes when all is over finds no coordinator.
        let ended = worker.kill();
        assert!(matches!(ended.code, None | Some(0)), "{ended:?}");
    }
    evictions
}

#[test]
#[expect(clippy::print_stderr, reason = "the counts")]
fn evictions_change_nothing() {
    let jobs = trials("jobs with evictions").seconds(2.0);
    let (jobs, evictions) = jobs.gather(build, |all: &mut Evictions, some| {
        all.all += some.all;
        all.killed += some.killed;
        all.coordinators += some.coordinators;
    });
    eprintln!("{evictions:?}");
    assert!(u64::from(evictions.all) >= jobs * u64::from(EVICTIONS_MIN));
    assert!(evictions.killed > 0 && (1..evictions.all).contains(&evictions.coordinators));
}

/// The volume goes away under those who use it, and an empty folder stays. Whoever runs then ends soon, and says where
/// and what; nothing is written to that folder, and with the volume back the job goes on.
#[test]
fn a_volume_that_is_unmounted() {
    let mut deployment = Deployment::new();
    let elsewhere = deployment.cluster.home().join("elsewhere");
    // As the first coordinator will call it.
    let place = deployment.cluster.home().join("volume-1");
    for folder in [&elsewhere, &place] {
        fs::create_dir(folder).unwrap();
    }
    let mut mount = Command::new("mount");
    mount.arg("--bind").arg(&elsewhere).arg(&place);
    let mounted = needs::can("another place for a folder", &mut mount);
    if needs::found("MOUNT", mounted).is_none() {
        return;
    }
    deployment.bits = 24;
    let mut coordinator = deployment.coordinator();
    deployment.secret();
    let workers: Vec<Process> = (0..WORKERS).map(|_| deployment.worker()).collect();
    wait_for("some ranges", || ranges_done(&place) > 0);
    assert!(coordinator.ended().is_none(), "{:?}", coordinator.ended());
    let unmounted = Command::new("umount").arg("--lazy").arg(&place).status();
    assert!(unmounted.is_ok_and(|status| status.success()));
    let ended = coordinator.wait();
    ended.refuses(1, &[place.to_str().unwrap()]);
    // It depends on whether there was something to write.
    let mut said = ["is not where it was", "No such file or directory"].into_iter();
    assert!(said.any(|said| ended.stderr.contains(said)), "{ended:?}");
    // Workers of a coordinator that is gone wait for the next one.
    for mut worker in workers {
        assert!(worker.ended().is_none(), "{:?}", worker.ended());
    }
    assert!(files(&place).is_empty(), "{:?}", files(&place));
    fs::remove_dir(&place).unwrap();
    fs::rename(&elsewhere, &place).unwrap();
    let coordinator = deployment.coordinator();
    let workers: Vec<Process> = (0..WORKERS).map(|_| deployment.worker()).collect();
    coordinator.wait().made(FINGERPRINT_24);
    drop(workers);
}
