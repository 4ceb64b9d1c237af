//! The rules of access. Every gRPC call and every HTTP route has its rule here. A call or route without a
//! rule is refused to everybody.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{MethodRouter, any};
use bytes::Bytes;
use chomp_access::{Denied, TokenDigest};
use chomp_plan::ParticipantId;
use chomp_serve::answer::problem;
use chomp_serve::net::{Call, Shares, holding};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};
use hyper::body::{Frame, SizeHint};

use crate::error::{CALLS_MAX, Refusal};
use crate::participants::{AuthenticatedParticipant, ParticipantList, spare};

/// The callers that a call or route is open to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessRule {
    /// Everybody.
    Open,
    /// Callers with a token of this table.
    Token,
    /// Callers with a token, or everybody if the owner of the table wants it so.
    Status,
}

use AccessRule::{Open, Status, Token};

/// The gRPC calls, by path: all of them are for callers with a token.
pub const CALLS: [&str; 7] = [
    "/chomp.v1.Coordinator/Join",
    "/chomp.v1.Coordinator/Lease",
    "/chomp.v1.Coordinator/Renew",
    "/chomp.v1.Coordinator/Return",
    "/chomp.v1.Coordinator/Complete",
    "/chomp.v1.Coordinator/Report",
    "/chomp.v1.Coordinator/Leave",
];

pub(crate) const OBJECTS: &str = "/objects/{*key}";

/// The rules of the HTTP routes: of the coordinator itself, then of tables, games and pages.
pub const ROUTES: [(&str, AccessRule); 29] = [
    ("/healthz", Open),
    ("/readyz", Open),
    ("/status", Status),
    ("/metrics", Token),
    (OBJECTS, Token),
    ("/", Open),
    ("/{folder}", Open),
    ("/{folder}/", Open),
    ("/{folder}/{name}", Open),
    ("/api/table", Open),
    ("/api/counts", Open),
    ("/api/position/{position}", Open),
    ("/api/depth/{position}", Open),
    ("/api/value/{position}", Open),
    ("/api/openings", Open),
    ("/api/openings/{board}", Open),
    ("/api/games", Open),
    ("/api/games/{game}/{position}", Open),
    ("/api/games/{game}/losing/{size}", Open),
    ("/api/games/{game}/picture/{fixed}/{size}", Open),
    ("/api/status", Status),
    ("/openapi.json", Open),
    ("/bite", Open),
    ("/play", Open),
    ("/explore", Open),
    ("/games", Open),
    ("/games/{game}", Open),
    ("/job", Open),
    ("/assets/{name}", Open),
];

/// Lets a call in if its rule allows it.
#[derive(Clone, Debug)]
pub struct Gate {
    participants: ParticipantList,
    open_status: bool,
    refusals: Arc<AtomicU64>,
    /// The calls under way, until their answers are taken.
    calls: Shares<ParticipantId>,
}

impl Gate {
    /// The gate for these participants. With `open_status` everybody may see the status of the job.
    pub(crate) fn new(participants: ParticipantList, open_status: bool) -> Gate {
        Gate {
            participants,
            open_status,
            refusals: Arc::default(),
            calls: Shares::new(CALLS_MAX),
        }
    }

    /// How many calls were refused.
    pub fn refusals(&self) -> u64 {
        self.refusals.load(Ordering::Relaxed)
    }

    /// A router with these routes behind their rules, and nothing else.
    pub(crate) fn router(&self, routes: Vec<(&'static str, MethodRouter)>) -> Router {
        let refused = || any(refuse).with_state(self.clone());
        let mut all = Router::new();
        for (path, route) in routes {
            let route = match rule_of(path) {
                Some(Open) => route,
                Some(Status) if self.open_status => route,
                Some(Token | Status) => route.layer(from_fn_with_state(self.clone(), with_token)),
                None => refused(),
            };
            let route = if CALLS.contains(&path) {
                route
            } else {
                // Other methods are refused like routes without a rule, and not answered with 405.
                route.fallback_service(refused())
            };
            all = all.route(path, route);
        }
        all.fallback_service(refused())
    }

    async fn check(&self, headers: &HeaderMap) -> Result<(ParticipantId, TokenDigest), Denied> {
        let token = TokenDigest::of(bearer_token(headers)?.ok_or(Denied::Missing)?);
        Ok((self.participants.admit(&token).await?, token))
    }

    fn refused(&self, why: &impl ToString, is_grpc: bool) -> Response {
        self.refusals.fetch_add(1, Ordering::Relaxed);
        let text = why.to_string();
        if is_grpc {
            return tonic::Status::unauthenticated(text).into_http();
        }
        let mut response = problem(StatusCode::UNAUTHORIZED, &text);
        let bearer = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(WWW_AUTHENTICATE, bearer);
        response
    }
}

fn rule_of(path: &str) -> Option<AccessRule> {
    let call = CALLS.contains(&path).then_some(Token);
    let route = || ROUTES.iter().find(|(known, _)| *known == path);
    call.or_else(|| route().map(|(_, rule)| *rule))
}

fn bearer_token(headers: &HeaderMap) -> Result<Option<&str>, Denied> {
    let mut shown = headers.get_all(AUTHORIZATION).iter();
    let Some(first) = shown.next() else {
        return Ok(None);
    };
    if shown.next().is_some() {
        return Err(Denied::Wrong);
    }
    let (scheme, token) = first
        .to_str()
        .ok()
        .and_then(|text| text.split_once(' '))
        .ok_or(Denied::Wrong)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Denied::Wrong);
    }
    Ok(Some(token))
}

/// The answer to a call of a participant that has too many under way.
fn too_many(is_grpc: bool) -> Response {
    let refusal = Refusal::TooManyCalls;
    if is_grpc {
        return tonic::Status::from(refusal).into_http();
    }
    let mut response = problem(StatusCode::TOO_MANY_REQUESTS, &refusal.to_string());
    let later = HeaderValue::from_static("1");
    response.headers_mut().insert(RETRY_AFTER, later);
    response
}

/// Ends a call whose token is revoked meanwhile, whether it waits for its body, its answer or the peer.
async fn with_token(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    let is_grpc = is_grpc(request.headers());
    let (participant, token) = match gate.check(request.headers()).await {
        Ok(caller) => caller,
        Err(denied) => return gate.refused(&denied, is_grpc),
    };
    let Some(place) = gate
        .calls
        .take(participant, 1, spare(participant, CALLS_MAX))
    else {
        return too_many(is_grpc);
    };
    let extensions = request.extensions_mut();
    if let Some(call) = extensions.get::<Call>() {
        call.leave_place();
    }
    extensions.insert(AuthenticatedParticipant(participant));
    let call = next.run(request);
    let mut revocation: Revocation = Box::pin(gate.participants.revocation(token));
    tokio::select! {
        biased;
        () = &mut revocation => gate.refused(&Denied::Revoked, is_grpc),
        response = call => {
            response.map(|body| holding(Body::new(Revocable { body, revocation }), place))
        }
    }
}

type Revocation = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A body that breaks off when the token of its caller is taken back.
struct Revocable {
    body: Body,
    revocation: Revocation,
}

impl hyper::body::Body for Revocable {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.revocation.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(axum::Error::new(Denied::Revoked))));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let grpc = |kind: &HeaderValue| kind.as_bytes().starts_with(b"application/grpc");
    headers.get(CONTENT_TYPE).is_some_and(grpc)
}

async fn refuse(State(gate): State<Gate>, request: Request<Body>) -> Response {
    let why = "there is nothing here that anybody may call";
    gate.refused(&why, is_grpc(request.headers()))
}

#[cfg(test)]
mod tests;
