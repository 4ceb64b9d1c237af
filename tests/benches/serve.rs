//! Response times and CPU time of `chomp serve`: random positions of 32 bits over connections that
//! stay open. The server has one CPU, and the client another.
//!
//! ```text
//! cargo bench -p chomp-tests --bench serve                     10 s each
//! cargo bench -p chomp-tests --bench serve -- --seconds 60
//! cargo bench -p chomp-tests --bench serve -- --table DIR      a table that is there
//! ```
//!
//! * **at once**: each connection asks as soon as it has its answer. The time of an answer is then
//!   that of all who wait before it.
//! * **5,000 a second**: a question comes every 200 µs, whatever becomes of the others, on the
//!   connection whose turn it is. Its time counts from when it should have been asked.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use chomp_table::rng::Rng;
use common::cluster::Server;
use common::cpus::{as_f64, cpus, pin};
use common::{end, run};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const BITS: u32 = 32;
/// How long before anything is measured.
const WARM_UP: Duration = Duration::from_secs(2);
/// The connections of each measurement, and the time between questions if they are paced.
const MEASURED: [(usize, Option<Duration>); 4] = [
    (1, None),
    (8, None),
    (32, None),
    (32, Some(Duration::from_micros(200))),
];

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let (mut seconds, mut given) = (10, None);
    while let Some(arg) = args.next() {
        let value = args.next();
        match (&*arg, value) {
            ("--seconds", Some(value)) => seconds = value.parse().expect("seconds"),
            ("--table", Some(value)) => given = Some(PathBuf::from(value)),
            _ => panic!("{arg} is neither --seconds N nor --table DIR"),
        }
    }
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let table = given.unwrap_or_else(|| {
        let table = scratch.path().join("table");
        end(&mut run(&table, BITS)).summary();
        table
    });

    let cpus = cpus();
    pin(&cpus[..1]);
    let Server { process, port } = Server::start(1, &table, scratch.path(), "");
    pin(&cpus[cpus.len() - 1..]);
    if cpus.len() == 1 {
        println!("There is one CPU: who asks takes part of the server's.\n");
    }

    println!(
        "| connections | asked | requests/s | p50, ms | p99, ms | max, ms | server's CPU, µs each | its memory, MiB |"
    );
    println!("|---:|---|---:|---:|---:|---:|---:|---:|");
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().expect("a runtime");
    runtime.block_on(measure(port, MEASURED[1], WARM_UP));
    for case @ (connections, pace) in MEASURED {
        let before = process.cpu_seconds();
        let time = Duration::from_secs(seconds);
        let mut times = runtime.block_on(measure(port, case, time));
        let cpu = process.cpu_seconds() - before;
        times.sort_unstable();
        let at = |share: f64| millis(times[rank(times.len(), share)]);
        let asked = pace.map_or_else(
            || "at once".to_owned(),
            |pace| format!("{:.0} a second", 1.0 / pace.as_secs_f64()),
        );
        let count = as_f64(times.len() as u64);
        println!(
            "| {connections} | {asked} | {:.0} | {:.2} | {:.2} | {:.2} | {:.0} | {} |",
            count / time.as_secs_f64(),
            at(0.5),
            at(0.99),
            at(1.0),
            cpu / count * 1e6,
            process.peak_bytes() >> 20,
        );
    }
    drop(process);
}

/// Asks until `time` has passed, and returns the time of each answer.
async fn measure(
    port: u16,
    (connections, pace): (usize, Option<Duration>),
    time: Duration,
) -> Vec<Duration> {
    let begin = tokio::time::Instant::now();
    let mut asking = JoinSet::new();
    for number in 0..connections {
        asking.spawn(async move {
            let mut connection = Connection::new(port, number as u64).await;
            let mut times = Vec::new();
            let times_of = |count: usize| u32::try_from(count).expect("a few");
            let every = pace.map(|pace| pace * times_of(connections));
            let mut next = begin + pace.unwrap_or_default() * times_of(number);
            while begin.elapsed() < time {
                if let Some(every) = every {
                    // Timers are late by a millisecond, and that would count.
                    while tokio::time::Instant::now() < next {
                        tokio::task::yield_now().await;
                    }
                    let asked = next.into_std();
                    next += every;
                    times.push(connection.ask(asked).await);
                } else {
                    times.push(connection.ask(Instant::now()).await);
                }
            }
            times
        });
    }
    asking.join_all().await.concat()
}

/// One who asks one question after the other.
struct Connection {
    stream: TcpStream,
    random: Rng,
    buffer: Vec<u8>,
}

impl Connection {
    async fn new(port: u16, number: u64) -> Connection {
        let stream = TcpStream::connect(("127.0.0.1", port)).await;
        let stream = stream.expect("the server listens");
        stream.set_nodelay(true).expect("an option of all");
        Connection {
            stream,
            random: Rng(number),
            buffer: Vec::new(),
        }
    }

    /// Asks for a random position; the time of its answer since `asked`.
    async fn ask(&mut self, asked: Instant) -> Duration {
        let word = self.random.below(1 << (BITS - 1)) * 2;
        let request = format!("GET /api/position/{word:#b} HTTP/1.1\r\nhost: a\r\n\r\n");
        let written = self.stream.write_all(request.as_bytes()).await;
        written.expect("the server listens");
        self.buffer.clear();
        loop {
            let read = self.stream.read_buf(&mut self.buffer).await;
            read.expect("the server answers");
            if let Some(end) = end_of(&self.buffer) {
                assert_eq!(self.buffer.len(), end, "one answer for one question");
                break;
            }
        }
        let is_good = self.buffer.starts_with(b"HTTP/1.1 200 ");
        assert!(is_good, "{:?}", self.buffer);
        asked.elapsed()
    }
}

/// Where the answer ends, if its head is there and all of its body.
fn end_of(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&bytes[..end]).expect("a head is text");
    let (_, length) = head.split_once("content-length: ").expect("a length");
    let (length, _) = length.split_once('\r').expect("a line");
    let end = end + length.parse::<usize>().expect("a number");
    (bytes.len() >= end).then_some(end)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a count is a place in it"
)]
fn rank(count: usize, share: f64) -> usize {
    ((as_f64(count as u64) * share) as usize).min(count - 1)
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
