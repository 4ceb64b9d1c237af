//! The rules of every open route: how much memory the answers take, whose pages may read them, and which methods there
//! are.

use std::sync::Arc;

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
use tokio::sync::Semaphore;

use crate::answer::{busy, problem};
use crate::net::limits::{ANSWER_BYTES_MAX, ANSWER_UNIT_BYTES, ANSWER_UNITS};

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

/// The rules, with the memory that answers take. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct OpenRoutes {
    /// The memory for answers that are not taken yet.
    pub(crate) answers: Arc<Semaphore>,
    readers: Readers,
}

impl OpenRoutes {
    pub(crate) fn new() -> OpenRoutes {
        OpenRoutes {
            answers: Arc::new(Semaphore::new(ANSWER_UNITS)),
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

async fn pass(State(rules): State<OpenRoutes>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let mut response = held(response, &rules.answers);
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if rules.readers == Readers::All {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, MAY_READ);
    }
    response
}

/// The answer, which has its share of the memory until it is taken.
fn held(response: Response, answers: &Arc<Semaphore>) -> Response {
    let bytes = response.body().size_hint().exact().unwrap_or_default();
    let units = u32::try_from(bytes.min(ANSWER_BYTES_MAX))
        .map(|bytes| bytes / ANSWER_UNIT_BYTES)
        .expect("a small number");
    if units == 0 {
        return response;
    }
    let Ok(memory) = Arc::clone(answers).try_acquire_many_owned(units) else {
        return busy("too many answers are on their way: try again soon", 1);
    };
    let keep = move |error| {
        let _ = &memory;
        error
    };
    response.map(|body| Body::new(body.map_err(keep)))
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
