//! A way to an S3-compatible server that can be cut, and on which requests fail or credentials expire.

use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use crate::common::cluster::free_port;
use crate::common::http::{body_length, read_head, serve};
use crate::common::random::Random;

/// The key that is good no more when credentials have expired.
pub(crate) const OLD_KEY: &str = "old";
/// A key that is good for ever.
pub(crate) const NEW_KEY: &str = "new";
/// Where a pod gets its credentials, which are to be renewed with every request.
pub(crate) const CREDENTIALS: &str = "/credentials";
/// The number of requests of which the last one fails.
const FAILS_ONE_IN: usize = 10;
/// The state of the way to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// All passes as it is.
    Open,
    /// Nobody listens, and no answer comes any more.
    Gone,
    /// The server answers some requests with 500 or 503, after it did what they ask for or without doing it.
    Failing,
    /// [`OLD_KEY`] expires after `parts` parts, which the server says with this status. Pods get [`NEW_KEY`] when half
    /// of them are there.
    Expires { parts: usize, status: u16 },
}

/// How often what happened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) requests: usize,
    /// Requests that were answered with a failure, though they were carried out.
    pub(crate) failed_after: usize,
    /// Requests that were not carried out.
    pub(crate) failed_before: usize,
    /// Requests with a key that has expired.
    pub(crate) expired: usize,
    /// Requests with another key, where one expires.
    pub(crate) renewed: usize,
}

/// A proxy that runs for as long as the test.
#[derive(Debug)]
pub(crate) struct FaultyProxy {
    pub(crate) url: String,
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server: String,
    state: Mutex<State>,
    /// The way is another one.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    way: Way,
    random: Random,
    counts: Counts,
    /// The parts that were created with [`OLD_KEY`] in this way.
    parts: usize,
}

/// The treatment of one request.
enum Fate {
    Pass,
    /// Passes, and the answer is another one.
    PassAnd(String),
    Answer(String),
}

impl FaultyProxy {
    /// A proxy to the server at `address`.
    pub(crate) fn start(server: &str, way: Way) -> FaultyProxy {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let random = Random::new();
        let shared = Arc::new(Shared {
            server: server.to_owned(),
            state: Mutex::new(State {
                way,
                random,
                counts: Counts::default(),
                parts: 0,
            }),
            changed: Condvar::new(),
        });
        let (mut listener, serving) = (TcpListener::bind(address).unwrap(), Arc::clone(&shared));
        thread::spawn(move || {
            loop {
                let is_there = || serving.way() != Way::Gone;
                let shared = Arc::clone(&serving);
                serve(&listener, is_there, move |client| pass(&client, &shared));
                drop(listener);
                let state = serving.state.lock().unwrap();
                let gone = |state: &mut State| state.way == Way::Gone;
                drop(serving.changed.wait_while(state, gone).unwrap());
                listener = TcpListener::bind(address).unwrap();
            }
        });
        FaultyProxy {
            url: format!("http://{address}"),
            address,
            shared,
        }
    }

    pub(crate) fn set(&self, way: Way) {
        let mut state = self.shared.state.lock().unwrap();
        (state.way, state.parts) = (way, 0);
        drop(state);
        self.shared.changed.notify_all();
        // A call that waits for a connection looks at the way again.
        drop(TcpStream::connect(self.address));
    }

    pub(crate) fn counts(&self) -> Counts {
        self.shared.state.lock().unwrap().counts
    }
}

/// Passes one request, and ends the connection.
fn pass(mut client: &TcpStream, shared: &Shared) -> io::Result<()> {
    let mut reader = BufReader::new(client);
    let head = read_head(&mut reader)?;
    let mut body = vec![0; body_length(&head)];
    reader.read_exact(&mut body)?;
    let fate = shared.state.lock().unwrap().fate(&head);
    let mut answer = match fate {
        Fate::Pass => shared.ask(&head, &body)?,
        Fate::PassAnd(answer) => {
            shared.ask(&head, &body)?;
            answer.into_bytes()
        }
        Fate::Answer(answer) => answer.into_bytes(),
    };
    if head.starts_with("HEAD ") {
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
        answer.truncate(end.map_or(0, |end| end + 4));
    }
    if shared.way() != Way::Gone {
        client.write_all(&answer)?;
    }
    client.shutdown(Shutdown::Both)
}

impl Shared {
    fn way(&self) -> Way {
        self.state.lock().unwrap().way
    }

    /// The server's answer, after which it ends the connection.
    fn ask(&self, head: &str, body: &[u8]) -> io::Result<Vec<u8>> {
        let mut server = TcpStream::connect(&self.server)?;
        let head = head.strip_suffix("\r\n").expect("the end of a head");
        write!(server, "{head}Connection: close\r\n\r\n")?;
        server.write_all(body)?;
        let mut answer = Vec::new();
        server.read_to_end(&mut answer)?;
        Ok(answer)
    }
}

impl State {
    fn fate(&mut self, head: &str) -> Fate {
        if path(head) == CREDENTIALS {
            return Fate::Answer(self.credentials());
        }
        self.counts.requests += 1;
        match self.way {
            Way::Failing if self.counts.requests.is_multiple_of(FAILS_ONE_IN) => {
                let answer = match self.random.below(2) {
                    0 => answer(500, "InternalError"),
                    _ => answer(503, "SlowDown"),
                };
                // As often one way as the other.
                if self.counts.failed_after < self.counts.failed_before {
                    self.counts.failed_after += 1;
                    Fate::PassAnd(answer)
                } else {
                    self.counts.failed_before += 1;
                    Fate::Answer(answer)
                }
            }
            Way::Open | Way::Gone | Way::Failing => Fate::Pass,
            Way::Expires { parts, status } => {
                if !head.contains(&format!("Credential={OLD_KEY}/")) {
                    self.counts.renewed += 1;
                } else if self.parts >= parts {
                    self.counts.expired += 1;
                    return Fate::Answer(answer(status, "ExpiredToken"));
                } else if head.starts_with("PUT ") && path(head).contains("/work/parts/") {
                    self.parts += 1;
                }
                Fate::Pass
            }
        }
    }

    fn credentials(&self) -> String {
        let key = match self.way {
            Way::Expires { parts, .. } if self.parts < parts / 2 => OLD_KEY,
            _ => NEW_KEY,
        };
        let body = format!(
            "{{\"AccessKeyId\":\"{key}\",\"SecretAccessKey\":\"secret\",\"Token\":\"token\",\
             \"Expiration\":\"2001-01-01T00:00:00Z\"}}"
        );
        message(200, &body)
    }
}

/// The path in the first line of a request.
fn path(head: &str) -> String {
    head.split(' ').nth(1).expect("a path").to_owned()
}

/// An answer of the server's kind that says what it will not do.
fn answer(status: u16, code: &str) -> String {
    let body = format!("<Error><Code>{code}</Code><Message>It is said to be so</Message></Error>");
    message(status, &body)
}

fn message(status: u16, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} Status\r\nConnection: close\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
}
