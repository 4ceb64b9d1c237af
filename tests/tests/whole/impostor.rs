//! Somebody else on the coordinator's port: another user of the machine, who waited for its death.

use std::collections::HashSet;
use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::common::cluster::{Cluster, HASTE, Process, wait_for};
use crate::common::{FINGERPRINT_28, end, exists, hasten_limits, ranges_done};
use chomp_access::Certificate;
use chomp_testing::waiting::HANG;
use rustls::{ServerConfig, ServerConnection};

/// A job of a second or two.
const BITS: u32 = 28;
const RANGE_BITS: u32 = 14;
/// How many connections an impostor wants to have seen of a worker.
const VISITS: usize = 2;
/// How long a peer that gets no answer has to say more.
const SAYING: Duration = Duration::from_millis(300);
/// How long a peer that gets answers may take for the next word.
const ANSWERING: Duration = Duration::from_secs(5);
/// How a client begins TLS: a handshake.
const HANDSHAKE: [u8; 2] = [22, 3];

/// A listener on the port of a coordinator that is gone.
struct Impostor {
    heard: Arc<Mutex<Vec<Visit>>>,
    stop: Arc<AtomicBool>,
    port: u16,
    thread: JoinHandle<()>,
}

/// One connection.
#[derive(Debug)]
struct Visit {
    /// The bytes that came, or came out of TLS.
    bytes: Vec<u8>,
    /// Whether the client took it for the coordinator.
    trusted: bool,
}

impl Impostor {
    /// Hears what is said, in the clear; with a configuration for TLS offers that.
    fn start(port: u16, tls: Option<Arc<ServerConfig>>) -> Impostor {
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let (heard, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::default());
        let (visits, stopped) = (Arc::clone(&heard), Arc::<AtomicBool>::clone(&stop));
        let thread = thread::spawn(move || {
            thread::scope(|visitors| {
                for stream in listener.incoming() {
                    if stopped.load(Ordering::Relaxed) {
                        break;
                    }
                    let (visits, tls) = (&visits, tls.clone());
                    visitors.spawn(move || {
                        let visit = hear(stream.unwrap(), tls);
                        visits.lock().unwrap().push(visit);
                    });
                }
            });
        });
        Impostor {
            heard,
            stop,
            port,
            thread,
        }
    }

    fn visits(&self) -> usize {
        self.heard.lock().unwrap().len()
    }

    /// Leaves the port, and tells what came.
    fn end(self) -> Vec<Visit> {
        self.stop.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(("127.0.0.1", self.port)).unwrap());
        self.thread.join().unwrap();
        std::mem::take(&mut self.heard.lock().unwrap())
    }
}

fn hear(mut stream: TcpStream, tls: Option<Arc<ServerConfig>>) -> Visit {
    let mut bytes = Vec::new();
    let trusted = match tls {
        None => {
            // It begins, or goes.
            stream.set_read_timeout(Some(HANG)).unwrap();
            let mut first = [0; 1 << 10];
            let length = stream.read(&mut first).unwrap_or(0);
            bytes.extend_from_slice(&first[..length]);
            // It says no more when it gets no answer.
            stream.set_read_timeout(Some(SAYING)).unwrap();
            let _ = stream.read_to_end(&mut bytes);
            false
        }
        Some(config) => {
            stream.set_read_timeout(Some(ANSWERING)).unwrap();
            let mut session = ServerConnection::new(config).unwrap();
            // It says that it trusts nobody, if anything, and goes.
            let _ = converse(&mut session, &mut stream);
            let trusted = !session.is_handshaking();
            let _ = session.reader().read_to_end(&mut bytes);
            trusted
        }
    };
    Visit { bytes, trusted }
}

/// Takes and says what belongs to TLS, for as long as the peer says something.
fn converse(session: &mut ServerConnection, stream: &mut TcpStream) -> io::Result<()> {
    while session.read_tls(stream)? > 0 {
        let taken = session.process_new_packets();
        while session.wants_write() {
            session.write_tls(stream)?;
        }
        taken.map_err(io::Error::other)?;
    }
    Ok(())
}

/// The worker was found waiting, its coordinator is dead: what its port tells an impostor.
fn take_the_port(
    cluster: &Cluster,
    worker: &Process,
    tls: Option<Arc<ServerConfig>>,
) -> Vec<Visit> {
    let impostor = Impostor::start(cluster.port, tls);
    wait_for("a worker that comes back", || impostor.visits() >= VISITS);
    // Others come by who only know the port, however they write that.
    for url in [cluster.url(), cluster.url().replace("https", "http")] {
        let mut download = cluster.chomp(&format!("download --from {url} --out"));
        let download = cluster.start(download.arg(cluster.home().join("copy")));
        let mut status = cluster.chomp(&format!("status --coordinator {url}"));
        // It finds another certificate, or none.
        end(hasten_limits(&mut status, HASTE)).refuses(4, &[&cluster.url()]);
        let mut late = cluster.chomp(&format!("worker --patience 0 --coordinator {url}"));
        end(&mut late).refuses(4, &[&cluster.url()]);
        let ended = download.kill();
        assert_ne!(ended.code, Some(0), "{ended:?}");
    }
    assert!(!worker.said().contains("panicked"), "{}", worker.said());
    impostor.end()
}

#[test]
fn who_takes_the_port_learns_nothing() {
    let cluster = Cluster::new();
    let begin = || cluster.start_coordinator(&mut cluster.coordinator(BITS, RANGE_BITS));
    // It looks like the coordinator in all that does not need its secrets.
    let names = ["127.0.0.1", "localhost"].map(str::to_owned);
    let forged = Certificate::new("Chomp table", &names).unwrap();
    let forged = forged.server_config().unwrap();
    let mut faithful = None;
    for tls in [None, Some(Arc::new(forged))] {
        // One that has waited for long comes back seldom.
        drop(faithful.take());
        let before = ranges_done(&cluster.table());
        let coordinator = begin();
        let worker = cluster.join("faithful");
        cluster.wait_for_ranges(before);
        coordinator.kill();
        let manifest = cluster.table().join("table-28/manifest.json");
        assert!(!exists(&manifest), "the job was too short");
        let token = cluster.token();
        let random = token.strip_prefix("chomp1-").unwrap();
        let encrypted = tls.is_some();
        let visits = take_the_port(&cluster, &worker, tls);
        let mut starts = HashSet::new();
        for visit in visits {
            assert!(!visit.trusted, "{visit:?}");
            for secret in [&token[..], random] {
                let mut windows = visit.bytes.windows(secret.len());
                let told = windows.any(|bytes| bytes == secret.as_bytes());
                assert!(!told, "the token was said to somebody else");
            }
            starts.insert(visit.bytes.iter().take(2).copied().collect::<Vec<_>>());
        }
        starts.remove(&[][..]);
        let expected = (!encrypted).then(|| HANDSHAKE.to_vec());
        let expected: HashSet<_> = expected.into_iter().collect();
        assert_eq!(starts, expected, "nothing but the beginning of TLS");
        faithful = Some(worker);
    }

    let coordinator = begin();
    let worker = faithful.expect("one that waits");
    assert_eq!(worker.wait().code, Some(0), "it finds the true one again");
    coordinator.stop().made(FINGERPRINT_28);
}
