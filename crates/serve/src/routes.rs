//! The routes that are open to everybody, and `/api/status`, which may be for clients with a token alone; and their
//! common rules: the limit of memory for answers, the origins whose pages may read them, and the methods.

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ALLOW, HOST, HeaderValue, ORIGIN, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, Uri};
use hyper::body::Body as _;
use tokio::sync::watch;

use crate::answer::{JSON, Refusal, TEXT, problem, text};
use crate::net::limits::{ANSWER_BYTES_MAX, ANSWER_UNIT_BYTES};
use crate::net::{Call, holding};
use crate::pages::{FIRST, wants_page};
use crate::site::Site;
use crate::status::{StatusPage, StatusText};
use crate::{api, tables};

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, OPTIONS");
/// The headers that pages of other origins may send and read, besides those that CORS always permits.
const MAY_SEND: HeaderValue = HeaderValue::from_static("range, if-range, if-none-match");
const MAY_READ: HeaderValue =
    HeaderValue::from_static("accept-ranges, content-length, content-range, etag, retry-after");

/// The description of the API for programs. `just openapi` writes its schemas.
pub(crate) const OPENAPI: &str = include_str!("../openapi.json");

/// The subject of `/api/status`.
#[derive(Clone, Debug)]
pub enum StatusSource {
    /// The finished table.
    Table,
    /// A job, for authorised clients, and for no page of another site.
    Job(watch::Receiver<StatusText>),
}

/// The origins whose pages may read the answers of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AllowedOrigins {
    Own,
    All,
}

impl Site {
    /// The routes, by their paths.
    pub fn routes(&self, status: StatusSource) -> Vec<(&'static str, MethodRouter)> {
        let (newest, origins) = match status {
            StatusSource::Table => (self.current.status.subscribe(), AllowedOrigins::All),
            StatusSource::Job(newest) => (newest, AllowedOrigins::Own),
        };
        let status = StatusPage::new(newest);
        let status = get(async move |request: Parts| {
            if origins == AllowedOrigins::Own && is_foreign(&request.headers) {
                return problem(
                    StatusCode::FORBIDDEN,
                    "a job is not for pages of other sites",
                );
            }
            status.answer(&request)
        });
        let description = get(async || text(StatusCode::OK, JSON, OPENAPI));
        let open = [
            ("/", get(first)),
            ("/{folder}", get(tables::folder)),
            ("/{folder}/", get(tables::file)),
            ("/{folder}/{name}", get(tables::file)),
            ("/api/table", get(api::table)),
            ("/api/counts", get(api::counts)),
            ("/api/position/{position}", get(api::position)),
            ("/api/depth/{position}", get(api::depth)),
            ("/api/value/{position}", get(api::value)),
            ("/api/openings", get(api::openings)),
            ("/api/openings/{board}", get(api::opening)),
            ("/api/games", get(api::games)),
            ("/api/games/{game}/{position}", get(api::game_position)),
            ("/api/games/{game}/losing/{size}", get(api::game_losing)),
            (
                "/api/games/{game}/picture/{fixed}/{size}",
                get(api::game_picture),
            ),
            ("/openapi.json", description),
        ];
        let pages = [
            "/bite",
            "/play",
            "/explore",
            "/games",
            "/games/{game}",
            "/job",
            "/assets/{name}",
        ];
        let open = open.map(|(path, route)| (path, self.guard(route, AllowedOrigins::All)));
        let pages = pages.map(|path| (path, self.guard(get(page), AllowedOrigins::Own)));
        let status = [("/api/status", self.guard(status, origins))];
        open.into_iter().chain(pages).chain(status).collect()
    }

