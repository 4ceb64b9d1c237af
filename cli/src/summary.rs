//! What a finished table is, in a few lines or as JSON.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use chomp_table::ValuesManifest;
use chomp_table::manifest::Manifest;
use indicatif::{HumanBytes, HumanCount};
use serde::Serialize;

use crate::machine;

/// The summary of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) bits: u32,
    pub(crate) positions: u64,
    /// Both of a mirror pair counted.
    pub(crate) losing: u64,
    /// One of a mirror pair counted.
    pub(crate) stored: u64,
    /// Index k: the losing positions of at most k bits.
    pub(crate) losing_by_bits: Vec<u64>,
    pub(crate) fingerprint: String,
    /// By how many workers each range was computed alike.
    pub(crate) replicas: u32,
    /// Wall time of this run.
    pub(crate) seconds: f64,
    /// CPU time of this run.
    pub(crate) cpu_seconds: f64,
    /// The part of it that evaluated positions.
    pub(crate) evaluation_cpu_seconds: f64,
    /// The ranges that this run evaluated; the others were there.
    pub(crate) ranges_evaluated: u64,
    pub(crate) table: PathBuf,
    pub(crate) shards: usize,
    /// The bytes of the shards.
    pub(crate) bytes: u64,
}

/// What a run took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
    pub(crate) evaluation: Duration,
    pub(crate) ranges: u64,
}

/// Measures what a run takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    start: Instant,
    cpu: Duration,
}

impl Meter {
    /// Begins now. A process that became this program, as cargo's does, may have taken CPU time before.
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

    /// What was taken since the start.
    pub(crate) fn cost(&self) -> Cost {
        Cost {
            wall: self.start.elapsed(),
            cpu: machine::cpu_time().saturating_sub(self.cpu),
            ..Cost::default()
        }
    }
}

impl Summary {
    /// The summary of the first `bits` bits of a published table.
    pub(crate) fn new(manifest: &Manifest, bits: u32, table: PathBuf, cost: Cost) -> Summary {
        let losing_by_bits = manifest.losing_by_bits[..=bits as usize].to_vec();
        let losing = losing_by_bits[bits as usize];
        Summary {
            bits,
            positions: 1 << (bits - 1),
            losing,
            // The hooks with equal arms, one for each even number of bits, are their own mirror images.
            stored: losing.midpoint(u64::from(bits / 2)),
            losing_by_bits,
            fingerprint: manifest.fingerprints_by_bits[bits as usize].to_string(),
            replicas: manifest.replicas,
            seconds: cost.wall.as_secs_f64(),
            cpu_seconds: cost.cpu.as_secs_f64(),
            evaluation_cpu_seconds: cost.evaluation.as_secs_f64(),
            ranges_evaluated: cost.ranges,
            table,
            shards: manifest.shards.len(),
            bytes: manifest.shards.iter().map(|shard| shard.bytes).sum(),
        }
    }

    pub(crate) fn text(&self) -> String {
        lines(
            &format!("All Chomp positions of at most {} bits", self.bits),
            &[
                ("positions", HumanCount(self.positions).to_string()),
                ("losing", HumanCount(self.losing).to_string()),
                ("stored", stored(self.stored)),
                ("fingerprint", self.fingerprint.clone()),
                ("time", time(self.seconds, self.cpu_seconds)),
                ("table", place(&self.table, self.shards, self.bytes)),
            ],
        )
    }
}

/// The summary of a run that computed Grundy values.
#[derive(Debug, Serialize)]
pub(crate) struct ValuesSummary {
    pub(crate) tiles: u32,
    pub(crate) positions: u64,
    /// One of a mirror pair counted.
    pub(crate) stored: u64,
    pub(crate) largest: usize,
    pub(crate) areas: Vec<Area>,
    pub(crate) fingerprint: String,
    pub(crate) replicas: u32,
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: f64,
    pub(crate) evaluation_cpu_seconds: f64,
    pub(crate) ranges_evaluated: u64,
    pub(crate) table: PathBuf,
    pub(crate) shards: usize,
    pub(crate) bytes: u64,
}

/// What there is of the positions of so many tiles.
#[derive(Debug, Serialize)]
pub(crate) struct Area {
    pub(crate) tiles: u32,
    /// Both of a mirror pair counted, here and below.
    pub(crate) positions: u64,
    pub(crate) largest: usize,
    /// How many positions have each value that some have.
    pub(crate) values: BTreeMap<usize, u64>,
}

impl ValuesSummary {
    /// The summary of the first `tiles` tiles of a published table.
    pub(crate) fn new(
        manifest: &ValuesManifest,
        tiles: u32,
        table: PathBuf,
        cost: Cost,
    ) -> ValuesSummary {
        let infos = &manifest.areas[..tiles as usize];
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
        let shards = || infos.iter().flat_map(|area| &area.shards);
        let fingerprint = manifest.fingerprint_of(tiles);
        ValuesSummary {
            tiles,
            positions: areas.iter().map(|area| area.positions).sum(),
            stored: shards().map(|shard| shard.stored).sum(),
            largest: areas.iter().map(|area| area.largest).max().unwrap_or(0),
            areas,
            fingerprint: fingerprint.unwrap_or_default().to_string(),
            replicas: manifest.replicas,
            seconds: cost.wall.as_secs_f64(),
            cpu_seconds: cost.cpu.as_secs_f64(),
            evaluation_cpu_seconds: cost.evaluation.as_secs_f64(),
            ranges_evaluated: cost.ranges,
            table,
            shards: shards().count(),
            bytes: shards().map(|shard| shard.bytes).sum(),
        }
    }

    pub(crate) fn text(&self) -> String {
        let tiles = self.tiles;
        let losing = |area: &Area| area.values.get(&0).copied().unwrap_or(0);
        let losing: u64 = self.areas.iter().map(losing).sum();
        lines(
            &format!("Grundy values of all Chomp positions of at most {tiles} tiles"),
            &[
                ("positions", HumanCount(self.positions).to_string()),
                (
                    "losing",
                    format!("{} (those with the value 0)", HumanCount(losing)),
                ),
                ("largest", self.largest.to_string()),
                ("stored", stored(self.stored)),
                ("fingerprint", self.fingerprint.clone()),
                ("time", time(self.seconds, self.cpu_seconds)),
                ("table", place(&self.table, self.shards, self.bytes)),
            ],
        )
    }
}

/// A heading, and a line for each name with its value.
fn lines(heading: &str, lines: &[(&str, String)]) -> String {
    let mut text = format!("{heading}\n");
    for (name, value) in lines {
        writeln!(text, "  {name:<12} {value}").expect("writing to a string does not fail");
    }
    text
}

fn stored(stored: u64) -> String {
    format!("{} (one of each mirror pair)", HumanCount(stored))
}

fn time(seconds: f64, cpu_seconds: f64) -> String {
    format!("{seconds:.2} s, {cpu_seconds:.2} s of CPU")
}

fn place(table: &Path, shards: usize, bytes: u64) -> String {
    let noun = if shards == 1 { "shard" } else { "shards" };
    let bytes = HumanBytes(bytes);
    format!("{} ({shards} {noun}, {bytes})", table.display())
}
