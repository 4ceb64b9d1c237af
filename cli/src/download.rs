//! `chomp download`: fetches a finished table.

use chomp_access::Access;
use chomp_download::{Config, DownloadProgress, Patience};
use chomp_store::location::Location;
use chomp_table::reader::TableName;
use tokio::sync::watch;

use crate::args::DownloadArgs;
use crate::exit::Exit;
use crate::progress::Display;
use crate::reach;
use crate::run;
use crate::signals::stop_on_signals;
use crate::summary::Meter;

pub(crate) async fn run(args: DownloadArgs, display: &Display) -> anyhow::Result<Exit> {
    let meter = Meter::start();
    let stop = stop_on_signals()?;
    // Finished tables are open to everybody: the token stays here.
    let ca = match &args.access {
        Some(file) => Access::read(file)?.ca,
        None if Location::is_of_bucket(&args.from) => None,
        None => reach::local_access(&args.from)?.ca,
    };
    let bits = args.bits.map(TableName::Losing);
    let config = Config {
        from: args.from,
        out: args.out,
        table: bits.or_else(|| args.tiles.map(TableName::Values)),
        ca,
        token: None,
        parallel: args.parallel,
        patience: Patience::USUAL.hastened(display.haste()),
    };
    let (progress, watcher) = watch::channel(DownloadProgress::default());
    let report = tokio::select! {
        report = chomp_download::download(config, progress, stop) => report,
        () = display.follow_download(watcher) => {
            unreachable!("the display follows for as long as it is polled")
        }
    };
    display.clear();
    let report = report?;
    let size = report.manifest.size();
    run::report(
        args.json,
        size,
        &report.manifest,
        report.folder,
        meter.cost(),
    )
}
