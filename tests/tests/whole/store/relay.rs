//! A way to an S3-compatible server that can be cut, and that can make the server worse than it is.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use crate::common::cluster::free_port;
use crate::common::http::{body_length, field, read_head, serve};
use crate::common::random::Random;

/// The key that is good no more when credentials have expired.
pub(crate) const OLD_KEY: &str = "old";
/// A key that is good for ever.
pub(crate) const NEW_KEY: &str = "new";
/// Where a pod gets its credentials, which are to be renewed with every request.
pub(crate) const CREDENTIALS: &str = "/credentials";
/// The numbers of requests of which the last one fails, or stalls.
const FAILS_ONE_IN: usize = 10;
const STALLS_ONE_IN: usize = 75;
/// How long a slow server thinks, in milliseconds, and how long when it stalls.
const THINKS_MILLIS: u64 = 5;
const STALL: Duration = Duration::from_millis(500);
/// The folder in which a probe creates the same object several times at once, and the least bytes of such an object:
/// one that it creates alone is smaller.
const PROBED: &str = "/work/probe/";
const RACED_BYTES: usize = 1000;

/// The header by which an object is created only if it is absent.
const CONDITION: &str = "if-none-match";

/// The state of the way to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// All passes as it is.
    Open,
    /// Nobody listens, and no answer comes any more.
    Gone,
    /// The server hears no conditions: it overwrites.
    Unconditional,
    /// The server looks whether there is an object, and creates it without another look: where a probe creates it
    /// several times at once, when another creation has looked too.
    Racing,
    /// Whoever asks has no right to.
    Refused,
    /// The server answers some requests with 500 or 503, after it did what they ask for or without doing it.
    Failing,
    /// The server takes its time, and now and then much of it.
    Slow,
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
    pub(crate) stalled: usize,
    /// Requests with a key that has expired.
    pub(crate) expired: usize,
    /// Requests with another key, where one expires.
    pub(crate) renewed: usize,
}

/// A relay that runs for as long as the test.
#[derive(Debug)]
pub(crate) struct Relay {
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
    /// The paths of the requests that passed without their condition.
    created: BTreeSet<String>,
    /// The creations that have looked whether there is an object, by its path, where a probe has them race.
    looked: BTreeMap<String, usize>,
}

/// The treatment of one request.
enum Fate {
    Pass,
    /// Passes, and its answer comes after a delay.
    Delay(Duration),
    /// Passes, and the answer is another one.
    PassAnd(String),
    Answer(String),
    /// Passes without its condition.
    Forget,
    /// The same, when another creation of the same object has come.
    Race,
}

impl Relay {
    /// A relay to the server at `address`.
    pub(crate) fn start(server: &str, way: Way) -> Relay {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let random = Random::new();
        let shared = Arc::new(Shared {
            server: server.to_owned(),
            state: Mutex::new(State {
                way,
                random,
                counts: Counts::default(),
                parts: 0,
                created: BTreeSet::new(),
                looked: BTreeMap::new(),
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
        Relay {
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
        // Who waits for a connection looks at the way again.
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
        Fate::Delay(delay) => {
            let answer = shared.ask(&head, &body)?;
            thread::sleep(delay);
            answer
        }
        Fate::PassAnd(answer) => {
            shared.ask(&head, &body)?;
            answer.into_bytes()
        }
        Fate::Answer(answer) => answer.into_bytes(),
        Fate::Forget => shared.forget(&head, &body)?,
        Fate::Race => {
            shared.wait_for_another(&path(&head));
            shared.forget(&head, &body)?
        }
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

    /// The server's answer to a request without its condition.
    fn forget(&self, head: &str, body: &[u8]) -> io::Result<Vec<u8>> {
        let answer = self.ask(&without_condition(head), body)?;
        self.state.lock().unwrap().created.insert(path(head));
        Ok(answer)
    }

    /// Waits until two creations have looked whether there is this object.
    fn wait_for_another(&self, path: &str) {
        self.changed.notify_all();
        let is_alone = |state: &mut State| state.way == Way::Racing && state.looked[path] < 2;
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, is_alone).unwrap());
    }
}

impl State {
    fn fate(&mut self, head: &str) -> Fate {
        if path(head) == CREDENTIALS {
            return Fate::Answer(self.credentials());
        }
        self.counts.requests += 1;
        match self.way {
            Way::Unconditional => Fate::Forget,
            Way::Racing => self.race(head),
            Way::Refused => Fate::Answer(answer(403, "InvalidAccessKeyId")),
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
            Way::Slow if self.counts.requests.is_multiple_of(STALLS_ONE_IN) => {
                self.counts.stalled += 1;
                Fate::Delay(STALL)
            }
            Way::Slow => Fate::Delay(self.random.millis(0, THINKS_MILLIS)),
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

    /// The fate of a request at a server that looks first, and creates later.
    fn race(&mut self, head: &str) -> Fate {
        let path = path(head);
        if head.starts_with("DELETE ") {
            self.created.remove(&path);
        }
        if field(head, CONDITION).is_none() {
            Fate::Pass
        } else if self.created.contains(&path) {
            Fate::Answer(answer(412, "PreconditionFailed"))
        } else if path.contains(PROBED) && body_length(head) >= RACED_BYTES {
            *self.looked.entry(path).or_default() += 1;
            Fate::Race
        } else {
            Fate::Forget
        }
    }
}

/// The path in the first line of a request.
fn path(head: &str) -> String {
    head.split(' ').nth(1).expect("a path").to_owned()
}

fn without_condition(head: &str) -> String {
    let is_condition = |line: &&str| line.to_ascii_lowercase().starts_with(CONDITION);
    let lines = head.split_inclusive("\r\n");
    lines.filter(|line| !is_condition(line)).collect()
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
