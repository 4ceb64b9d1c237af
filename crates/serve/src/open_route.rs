//! The rules of every open route: how often an address may come, how much it may leave untaken, whose pages may
//! read the answers, and which methods there are.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::MethodRouter;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ALLOW, HeaderValue,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use tokio::time::Instant;

use crate::answer::{busy, problem};
use crate::net::limits::{ANSWER_BYTES_MAX, ANSWER_UNIT, ANSWERS};
use crate::net::{Caller, Places, Rates};

/// The methods of every open route.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, OPTIONS");
/// The headers that pages of other origins may send and read, besides those that CORS always permits.
const MAY_SEND: HeaderValue = HeaderValue::from_static("range, if-range, if-none-match");
const MAY_READ: HeaderValue =
    HeaderValue::from_static("accept-ranges, content-length, content-range, etag, retry-after");

/// Who may read the answers of a route in a browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readers {
    /// The pages of this server alone.
    Own,
    /// Those of others too.
    All,
}

/// The rules, with what they count.
#[derive(Clone, Debug)]
pub(crate) struct OpenRoutes {
    /// None if everybody may come as often as they like.
    rates: Option<Arc<Rates<IpAddr>>>,
    /// For answers that are not taken yet.
    pub(crate) answers: Places<IpAddr>,
    readers: Readers,
}

impl OpenRoutes {
    /// Routes that let in `rate` requests a second from each address, or any number without a rate.
    pub(crate) fn new(rate: Option<NonZeroU32>) -> OpenRoutes {
        OpenRoutes {
            rates: rate.map(|rate| Arc::new(Rates::new(rate))),
            answers: Places::new(ANSWERS),
            readers: Readers::Own,
        }
    }

    /// The route with these rules. Other methods than those for reading are refused.
    pub(crate) fn guard(&self, route: MethodRouter, readers: Readers) -> MethodRouter {
        let rules = OpenRoutes {
            readers,
            ..self.clone()
        };
        let route = route.options(options).fallback(no_such_method);
        route.layer(from_fn_with_state(rules, pass))
    }
}

/// The cost of an answer beyond that of one request, in requests. It is charged to the address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerCost(pub(crate) u32);

impl AnswerCost {
    /// The response, which has this cost.
    pub(crate) fn of(self, mut response: Response) -> Response {
        response.extensions_mut().insert(self);
        response
    }
}

async fn pass(State(rules): State<OpenRoutes>, request: Request, next: Next) -> Response {
    let caller = Caller::of(request.extensions());
    let address = caller.network();
    let taken = rules.rates.as_ref();
    let taken = taken.map_or(Ok(()), |rates| rates.take(address, Instant::now()));
    let response = match taken {
        Ok(()) => next.run(request).await,
        Err(wait) => too_often(wait),
    };
    let cost = response.extensions().get::<AnswerCost>();
    if let (Some(rates), Some(AnswerCost(cost))) = (&rules.rates, cost) {
        rates.charge(address, *cost, Instant::now());
    }
    let mut response = held(response, &caller, &rules.answers);
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if rules.readers == Readers::All {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, MAY_READ);
    }
    response
}

/// The answer, which has places of the caller until it is taken.
fn held(response: Response, caller: &Caller, places: &Places<IpAddr>) -> Response {
    let bytes = response.body().size_hint().exact().unwrap_or_default();
    let size = u32::try_from(bytes.min(ANSWER_BYTES_MAX))
        .map(|bytes| bytes / ANSWER_UNIT)
        .expect("a small number");
    if size == 0 {
        return response;
    }
    let Some(place) = caller.take(places, size) else {
        return busy(
            "you have not taken all that you asked for: take it, then ask again",
            1,
        );
    };
    let keep = move |error| {
        let _ = &place;
        error
    };
    response.map(|body| Body::new(body.map_err(keep)))
}

fn too_often(wait: Duration) -> Response {
    let what = "too many requests from your address: wait, and ask less often";
    let mut response = busy(what, wait.as_secs() + 1);
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    response
}

/// Answers OPTIONS, also as the CORS preflight of a browser.
async fn options() -> Response {
    let mut response = Response::default();
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ALLOW, METHODS);
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, MAY_SEND);
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
    response
}

async fn no_such_method(method: Method) -> Response {
    let what = format!("there is no {method} here: what is open can be read, with GET and HEAD");
    let mut response = problem(StatusCode::METHOD_NOT_ALLOWED, &what);
    response.headers_mut().insert(ALLOW, METHODS);
    response
}
