//! The HTTP pages of a job: `/healthz`, `/readyz` and `/status`, for load balancers and people, and `/metrics` for
//! Prometheus, in the text format of `OpenMetrics`.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::State;
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use chomp_serve::answer::{JSON, TEXT, problem, text};
use chomp_serve::net::Permits;
use chomp_store::Storage;
use http::StatusCode;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::auth::Gate;
use crate::status::{JobPhase, Status};
use crate::status_feed::StatusFeed;

/// The state behind the pages of a job.
#[derive(Clone, Debug)]
pub(crate) struct JobPages {
    pub(crate) feed: Arc<StatusFeed>,
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
            ("/metrics", get(numbers).with_state(self)),
        ]
    }
}

async fn alive() -> Response {
    text(StatusCode::OK, TEXT, "ok\n")
}

async fn ready(State(job): State<JobPages>) -> Response {
    let status = job.feed.look().await;
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
    let told = job.feed.look_at_text().await;
    text(StatusCode::OK, JSON, told.json())
}

async fn numbers(State(job): State<JobPages>) -> Response {
    let status = job.feed.look().await;
    match metrics(&status, &job.permits, job.gate.refusals(), &job.traffic) {
        Ok(page) => text(StatusCode::OK, CONTENT_TYPE, page),
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// The content type of `/metrics`.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The bytes of objects that went through the proxy since the start.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// To workers.
    pub(crate) fetched: AtomicU64,
    /// From workers.
    pub(crate) submitted: AtomicU64,
}

/// All numbers of a job at one moment.
fn metrics(
    status: &Status,
    permits: &Permits,
    refusals: u64,
    traffic: &Traffic,
) -> Result<String, fmt::Error> {
    let threads = status
        .workers
        .iter()
        .map(|worker| u64::from(worker.threads));
    let mut page = MetricsPage(Registry::with_prefix("chomp"));
    page.gauge(
        "layer",
        "The lowest layer that is not complete",
        status.layer,
    );
    page.gauge("layers", "The layers of the job", status.layers);
    page.gauge("ranges", "The ranges of the job", status.ranges);
    page.gauge("ranges_done", "The ranges on disk", status.ranges_done);
    page.gauge(
        "shards",
        "The shards of the table, once no range is missing",
        status.shards,
    );
    page.gauge("shards_done", "The shards on disk", status.shards_done);
    page.gauge("positions", "The positions of the table", status.positions);
    page.gauge(
        "positions_done",
        "The positions of the ranges on disk",
        status.positions_done,
    );
    page.gauge(
        "losing_positions",
        "The losing positions of the ranges on disk",
        status.losing,
    );
    page.gauge("leases", "The leases that stand", status.leases);
    page.gauge(
        "submissions",
        "The results that wait for votes of others, or are being written",
        status.submissions,
    );
    page.gauge(
        "workers",
        "The workers that are there",
        status.workers.len() as u64,
    );
    page.gauge(
        "threads",
        "The threads of the workers",
        threads.sum::<u64>(),
    );
    page.gauge(
        "connections_open",
        "The connections that are open",
        permits.open(),
    );
    page.counter(
        "connections_refused",
        "The connections refused as too many",
        permits.refused(),
    );
    page.counter(
        "calls_refused",
        "The calls refused for want of a good token",
        refusals,
    );
    page.bytes(
        "fetched",
        "The bytes of objects sent to workers that do not reach the store",
        &traffic.fetched,
    );
    page.bytes(
        "submitted",
        "The bytes of objects received from workers that do not reach the store",
        &traffic.submitted,
    );
    let mut text = String::new();
    encode(&mut text, &page.0)?;
    Ok(text)
}

/// The numbers so far.
struct MetricsPage(Registry);

impl MetricsPage {
    fn gauge(&mut self, name: &str, help: &str, value: impl Into<u64>) {
        let gauge = Gauge::<u64, AtomicU64>::default();
        gauge.set(value.into());
        self.0.register(name, help, gauge);
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.0.register(name, help, counter(value));
    }

    fn bytes(&mut self, name: &str, help: &str, value: &AtomicU64) {
        let counter = counter(value.load(Ordering::Relaxed));
        self.0.register_with_unit(name, help, Unit::Bytes, counter);
    }
}

fn counter(value: u64) -> Counter {
    let counter = Counter::default();
    counter.inc_by(value);
    counter
}
