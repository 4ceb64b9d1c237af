//! A proxy between a download and its server: it counts what passes of shards, and holds or spoils it if it is told to.

use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::http::{body_length, field, read_head, serve};

/// The most bytes that are read and sent on at a time.
const CHUNK_BYTES: usize = 4 << 10;

/// The pause between two looks whether more may pass.
const LOOK: Duration = Duration::from_millis(1);

/// The settings of a proxy, and its counts.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    /// Whether bits of shards flip on their way.
    pub(crate) flips: AtomicBool,
    /// The answers that were a part of a file.
    pub(crate) parts: AtomicU32,
    gate: Mutex<Gate>,
}

/// How much of the shards may pass.
#[derive(Debug, Default)]
struct Gate {
    /// The bytes that have passed.
    passed: u64,
    /// The bytes that may pass in all, if no more may.
    most: Option<u64>,
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

    /// The bytes of shards that have passed.
    pub(crate) fn passed(&self) -> u64 {
        self.orders.gate.lock().unwrap().passed
    }

    /// Holds what comes after so many more bytes of shards, until it is told otherwise.
    pub(crate) fn hold_after(&self, bytes: u64) {
        let mut gate = self.orders.gate.lock().unwrap();
        gate.most = Some(gate.passed + bytes);
    }

    /// Holds nothing.
    pub(crate) fn let_go(&self) {
        self.orders.gate.lock().unwrap().most = None;
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
        let is_shard = request.contains("/shard-");
        let flips = orders.flips.load(Ordering::Relaxed) && is_shard;
        let mut left = body_length(&answer);
        while left > 0 {
            let mut chunk = [0; CHUNK_BYTES];
            let read = answers.read(&mut chunk[..left.min(CHUNK_BYTES)])?;
            if read == 0 {
                return Ok(());
            }
            chunk[0] ^= u8::from(flips);
            left -= read;
            let mut rest = &chunk[..read];
            while !rest.is_empty() {
                let length = if is_shard {
                    orders.admit(client, rest.len())?
                } else {
                    rest.len()
                };
                let (next, later) = rest.split_at(length);
                to_client.write_all(next)?;
                rest = later;
            }
        }
    }
}

impl Orders {
    /// Waits until some of so many bytes may pass, and tells how many. Fails if the client has gone meanwhile.
    fn admit(&self, client: &TcpStream, bytes: usize) -> io::Result<usize> {
        loop {
            let mut gate = self.gate.lock().unwrap();
            // With the gate locked: what it lets pass after the end of a client is for the next one.
            look_for(client)?;
            let most = gate.most.map_or(u64::MAX, |most| most - gate.passed);
            let length = bytes.min(usize::try_from(most).unwrap_or(usize::MAX));
            gate.passed += length as u64;
            drop(gate);
            if length > 0 {
                return Ok(length);
            }
            thread::sleep(LOOK);
        }
    }
}

/// Fails if the other side of a connection has closed it.
fn look_for(client: &TcpStream) -> io::Result<()> {
    client.set_nonblocking(true)?;
    let next = client.peek(&mut [0]);
    client.set_nonblocking(false)?;
    match next {
        Ok(0) => Err(ErrorKind::ConnectionAborted.into()),
        Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
        _ => Ok(()),
    }
}
