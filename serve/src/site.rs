//! All that is open, put together: tables and their files, the API, the pages.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use http::StatusCode;
use http::header::{HeaderValue, VARY};
use tokio::sync::watch;

use crate::answer::{JSON, text};
use crate::api::{Api, Text};
use crate::current::{Current, Keeper};
use crate::damage_log::DamageLog;
use crate::door::Door;
use crate::door::Readers::{self, All, Own};
use crate::games::{self, Games, Texts};
use crate::net::Caller;
use crate::pages::{Pages, wants_page};
use crate::published::Published;
use crate::status::{StatusPage, StatusText};
use crate::tables::{Tables, nothing};
use crate::values::CurrentValues;

/// What describes the API to programs.
const OPENAPI: &str = include_str!("../openapi.json");

/// What a site is made of.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory with the finished tables, also those that come later.
    pub directory: PathBuf,
    /// How many requests each address may make a second, and twice as many at once; none if as
    /// many as it likes, and may hold half of what all may together: it may be a proxy of everybody.
    pub rate: Option<NonZeroU32>,
    /// How many bytes of the table that answers stay in memory.
    pub cache_bytes: u64,
}

/// What `/api/status` tells of.
#[derive(Clone, Debug)]
pub enum Source {
    /// The finished table.
    Table,
    /// A job, to whoever has the right to hear of it. Pages of others have it only if everybody has.
    Job {
        /// What is told.
        told: watch::Receiver<StatusText>,
        /// Whether everybody may hear it.
        open: bool,
    },
}

/// All that is open of the tables in a directory. Clones are the same site.
#[derive(Clone, Debug)]
pub struct Site {
    pub(crate) tables: Tables,
    current: Current,
    api: Api,
    games: Games,
    pages: Pages,
    door: Door,
    /// Whether an address has less than half.
    shared: bool,
}

impl Site {
    /// Opens the table of the most bits, if there is one, and looks out for others from now on.
    pub async fn open(options: Options) -> Site {
        let damage_log = DamageLog::default();
        let published = Arc::new(Published::new(options.directory, damage_log.clone()));
        let keeper = Keeper::new(
            Arc::clone(&published),
            options.cache_bytes,
            damage_log.clone(),
        );
        let current = Current::new(keeper).await;
        let shared = options.rate.is_some();
        Site {
            api: Api::new(
                current.clone(),
                CurrentValues::new(Arc::clone(&published)),
                damage_log.clone(),
                shared,
            ),
            tables: Tables::new(published, damage_log, shared),
            games: Games::new(shared),
            shared,
            current,
            pages: Pages::new(),
            door: Door::new(options.rate),
        }
    }

    /// The routes, by their paths.
    pub fn routes(&self, status: Source) -> Vec<(&'static str, MethodRouter)> {
        let mut routes = self.of_tables();
        routes.extend(self.of_api());
        routes.extend(self.of_games());
        routes.push(("/openapi.json", get(openapi), All));
        routes.extend(self.of_pages());
        let (told, readers) = match status {
            Source::Table => (self.current.told(), All),
            Source::Job { told, open: true } => (told, All),
            Source::Job { told, open: false } => (told, Own),
        };
        let page = StatusPage::new(told, self.shared);
        let status = get(async move |request: Request| page.answer(&request));
        routes.push(("/api/status", status, readers));
        let behind = |(path, route, readers)| (path, self.door.before(route, readers));
        routes.into_iter().map(behind).collect()
    }

    /// The routes alone, for a server without a job.
    pub fn router(&self) -> Router {
        let mut all = Router::new();
        for (path, route) in self.routes(Source::Table) {
            all = all.route(path, route);
        }
        let elsewhere = self.door.before(get(async || nothing()), Own);
        all.fallback_service(elsewhere)
    }

    /// The tables and their files; and what is at `/`, which is for people too.
    fn of_tables(&self) -> Vec<(&'static str, MethodRouter, Readers)> {
        let (tables, pages) = (self.tables.clone(), self.pages.clone());
        let first = get(async move |request: Request| {
            let headers = request.headers();
            let mut response = if wants_page(headers) {
                pages.first(headers)
            } else {
                tables.list().await
            };
            let headers = response.headers_mut();
            headers.insert(VARY, HeaderValue::from_static("accept"));
            response
        });
        let tables = self.tables.clone();
        let file = get(async move |request: Request| {
            let (request, _) = request.into_parts();
            tables.file(&request).await
        });
        vec![("/", first, All), ("/{folder}/{name}", file, All)]
    }

    fn of_api(&self) -> Vec<(&'static str, MethodRouter, Readers)> {
        let [table, counts, position, value, openings, opening] =
            [(); 6].map(|()| self.api.clone());
        vec![
            ("/api/table", get(async move || table.table()), All),
            ("/api/counts", get(async move || counts.counts()), All),
            (
                "/api/position/{position}",
                get(async move |text: Text, request: Request| {
                    let caller = Caller::of(request.extensions());
                    position.position(text, &caller).await
                }),
                All,
            ),
            (
                "/api/value/{position}",
                get(async move |text: Text, request: Request| {
                    let caller = Caller::of(request.extensions());
                    value.value(text, &caller).await
                }),
                All,
            ),
            (
                "/api/openings",
                get(async move || openings.openings().await),
                All,
            ),
            (
                "/api/openings/{board}",
                get(async move |text: Text, request: Request| {
                    let caller = Caller::of(request.extensions());
                    opening.opening(text, &caller).await
                }),
                All,
            ),
        ]
    }

    fn of_games(&self) -> Vec<(&'static str, MethodRouter, Readers)> {
        let [position, losing, picture] = [(); 3].map(|()| self.games.clone());
        vec![
            ("/api/games", get(games::list), All),
            (
                "/api/games/{game}/{position}",
                get(async move |texts: Texts<_>, request: Request| {
                    let caller = Caller::of(request.extensions());
                    position.position(texts, &caller).await
                }),
                All,
            ),
            (
                "/api/games/{game}/losing/{size}",
                get(async move |texts: Texts<_>, request: Request| {
                    let caller = Caller::of(request.extensions());
                    losing.losing(texts, &caller).await
                }),
                All,
            ),
            (
                "/api/games/{game}/picture/{fixed}/{size}",
                get(async move |texts: Texts<_>, request: Request| {
                    let caller = Caller::of(request.extensions());
                    picture.picture(texts, &caller).await
                }),
                All,
            ),
        ]
    }

    fn of_pages(&self) -> Vec<(&'static str, MethodRouter, Readers)> {
        let file = || {
            let pages = self.pages.clone();
            get(async move |request: Request| pages.file(request.uri().path(), request.headers()))
        };
        let paths = [
            "/play",
            "/explore",
            "/games",
            "/games/{game}",
            "/job",
            "/assets/{name}",
        ];
        paths.map(|path| (path, file(), Own)).into()
    }
}

/// The description of the API for programs.
async fn openapi() -> Response {
    text(StatusCode::OK, JSON, OPENAPI)
}
