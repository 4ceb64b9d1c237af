//! Listeners to a job: what they hear, and how many there may be.

use std::time::Duration;

use axum::Router;
use chomp_testing::waiting::arrives;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::{Tested, site, start};
use crate::net::limits::SUBSCRIBERS_MAX;
use crate::routes::StatusSource;
use crate::status::StatusText;

const LISTEN: &[u8] = b"GET /api/status HTTP/1.1\r\nhost: a\r\naccept: text/event-stream\r\n\r\n";
const EVENTS: (&str, &str) = ("accept", "text/event-stream");

async fn tested() -> (Tested, watch::Sender<StatusText>) {
    let (sender, told) = watch::channel(StatusText::default());
    let site = site("/nowhere".as_ref()).await;
    let mut router = Router::new();
    for (path, route) in site.routes(StatusSource::Job(told)) {
        router = router.route(path, route);
    }
    (start(router).await, sender)
}

/// One who listens.
struct Subscriber {
    stream: TcpStream,
    heard: String,
}

impl Subscriber {
    async fn new(tested: &Tested) -> Subscriber {
        let mut stream = TcpStream::connect(tested.address).await.unwrap();
        stream.write_all(LISTEN).await.unwrap();
        let heard = String::new();
        Subscriber { stream, heard }
    }

    /// Reads up to `end`; less if the connection ends before.
    async fn until(&mut self, end: &str) -> String {
        let mut buffer = [0; 4096];
        loop {
            if let Some(at) = self.heard.find(end) {
                let rest = self.heard.split_off(at + end.len());
                return std::mem::replace(&mut self.heard, rest);
            }
            let read = self.stream.read(&mut buffer);
            let read = arrives("an event", read).await.unwrap();
            if read == 0 {
                return std::mem::take(&mut self.heard);
            }
            self.heard += std::str::from_utf8(&buffer[..read]).unwrap();
        }
    }

    async fn next(&mut self) -> Value {
        loop {
            let event = self.until("\n\n").await;
            if let Some((_, data)) = event.split_once("event: status\ndata: ") {
                return serde_json::from_str(data).unwrap();
            }
            // On a slow machine there is time for it.
            assert!(event.ends_with(": still here\n\n"), "{event}");
        }
    }
}

#[tokio::test]
async fn listeners_hear_what_is_told_at_once_and_then_what_changes() {
    let (tested, sender) = tested().await;
    assert_eq!(tested.get("/api/status").await.status, 503);
    let mut early = Subscriber::new(&tested).await;
    let head = early.until("\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");

    sender.send_replace(StatusText::new(&json!({"layer": 1})));
    assert_eq!(early.next().await, json!({"layer": 1}));
    assert_eq!(tested.get("/api/status").await.json(), json!({"layer": 1}));
    let mut late = Subscriber::new(&tested).await;
    assert_eq!(late.next().await, json!({"layer": 1}));

    // Of many changes at once the last is heard.
    for layer in 2..=50 {
        sender.send_replace(StatusText::new(&json!({"layer": layer})));
    }
    assert_eq!(early.next().await, json!({"layer": 50}));
    assert_eq!(late.next().await, json!({"layer": 50}));
    // A status that is told again is no change.
    sender.send_replace(StatusText::new(&json!({"layer": 50})));
    tokio::time::sleep(Duration::from_secs(1)).await;
    sender.send_replace(StatusText::new(&json!({"layer": 51})));
    assert_eq!(early.next().await, json!({"layer": 51}));
    let head = tested.ask("HEAD", "/api/status", &[EVENTS]).await;
    assert_eq!(head.status, 200);
    assert_eq!(head.header("content-type"), "text/event-stream");
}

#[tokio::test]
async fn a_server_that_stops_tells_the_last_and_ends() {
    let (tested, sender) = tested().await;
    sender.send_replace(StatusText::new(&json!({"phase": "running"})));
    let mut subscriber = Subscriber::new(&tested).await;
    assert_eq!(subscriber.next().await["phase"], "running");
    sender.send_replace(StatusText::new(&json!({"phase": "finished"})));
    drop(sender);
    arrives("the end of the server", tested.server.stop()).await;
    assert_eq!(subscriber.next().await["phase"], "finished");
    assert_eq!(subscriber.until("never").await, "\r\n0\r\n\r\n");
}

#[tokio::test]
async fn so_many_may_listen_and_one_that_leaves_makes_room() {
    let (tested, sender) = tested().await;
    let mut subscribers = Vec::new();
    for _ in 0..SUBSCRIBERS_MAX {
        let mut subscriber = Subscriber::new(&tested).await;
        subscriber.until("\r\n\r\n").await;
        subscribers.push(subscriber);
    }
    let refused = tested.ask("GET", "/api/status", &[EVENTS]).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, "10"));
    sender.send_replace(StatusText::new(&json!({"layer": 1})));
    assert_eq!(tested.get("/api/status").await.json(), json!({"layer": 1}));
    subscribers.pop();
    let room = async {
        loop {
            let mut subscriber = Subscriber::new(&tested).await;
            if subscriber.until("\r\n").await.contains(" 200 ") {
                return subscriber;
            }
        }
    };
    let mut next = arrives("room for a subscriber", room).await;
    assert_eq!(next.next().await, json!({"layer": 1}));
}
