//! The status of a job: the JSON of `/api/status`, and of `/status` of a coordinator.

use serde::{Deserialize, Serialize};

/// A phase of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobPhase {
    /// Ranges are missing.
    #[default]
    Running,
    /// All ranges are there, and the table is being made of them.
    Publishing,
    /// The table is published.
    Finished,
    /// The job cannot go on, or was told to stop.
    Stopped,
}

/// A job at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Status {
    /// The bits of the table.
    pub bits: u32,
    /// The bits of a range.
    pub range_bits: u32,
    /// Whether the job runs, publishes or has ended.
    pub phase: JobPhase,
    /// The reason, for people, if nothing is evaluated: nobody has joined, all wait for the last ranges of a layer, or
    /// the job stopped.
    pub waiting_for: Option<String>,
    /// The lowest layer that is not complete; the number of layers if all are.
    pub layer: u32,
    /// The number of layers.
    pub layers: u32,
    /// The number of ranges.
    pub ranges: u64,
    /// The ranges that are in the store.
    pub ranges_done: u64,
    /// The ranges that were in the store when this coordinator started.
    pub ranges_resumed: u64,
    /// The shards of the table; 0 as long as ranges are missing.
    pub shards: u64,
    /// The shards that are in the store.
    pub shards_done: u64,
    /// The part of the job's work that is done, from 0 to 1, publication included.
    pub done: f64,
    /// The positions of the table.
    pub positions: u64,
    /// The positions of the ranges that are in the store.
    pub positions_done: u64,
    /// The losing positions among them.
    pub losing: u64,
    /// The positions that are evaluated each second, over the last minute or so.
    pub positions_per_second: f64,
    /// The seconds to the end of the publication, by the work that is left and the work of the last minute. Null if
    /// nothing was done in that minute.
    pub seconds_left: Option<f64>,
    /// The leases that have not ended.
    pub leases: u64,
    /// The results that wait for the results of other participants, or are being written.
    #[serde(rename = "submissions")]
    pub results_waiting: u64,
    /// The ranges and shards that are left to the coordinator's own worker, the referee: results differ, or attempts have
    /// failed too often.
    pub arbitrations: u64,
    /// How many participants have to agree on a range.
    pub replicas: u32,
    /// The number of this coordinator's takeover of the table: each takeover has a larger number.
    pub epoch: u64,
    /// The program, as `chomp 1.2.3`.
    pub software: String,
    /// How far each layer has come, from the lowest.
    pub layer_progress: Vec<LayerStatus>,
    /// The workers that have joined and were heard of lately.
    pub workers: Vec<WorkerStatus>,
}

/// A layer at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LayerStatus {
    /// The number of its ranges.
    pub ranges: u64,
    /// The number of its ranges that are in the store.
    pub done: u64,
}

/// A worker at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WorkerStatus {
    /// Its name, for people.
    pub name: String,
    /// The participant whose credential it has.
    pub participant: String,
    /// How many ranges it evaluates at a time.
    pub threads: u32,
    /// The leases that it holds.
    pub leases: u64,
    /// The ranges that it contributed.
    pub ranges: u64,
    /// The positions that it evaluates each second, over the last minute or so.
    pub positions_per_second: f64,
    /// The number of its tasks that ended without a result.
    pub failures: u64,
    /// The records that it could not read, though others can: it has read them through the coordinator since.
    pub unreadable: u64,
    /// The milliseconds since its last call.
    pub last_contact_ms: u64,
    /// The reason if it gets no more tasks; null if it does.
    #[serde(rename = "quarantined")]
    pub out: Option<String>,
}
