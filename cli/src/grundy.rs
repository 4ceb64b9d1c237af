//! `chomp grundy`: the table of Grundy values, in this process.

use chomp_table::partition::AREA_MAX;
use std::ops::ControlFlow;
use std::path::PathBuf;

use chomp_access::local;
use chomp_grundy::{BuildError, BuildWatch, Builder, Built, memory_bytes, remove_areas};
use chomp_store::objects::TableLock;
use chomp_table::format::describe;
use chomp_table::reader::{AnyManifest, TableName};

use crate::SOFTWARE;
use crate::exit::Interruption;
use crate::flags::{ShareArgs, flag, number, path};
use crate::machine;
use crate::owned_store::{tell_left, verify_finished};
use crate::progress::{Display, Teller, blocking};
use crate::summary::{Meter, RunCost, report};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The value of a position is the least number that no move leads to; the poison is never taken, so the \
single poisoned cell has the value 0. A tile is a cell. All values are in memory, a byte each: 0.2 GB \
for 82 tiles, 1.7 GB for 100, 17.3 GB for 120. On the disk they take as much until the table is \
published.

Examples:
  chomp grundy --tiles 60
  chomp grundy --tiles 100 --table /data/values
  chomp query --table chomp-values 5,4,2,1")]
pub(crate) struct GrundyArgs {
    /// Compute all positions of at most this many tiles, from 1 to 120
    #[arg(long, alias = "cells", value_name = "T", value_parser = number::<u32>(1..=AREA_MAX.into()))]
    pub(crate) tiles: u32,

    /// The directory of the table; made if it is not there
    #[arg(long, value_name = "DIR", default_value = "chomp-values", value_parser = path())]
    pub(crate) table: PathBuf,

    #[command(flatten)]
    pub(crate) share: ShareArgs,

    /// Print the summary as one JSON object, and events to stderr, one JSON object a line
    #[arg(long, value_parser = flag)]
    pub(crate) json: bool,
}

/// The memory that the program takes besides values.
const PROGRAM_BYTES: u64 = 32 << 20;

pub(crate) async fn run(args: GrundyArgs, display: &Display) -> anyhow::Result<()> {
    let meter = Meter::start();
    let stop = display.stop_token();
    let (tiles, directory) = (args.tiles, args.table);
    let threads = args.share.threads();
    let _lock = TableLock::acquire(&directory)?;
    let path = directory.clone();
    if let Some(finished) =
        blocking(move || verify_finished(&path, TableName::Values(tiles))).await?
    {
        tell_left(remove_areas(&directory, tiles), display);
        let folder = directory.join(finished.table().folder());
        return report(args.json, tiles, finished, &folder, meter.cost());
    }
    let given = args.share.memory_bytes()?;
    let needed = memory_bytes(tiles, threads) + PROGRAM_BYTES;
    if needed > given {
        let why = ", as the values of all positions are in memory";
        let error = machine::too_little_memory(given, needed, why);
        return Err(args.share.too_small(error));
    }
    let isa = display.overrides().isa();
    let seal = local::seal().unwrap_or_else(|error| {
        display.say(&format!(
            "no later run goes on from this one: {}",
            describe(&error)
        ));
        local::seal_in_memory()
    });
    let (path, say) = (directory.clone(), display.clone());
    let built = display.during("evaluating", &stop, move |teller| {
        let builder = Builder {
            directory: &path,
            tiles,
            threads,
            isa,
            seal: &seal,
            software: SOFTWARE.to_owned(),
        };
        let watch = DisplayWatch { teller, say };
        builder.run(&watch).map(|built| (built, builder.folder()))
    });
    let (Built { manifest, areas }, folder) = match built.await {
        Err(BuildError::Stopped) => return Err(Interruption::Resumable.into()),
        built => built?,
    };
    tell_left(remove_areas(&directory, tiles), display);
    let cost = RunCost {
        ranges_evaluated: areas.into(),
        ..meter.cost()
    };
    let manifest = AnyManifest::Values(manifest);
    report(args.json, tiles, manifest, &folder, cost)
}

struct DisplayWatch {
    teller: Teller,
    say: Display,
}

impl BuildWatch for DisplayWatch {
    fn done(&self, done: f64) -> ControlFlow<()> {
        self.teller.stage("values", done)
    }

    fn say(&self, text: &str) {
        self.say.say(text);
    }
}
