//! `chomp serve`: serves finished tables as files, answers and pages.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Context;
use bytesize::ByteSize;
use chomp_serve::net::{Endpoint, Listener, Permits, Server, SocketFile};
use chomp_serve::{QuestionLimits, Site, SiteOptions};
use chomp_table::TableError;
use chomp_table::reader::{AnyTable, CACHE_BYTES, TableName, locate};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::download;
use crate::exit::usage;
use crate::flags::{SourceArgs, TablePlace, address, flag, size};
use crate::machine;
use crate::progress::{Display, blocking};
use crate::source;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  chomp serve                                      open http://127.0.0.1:7172/
  chomp serve --http 0.0.0.0:7172                  for all who reach this host
  curl http://127.0.0.1:7172/api/position/5,4,2,1  one position, as JSON
  curl http://127.0.0.1:7172/api/value/5,4,2,1     its Grundy value
  chomp download --from http://127.0.0.1:7172 --out copy

The table of the most bits answers questions about losing positions, that of the most tiles those \
about Grundy values. A table on a server or in a bucket is downloaded to chomp-table first. All of it \
is open and in plain HTTP: for TLS and the open internet put a reverse proxy before it, as those in \
deploy/proxy/. docs/SERVING.md has the routes and the limits.")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// Where to listen: HOST:PORT, the port alone for this machine only, or :PORT for everybody who can reach it; or
    /// unix:PATH for a reverse proxy on this machine, which may then have all connections
    #[arg(long, value_parser = HttpPlace::parse, value_name = "ADDR", default_value = "127.0.0.1:7172")]
    pub(crate) http: HttpPlace,

    /// The address of a reverse proxy, which limits its clients: it may have seven in eight of all connections. Any
    /// other address may have half of all. Several: repeat it, or separate them with commas
    #[arg(long, value_delimiter = ',', value_name = "IP")]
    pub(crate) trust_proxy: Vec<IpAddr>,

    /// Keep this much of the table in memory; less is slower
    #[arg(long, value_parser = size, value_name = "SIZE", default_value = "64MiB")]
    pub(crate) cache: ByteSize,

    /// Print the address and what the table is as one JSON object, and events to stderr, one JSON
    /// object a line
    #[arg(long, value_parser = flag)]
    pub(crate) json: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum HttpPlace {
    Port(SocketAddr),
    File(PathBuf),
}

impl HttpPlace {
    fn parse(text: &str) -> Result<HttpPlace, &'static str> {
        match text.strip_prefix("unix:") {
            Some("") => Err("after unix: comes the path of a file, as unix:/run/chomp/http.sock"),
            Some(path) => Ok(HttpPlace::File(path.into())),
            None => address(text).map(HttpPlace::Port),
        }
    }

    /// Listens at this place, and returns its address for people too.
    async fn listen(&self) -> anyhow::Result<(Listener, String)> {
        Ok(match self {
            HttpPlace::Port(address) => {
                let listener = listen(*address, "--http").await?;
                let url = format!("http://{}/", listener.local_addr()?);
                (Listener::Port(listener), url)
            }
            HttpPlace::File(path) => {
                let url = format!("unix:{}", path.display());
                let failed = || format!("cannot listen on {url}: choose another with --http");
                (
                    Listener::File(SocketFile::listen(path).with_context(failed)?),
                    url,
                )
            }
        })
    }
}

/// The folder, the name and the summary of the table in `directory`; None if there is no table yet. The table is
/// opened, so damage is found before anybody asks.
fn first(directory: &Path) -> Result<Option<(PathBuf, TableName, Value)>, TableError> {
    let folder = match locate(directory) {
        Err(TableError::NotFound { .. }) if directory.is_dir() => return Ok(None),
        found => found?,
    };
    let table = AnyTable::open(directory)?;
    let (losing, stored) = source::counts(&table);
    let mut told = json!(table.name());
    told["table"] = folder.display().to_string().into();
    told["losing"] = losing.into();
    told["stored"] = stored.into();
    told["fingerprint"] = json!(table.manifest().fingerprint());
    Ok(Some((folder, table.name(), told)))
}

pub(crate) async fn run(args: ServeArgs, display: &Display) -> anyhow::Result<()> {
    let stop = display.stop_token();
    // An address in use is reported before a download. The listener is dropped, so nobody can connect until the table
    // is there.
    drop(args.http.listen().await?);
    let mut table = download::download_if_elsewhere(&args.source, display, &stop).await?;
    // A downloaded table has the path of its own folder. The directory that the folder is in is served.
    if let TablePlace::Elsewhere(_) = args.source.table {
        table.pop();
    }
    let directory = table.clone();
    let first = blocking(move || first(&directory)).await;
    let first = first.map_err(source::explained)?;
    if first.as_ref().is_some_and(|(folder, ..)| *folder == table) {
        return Err(usage(format!(
            "{} is the folder of one table: give the directory that it is in, so that others beside it are found",
            table.display()
        )));
    }
    let (listener, url) = args.http.listen().await?;

    let what = match &first {
        Some((folder, name, _)) => format!("{}, a {name}", folder.display()),
        None => format!(
            "{}, which has no table yet: one is served as soon as it is finished there",
            table.display()
        ),
    };
    let limits = machine::raise_file_limit().hastened(display.overrides().limit_haste);
    let permits = Permits::new(&limits, args.trust_proxy);
    let site = Site::open(SiteOptions {
        question_limits: QuestionLimits::ALONE.hastened(display.overrides().limit_haste),
        directory: table,
        cache_bytes: args.cache.as_u64(),
    })
    .await;
    let router = site.router();
    let endpoints = vec![Endpoint { listener, router }];
    let server = Server::start(endpoints, None, limits, &permits);

    display.say(&format!("serving {url} with {what}"));
    if args.json {
        let mut told = first.map_or_else(|| json!({}), |(.., told)| told);
        told["url"] = url.into();
        crate::print(&format!("{told}\n"))?;
    }
    stop.cancelled().await;
    server.stop().await;
    Ok(())
}

pub(crate) fn beside_job(directory: PathBuf, display: &Display) -> SiteOptions {
    SiteOptions {
        question_limits: QuestionLimits::BESIDE_JOB.hastened(display.overrides().limit_haste),
        directory,
        cache_bytes: CACHE_BYTES,
    }
}

pub(crate) async fn listen(address: SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| format!("cannot listen on {address}: choose another with {flag}"))
}
