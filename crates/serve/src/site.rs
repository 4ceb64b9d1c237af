//! All that is open to everybody, put together: tables and their files, the API, the pages.

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use http::header::{HeaderValue, VARY};
use http::request::Parts;
use http::{HeaderMap, StatusCode, Uri};
use tokio::sync::watch;

use crate::answer::{JSON, TEXT, text};
use crate::api::Api;
use crate::current::Current;
use crate::games::{self, Games};
use crate::open_route::OpenRoutes;
use crate::open_route::Readers::{self, All, Own};
use crate::pages::{FIRST, Pages, wants_page};
use crate::published::Published;
use crate::refusal::Refusal;
use crate::status::{StatusPage, StatusText};
use crate::tables::Tables;

/// The description of the API for programs. The test `the_description_is_what_the_recipe_makes` writes it.
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
    tables: Tables,
    current: Current,
    api: Api,
    games: Games,
    pages: Pages,
    pub(crate) open: OpenRoutes,
}

impl Site {
    /// Opens the table of the most bits, if there is one, and looks out for others from now on.
    pub async fn open(options: SiteOptions) -> Site {
        let published = Arc::new(Published::new(options.directory));
        let current = Current::new(Arc::clone(&published), options.cache_bytes).await;
        Site {
            api: Api::new(current.clone(), Arc::clone(&published)),
            tables: Tables { published },
            games: Games::new(),
            current,
            pages: Pages::new(),
            open: OpenRoutes::new(),
        }
    }

    /// The routes, by their paths.
    pub fn routes(&self, status: StatusSource) -> Vec<(&'static str, MethodRouter)> {
        let (told, told_to) = match status {
            StatusSource::Table => (self.current.told.clone(), All),
            StatusSource::Job { told, open: true } => (told, All),
            StatusSource::Job { told, open: false } => (told, Own),
        };
        let tables_and_pages = (self.tables.clone(), self.pages.clone());
        let status_page = StatusPage::new(told);
        let status = async |State(page): State<StatusPage>, request: Parts| page.answer(&request);
        let description = async || text(StatusCode::OK, JSON, OPENAPI);
        let table = async |State(api): State<Api>| api.table();
        let api = [
            ("/api/table", get(table)),
            ("/api/counts", get(Api::counts)),
            ("/api/position/{position}", get(Api::position)),
            ("/api/depth/{position}", get(Api::depth)),
            ("/api/value/{position}", get(Api::value)),
            ("/api/openings", get(Api::openings)),
            ("/api/openings/{board}", get(Api::opening)),
        ];
        let games = [
            ("/api/games", get(games::list)),
            ("/api/games/{game}/{position}", get(Games::position)),
            ("/api/games/{game}/losing/{size}", get(Games::losing)),
            (
                "/api/games/{game}/picture/{fixed}/{size}",
                get(Games::picture),
            ),
        ];
        let page = async |State(pages): State<Pages>, uri: Uri, headers: HeaderMap| {
            pages.file(uri.path(), &headers)
        };
        let pages = [
            ("/play", get(page)),
            ("/explore", get(page)),
            ("/games", get(page)),
            ("/games/{game}", get(page)),
            ("/job", get(page)),
            ("/assets/{name}", get(page)),
        ];
        let files = [
            ("/{folder}/", get(Tables::file)),
            ("/{folder}/{name}", get(Tables::file)),
        ];
        [
            self.open_routes(All, tables_and_pages, [("/", get(first))]),
            self.open_routes(All, self.tables.clone(), files),
            self.open_routes(All, self.api.clone(), api),
            self.open_routes(All, self.games.clone(), games),
            self.open_routes(All, (), [("/openapi.json", get(description))]),
            self.open_routes(Own, self.pages.clone(), pages),
            self.open_routes(told_to, status_page, [("/api/status", get(status))]),
        ]
        .concat()
    }

    /// Open routes that `state` answers. Pages of `readers` may read the answers.
    fn open_routes<S: Clone + Send + Sync + 'static, const N: usize>(
        &self,
        readers: Readers,
        state: S,
        routes: [(&'static str, MethodRouter<S>); N],
    ) -> Vec<(&'static str, MethodRouter)> {
        let open = |(path, route): (_, MethodRouter<S>)| {
            let route = route.with_state(state.clone());
            (path, self.open.guard(route, readers))
        };
        routes.map(open).into()
    }

    /// The routes alone, for a server without a job.
    pub fn router(&self) -> Router {
        let health = [
            ("/healthz", get(async || text(StatusCode::OK, TEXT, "ok\n"))),
            ("/readyz", get(Tables::ready)),
        ];
        let health = self.open_routes(All, self.tables.clone(), health);
        let mut all = Router::new();
        for (path, route) in health.into_iter().chain(self.routes(StatusSource::Table)) {
            all = all.route(path, route);
        }
        let elsewhere = self.open.guard(get(async || Refusal::Nothing), Own);
        all.fallback_service(elsewhere)
    }
}

/// The answer at `/`: a page for people, the list of tables for programs.
async fn first(State((tables, pages)): State<(Tables, Pages)>, headers: HeaderMap) -> Response {
    let mut response = if wants_page(&headers) {
        pages.file(FIRST, &headers)
    } else {
        tables.list().await.into_response()
    };
    let headers = response.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("accept"));
    response
}
