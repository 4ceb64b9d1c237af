//! `chomp download`: fetches a finished table.

use std::time::Instant;

use chomp_access::Access;
use chomp_download::{Config, PATIENCE, Progress};
use chomp_store::location::Location;
use tokio::sync::watch;

use crate::args::DownloadArgs;
use crate::exit::Exit;
use crate::machine;
use crate::progress::Display;
use crate::reach;
use crate::signals::stop_on_signals;
use crate::summary::{Cost, Summary};

pub(crate) async fn run(args: DownloadArgs, display: &Display) -> anyhow::Result<Exit> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the summary tells what the download took"
    )]
    let start = Instant::now();
    let stop = stop_on_signals()?;
    // Finished tables are open to everybody: the token stays here.
    let ca = match &args.access {
        Some(file) => Access::read(file)?.ca,
        None if Location::is_of_bucket(&args.from) => None,
        None => reach::local_access(&args.from)?.ca,
    };
    let config = Config {
        from: args.from,
        out: args.out,
        bits: args.bits,
        ca,
        token: None,
        parallel: args.parallel,
        patience: PATIENCE,
    };
    let (progress, watcher) = watch::channel(Progress::default());
    let report = tokio::select! {
        report = chomp_download::download(config, progress, stop) => report,
        () = display.follow_download(watcher) => {
            unreachable!("the display follows for as long as it is polled")
        }
    };
    display.clear();
    let report = report?;
    let cost = Cost {
        wall: start.elapsed(),
        cpu: machine::cpu_time(),
        ..Cost::default()
    };
    let bits = report.manifest.bits;
    let summary = Summary::new(&report.manifest, bits, report.folder, cost);
    crate::print(&if args.json {
        summary.json()?
    } else {
        summary.text()
    })?;
    Ok(Exit::Done)
}
