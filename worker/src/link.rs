//! The link to the coordinator: it outlives connections.
//!
//! A *session* is a connection over which the worker has joined. When a call fails for want of
//! contact, or because the coordinator does not know the worker, the session is stale: the first call
//! that notices makes a new one while the others wait for it, and then each is repeated. All calls may
//! be repeated, and the worker stays who it is, so its leases survive.

mod failure;
mod session;

use std::sync::Arc;
use std::time::Duration;

use chomp_access::{Access, Token, certificate};
use chomp_proto::v1::JoinRequest;
use chomp_store::retry::Backoff;
use chomp_table::format::describe;
use http::HeaderValue;
use parking_lot::Mutex;
use tokio::time::Instant;

pub(crate) use failure::{CallFailure, within};
pub(crate) use session::{JobDescription, Session};

use crate::error::ClientError;
use crate::transport::Connector;
use crate::trouble::LogLimiter;

/// The deadline of calls that move no data and wait for nothing, of connecting and of joining.
pub(crate) const CONTROL_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a worker tries to reach a coordinator that it has never reached.
const PATIENCE_FIRST: Duration = Duration::from_secs(10);
/// How long it tries to reach one again, whose machine may have to be started anew.
const PATIENCE_LATER: Duration = Duration::from_mins(30);

/// How long a call waits for room before that is logged.
const TELL_AFTER: Duration = Duration::from_secs(3);

/// A link to one coordinator, shared by all that a worker does.
#[derive(Debug)]
pub(crate) struct Link {
    url: String,
    connector: Arc<dyn Connector>,
    /// The header with the token, for each request. It is not shown when printed for debugging.
    authorization: Option<HeaderValue>,
    pub(crate) join_request: JoinRequest,
    patience: Option<Duration>,
    rng: Mutex<fastrand::Rng>,
    /// Locked while a session is made, so that only one is.
    state: tokio::sync::Mutex<LinkState>,
    job: Mutex<Option<Arc<JobDescription>>>,
    log_limit: LogLimiter,
}

#[derive(Debug, Default)]
struct LinkState {
    session: Option<Arc<Session>>,
    sessions: u64,
    /// Why there will be no more sessions.
    given_up: Option<ClientError>,
}

impl Link {
    pub(crate) fn new(
        access: &Access,
        connector: Arc<dyn Connector>,
        join_request: JoinRequest,
        patience: Option<Duration>,
        rng: fastrand::Rng,
    ) -> Result<Link, ClientError> {
        let url = access.coordinator.clone();
        let header = |token: &Token| HeaderValue::from_str(&format!("Bearer {}", token.secret()));
        let Ok(mut authorization) = access.token.as_ref().map(header).transpose() else {
            return Err(ClientError::access(
                url,
                "failed to parse metadata value".into(),
            ));
        };
        if let Some(header) = &mut authorization {
            header.set_sensitive(true);
        }
        Ok(Link {
            authorization,
            url,
            connector,
            join_request,
            patience,
            rng: Mutex::new(rng),
            state: tokio::sync::Mutex::default(),
            job: Mutex::default(),
            log_limit: LogLimiter::default(),
        })
    }

    /// The job, as the coordinator described it last. Not to be asked for before the first session.
    pub(crate) fn job(&self) -> Arc<JobDescription> {
        let job = self.job.lock().clone();
        job.expect("known from the first session on")
    }

    /// Joins, if that was not done yet.
    pub(crate) async fn join(&self) -> Result<(), ClientError> {
        self.session(None, Instant::now()).await.map(drop)
    }

    /// Joins again, to hear what the job is now.
    pub(crate) async fn join_again(&self) -> Result<(), ClientError> {
        let present = self.state.lock().await.sessions;
        let later = self.session(Some(present), Instant::now());
        later.await.map(drop)
    }

