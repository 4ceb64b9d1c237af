//! What commands print when they are done, in a few lines or as JSON: most of all, the summary of a run and its
//! finished table.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use chomp_table::Digest;
use chomp_table::manifest::Manifest;
use chomp_table::reader::AnyManifest;
use chomp_table::values::manifest::AreaInfo;
use indicatif::{HumanBytes, HumanCount};
use serde::Serialize;

use crate::machine;

/// A result for people: a heading, and lines with a name and a value.
pub(crate) struct Lines(String);

impl Lines {
    pub(crate) fn new(heading: impl Display) -> Lines {
        Lines::after(format!("{heading}\n"))
    }

    /// What follows other lines.
    pub(crate) fn after(text: String) -> Lines {
        Lines(text)
    }

    pub(crate) fn line(&mut self, name: &str, value: impl Display) {
        writeln!(self.0, "  {name:<12} {value}").expect("a string takes any text");
    }

    /// Adds the line about wall and CPU time.
    pub(crate) fn time(&mut self, seconds: f64, cpu_seconds: f64) {
        self.line(
            "time",
            format_args!("{seconds:.2} s, {cpu_seconds:.2} s of CPU"),
        );
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

/// The summary of a run.
#[derive(Debug, Serialize)]
struct RunSummary {
    #[serde(flatten)]
    content: TableContent,
    fingerprint: Digest,
    /// How many participants computed each range alike.
    replicas: u32,
    #[serde(flatten)]
    cost: RunCost,
    #[serde(serialize_with = "crate::as_text")]
    table: PathBuf,
    shards: usize,
    /// The bytes of the shards.
    bytes: u64,
}

/// The content of a table. Of a mirror pair, `stored` counts one; all other numbers count both.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum TableContent {
    /// The positions of at most `bits` bits.
    Losing {
        bits: u32,
        positions: u64,
        losing: u64,
        stored: u64,
        /// Index k: the losing positions of at most k bits.
        losing_by_bits: Vec<u64>,
    },
    /// The Grundy values of the positions of at most `tiles` tiles.
    Values {
        tiles: u32,
        positions: u64,
        stored: u64,
        largest: usize,
        areas: Vec<Area>,
    },
}

/// The Grundy values of the positions of `tiles` tiles.
#[derive(Debug, Serialize)]
struct Area {
    tiles: u32,
    positions: u64,
    largest: usize,
    /// How many positions have each value. Values without a position are missing.
    values: BTreeMap<usize, u64>,
}

/// The time that a run took, and the ranges that it evaluated.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct RunCost {
    /// Wall time of this run.
    pub(crate) seconds: f64,
    /// The time of all runs of the job together, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seconds_of_all_runs: Option<f64>,
    /// CPU time of this run.
    pub(crate) cpu_seconds: f64,
    /// The part of the CPU time that evaluated positions, if it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) evaluation_cpu_seconds: Option<f64>,
    /// The ranges, or the areas of Grundy values, that this run evaluated; the others were there.
    pub(crate) ranges_evaluated: u64,
}

/// Measures what a run takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    start: Instant,
    cpu: Duration,
}

impl Meter {
    /// Begins now. The process may have taken CPU time before: `cargo run` becomes this program in the same process.
    #[expect(
        clippy::disallowed_methods,
        reason = "the summary tells what the run took"
    )]
    pub(crate) fn start() -> Meter {
        Meter {
            start: Instant::now(),
            cpu: machine::cpu_time(),
        }
    }

    /// The wall time since the start.
    pub(crate) fn wall(&self) -> Duration {
        self.start.elapsed()
    }

    /// The CPU time since the start.
    pub(crate) fn cpu(&self) -> Duration {
        machine::cpu_time().saturating_sub(self.cpu)
    }

    /// Both of them.
    pub(crate) fn cost(&self) -> RunCost {
        RunCost {
            seconds: self.wall().as_secs_f64(),
            cpu_seconds: self.cpu().as_secs_f64(),
            ..RunCost::default()
        }
    }
}

