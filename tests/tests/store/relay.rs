//! A way to an S3-compatible server that can be cut, and that can make the server worse than it is.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

/// How long a connection waits for bytes before it looks whether it is cut.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The header by which an object is created only if it is absent, and one of the same length that no
/// server knows.
const CONDITION: &[u8] = b"if-none-match";
const NO_CONDITION: &[u8] = b"x-chomp-none-";
/// What a server says to wrong credentials.
const REFUSAL: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
     <Error><Code>InvalidAccessKeyId</Code><Message>The key does not exist</Message></Error>";

/// What happens on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Way {
    /// All passes as it is.
    Open,
    /// Nothing passes, and connections end.
    Cut,
    /// The server hears no conditions: it overwrites.
    Unconditional,
    /// Whoever asks has no right to.
    Refused,
}

/// A relay that runs for as long as the test.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) url: String,
    way: Arc<AtomicU8>,
}

impl Relay {
    /// A relay to the server at `address`.
    pub(crate) fn start(address: &str, way: Way) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let relay = Relay {
            url,
            way: Arc::new(AtomicU8::new(way as u8)),
        };
        let (way, address) = (Arc::clone(&relay.way), address.to_owned());
        thread::spawn(move || {
            for client in listener.incoming() {
                let (way, address) = (Arc::clone(&way), address.clone());
                // Either side may end at any moment: then the connection does.
                thread::spawn(move || connect(client?, &address, &way));
            }
        });
        relay
    }

    pub(crate) fn set(&self, way: Way) {
        self.way.store(way as u8, Ordering::Relaxed);
    }
}

fn is(way: &AtomicU8, other: Way) -> bool {
    way.load(Ordering::Relaxed) == other as u8
}

fn connect(mut client: TcpStream, address: &str, way: &Arc<AtomicU8>) -> io::Result<()> {
    if is(way, Way::Cut) {
        return Ok(());
    }
    if is(way, Way::Refused) {
        let _ = client.read(&mut [0; 4096])?;
        let length = REFUSAL.len();
        return write!(
            client,
            "HTTP/1.1 403 Forbidden\r\nContent-Type: application/xml\r\nConnection: close\r\n\
             Content-Length: {length}\r\n\r\n{REFUSAL}"
        );
    }
    let server = TcpStream::connect(address)?;
    let (from, to, shared) = (server.try_clone()?, client.try_clone()?, Arc::clone(way));
    thread::spawn(move || pass(&from, &to, &shared));
    pass(&client, &server, way)
}

/// Passes on what comes, until one side ends or the way is cut.
fn pass(mut from: &TcpStream, mut to: &TcpStream, way: &AtomicU8) -> io::Result<()> {
    from.set_read_timeout(Some(LOOK_EVERY))?;
    let mut bytes = [0; 1 << 14];
    let ended = loop {
        if is(way, Way::Cut) {
            break Ok(());
        }
        match from.read(&mut bytes) {
            Ok(0) => break Ok(()),
            Ok(read) => {
                let read = &mut bytes[..read];
                if is(way, Way::Unconditional) {
                    let found = read.windows(CONDITION.len());
                    let at = { found }.position(|name| name.eq_ignore_ascii_case(CONDITION));
                    if let Some(at) = at {
                        read[at..at + CONDITION.len()].copy_from_slice(NO_CONDITION);
                    }
                }
                to.write_all(read)?;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => break Err(error),
        }
    };
    for side in [from, to] {
        // The other direction may have ended it already.
        let _ = side.shutdown(Shutdown::Both);
    }
    ended
}
