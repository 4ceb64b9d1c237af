//! `chomp download`: fetches a finished table.

use std::path::PathBuf;

use chomp_download::{Config, DownloadError, DownloadProgress, DownloadReport, PARALLEL, Reach};
use chomp_table::reader::TableName;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::args::{DownloadArgs, SourceArgs, TABLE, TablePlace};
use crate::exit::Exit;
use crate::progress::Display;
use crate::reach;
use crate::signals::stop_on_signals;
use crate::summary::{Meter, report};

pub(crate) async fn run(args: DownloadArgs, display: &Display) -> anyhow::Result<Exit> {
    let meter = Meter::start();
    let stop = stop_on_signals()?;
    let reach = reach::tables(&args.from, args.access.as_deref(), display.haste())?;
    let bits = args.bits.map(TableName::Losing);
    let config = Config {
        table: bits.or_else(|| args.tiles.map(TableName::Values)),
        parallel: args.parallel,
        ..config(reach, args.out)
    };
    let DownloadReport {
        manifest, folder, ..
    } = fetch(config, display, stop).await?;
    report(args.json, manifest.size(), manifest, folder, meter.cost())
}

/// Where the table is on this machine, for what needs its files. One that is elsewhere is downloaded to the usual directory
/// first: its folder there.
pub(crate) async fn directory(
    source: &SourceArgs,
    display: &Display,
    stop: &CancellationToken,
) -> anyhow::Result<PathBuf> {
    let from = match &source.table {
        TablePlace::Here(path) => return Ok(path.clone()),
        TablePlace::Elsewhere(from) => from,
    };
    let reach = reach::tables(from, source.access.as_deref(), display.haste())?;
    display.say(&format!(
        "the table at {from} is downloaded to {TABLE} first"
    ));
    let config = config(reach, PathBuf::from(TABLE));
    Ok(fetch(config, display, stop.clone()).await?.folder)
}

fn config(reach: Reach, out: PathBuf) -> Config {
    Config {
        from: reach.from,
        out,
        table: None,
        ca: reach.ca,
        token: reach.token,
        parallel: PARALLEL,
        patience: reach.patience,
    }
}

async fn fetch(
    config: Config,
    display: &Display,
    stop: CancellationToken,
) -> Result<DownloadReport, DownloadError> {
    let (progress, watcher) = watch::channel(DownloadProgress::default());
    let report = tokio::select! {
        report = chomp_download::download(config, progress, stop) => report,
        () = display.follow_download(watcher) => {
            unreachable!("the display follows for as long as it is polled")
        }
    };
    display.clear();
    report
}