/// Prints the summary of the first `size` bits, or tiles, of a published table.
pub(crate) fn report(
    json: bool,
    size: u32,
    published: impl Into<AnyManifest>,
    table: PathBuf,
    cost: RunCost,
) -> anyhow::Result<()> {
    let (content, fingerprint, replicas, shard_bytes) = match &published.into() {
        AnyManifest::Losing(manifest) => (
            TableContent::of_losing(manifest, size),
            manifest.fingerprints_by_bits[size as usize],
            manifest.replicas,
            manifest.shards.iter().map(|shard| shard.bytes).collect(),
        ),
        AnyManifest::Values(manifest) => {
            let areas = &manifest.areas[..size as usize];
            let shards = areas.iter().flat_map(|area| &area.shards);
            let shard_bytes: Vec<u64> = shards.map(|shard| shard.bytes).collect();
            (
                TableContent::of_values(areas, size),
                manifest.fingerprint_of(size).unwrap_or_default(),
                manifest.replicas,
                shard_bytes,
            )
        }
    };
    let summary = RunSummary {
        content,
        fingerprint,
        replicas,
        cost,
        table,
        shards: shard_bytes.len(),
        bytes: shard_bytes.iter().sum(),
    };
    crate::print_as(json, &summary, RunSummary::text)
}

impl RunSummary {
    fn text(&self) -> String {
        let mut lines;
        let stored = match &self.content {
            TableContent::Losing {
                bits,
                positions,
                losing,
                stored,
                ..
            } => {
                lines = Lines::new(format_args!("All Chomp positions of at most {bits} bits"));
                lines.line("positions", HumanCount(*positions));
                lines.line("losing", HumanCount(*losing));
                stored
            }
            TableContent::Values {
                tiles,
                positions,
                stored,
                largest,
                areas,
            } => {
                lines = Lines::new(format_args!(
                    "Grundy values of all Chomp positions of at most {tiles} tiles"
                ));
                lines.line("positions", HumanCount(*positions));
                let losing = areas.iter().filter_map(|area| area.values.get(&0));
                let losing = HumanCount(losing.sum());
                lines.line("losing", format_args!("{losing} (those with the value 0)"));
                lines.line("largest", largest);
                stored
            }
        };
        let stored = HumanCount(*stored);
        lines.line("stored", format_args!("{stored} (one of each mirror pair)"));
        lines.line("fingerprint", self.fingerprint);
        let seconds = self.cost.seconds;
        lines.time(seconds, self.cost.cpu_seconds);
        let all_runs = self.cost.seconds_of_all_runs;
        if let Some(all) = all_runs.filter(|&all| all > seconds) {
            lines.line("all runs", format_args!("{all:.0} s"));
        }
        let noun = if self.shards == 1 { "shard" } else { "shards" };
        let (table, shards, bytes) = (self.table.display(), self.shards, HumanBytes(self.bytes));
        lines.line("table", format_args!("{table} ({shards} {noun}, {bytes})"));
        lines.into_text()
    }
}

impl TableContent {
    /// The losing positions of at most `bits` bits.
    fn of_losing(manifest: &Manifest, bits: u32) -> TableContent {
        let losing_by_bits = manifest.losing_by_bits[..=bits as usize].to_vec();
        let losing = losing_by_bits[bits as usize];
        TableContent::Losing {
            bits,
            positions: 1 << (bits - 1),
            losing,
            // The hooks with equal arms, one for each even number of bits, are their own mirror images.
            stored: losing.midpoint(u64::from(bits / 2)),
            losing_by_bits,
        }
    }

    /// The values of the positions of at most `tiles` tiles.
    fn of_values(infos: &[AreaInfo], tiles: u32) -> TableContent {
        let shards = infos.iter().flat_map(|area| &area.shards);
        let areas = infos.iter().map(|area| {
            let counts = area.positions_by_value();
            let values = counts.iter().copied().enumerate();
            Area {
                tiles: area.tiles,
                positions: counts.iter().sum(),
                largest: counts.len() - 1,
                values: values.filter(|&(_, count)| count > 0).collect(),
            }
        });
        let areas: Vec<Area> = areas.collect();
        TableContent::Values {
            tiles,
            positions: areas.iter().map(|area| area.positions).sum(),
            stored: shards.map(|shard| shard.stored).sum(),
            largest: areas.iter().map(|area| area.largest).max().unwrap_or(0),
            areas,
        }
    }
}
