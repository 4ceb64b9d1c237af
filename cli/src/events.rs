//! The events that `--json` writes to stderr: one JSON object a line, each with the name of its event.

use chomp_coordinator::status::{JobPhase, Status};
use serde::Serialize;

/// Something that happened.
#[derive(Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum ProgramEvent {
    /// The program has started.
    Started { command: String },
    /// The job goes on: ranges are missing.
    Progress(HowFar),
    /// Another layer, or more, is complete.
    Layer { layers_done: u32, layers: u32 },
    /// All ranges are done, and workers write shards.
    Publishing(HowFar),
    /// A download goes on.
    Downloading {
        shards: u64,
        shards_total: u64,
        bytes: u64,
        bytes_total: u64,
    },
    /// A table is checked: the part of a stage that is done, from 0 to 1.
    Checking {
        stage: &'static str,
        done: f64,
        /// Null if it cannot be told yet.
        seconds_left: Option<f64>,
    },
    /// A thin box is solved: the part of its positions that is done, from 0 to 1.
    Solving {
        done: f64,
        /// Null if it cannot be told yet.
        seconds_left: Option<f64>,
    },
    /// Grundy values are evaluated: the part of the table that is done, from 0 to 1.
    Evaluating {
        done: f64,
        /// Null if it cannot be told yet.
        seconds_left: Option<f64>,
    },
    /// Ranges are restored from a published table: the part that is done, from 0 to 1.
    Restoring {
        done: f64,
        /// Null if it cannot be told yet.
        seconds_left: Option<f64>,
    },
    /// An export goes on: `read` of `total` stored words were read.
    Exporting { read: u64, total: u64 },
    /// A message for people.
    Message { text: String },
    /// A line of the log.
    Log { text: String },
    /// The program was stopped early. Everything committed is kept.
    Interrupted,
    /// The program failed. The exit code says why.
    Failed { error: String },
    /// The program is done, and the summary follows on stdout.
    Finished,
}

/// How far a job has come.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct HowFar {
    bits: u32,
    /// The part of the work that is done, from 0 to 1.
    done: f64,
    layer: u32,
    layers: u32,
    ranges_done: u64,
    shards_done: u64,
    shards: u64,
    ranges: u64,
    losing: u64,
    positions_per_second: f64,
    /// Null if nothing was done in the last minute.
    seconds_left: Option<f64>,
}

impl ProgramEvent {
    /// How far the job has come.
    pub(crate) fn progress(status: &Status) -> ProgramEvent {
        let done = HowFar {
            bits: status.bits,
            done: status.done,
            layer: status.layer,
            layers: status.layers,
            ranges_done: status.ranges_done,
            shards_done: status.shards_done,
            shards: status.shards,
            ranges: status.ranges,
            losing: status.losing,
            positions_per_second: status.positions_per_second,
            seconds_left: status.seconds_left,
        };
        match status.phase {
            JobPhase::Publishing => ProgramEvent::Publishing(done),
            _ => ProgramEvent::Progress(done),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn each_event_is_one_line_with_its_name() {
        let progress = ProgramEvent::progress(&Status {
            bits: 30,
            ranges: 64,
            ..Status::default()
        });
        let line = serde_json::to_string(&progress).unwrap();
        assert!(!line.contains('\n'));
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["event"], "progress");
        assert_eq!(value["ranges"], 64);
        assert_eq!(value["seconds_left"], Value::Null);
        let interrupted = serde_json::to_value(ProgramEvent::Interrupted).unwrap();
        assert_eq!(interrupted, json!({"event": "interrupted"}));
    }
}
