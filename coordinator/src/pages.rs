//! The HTTP pages of a job: `/healthz`, `/readyz` and `/status`, for load balancers and people, and `/metrics` for
//! Prometheus, in the text format of `OpenMetrics`.

#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::State;
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use chomp_serve::answer::{JSON, TEXT, problem, text};
use chomp_serve::net::Permits;
use chomp_store::Storage;
use http::StatusCode;

use crate::auth::Gate;
use crate::job::StatusFeed;
use crate::status::JobPhase;

/// The state behind the pages of a job.
#[derive(Clone, Debug)]
pub(crate) struct JobPages {
    pub(crate) feed: StatusFeed,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) permits: Permits,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) gate: Gate,
}

impl JobPages {
    /// The routes, by their paths in the rules.
    pub(crate) fn routes(self) -> Vec<(&'static str, MethodRouter)> {
        vec![
            ("/healthz", get(alive)),
            ("/readyz", get(ready).with_state(self.clone())),
            ("/status", get(status).with_state(self.clone())),
            ("/metrics", get(metrics).with_state(self)),
        ]
    }
}

async fn alive() -> Response {
    text(StatusCode::OK, TEXT, "ok\n")
}

async fn ready(State(job): State<JobPages>) -> Response {
    let status = job.feed.status.borrow().clone();
    if status.phase == JobPhase::Stopped {
        let reason = status.waiting_for.as_deref();
        let reason = reason.unwrap_or("the job has stopped");
        return problem(StatusCode::SERVICE_UNAVAILABLE, reason);
    }
    if let Some(waits) = job.storage.waits_for() {
        return problem(StatusCode::SERVICE_UNAVAILABLE, &waits);
    }
    text(StatusCode::OK, TEXT, "ready\n")
}

async fn status(State(job): State<JobPages>) -> Response {
    text(StatusCode::OK, JSON, job.feed.text.borrow().json())
}

/// The content type of `/metrics`.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The bytes of objects that went through the proxy since the start.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// To workers.
    pub(crate) fetched: AtomicU64,
    /// From workers.
    pub(crate) submitted: AtomicU64,
}

/// All numbers of a job at one moment.
async fn metrics(State(job): State<JobPages>) -> Response {
    let status = job.feed.status.borrow().clone();
    let threads = status
        .workers
        .iter()
        .map(|worker| worker.threads)
        .sum::<u32>();
    let workers = status.workers.len() as u64;
    let gauges = [
        (
            "layer",
            "The lowest layer that is not complete",
            status.layer.into(),
        ),
        ("layers", "The layers of the job", status.layers.into()),
        ("ranges", "The ranges of the job", status.ranges),
        ("ranges_done", "The ranges on disk", status.ranges_done),
        (
            "shards",
            "The shards of the table, once no range is missing",
            status.shards,
        ),
        ("shards_done", "The shards on disk", status.shards_done),
        ("positions", "The positions of the table", status.positions),
        (
            "positions_done",
            "The positions of the ranges on disk",
            status.positions_done,
        ),
        (
            "losing_positions",
            "The losing positions of the ranges on disk",
            status.losing,
        ),
        ("leases", "The leases that stand", status.leases),
        (
            "submissions",
            "The results that wait for others, or are being written",
            status.submissions,
        ),
        ("workers", "The workers that are there", workers),
        ("threads", "The threads of the workers", threads.into()),
        (
            "connections_open",
            "The connections that are open",
            job.permits.open(),
        ),
    ];
    let bytes = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let (fetched, submitted) = (bytes(&job.traffic.fetched), bytes(&job.traffic.submitted));
    let counters = [
        (
            "connections_refused",
            "The connections refused as too many",
            job.permits.refused(),
        ),
        (
            "calls_refused",
            "The calls refused for want of a good token",
            job.gate.refusals(),
        ),
        (
            "fetched_bytes",
            "Objects sent to workers that do not reach the store",
            fetched,
        ),
        (
            "submitted_bytes",
            "Objects received from workers that do not reach the store",
            submitted,
        ),
    ];
    let gauges = gauges.map(|(name, help, value)| (name, help, value, "gauge", ""));
    let counters = counters.map(|(name, help, value)| (name, help, value, "counter", "_total"));
    let mut page = String::new();
    for (name, help, value, kind, suffix) in gauges.into_iter().chain(counters) {
        let head = format!("# HELP chomp_{name} {help}.\n# TYPE chomp_{name} {kind}");
        writeln!(page, "{head}\nchomp_{name}{suffix} {value}").expect("a text has room");
    }
    page += "# EOF\n";
    text(StatusCode::OK, OPEN_METRICS, page)
}
