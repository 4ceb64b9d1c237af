//! What a finished table is, in a few lines or as JSON.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

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

    pub(crate) fn json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string(self)? + "\n")
    }

    pub(crate) fn text(&self) -> String {
        let mut text = format!("All Chomp positions of at most {} bits\n", self.bits);
        let mut line = |name: &str, value: String| {
            writeln!(text, "  {name:<12} {value}").expect("writing to a string does not fail");
        };
        line("positions", HumanCount(self.positions).to_string());
        line("losing", HumanCount(self.losing).to_string());
        line(
            "stored",
            format!("{} (one of each mirror pair)", HumanCount(self.stored)),
        );
        line("fingerprint", self.fingerprint.clone());
        line(
            "time",
            format!("{:.2} s, {:.2} s of CPU", self.seconds, self.cpu_seconds),
        );
        let shards = if self.shards == 1 { "shard" } else { "shards" };
        line(
            "table",
            format!(
                "{} ({} {shards}, {})",
                self.table.display(),
                self.shards,
                HumanBytes(self.bytes)
            ),
        );
        text
    }
}
