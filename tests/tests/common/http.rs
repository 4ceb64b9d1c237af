//! HTTP by hand: one request over one connection and what came back, and what servers in tests share.

use std::io::{self, BufRead, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use chomp_testing::waiting::HANG;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;

/// The answer of a server.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Asks a server on this machine for `path`; `headers` are whole lines.
pub(crate) fn get(port: u16, path: &str, headers: &[&str]) -> Response {
    ask(connect(port), path, headers)
}

/// Asks over TLS a server that the authority `ca` vouches for.
pub(crate) fn get_encrypted(port: u16, ca: &str, path: &str, headers: &[&str]) -> Response {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(ca.as_bytes()).unwrap();
    roots.add(authority).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().unwrap();
    let session = ClientConnection::new(Arc::new(config), name).unwrap();
    ask(StreamOwned::new(session, connect(port)), path, headers)
}

/// A connection to a server on this machine.
pub(crate) fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    stream
}

/// Asks over a connection.
pub(crate) fn ask(mut stream: impl Read + Write, path: &str, headers: &[&str]) -> Response {
    let mut request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    for header in headers {
        request += header;
        request += "\r\n";
    }
    request += "\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let end = bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .expect("a head");
    let body = bytes.split_off(end + 4);
    let head = String::from_utf8(bytes).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Response { status, body }
}

/// Takes connections for as long as `goes_on`, and serves each on a thread of its own.
pub(crate) fn serve(
    listener: &TcpListener,
    goes_on: impl Fn() -> bool,
    connection: impl Fn(TcpStream) -> io::Result<()> + Clone + Send + 'static,
) {
    for client in listener.incoming() {
        if !goes_on() {
            return;
        }
        let connection = connection.clone();
        // Either side may end at any moment: then the connection does.
        thread::spawn(move || connection(client?));
    }
}

/// Reads the head of a message, with the empty line after it.
pub(crate) fn read_head(from: &mut impl BufRead) -> io::Result<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if from.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(head)
}

/// A header of a message.
pub(crate) fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    fields.find_map(|(found, value)| found.eq_ignore_ascii_case(name).then_some(value.trim()))
}

/// The length of the body after a head.
pub(crate) fn body_length(head: &str) -> usize {
    field(head, "content-length").map_or(0, |length| length.parse().unwrap())
}

/// The header that shows a token.
pub(crate) fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}")
}
