//! The HTTP pages of a job: `/healthz`, `/readyz` and `/status`, for load balancers and people, and `/metrics` for
//! Prometheus.

mod metrics;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use chomp_serve::answer::{JSON, TEXT, problem, text};
use chomp_serve::net::Permits;
use chomp_store::Storage;
use http::StatusCode;

use crate::auth::Gate;
use crate::status::JobPhase;
use crate::status_feed::StatusFeed;
pub(crate) use metrics::Traffic;

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
    match metrics::text(&status, &job.permits, job.gate.refusals(), &job.traffic) {
        Ok(page) => text(StatusCode::OK, metrics::CONTENT_TYPE, page),
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}
