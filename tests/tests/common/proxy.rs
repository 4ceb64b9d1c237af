//! A proxy between a download and its server: it counts what passes, holds it up, and flips a bit
//! where it is told to.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What is read and sent on at a time.
const CHUNK_BYTES: usize = 4 << 10;

/// A byte of a file to be changed on its way.
#[derive(Clone, Debug)]
pub(crate) struct Flip {
    /// The name of the file.
    pub(crate) file: &'static str,
    /// Where in the file.
    pub(crate) at: u64,
    /// Which bits.
    pub(crate) mask: u8,
    /// How often.
    pub(crate) times: u32,
}

/// What a proxy is told, and what it tells.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    /// The most bytes of files in a second; 0 if there is no limit.
    pub(crate) rate: AtomicU64,
    pub(crate) flip: Mutex<Option<Flip>>,
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
        thread::spawn(move || {
            for client in listener.incoming() {
                let orders = Arc::clone(&shared);
                // Either side may be killed at any moment: then the connection ends.
                thread::spawn(move || pass(&client?, server, &orders));
            }
        });
        Proxy { url, orders }
    }

    pub(crate) fn passed(&self) -> u64 {
        self.orders.passed.load(Ordering::Relaxed)
    }

    pub(crate) fn limit(&self, rate: u64) {
        self.orders.rate.store(rate, Ordering::Relaxed);
    }

    pub(crate) fn flip(&self, flip: Option<Flip>) {
        *self.orders.flip.lock().unwrap() = flip;
    }

    /// How often the byte is still to be changed.
    pub(crate) fn flips_left(&self) -> u32 {
        let flip = self.orders.flip.lock().unwrap();
        flip.as_ref().map_or(0, |flip| flip.times)
    }
}

/// One request after the other.
fn pass(client: &TcpStream, server: u16, orders: &Orders) -> io::Result<()> {
    let server = TcpStream::connect(("127.0.0.1", server))?;
    let (mut requests, mut answers) = (BufReader::new(client), BufReader::new(&server));
    let (mut to_client, mut to_server) = (client, &server);
    loop {
        let request = head(&mut requests)?;
        to_server.write_all(request.as_bytes())?;
        let answer = head(&mut answers)?;
        to_client.write_all(answer.as_bytes())?;
        let file = request.split(' ').nth(1).unwrap().rsplit('/').next();
        let length = number_after(&answer, "content-length: ").unwrap_or(0);
        let from = number_after(&answer, "content-range: bytes ");
        orders
            .parts
            .fetch_add(u32::from(from.is_some()), Ordering::Relaxed);
        let mut at = from.unwrap_or(0);
        let end = at + length;
        while at < end {
            let mut chunk = [0; CHUNK_BYTES];
            let most = usize::try_from(end - at).unwrap().min(CHUNK_BYTES);
            let read = answers.read(&mut chunk[..most])?;
            if read == 0 {
                return Ok(());
            }
            change(&mut chunk[..read], at, file, orders);
            hold_up(read, orders);
            to_client.write_all(&chunk[..read])?;
            at += read as u64;
            orders.passed.fetch_add(read as u64, Ordering::Relaxed);
        }
    }
}

/// The head of a message with the empty line after it.
fn head(from: &mut impl BufRead) -> io::Result<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if from.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(head)
}

fn number_after(head: &str, name: &str) -> Option<u64> {
    let head = head.to_ascii_lowercase();
    let (_, rest) = head.split_once(&format!("\n{name}"))?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Flips a bit, if the bytes from `at` on are those to be changed.
fn change(bytes: &mut [u8], at: u64, file: Option<&str>, orders: &Orders) {
    let mut flip = orders.flip.lock().unwrap();
    if let Some(flip) = &mut *flip
        && flip.times > 0
        && file == Some(flip.file)
        && let Some(offset) = flip.at.checked_sub(at)
        && let Some(byte) = bytes.get_mut(usize::try_from(offset).unwrap())
    {
        *byte ^= flip.mask;
        flip.times -= 1;
    }
}

fn hold_up(bytes: usize, orders: &Orders) {
    let rate = orders.rate.load(Ordering::Relaxed);
    if let Some(micros) = (bytes as u64 * 1_000_000).checked_div(rate) {
        thread::sleep(Duration::from_micros(micros));
    }
}
