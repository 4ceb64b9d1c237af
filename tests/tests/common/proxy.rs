//! A proxy between a download and its server: it counts what passes, holds it up, and spoils shards if it is told to.

use std::io::{self, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::http::{body_length, field, read_head, serve};

/// The most bytes that are read and sent on at a time.
const CHUNK_BYTES: usize = 4 << 10;

/// The settings of a proxy, and its counts.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    /// The most bytes of files in a second; 0 if there is no limit.
    pub(crate) rate: AtomicU64,
    /// Whether bits of shards flip on their way.
    pub(crate) flips: AtomicBool,
    /// The bytes of files that have passed.
    pub(crate) passed: AtomicU64,
    /// The answers that were a part of a file.
    pub(crate) parts: AtomicU32,
}

/// A proxy that runs for as long as the test.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) url: String,
    pub(crate) orders: Arc<Orders>,
}

impl Proxy {
    /// A proxy for a server on this port.
    pub(crate) fn start(server: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let orders = Arc::new(Orders::default());
        let shared = Arc::clone(&orders);
        let connection = move |client| pass(&client, server, &shared);
        thread::spawn(move || serve(&listener, || true, connection));
        Proxy { url, orders }
    }

    pub(crate) fn passed(&self) -> u64 {
        self.orders.passed.load(Ordering::Relaxed)
    }

    pub(crate) fn limit(&self, rate: u64) {
        self.orders.rate.store(rate, Ordering::Relaxed);
    }

    pub(crate) fn flip(&self, flips: bool) {
        self.orders.flips.store(flips, Ordering::Relaxed);
    }
}

/// One request after the other.
fn pass(client: &TcpStream, server: u16, orders: &Orders) -> io::Result<()> {
    let server = TcpStream::connect(("127.0.0.1", server))?;
    let (mut requests, mut answers) = (BufReader::new(client), BufReader::new(&server));
    let (mut to_client, mut to_server) = (client, &server);
    loop {
        let request = read_head(&mut requests)?;
        to_server.write_all(request.as_bytes())?;
        let answer = read_head(&mut answers)?;
        to_client.write_all(answer.as_bytes())?;
        let is_part = field(&answer, "content-range").is_some();
        orders.parts.fetch_add(is_part.into(), Ordering::Relaxed);
        let flips = orders.flips.load(Ordering::Relaxed) && request.contains("/shard-");
        let mut left = body_length(&answer);
        while left > 0 {
            let mut chunk = [0; CHUNK_BYTES];
            let read = answers.read(&mut chunk[..left.min(CHUNK_BYTES)])?;
            if read == 0 {
                return Ok(());
            }
            chunk[0] ^= u8::from(flips);
            hold_up(read, orders);
            to_client.write_all(&chunk[..read])?;
            left -= read;
            orders.passed.fetch_add(read as u64, Ordering::Relaxed);
        }
    }
}

fn hold_up(bytes: usize, orders: &Orders) {
    let rate = orders.rate.load(Ordering::Relaxed);
    if let Some(micros) = (bytes as u64 * 1_000_000).checked_div(rate) {
        thread::sleep(Duration::from_micros(micros));
    }
}
