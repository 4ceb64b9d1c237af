//! What is served, over real connections.

mod tables;

use std::collections::HashMap;
use std::net::SocketAddr;

use axum::Router;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::net::{Endpoint, Limits, Server};

struct Tested {
    _server: Server,
    address: SocketAddr,
}

struct Answer {
    status: u16,
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

async fn start(router: Router) -> Tested {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let limits = Limits::default();
    let endpoints = vec![Endpoint { listener, router }];
    Tested {
        _server: Server::start(endpoints, None, limits, &limits.slots()),
        address,
    }
}

impl Tested {
    /// Sends a request as it is, and takes what comes until the connection ends.
    async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = format!("{method} {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n");
        for (name, value) in headers {
            request.extend([name, ": ", value, "\r\n"]);
        }
        request += "\r\n";
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("{path}: {:?}", String::from_utf8_lossy(&bytes)));
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap()[9..12].parse().unwrap();
        let headers = lines.map(|line| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_owned(), value.to_owned())
        });
        Answer {
            status,
            headers: headers.collect(),
            body: bytes[end + 4..].to_vec(),
        }
    }

    async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[]).await
    }
}
