//! Honest peers: they ask as people and workers do, and note how long each answer takes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use chomp_access::Access;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic::{Code, Status};

use crate::attackers::question;
use crate::peers::client::{BoxError, Link, hello, renewal};

/// A request that takes longer counts as failed.
const DEADLINE: Duration = Duration::from_secs(10);

/// The response times and failures of honest peers. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Whether answers count now.
    counts: AtomicBool,
    times: Mutex<Vec<Duration>>,
    /// Those that had no answer, or not the right one.
    failed: AtomicU64,
    /// Those that were told to wait.
    busy: AtomicU64,
    why: Mutex<Option<String>>,
}

/// The answers of some time.
#[derive(Clone, Debug)]
pub(crate) struct Answers {
    /// Ascending.
    pub(crate) times: Vec<Duration>,
    pub(crate) failed: u64,
    pub(crate) busy: u64,
    pub(crate) why: Option<String>,
}

impl Seen {
    /// Begins to count.
    pub(crate) fn begin(&self) {
        self.take();
        self.shared.counts.store(true, Ordering::Relaxed);
    }

    /// Stops counting, and returns what was counted.
    pub(crate) fn take(&self) -> Answers {
        self.shared.counts.store(false, Ordering::Relaxed);
        let lock = self.shared.times.lock();
        let mut times = std::mem::take(&mut *lock.unwrap_or_else(PoisonError::into_inner));
        times.sort_unstable();
        let why = self.shared.why.lock();
        Answers {
            times,
            failed: self.shared.failed.swap(0, Ordering::Relaxed),
            busy: self.shared.busy.swap(0, Ordering::Relaxed),
            why: why.unwrap_or_else(PoisonError::into_inner).take(),
        }
    }

    /// Notes what came of a request that was made at `start`.
    fn note(&self, start: Instant, answer: &Result<(), BoxError>) {
        if !self.shared.counts.load(Ordering::Relaxed) {
            return;
        }
        let lock = self.shared.times.lock();
        let mut times = lock.unwrap_or_else(PoisonError::into_inner);
        times.push(start.elapsed());
        if let Err(error) = answer {
            // Honest peers wait when there is too much of a kind of call.
            let is_busy = |status: &Status| status.code() == Code::ResourceExhausted;
            let count = if error.downcast_ref().is_some_and(is_busy) {
                &self.shared.busy
            } else {
                &self.shared.failed
            };
            count.fetch_add(1, Ordering::Relaxed);
            let why = self.shared.why.lock();
            *why.unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
        }
    }

    async fn noted(&self, doing: impl Future<Output = Result<(), BoxError>>) {
        let start = Instant::now();
        let answer = timeout(DEADLINE, doing).await;
        let answer = answer.unwrap_or_else(|_| Err("no answer within ten seconds".into()));
        self.note(start, &answer);
    }
}

/// Asks for as long as the set is kept: a reader over a connection that stays and over new ones, one who plays, one who
/// downloads, and a worker with its heartbeats and a new one that joins.
pub(crate) fn ask(seen: &Seen, access: &Access) -> JoinSet<()> {
    let mut asking = JoinSet::new();
    let mut every = |millis, kind: Kind| {
        let (seen, access) = (seen.clone(), access.clone());
        asking.spawn(async move {
            let mut kept = None;
            for turn in 0.. {
                let doing = kind.ask(&access, &mut kept, turn);
                seen.noted(doing).await;
                tokio::time::sleep(Duration::from_millis(millis)).await;
            }
        });
    };
    every(25, Kind::Question);
    every(250, Kind::NewReader);
    every(250, Kind::Game);
    every(500, Kind::Download);
    every(50, Kind::Heartbeat);
    every(500, Kind::NewWorker);
    asking
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Question,
    NewReader,
    Game,
    Download,
    Heartbeat,
    NewWorker,
}

/// The number of the worker that has heartbeats, and of the one that joins.
const WORKER: u64 = 77;

impl Kind {
    async fn ask(
        self,
        access: &Access,
        kept: &mut Option<Link>,
        turn: u64,
    ) -> Result<(), BoxError> {
        let stranger = Access {
            token: None,
            ..access.clone()
        };
        let is_new = matches!(self, Kind::NewReader | Kind::NewWorker);
        let reads = !matches!(self, Kind::Heartbeat | Kind::NewWorker);
        let present = if is_new { None } else { kept.take() };
        let mut peer = match present {
            Some(peer) => peer,
            None => Link::open(if reads { &stranger } else { access }, None).await?,
        };
        match self {
            Kind::Question | Kind::NewReader => {
                peer.get(&question(turn), &[]).await?;
            }
            Kind::Game => {
                peer.get("/api/games/nim/3,4,5", &[]).await?;
            }
            Kind::Download => {
                let range = [("range", "bytes=0-65535")];
                peer.get(&crate::shard_path(), &range).await?;
            }
            Kind::Heartbeat => {
                if turn == 0 {
                    peer.rpc.join(hello(WORKER, "heart")).await?;
                }
                peer.rpc.renew(renewal(WORKER, Vec::new())).await?;
            }
            Kind::NewWorker => {
                peer.rpc.join(hello(WORKER + 1, "newcomer")).await?;
            }
        }
        if !is_new {
            *kept = Some(peer);
        }
        Ok(())
    }
}
