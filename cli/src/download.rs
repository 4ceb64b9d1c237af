//! `chomp download`: fetches a finished table.

use clap::builder::TypedValueParser;
use std::path::{Path, PathBuf};

use chomp_download::{DownloadProgress, DownloadReport, Reach};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::connect;
use crate::flags::{SourceArgs, TABLE, TablePlace, flag, path, place};
use crate::progress::Display;
use crate::source;
use crate::summary::{Meter, report};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  chomp download --from https://localhost:7171 --out my-table
  chomp download --from https://example.org/chomp/table-40 --out my-table
  chomp download --from s3://bucket/tables --out my-table
  chomp download --from http://127.0.0.1:7172/values-082 --out my-values")]
pub(crate) struct DownloadArgs {
    /// Where the table is: a coordinator, another server or a bucket, to download its largest table; or the folder of
    /// one table in it
    #[arg(long, value_name = "URL", value_parser = from())]
    pub(crate) from: String,

    /// The directory to put it in; afterwards it can be given to --table
    #[arg(long, value_name = "DIR", value_parser = path())]
    pub(crate) out: PathBuf,

    /// The access file of the coordinator, for its certificate
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) access: Option<PathBuf>,

    /// Print the summary as one JSON object, and events to stderr, one JSON object a line
    #[arg(long, value_parser = flag)]
    pub(crate) json: bool,
}

fn from() -> impl TypedValueParser<Value = String> {
    place().try_map(|place| match place {
        TablePlace::Elsewhere(address) => Ok(address),
        TablePlace::Here(_) => Err("an address looks like https://host:7171 or s3://bucket/tables"),
    })
}

pub(crate) async fn run(args: DownloadArgs, display: &Display) -> anyhow::Result<()> {
    let meter = Meter::start();
    let stop = display.stop_token();
    let reach = connect::reach_of_tables(&args.from, args.access.as_deref(), display.overrides())?;
    let done = fetch(reach, args.access.as_deref(), args.out, display, stop).await?;
    let size = done.manifest.size();
    report(args.json, size, done.manifest, &done.folder, meter.cost())
}

/// The path of the table on this machine. A table that is elsewhere is downloaded to the usual directory first.
pub(crate) async fn download_if_elsewhere(
    source: &SourceArgs,
    display: &Display,
    stop: &CancellationToken,
) -> anyhow::Result<PathBuf> {
    let from = match &source.table {
        TablePlace::Here(path) => return Ok(path.clone()),
        TablePlace::Elsewhere(from) => from,
    };
    let reach = connect::reach_of_tables(from, source.access.as_deref(), display.overrides())?;
    display.say(&format!(
        "the table at {from} is downloaded to {TABLE} first"
    ));
    let (access, out) = (source.access.as_deref(), PathBuf::from(TABLE));
    let done = fetch(reach, access, out, display, stop.clone()).await?;
    Ok(done.folder)
}

async fn fetch(
    reach: Reach,
    access: Option<&Path>,
    out: PathBuf,
    display: &Display,
    stop: CancellationToken,
) -> anyhow::Result<DownloadReport> {
    let (progress, watcher) = watch::channel(DownloadProgress::default());
    let downloading = chomp_download::download(reach.clone(), out, progress, stop);
    match display.during_download(watcher, downloading).await {
        Ok(report) => {
            source::warn_of_wrong_fingerprint(
                &report.manifest,
                &report.folder.display().to_string(),
            );
            Ok(report)
        }
        Err(error) => Err(connect::explain(error, &reach, access).await),
    }
}
