//! Changes of a table while it is served, and the end of serving.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::{Served, home};
use crate::common::cluster::wait_for;
use crate::common::http::{body_length, connect, get, read_head};
use crate::common::{end, run};

#[test]
fn a_larger_table_answers_when_it_is_there() {
    let served = Served::start();
    assert_eq!(served.get("/api/position/10x8").status, 400);
    let stop = Arc::new(AtomicBool::new(false));
    let asking = {
        let (stop, port) = (Arc::clone(&stop), served.server.port);
        thread::spawn(move || {
            let mut asked = 0;
            while !stop.load(Ordering::Relaxed) {
                let response = get(port, "/api/position/7x9", &[]);
                assert_eq!(response.status, 200, "{response:?}");
                asked += 1;
            }
            asked
        })
    };
    end(&mut run(&served.table(), 20)).summary();
    wait_for("the larger table", || served.api("table")["bits"] == 20);
    stop.store(true, Ordering::Relaxed);
    assert!(asking.join().unwrap() > 0, "it answered all the time");
    assert_eq!(served.api("position/10x8")["bits"], 18);
    assert_eq!(served.get("/").json().as_array().unwrap().len(), 2);
    served.stop();
}

#[test]
fn bytes_that_change_under_it_give_errors_and_no_answers() {
    // No more than one frame stays in memory.
    let served = Served::of(home(24), "--cache 0");
    let table = served.table();
    let paths = ["12x12", "5,4,2,1", "3x20", "22,1"].map(|text| format!("/api/position/{text}"));
    let honest: Vec<_> = paths.iter().map(|path| served.get(path).body).collect();
    let shard = table.join("table-24/shard-0000.zst");
    let whole = fs::read(&shard).unwrap();
    fs::write(&shard, vec![0; whole.len()]).unwrap();
    let answers: Vec<_> = paths.iter().map(|path| served.get(path)).collect();
    assert!(answers.iter().any(|answer| answer.status == 500));
    for (answer, honest) in answers.iter().zip(&honest) {
        assert!(answer.status == 500 || answer.body == *honest, "{answer:?}");
    }
    fs::write(&shard, &whole).unwrap();
    assert_eq!(served.get(&paths[0]).body, honest[0]);
    // The owner is told where.
    let said = served.server.process.said();
    assert!(said.contains("shard-0000.zst is damaged"), "{said}");
    fs::remove_dir_all(table.join("table-24")).unwrap();
    wait_for("its end", || served.get("/api/table").status == 503);
}

/// Every request that was answered before the end was answered whole.
#[test]
fn the_end_comes_between_requests() {
    let served = Served::of(home(20), "");
    let expected = served.get("/api/position/9x11").body;
    let answered = Arc::new(AtomicU64::new(0));
    let asking: Vec<_> = (0..8)
        .map(|_| {
            let (port, expected) = (served.server.port, expected.clone());
            let answered = Arc::clone(&answered);
            thread::spawn(move || {
                let mut stream = BufReader::new(connect(port));
                let request = b"GET /api/position/9x11 HTTP/1.1\r\nhost: a\r\n\r\n";
                while stream.get_mut().write_all(request).is_ok() {
                    let Some(body) = answer(&mut stream) else {
                        return;
                    };
                    assert!(body == expected);
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    // One who listens does not hold it.
    let mut listener = connect(served.server.port);
    let request = b"GET /api/status HTTP/1.1\r\nhost: a\r\naccept: text/event-stream\r\n\r\n";
    listener.write_all(request).unwrap();
    let mut first = [0; 12];
    listener.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    wait_for("some answers", || answered.load(Ordering::Relaxed) > 100);
    served.server.process.stop().done();
    for asking in asking {
        asking.join().unwrap();
    }
    let mut rest = String::new();
    listener.read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with("0\r\n\r\n"), "the events ended: {rest}");
}

/// The body of the next answer; none if the connection ended before the first byte of it.
fn answer(stream: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    if stream.fill_buf().unwrap_or_default().is_empty() {
        return None;
    }
    let head = read_head(stream).unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let mut body = vec![0; body_length(&head)];
    stream.read_exact(&mut body).unwrap();
    Some(body)
}
