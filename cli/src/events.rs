//! The events that `--json` writes to stderr: one JSON object a line, each with the name of its event.

use std::sync::Arc;

use chomp_coordinator::status::{JobPhase, Status};
use serde::Serialize;

/// Something that happened.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum ProgramEvent {
    /// The program has started.
    Started { command: String },
    /// The job goes on: ranges are missing.
    Progress(#[serde(with = "HowFar")] Arc<Status>),
    /// Another layer, or more, is complete.
    Layer { layers_done: u32, layers: u32 },
    /// All ranges are done, and workers write shards.
    Publishing(#[serde(with = "HowFar")] Arc<Status>),
    /// A download goes on.
    Downloading {
        shards: u64,
        shards_total: u64,
        bytes: u64,
        bytes_total: u64,
    },
    /// A table is checked.
    Checking {
        stage: &'static str,
        #[serde(flatten)]
        how_far: Stage,
    },
    /// A thin box is solved.
    Solving(Stage),
    /// Grundy values are evaluated.
    Evaluating(Stage),
    /// Ranges are restored from a published table.
    Restoring(Stage),
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

/// A stage of some long work, and how far it is.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Stage {
    /// Its name, for people.
    #[serde(skip)]
    pub(crate) name: &'static str,
    /// The part of it that is done, from 0 to 1.
    pub(crate) done: f64,
    /// Null if it cannot be told yet.
    pub(crate) seconds_left: Option<f64>,
}

/// What is told of the status of a job.
#[derive(Serialize)]
#[serde(remote = "Status")]
struct HowFar {
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
    pub(crate) fn progress(status: &Arc<Status>) -> ProgramEvent {
        let status = Arc::clone(status);
        match status.phase {
            JobPhase::Publishing => ProgramEvent::Publishing(status),
            _ => ProgramEvent::Progress(status),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_is_one_line_with_its_name() {
        let status = Status {
            bits: 30,
            ranges: 64,
            ..Status::default()
        };
        let how_far = Stage {
            name: "every byte",
            done: 0.5,
            seconds_left: None,
        };
        let stage = how_far.name;
        for (event, line) in [
            (
                ProgramEvent::progress(&Arc::new(status)),
                r#"{"event":"progress","bits":30,"done":0.0,"layer":0,"layers":0,"ranges_done":0,"shards_done":0,"shards":0,"ranges":64,"losing":0,"positions_per_second":0.0,"seconds_left":null}"#,
            ),
            (
                ProgramEvent::Checking { stage, how_far },
                r#"{"event":"checking","stage":"every byte","done":0.5,"seconds_left":null}"#,
            ),
            (
                ProgramEvent::Solving(how_far),
                r#"{"event":"solving","done":0.5,"seconds_left":null}"#,
            ),
            (ProgramEvent::Interrupted, r#"{"event":"interrupted"}"#),
        ] {
            assert_eq!(serde_json::to_string(&event).unwrap(), line);
        }
    }
}
