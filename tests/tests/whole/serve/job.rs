//! Watching a job that runs: `chomp run --http`.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use chomp_testing::waiting::HANG;
use serde_json::Value;

use crate::common::cluster::{Process, free_port, wait_to_answer};
use crate::common::http::get;
use crate::common::{FINGERPRINT_28, folder, number, run_in};

/// Listeners hear of a job until it is finished, and it is none the slower.
#[test]
fn a_job_is_watched_from_its_beginning_to_its_end() {
    let home = folder();
    let port = free_port();
    let mut command = run_in(&home.path().join("table"), 28, 15);
    let command = command.args(["--http", &format!("127.0.0.1:{port}")]);
    let process = Process::start(command, home.path());
    wait_to_answer(port);
    // No page of another site does.
    for header in ["Origin: https://example.org", "Sec-Fetch-Site: cross-site"] {
        let refused = get(port, "/api/status", &[header]);
        assert_eq!(refused.status, 403, "{refused:?}");
    }
    let own = get(port, "/api/status", &["Origin: http://localhost"]);
    assert_eq!(own.json()["bits"], 28);
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    // Others never read what they ask for.
    let request = b"GET /api/status HTTP/1.1\r\nhost: a\r\naccept: text/event-stream\r\n\r\n";
    let deaf: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.write_all(request).unwrap();
            stream
        })
        .collect();
    stream.write_all(request).unwrap();
    let lines = BufReader::new(stream).lines().map(Result::unwrap);
    let events: Vec<Value> = lines
        .filter_map(|line| Some(serde_json::from_str(line.strip_prefix("data: ")?).unwrap()))
        .collect();
    drop(deaf);
    let ended = process.wait();
    let summary = ended.summary();
    assert_eq!(summary["fingerprint"], FINGERPRINT_28);

    let last = events.last().unwrap();
    assert_eq!(last["phase"], "finished", "{last}");
    assert_eq!(last["done"], 1.0);
    assert_eq!(last["losing"], summary["losing"]);
    let mut done = 0;
    for event in &events {
        assert_eq!(event["bits"], 28);
        let layers = event["layer_progress"].as_array().unwrap();
        assert_eq!(layers.len() as u64, number(event, "layers"));
        let sum = |name| layers.iter().map(|layer| number(layer, name)).sum::<u64>();
        assert_eq!(sum("ranges"), number(event, "ranges"));
        assert_eq!(sum("done"), number(event, "ranges_done"));
        assert!(number(event, "ranges_done") >= done, "it goes on");
        done = number(event, "ranges_done");
        let is_complete = |layer: &&Value| layer["ranges"] == layer["done"];
        let complete = layers.iter().take_while(is_complete).count();
        assert_eq!(complete as u64, number(event, "layer"));
    }
    assert!(events.len() > 1, "{events:?}");
}
