//! The HTTP pages of a job: `/healthz`, `/readyz` and `/status`, for load balancers and people, and `/metrics` for
//! Prometheus, in the text format of `OpenMetrics`.

#[cfg(test)]
mod tests;

use std::fmt::{Display, Write};
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

#[derive(Clone, Debug)]
pub(crate) struct JobPages {
    pub(crate) feed: StatusFeed,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) permits: Permits,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) gate: Gate,
}

impl JobPages {
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

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The bytes of objects that went through the relay since the start.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// To workers.
    pub(crate) fetched: AtomicU64,
    /// From workers.
    pub(crate) submitted: AtomicU64,
}

/// The numbers of the status, by their names there, and those of this process.
async fn metrics(State(job): State<JobPages>) -> Response {
    let status = job.feed.status.borrow().clone();
    let told = serde_json::to_value(&*status).expect("texts, numbers and lists become JSON");
    let threads: u32 = status.workers.iter().map(|worker| worker.threads).sum();
    let mut page = String::new();
    let mut add = |name: &str, kind, suffix, value: &dyn Display| {
        let lines = format!("# TYPE chomp_{name} {kind}\nchomp_{name}{suffix} {value}");
        writeln!(page, "{lines}").expect("a text has room");
    };
    for (name, value) in told.as_object().into_iter().flatten() {
        if let Some(number) = value.as_number() {
            add(name, "gauge", "", number);
        }
    }
    for (name, value) in [
        ("workers", status.workers.len() as u64),
        ("threads", threads.into()),
        ("connections_open", job.permits.open()),
    ] {
        add(name, "gauge", "", &value);
    }
    let Traffic { fetched, submitted } = &*job.traffic;
    for (name, count) in [
        ("connections_refused", job.permits.refused()),
        ("calls_refused", job.gate.refusals()),
        ("fetched_bytes", fetched.load(Ordering::Relaxed)),
        ("submitted_bytes", submitted.load(Ordering::Relaxed)),
    ] {
        add(name, "counter", "_total", &count);
    }
    page += "# EOF\n";
    text(StatusCode::OK, OPEN_METRICS, page)
}
