//! The pages of a job.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use chomp_access::Participants;
use chomp_serve::net::{Limits, Permits};
use chomp_store::objects::SimulatedStorage;
use http::Request;
use tower::ServiceExt;

use super::*;
use crate::auth::Gate;
use crate::participants::ParticipantList;
use crate::status::{JobPhase, Status, WorkerStatus};
use chomp_serve::StatusText;
use tokio::sync::watch;

struct Answer {
    status: u16,
    kind: String,
    body: Vec<u8>,
}

async fn get(router: &axum::Router, path: &str, authorization: &str) -> Answer {
    let request = Request::get(path).header("authorization", authorization);
    let request = request.body(Body::empty()).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    let (head, body) = response.into_parts();
    Answer {
        status: head.status.as_u16(),
        kind: head.headers["content-type"].to_str().unwrap().to_owned(),
        body: to_bytes(body, usize::MAX).await.unwrap().to_vec(),
    }
}

#[tokio::test]
async fn the_pages_of_a_job_tell_its_status() {
    let mut participants = Participants::default();
    let token = participants.keep_or_renew_owner_token(None).unwrap();
    let gate = Gate::new(ParticipantList::new(participants, false), false);
    let worker = WorkerStatus {
        name: "a".into(),
        threads: 6,
        ..WorkerStatus::default()
    };
    let mut status = Status {
        bits: 32,
        ranges: 256,
        ranges_done: 100,
        losing: 15_220_362,
        seconds_left: Some(1.5),
        workers: vec![worker.clone(), worker],
        ..Status::default()
    };
    let (newest, followed) = watch::channel(Arc::new(status.clone()));
    let feed = StatusFeed {
        status: followed,
        text: watch::channel(StatusText::new(&status)).1,
    };
    let job = JobPages {
        feed,
        storage: Arc::new(SimulatedStorage::new(0)),
        permits: Permits::new(&Limits::default(), Vec::new()),
        traffic: Arc::<Traffic>::default(),
        gate: gate.clone(),
    };
    let router = gate.router(job.routes());
    let good = format!("Bearer {}", token.secret());

    let answer = get(&router, "/status", &good).await;
    assert_eq!(answer.kind, "application/json");
    assert_eq!(
        serde_json::from_slice::<Status>(&answer.body).unwrap(),
        status
    );
    let answer = get(&router, "/metrics", &good).await;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(answer.kind, kind);
    let text = String::from_utf8(answer.body).unwrap();
    for line in [
        "chomp_ranges 256\n",
        "chomp_ranges_done 100\n",
        "chomp_losing 15220362\n",
        "chomp_seconds_left 1.5\n",
        "chomp_workers 2\n",
        "chomp_threads 12\n",
        "chomp_fetched_bytes_total 0\n",
        "chomp_connections_refused_total 0\n",
        "# EOF\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }

    for (phase, code) in [
        (JobPhase::Running, 200),
        (JobPhase::Publishing, 200),
        (JobPhase::Finished, 200),
        (JobPhase::Stopped, 503),
    ] {
        status.phase = phase;
        status.waiting_for = Some("the disk is full".into());
        newest.send_replace(Arc::new(status.clone()));
        let answer = get(&router, "/readyz", "").await;
        assert_eq!(answer.status, code, "{phase:?}");
        let text = String::from_utf8(answer.body).unwrap();
        assert_eq!(text.contains("the disk is full"), code == 503);
        assert_eq!(get(&router, "/healthz", "").await.status, 200);
    }
}