    pub(crate) async fn call<T, F>(
        &self,
        call: impl Fn(Arc<Session>) -> F,
    ) -> Result<T, ClientError>
    where
        F: Future<Output = Result<T, CallFailure>>,
    {
        let begin = Instant::now();
        let mut seen = None;
        let mut outage = None;
        let mut backoff = self.backoff();
        for attempt in 0.. {
            let since = outage.map_or_else(Instant::now, |(since, _)| since);
            let session = self.session(seen, since).await?;
            let number = session.number;
            let failure = match call(session).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            tracing::debug!("a call failed: {failure:?}");
            match failure {
                CallFailure::Busy(reason) => {
                    if begin.elapsed() >= TELL_AFTER && self.log_limit.may_log() {
                        tracing::warn!("waiting for the coordinator at {}: {reason}", self.url);
                    }
                }
                CallFailure::NotJoined => {
                    seen = Some(number);
                    if attempt == 0 {
                        continue;
                    }
                }
                CallFailure::Outage(_) | CallFailure::Stopped(_) => {
                    seen = Some(number);
                    let (since, failures) = outage.get_or_insert_with(|| (Instant::now(), 0));
                    *failures += 1;
                    // A new session may be all it takes, however long the time that passed.
                    if *failures > 1 && since.elapsed() >= self.patience(true) {
                        return Err(failure.into_error(&self.url));
                    }
                }
                CallFailure::Refused(_) | CallFailure::Rejected(_) | CallFailure::Protocol(_) => {
                    return Err(failure.into_error(&self.url));
                }
            }
            tokio::time::sleep(backoff.next_delay()).await;
        }
        unreachable!("attempts do not end")
    }

    /// Makes a call in the present session, once.
    pub(crate) async fn once<T, F>(&self, call: impl FnOnce(Arc<Session>) -> F) -> Option<T>
    where
        F: Future<Output = Result<T, CallFailure>>,
    {
        let session = self.state.lock().await.session.clone()?;
        call(session).await.ok()
    }

    /// A session later than `seen`: the present one, or a new one if there is none. Contact was lost at `since`.
    async fn session(
        &self,
        seen: Option<u64>,
        since: Instant,
    ) -> Result<Arc<Session>, ClientError> {
        let mut state = self.state.lock().await;
        if let Some(error) = &state.given_up {
            return Err(error.clone());
        }
        match &state.session {
            Some(session) if seen.is_none_or(|seen| session.number > seen) => {
                return Ok(Arc::clone(session));
            }
            _ => {}
        }
        let made = self.make_session(&mut state, since).await;
        match &made {
            Ok(session) => {
                *self.job.lock() = Some(Arc::clone(&session.job));
                state.session = Some(Arc::clone(session));
            }
            Err(error) => state.given_up = Some(error.clone()),
        }
        made
    }

    async fn make_session(
        &self,
        state: &mut LinkState,
        mut since: Instant,
    ) -> Result<Arc<Session>, ClientError> {
        let before = state.session.as_ref().map(|session| session.job.range_bits);
        let patience = self.patience(before.is_some());
        let mut backoff = self.backoff();
        for attempt in 0.. {
            state.sessions += 1;
            let (authorization, join_request) =
                (self.authorization.clone(), self.join_request.clone());
            let made = Session::join(
                state.sessions,
                &*self.connector,
                authorization,
                join_request,
            );
            let failure = match made.await {
                Ok(session) => {
                    let now = session.job.range_bits;
                    if let Some(before) = before.filter(|&before| before != now) {
                        let url = self.url.clone();
                        let what = format!(
                            "now has a job with {now} range bits instead of {before}: start the worker again"
                        );
                        return Err(ClientError::Other { url, what });
                    }
                    if before.is_some() {
                        tracing::info!("joined the job of the coordinator at {} again", self.url);
                    }
                    return Ok(Arc::new(session));
                }
                // A worker that cannot join is refused for good.
                Err(CallFailure::Rejected(reason)) => CallFailure::Refused(reason),
                Err(failure) => failure,
            };
            let may_pass = match &failure {
                CallFailure::Busy(_) => {
                    since = Instant::now();
                    true
                }
                // At the first contact a wrong certificate is final. Later, another program may have the port for a
                // while.
                CallFailure::Outage(source)
                    if before.is_none() && certificate::refusal(&**source).is_some() =>
                {
                    false
                }
                CallFailure::Outage(_) => since.elapsed() < patience,
                _ => false,
            };
            let error = failure.into_error(&self.url);
            if !may_pass {
                return Err(error);
            }
            if attempt == 0 {
                tracing::warn!("{}; trying again", describe(&error));
            }
            let left = patience.saturating_sub(since.elapsed());
            tokio::time::sleep(backoff.next_delay().min(left)).await;
        }
        unreachable!("attempts do not end")
    }

    fn patience(&self, contacted: bool) -> Duration {
        self.patience.unwrap_or(if contacted {
            PATIENCE_LATER
        } else {
            PATIENCE_FIRST
        })
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(self.rng.lock().fork())
    }
}
