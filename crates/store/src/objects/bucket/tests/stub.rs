//! A small S3 server in memory that does what it is told to.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// A fault of the server, which otherwise acts on a request and answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It does nothing, and ends the connection.
    Cut,
    /// It acts, and ends the connection.
    ActAndCut,
    /// It answers with this status, and does not act.
    Refuse(u16),
    /// It acts, and answers with this status.
    ActAndRefuse(u16),
    /// It acts, and the last byte of its answer is another.
    ActAndGarble,
    /// Nothing, and it says nothing either.
    Stall,
    /// It acts, and says nothing.
    ActAndStall,
}

/// How the server treats the condition that an object is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conditions {
    /// It heeds it.
    Heeded,
    /// It takes the request without it.
    Ignored,
    /// It looks whether the object is there, and creates it when another creation has looked too, whatever was created
    /// meanwhile. Creations outside of [`PROBED`] are not raced.
    Raced,
}

/// The folder in which a probe creates the same object several times at once.
const PROBED: &str = "/work/probe/";
/// These objects are larger than others of a probe.
const RACED_BYTES: usize = 1000;

/// The header by which an object is created only if it is absent.
const CONDITION: &str = "if-none-match";
/// The listing of an empty folder.
const NO_OBJECTS: &[u8] = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";

#[derive(Debug)]
pub(super) struct State {
    pub(super) objects: BTreeMap<String, Vec<u8>>,
    /// For the next requests to create or remove.
    pub(super) faults: VecDeque<Fault>,
    /// For the next requests to read.
    pub(super) of_reads: VecDeque<Fault>,
    /// The status of all answers, and their body, if it does not act at all.
    pub(super) always: Option<(u16, &'static str)>,
    /// The status of all answers, and where they lead to.
    pub(super) leads_to: Option<(u16, &'static str)>,
    /// Whether it lists objects, of which it tells none; else it says that this is forbidden.
    pub(super) lists: bool,
    pub(super) conditions: Conditions,
    /// The creations of each object that have looked whether it is there, of a server that loses races.
    looked: BTreeMap<String, usize>,
    pub(super) requests: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Stub {
    pub(super) state: Arc<Mutex<State>>,
    has_looked: Arc<Condvar>,
    pub(super) endpoint: String,
}

impl Stub {
    pub(super) fn start() -> Stub {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State {
            objects: BTreeMap::new(),
            faults: VecDeque::new(),
            of_reads: VecDeque::new(),
            always: None,
            leads_to: None,
            lists: true,
            conditions: Conditions::Heeded,
            looked: BTreeMap::new(),
            requests: 0,
        }));
        let stub = Stub {
            state,
            has_looked: Arc::default(),
            endpoint,
        };
        let serving = stub.clone();
        // Ends with the process.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stub, stream) = (serving.clone(), stream.unwrap());
                // A client may leave at any time.
                thread::spawn(move || drop(stub.serve(stream)));
            }
        });
        stub
    }

    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        loop {
            let (mut line, mut headers) = (String::new(), BTreeMap::new());
            reader.read_line(&mut line)?;
            let mut words = line.split(' ');
            let (Some(method), Some(path)) = (words.next(), words.next()) else {
                return Ok(());
            };
            loop {
                let mut header = String::new();
                reader.read_line(&mut header)?;
                let Some((name, value)) = header.trim().split_once(": ") else {
                    break;
                };
                headers.insert(name.to_lowercase(), value.to_owned());
            }
            let length = headers.get("content-length").map_or("0", |length| length);
            let mut body = vec![0; length.parse().unwrap()];
            reader.read_exact(&mut body)?;
            match self.answer(method, path, &headers, body) {
                Some(answer) if answer.is_empty() => {
                    // Until the client has enough of it.
                    return reader.read(&mut [0]).map(drop);
                }
                Some(answer) => stream.write_all(&answer)?,
                None => return stream.shutdown(Shutdown::Both),
            }
        }
    }

    /// None if the connection is to end, and nothing if it is to stay without an answer.
    fn answer(
        &self,
        method: &str,
        path: &str,
        headers: &BTreeMap<String, String>,
        body: Vec<u8>,
    ) -> Option<Vec<u8>> {
        let mut state = self.state.lock().unwrap();
        state.requests += 1;
        if let Some((status, body)) = state.always {
            return Some(answer(status, "", body.as_bytes(), method));
        }
        if let Some((status, target)) = state.leads_to {
            let location = format!("Location: {target}{path}\r\n");
            return Some(answer(status, &location, b"", method));
        }
        let fault = match method {
            "PUT" | "DELETE" => state.faults.pop_front(),
            "GET" => state.of_reads.pop_front(),
            _ => None,
        };
        match fault {
            Some(Fault::Cut) => return None,
            Some(Fault::Stall) => return Some(Vec::new()),
            Some(Fault::Refuse(status)) => return Some(answer(status, "", b"", method)),
            _ => {}
        }
        let raced = state.conditions == Conditions::Raced && !state.objects.contains_key(path);
        if raced
            && headers.contains_key(CONDITION)
            && path.contains(PROBED)
            && body.len() >= RACED_BYTES
        {
            *state.looked.entry(path.to_owned()).or_default() += 1;
            self.has_looked.notify_all();
            let is_alone = |state: &mut State| state.looked[path] < 2;
            let waited = self.has_looked.wait_while(state, is_alone);
            state = waited.unwrap();
            state.objects.remove(path);
        }
        let mut acted = state.act(method, path, headers, body);
        match fault {
            Some(Fault::ActAndCut) => None,
            Some(Fault::ActAndStall) => Some(Vec::new()),
            Some(Fault::ActAndRefuse(status)) => Some(answer(status, "", b"", method)),
            Some(Fault::ActAndGarble) => {
                *acted.last_mut()? ^= 1;
                Some(acted)
            }
            _ => Some(acted),
        }
    }
}

