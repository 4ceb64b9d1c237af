//! The pages over real connections.

mod tables;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use chomp_access::Issuer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::auth::Gate;
use crate::http::job::Job;
use crate::http::metrics::Traffic;
use crate::net::{Endpoint, Limits, Server};
use crate::status::{JobPhase, Status, WorkerStatus};

struct Tested {
    _server: Server,
    address: SocketAddr,
}

struct Answer {
    status: u16,
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

async fn start(router: Router) -> Tested {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let limits = Limits::default();
    let endpoints = vec![Endpoint { listener, router }];
    Tested {
        _server: Server::start(endpoints, None, limits, &limits.slots()),
        address,
    }
}

impl Tested {
    /// Sends a request as it is, and takes what comes until the connection ends.
    async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = format!("{method} {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n");
        for (name, value) in headers {
            request.extend([name, ": ", value, "\r\n"]);
        }
        request += "\r\n";
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("{path}: {:?}", String::from_utf8_lossy(&bytes)));
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap()[9..12].parse().unwrap();
        let headers = lines.map(|line| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_owned(), value.to_owned())
        });
        Answer {
            status,
            headers: headers.collect(),
            body: bytes[end + 4..].to_vec(),
        }
    }

    async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[]).await
    }
}

#[tokio::test]
async fn the_pages_of_a_job_tell_its_status() {
    let issuer = Arc::new(Issuer::in_memory(0).unwrap());
    let gate = Gate::new(Arc::clone(&issuer));
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
    let (sender, receiver) = watch::channel(Arc::new(status.clone()));
    let job = Job {
        status: receiver,
        slots: Limits::default().slots(),
        traffic: Arc::<Traffic>::default(),
        gate: gate.clone(),
    };
    let tested = start(gate.router(job.routes())).await;
    let good = format!("Bearer {}", issuer.issue(None).secret());
    let good = [("authorization", &good[..])];

    let answer = tested.ask("GET", "/status", &good).await;
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(
        serde_json::from_slice::<Status>(&answer.body).unwrap(),
        status
    );
    let answer = tested.ask("GET", "/metrics", &good).await;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(answer.header("content-type"), kind);
    let text = String::from_utf8(answer.body).unwrap();
    for line in [
        "chomp_ranges 256\n",
        "chomp_ranges_done 100\n",
        "chomp_losing_positions 15220362\n",
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
        sender.send_replace(Arc::new(status.clone()));
        let answer = tested.get("/readyz").await;
        assert_eq!(answer.status, code, "{phase:?}");
        let text = String::from_utf8(answer.body).unwrap();
        assert_eq!(text.contains("the disk is full"), code == 503);
        assert_eq!(tested.get("/healthz").await.status, 200);
    }
}
