//! `chomp download`: fetches a finished table.

use std::path::PathBuf;
use std::time::Instant;

use chomp_access::Access;
use chomp_download::{Config, PATIENCE, Progress};
use chomp_store::location::Location;
use chomp_table::Digest;
use chomp_table::partition::count;
use chomp_table::reader::{AnyManifest, TableName};
use chomp_table::values::ValuesManifest;
use indicatif::{HumanBytes, HumanCount};
use serde::Serialize;
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
    let bits = args.bits.map(TableName::Losing);
    let config = Config {
        from: args.from,
        out: args.out,
        table: bits.or_else(|| args.tiles.map(TableName::Values)),
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
    match report.manifest {
        AnyManifest::Losing(manifest) => {
            let summary = Summary::new(&manifest, manifest.bits, report.folder, cost);
            crate::print_as(args.json, &summary, Summary::text)?;
        }
        AnyManifest::Values(manifest) => {
            let fetched = Fetched::new(&manifest, report.folder, cost);
            crate::print_as(args.json, &fetched, Fetched::text)?;
        }
    }
    Ok(Exit::Done)
}

/// A table of values that was fetched.
#[derive(Debug, Serialize)]
struct Fetched {
    tiles: u32,
    positions: u64,
    stored: u64,
    fingerprint: Digest,
    /// Wall time.
    seconds: f64,
    table: PathBuf,
    shards: usize,
    /// The bytes of the shards.
    bytes: u64,
}

impl Fetched {
    fn new(manifest: &ValuesManifest, table: PathBuf, cost: Cost) -> Fetched {
        Fetched {
            tiles: manifest.tiles,
            positions: (1..=manifest.tiles).map(count).sum(),
            stored: manifest.shards().map(|shard| shard.stored).sum(),
            fingerprint: manifest.fingerprint,
            seconds: cost.wall.as_secs_f64(),
            table,
            shards: manifest.shards().count(),
            bytes: manifest.shards().map(|shard| shard.bytes).sum(),
        }
    }

    fn text(&self) -> String {
        format!(
            "The Grundy values of all positions of at most {} tiles\n  positions    {}\n  fingerprint  {}\n  \
             time         {:.2} s\n  table        {} ({} shards, {})\n",
            self.tiles,
            HumanCount(self.positions),
            self.fingerprint,
            self.seconds,
            self.table.display(),
            self.shards,
            HumanBytes(self.bytes)
        )
    }
}
