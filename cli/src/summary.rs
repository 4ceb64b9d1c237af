//! The results that commands print at their end, as text or JSON: above all the summary of a run and its table.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::num::NonZeroU64;
use std::path::Path;
use std::time::{Duration, Instant};

use chomp_plan::counted;
use chomp_table::Digest;
use chomp_table::manifest::Manifest;
use chomp_table::reader::AnyManifest;
use chomp_table::values::manifest::AreaInfo;
use indicatif::{HumanBytes, HumanCount};
use serde::Serialize;
use serde_json::{Value, json};

use crate::machine;

/// A result for people: a heading, and lines with a name and a value.
pub(crate) struct TextReport(String);

impl TextReport {
    pub(crate) fn new(heading: impl Display) -> TextReport {
        TextReport::after(format!("{heading}\n"))
    }

    /// A report that begins with `text` as it is.
    pub(crate) fn after(text: String) -> TextReport {
        TextReport(text)
    }

    pub(crate) fn line(&mut self, name: &str, value: impl Display) {
        writeln!(self.0, "  {name:<12} {value}").expect("a string takes any text");
    }

    pub(crate) fn time(&mut self, seconds: f64, cpu_seconds: f64) {
        self.line(
            "time",
            format_args!("{seconds:.2} s, {cpu_seconds:.2} s of CPU"),
        );
    }

    fn stored(&mut self, stored: u64) {
        let stored = HumanCount(stored);
        self.line("stored", format_args!("{stored} (one of each mirror pair)"));
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

#[derive(Debug, Serialize)]
struct RunSummary {
    #[serde(flatten)]
    content: Value,
    fingerprint: Digest,
    /// The number of participants that computed each range, with the same result.
    replicas: u32,
    #[serde(flatten)]
    cost: RunCost,
    table: String,
    shards: usize,
    /// Of the shards.
    bytes: u64,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct RunCost {
    /// Wall time of this run.
    pub(crate) seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seconds_of_all_runs: Option<f64>,
    pub(crate) cpu_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) evaluation_cpu_seconds: Option<f64>,
    /// The ranges, or the areas of Grundy values, that this run evaluated; the others were there.
    pub(crate) ranges_evaluated: u64,
    /// The sampled checks that nobody did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) checks_lapsed: Option<NonZeroU64>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    start: Instant,
    cpu: Duration,
}

impl Meter {
    /// The process may have taken CPU time before: `cargo run` becomes this program in the same process.
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

    pub(crate) fn wall(&self) -> Duration {
        self.start.elapsed()
    }

    pub(crate) fn cpu(&self) -> Duration {
        machine::cpu_time().saturating_sub(self.cpu)
    }

    pub(crate) fn cost(&self) -> RunCost {
        RunCost {
            seconds: self.wall().as_secs_f64(),
            cpu_seconds: self.cpu().as_secs_f64(),
            ..RunCost::default()
        }
    }
}

/// Prints the summary of the positions of at most `size` bits, or tiles, of a published table.
pub(crate) fn report(
    json: bool,
    size: u32,
    published: impl Into<AnyManifest>,
    table: &Path,
    cost: RunCost,
) -> anyhow::Result<()> {
    let (content, lines, fingerprint, replicas, shard_bytes) = match &published.into() {
        AnyManifest::Losing(manifest) => {
            let (content, lines) = of_losing(manifest, size);
            let shards: Vec<u64> = manifest.shards.iter().map(|shard| shard.bytes).collect();
            let fingerprint = manifest.fingerprints_by_bits[size as usize];
            (content, lines, fingerprint, manifest.replicas, shards)
        }
        AnyManifest::Values(manifest) => {
            let areas = &manifest.areas[..size as usize];
            let (content, lines) = of_values(areas, size);
            let shards = areas.iter().flat_map(|area| &area.shards);
            let shards = shards.map(|shard| shard.bytes).collect();
            let fingerprint = manifest.fingerprint_of(size).unwrap_or_default();
            (content, lines, fingerprint, manifest.replicas, shards)
        }
    };
    let summary = RunSummary {
        content,
        fingerprint,
        replicas,
        cost,
        table: table.display().to_string(),
        shards: shard_bytes.len(),
        bytes: shard_bytes.iter().sum(),
    };
    crate::print_as(json, &summary, |summary| summary.text(lines))
}

impl RunSummary {
    fn text(&self, mut lines: TextReport) -> String {
        lines.line("fingerprint", self.fingerprint);
        let seconds = self.cost.seconds;
        lines.time(seconds, self.cost.cpu_seconds);
        let all_runs = self.cost.seconds_of_all_runs;
        if let Some(all) = all_runs.filter(|&all| all > seconds) {
            lines.line("all runs", format_args!("{all:.0} s"));
        }
        if let Some(lapsed) = self.cost.checks_lapsed {
            lines.line(
                "not done",
                counted(HumanCount(lapsed.get()), "sampled check"),
            );
        }
        let (table, bytes) = (&self.table, HumanBytes(self.bytes));
        let shards = counted(self.shards, "shard");
        lines.line("table", format_args!("{table} ({shards}, {bytes})"));
        lines.into_text()
    }
}

/// Of a mirror pair, `stored` counts one; all other numbers count both.
fn of_losing(manifest: &Manifest, bits: u32) -> (Value, TextReport) {
    let losing_by_bits = &manifest.losing_by_bits[..=bits as usize];
    let (positions, losing) = (1 << (bits - 1), losing_by_bits[bits as usize]);
    // Half of all, and half of those that are their own mirror images: one for each even number of bits, the position
    // of a first row and a first column of equal length.
    let stored = losing.midpoint(u64::from(bits / 2));
    let mut lines = TextReport::new(format_args!("All Chomp positions of at most {bits} bits"));
    lines.line("positions", HumanCount(positions));
    lines.line("losing", HumanCount(losing));
    lines.stored(stored);
    let content = json!({
        "bits": bits,
        "positions": positions,
        "losing": losing,
        "stored": stored,
        "losing_by_bits": losing_by_bits,
    });
    (content, lines)
}

fn of_values(areas: &[AreaInfo], tiles: u32) -> (Value, TextReport) {
    let (mut positions, mut losing, mut largest) = (0, 0, 0);
    let areas_json = areas.iter().map(|area| {
        let counts = area.positions_by_value();
        let all: u64 = counts.iter().sum();
        positions += all;
        losing += counts[0];
        largest = largest.max(counts.len() - 1);
        // Values without a position are missing.
        let values = counts.iter().enumerate().filter(|&(_, &count)| count > 0);
        let values: BTreeMap<usize, &u64> = values.collect();
        json!({ "tiles": area.tiles, "positions": all, "largest": counts.len() - 1, "values": values })
    });
    let areas_json: Vec<Value> = areas_json.collect();
    let shards = areas.iter().flat_map(|area| &area.shards);
    let stored = shards.map(|shard| shard.stored).sum();
    let mut lines = TextReport::new(format_args!(
        "Grundy values of all Chomp positions of at most {tiles} tiles"
    ));
    lines.line("positions", HumanCount(positions));
    let losing = HumanCount(losing);
    lines.line("losing", format_args!("{losing} (those with the value 0)"));
    lines.line("largest", largest);
    lines.stored(stored);
    let content = json!({
        "tiles": tiles,
        "positions": positions,
        "stored": stored,
        "largest": largest,
        "areas": areas_json,
    });
    (content, lines)
}
