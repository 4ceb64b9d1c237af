//! The summary of a run and its finished table, in a few lines or as JSON.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use chomp_table::manifest::Manifest;
use chomp_table::reader::AnyManifest;
use chomp_table::values::manifest::AreaInfo;
use indicatif::{HumanBytes, HumanCount};
use serde::Serialize;

use crate::exit::Exit;
use crate::machine;

/// The summary of a run.
#[derive(Debug, Serialize)]
pub(crate) struct RunSummary {
    #[serde(flatten)]
    content: TableContent,
    fingerprint: String,
    /// How many participants computed each range alike.
    replicas: u32,
    /// Wall time of this run.
    seconds: f64,
    /// The time of all runs of the job together, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds_of_all_runs: Option<f64>,
    /// CPU time of this run.
    cpu_seconds: f64,
    /// The part of the CPU time that evaluated positions, if it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    evaluation_cpu_seconds: Option<f64>,
    /// The ranges, or the areas of Grundy values, that this run evaluated; the others were there.
    ranges_evaluated: u64,
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
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunCost {
    pub(crate) wall: Duration,
    /// The time of the runs before, if these are known.
    pub(crate) before: Option<Duration>,
    pub(crate) cpu: Duration,
    pub(crate) evaluation: Option<Duration>,
    pub(crate) ranges: u64,
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

    /// The time since the start.
    pub(crate) fn cost(&self) -> RunCost {
        RunCost {
            wall: self.start.elapsed(),
            cpu: machine::cpu_time().saturating_sub(self.cpu),
            ..RunCost::default()
        }
    }
}

/// Prints the summary of the published table.
pub(crate) fn report(
    json: bool,
    size: u32,
    published: impl Into<AnyManifest>,
    table: PathBuf,
    cost: RunCost,
) -> anyhow::Result<Exit> {
    let summary = RunSummary::new(&published.into(), size, table, cost);
    crate::print_as(json, &summary, RunSummary::text)?;
    Ok(Exit::Done)
}

impl RunSummary {
    /// The summary of the first `size` bits, or tiles, of a published table.
    pub(crate) fn new(
        manifest: &AnyManifest,
        size: u32,
        table: PathBuf,
        cost: RunCost,
    ) -> RunSummary {
        let (content, fingerprint, replicas, shard_bytes) = match manifest {
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
        RunSummary {
            content,
            fingerprint: fingerprint.to_string(),
            replicas,
            seconds: cost.wall.as_secs_f64(),
            seconds_of_all_runs: cost.before.map(|before| (before + cost.wall).as_secs_f64()),
            cpu_seconds: cost.cpu.as_secs_f64(),
            evaluation_cpu_seconds: cost.evaluation.map(|time| time.as_secs_f64()),
            ranges_evaluated: cost.ranges,
            table,
            shards: shard_bytes.len(),
            bytes: shard_bytes.iter().sum(),
        }
    }

    pub(crate) fn text(&self) -> String {
        let heading = match &self.content {
            TableContent::Losing { bits, .. } => {
                format!("All Chomp positions of at most {bits} bits")
            }
            TableContent::Values { tiles, .. } => {
                format!("Grundy values of all Chomp positions of at most {tiles} tiles")
            }
        };
        let mut text = heading + "\n";
        let mut line = |name: &str, value: &str| crate::add_line(&mut text, name, value);
        let (TableContent::Losing {
            positions, stored, ..
        }
        | TableContent::Values {
            positions, stored, ..
        }) = self.content;
        line("positions", &HumanCount(positions).to_string());
        match &self.content {
            TableContent::Losing { losing, .. } => line("losing", &HumanCount(*losing).to_string()),
            TableContent::Values { largest, areas, .. } => {
                let losing = areas.iter().filter_map(|area| area.values.get(&0));
                let losing = HumanCount(losing.sum());
                line("losing", &format!("{losing} (those with the value 0)"));
                line("largest", &largest.to_string());
            }
        }
        let stored = HumanCount(stored);
        line("stored", &format!("{stored} (one of each mirror pair)"));
        line("fingerprint", &self.fingerprint);
        let (seconds, cpu) = (self.seconds, self.cpu_seconds);
        line("time", &format!("{seconds:.2} s, {cpu:.2} s of CPU"));
        if let Some(all) = self.seconds_of_all_runs.filter(|&all| all > seconds) {
            line("all runs", &format!("{all:.0} s"));
        }
        let noun = if self.shards == 1 { "shard" } else { "shards" };
        let (table, shards, bytes) = (self.table.display(), self.shards, HumanBytes(self.bytes));
        line("table", &format!("{table} ({shards} {noun}, {bytes})"));
        text
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