    /// The whole router of a server without a job: [`Site::routes`], health checks, and 404 for the rest.
    pub fn router(&self) -> Router {
        let alive = get(async || text(StatusCode::OK, TEXT, "ok\n"));
        let mut all = Router::new()
            .route("/healthz", self.guard(alive, AllowedOrigins::All))
            .route(
                "/readyz",
                self.guard(get(tables::ready), AllowedOrigins::All),
            );
        for (path, route) in self.routes(StatusSource::Table) {
            all = all.route(path, route);
        }
        let elsewhere = self.guard(get(async || Refusal::Nothing), AllowedOrigins::Own);
        all.fallback_service(elsewhere)
    }

    /// Adds the rules of every open route: the limit of memory for answers, the origins that may read them, and the
    /// methods.
    fn guard(&self, route: MethodRouter<Site>, origins: AllowedOrigins) -> MethodRouter {
        let state = (self.clone(), origins);
        let route = route.options(options).fallback(no_such_method);
        let route = route.layer(from_fn_with_state(state, apply_rules));
        route.with_state(self.clone())
    }
}

/// The answer at `/`: a page for people, the list of tables for programs.
async fn first(State(site): State<Site>, headers: HeaderMap) -> Response {
    let answer = if wants_page(&headers) {
        site.pages.file(FIRST, &headers)
    } else {
        tables::list(&site).await.into_response()
    };
    ([(VARY, "accept")], answer).into_response()
}

async fn page(State(site): State<Site>, uri: Uri, headers: HeaderMap) -> Response {
    site.pages.file(uri.path(), &headers)
}

async fn apply_rules(
    State((site, origins)): State<(Site, AllowedOrigins)>,
    request: Request,
    next: Next,
) -> Response {
    // Pages of other sites can use a visitor's browser to ask, so they share a small limit.
    let is_foreign = request.uri().path().starts_with("/api/") && is_foreign(request.headers());
    let place = is_foreign.then(|| site.foreign.try_acquire());
    let call = request.extensions().get::<Call>().cloned();
    let mut response = match place {
        Some(Err(_)) => {
            let full = "pages of other sites ask too much at once: try again soon";
            Refusal::NotNow(full, 1).into_response()
        }
        _ => with_memory(next.run(request).await, call),
    };
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if origins == AllowedOrigins::All {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, MAY_READ);
    }
    response
}

/// Whether a page of another site makes this request, as its browser says.
fn is_foreign(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return site == "cross-site";
    }
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let origin = headers
        .get(ORIGIN)
        .map(|_| text(ORIGIN).unwrap_or_default());
    let host = |origin: &str| origin.split_once("://").map(|(_, host)| host.to_owned());
    origin.is_some_and(|origin| host(origin).as_deref() != text(HOST))
}

/// Reserves memory for the answer until it is taken; 503 if too little is left for this peer. For less than
/// [`ANSWER_UNIT_BYTES`] the place of the call suffices.
fn with_memory(response: Response, call: Option<Call>) -> Response {
    let bytes = response.body().size_hint().exact().unwrap_or_default();
    let bytes = u32::try_from(bytes.min(ANSWER_BYTES_MAX)).expect("a small number");
    let units = bytes / ANSWER_UNIT_BYTES;
    let Some(call) = call.filter(|_| units > 0) else {
        return response;
    };
    let Some(memory) = call.take(units as usize) else {
        let full = "too many answers are on their way: try again soon";
        return Refusal::NotNow(full, 1).into_response();
    };
    response.map(|body| holding(body, memory))
}

/// Answers OPTIONS, also as the CORS preflight of a browser.
async fn options() -> impl IntoResponse {
    let headers = [
        (ALLOW, METHODS),
        (ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (ACCESS_CONTROL_ALLOW_HEADERS, MAY_SEND),
        (ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400")),
    ];
    (StatusCode::NO_CONTENT, headers)
}

async fn no_such_method(method: Method) -> impl IntoResponse {
    let what = format!("there is no {method} here: what is open can be read, with GET and HEAD");
    (
        [(ALLOW, METHODS)],
        problem(StatusCode::METHOD_NOT_ALLOWED, &what),
    )
}
