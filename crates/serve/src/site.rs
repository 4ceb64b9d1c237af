//! All that is open to everybody, put together: tables and their files, the API, the pages.

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ALLOW, HeaderValue, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, Uri};
use hyper::body::Body as _;
use tokio::sync::{Semaphore, watch};
use tokio_util::task::AbortOnDropHandle;

use crate::answer::{JSON, Refusal, TEXT, problem, text};
use crate::current::Current;
use crate::lookups::{Lookups, blocking};
use crate::net::holding;
use crate::net::limits::{ANSWER_BYTES_MAX, ANSWER_UNIT_BYTES, ANSWER_UNITS};
use crate::pages::{FIRST, Pages, wants_page};
use crate::published::Published;
use crate::status::{StatusPage, StatusText};
use crate::{api, games, tables};

/// The methods of every open route.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, OPTIONS");
/// The headers that pages of other origins may send and read, besides those that CORS always permits.
const MAY_SEND: HeaderValue = HeaderValue::from_static("range, if-range, if-none-match");
const MAY_READ: HeaderValue =
    HeaderValue::from_static("accept-ranges, content-length, content-range, etag, retry-after");

/// The description of the API for programs. `just openapi` writes its schemas.
pub(crate) const OPENAPI: &str = include_str!("../openapi.json");

/// The settings of a site.
#[derive(Clone, Debug)]
pub struct SiteOptions {
    /// The directory with the finished tables, also those that come later.
    pub directory: PathBuf,
    /// How many bytes of the table that answers stay in memory.
    pub cache_bytes: u64,
}

/// The subject of `/api/status`.
#[derive(Clone, Debug)]
pub enum StatusSource {
    /// The finished table.
    Table,
    /// A job, to whoever has the right to hear of it. Pages of others have it only if everybody has.
    Job {
        /// The status of the job.
        told: watch::Receiver<StatusText>,
        /// Whether everybody may hear it.
        open: bool,
    },
}

/// All that is open of the tables in a directory. Clones are the same site.
#[derive(Clone, Debug)]
pub struct Site {
    pub(crate) published: Arc<Published>,
    pub(crate) current: Arc<Current>,
    pub(crate) lookups: Lookups,
    pub(crate) game_lookups: Lookups,
    pages: Arc<Pages>,
    /// The memory for answers that are not taken yet.
    pub(crate) answers: Arc<Semaphore>,
    _follow: Arc<AbortOnDropHandle<()>>,
}

/// Who may read the answers of a route in a browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readers {
    /// The pages of this server alone.
    Own,
    /// Those of others too.
    All,
}

impl Site {
    /// Opens the table of the most bits, if there is one, and looks out for others from now on.
    #[expect(clippy::disallowed_methods, reason = "ends with the last clone")]
    pub async fn open(options: SiteOptions) -> Site {
        let published = Arc::new(Published::new(options.directory));
        let current = Arc::new(Current::new(Arc::clone(&published), options.cache_bytes));
        current.look().await;
        let follow = tokio::spawn(Arc::clone(&current).follow());
        Site {
            published,
            current,
            lookups: Lookups::of_tables(),
            game_lookups: Lookups::of_games(),
            pages: Arc::new(Pages::new()),
            answers: Arc::new(Semaphore::new(ANSWER_UNITS)),
            _follow: Arc::new(AbortOnDropHandle::new(follow)),
        }
    }

    /// The routes, by their paths.
    pub fn routes(&self, status: StatusSource) -> Vec<(&'static str, MethodRouter)> {
        let (told, told_to) = match status {
            StatusSource::Table => (self.current.status.subscribe(), Readers::All),
            StatusSource::Job { told, open: true } => (told, Readers::All),
            StatusSource::Job { told, open: false } => (told, Readers::Own),
        };
        let status = StatusPage::new(told);
        let status = get(async move |request: Parts| status.answer(&request));
        let description = get(async || text(StatusCode::OK, JSON, OPENAPI));
        let open = [
            ("/", get(first)),
            ("/{folder}/", get(tables::file)),
            ("/{folder}/{name}", get(tables::file)),
            ("/api/table", get(api::table)),
            ("/api/counts", get(api::counts)),
            ("/api/position/{position}", get(api::position)),
            ("/api/depth/{position}", get(api::depth)),
            ("/api/value/{position}", get(api::value)),
            ("/api/openings", get(api::openings)),
            ("/api/openings/{board}", get(api::opening)),
            ("/api/games", get(games::list)),
            ("/api/games/{game}/{position}", get(games::position)),
            ("/api/games/{game}/losing/{size}", get(games::losing)),
            (
                "/api/games/{game}/picture/{fixed}/{size}",
                get(games::picture),
            ),
            ("/openapi.json", description),
        ];
        let pages = [
            "/play",
            "/explore",
            "/games",
            "/games/{game}",
            "/job",
            "/assets/{name}",
        ];
        let open = open.map(|(path, route)| (path, self.guard(route, Readers::All)));
        let pages = pages.map(|path| (path, self.guard(get(page), Readers::Own)));
        let status = [("/api/status", self.guard(status, told_to))];
        open.into_iter().chain(pages).chain(status).collect()
    }

    /// The routes alone, for a server without a job.
    pub fn router(&self) -> Router {
        let alive = get(async || text(StatusCode::OK, TEXT, "ok\n"));
        let mut all = Router::new()
            .route("/healthz", self.guard(alive, Readers::All))
            .route("/readyz", self.guard(get(tables::ready), Readers::All));
        for (path, route) in self.routes(StatusSource::Table) {
            all = all.route(path, route);
        }
        let elsewhere = self.guard(get(async || Refusal::Nothing), Readers::Own);
        all.fallback_service(elsewhere)
    }

    /// The route with the rules of every open route: how much memory the answers take, whose pages may read them, and
    /// which methods there are.
    fn guard(&self, route: MethodRouter<Site>, readers: Readers) -> MethodRouter {
        let answers = Arc::clone(&self.answers);
        let route = route.options(options).fallback(no_such_method);
        let route = route.layer(from_fn_with_state((answers, readers), pass));
        route.with_state(self.clone())
    }

    /// Reads what is published, on a thread that may wait for the disk.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Published) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let published = Arc::clone(&self.published);
        blocking(move || work(&published)).await
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

async fn pass(
    State((answers, readers)): State<(Arc<Semaphore>, Readers)>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = held(next.run(request).await, &answers);
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if readers == Readers::All {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, MAY_READ);
    }
    response
}

/// The answer, which has its share of the memory until it is taken.
fn held(response: Response, answers: &Arc<Semaphore>) -> Response {
    let bytes = response.body().size_hint().exact().unwrap_or_default();
    let units = u32::try_from(bytes.min(ANSWER_BYTES_MAX)).expect("a small number");
    let units = units / ANSWER_UNIT_BYTES;
    if units == 0 {
        return response;
    }
    let Ok(memory) = Arc::clone(answers).try_acquire_many_owned(units) else {
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