impl State {
    fn act(
        &mut self,
        method: &str,
        path: &str,
        headers: &BTreeMap<String, String>,
        body: Vec<u8>,
    ) -> Vec<u8> {
        match method {
            "PUT" => {
                let heeded = self.conditions != Conditions::Ignored;
                let wanted_absent = heeded && headers.contains_key(CONDITION);
                if wanted_absent && self.objects.contains_key(path) {
                    return answer(412, "", b"", method);
                }
                self.objects.insert(path.to_owned(), body);
                answer(200, "", b"", method)
            }
            "DELETE" => {
                self.objects.remove(path);
                answer(204, "", b"", method)
            }
            _ if path.contains("list-type=2") && self.lists => answer(200, "", NO_OBJECTS, method),
            _ if path.contains("list-type=2") => {
                answer(403, "", b"<Code>AccessDenied</Code>", method)
            }
            _ => {
                let Some(object) = self.objects.get(path) else {
                    return answer(404, "", b"<Code>NoSuchKey</Code>", method);
                };
                let range = headers.get("range").map(|range| &range["bytes=".len()..]);
                let Some((first, last)) = range.and_then(|range| range.split_once('-')) else {
                    return answer(200, "", object, method);
                };
                let first: usize = first.parse().unwrap();
                if first >= object.len() {
                    return answer(416, "", b"", method);
                }
                // Some servers take no larger number.
                let last = if last.is_empty() {
                    Ok(i64::MAX)
                } else {
                    last.parse()
                };
                let Ok(last) = last else {
                    return answer(400, "", b"", method);
                };
                let end = object
                    .len()
                    .min(usize::try_from(last).unwrap().saturating_add(1));
                let range = format!(
                    "Content-Range: bytes {first}-{}/{}\r\n",
                    end - 1,
                    object.len()
                );
                answer(206, &range, &object[first..end], method)
            }
        }
    }
}

fn answer(status: u16, headers: &str, body: &[u8], method: &str) -> Vec<u8> {
    let length = body.len();
    let mut answer = format!(
        "HTTP/1.1 {status} Status\r\n{headers}Content-Length: {length}\r\nETag: \"tag\"\r\n\
         Last-Modified: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n"
    )
    .into_bytes();
    if method != "HEAD" {
        answer.extend(body);
    }
    answer
}
