//! A served table behind nginx, as `deploy/proxy/nginx.conf` sets it up.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::{home, start_at};
use crate::common::cluster::{Process, free_port, wait_to_answer};
use chomp_testing::needs;
use chomp_testing::waiting::HANG;

/// Silent connections from each of seven addresses: more than a server has places for.
const SILENT: usize = 700;
/// Questions of one visitor: more than nginx lets pass at once, and within the time of the test.
const QUESTIONS: usize = 250;

/// nginx on `port` before a server at a socket file, with all its files in a folder of its own. None if there is no
/// nginx.
fn nginx(home: &Path, port: u16, socket: &Path) -> Option<Process> {
    let there = needs::can("nginx", Command::new("nginx").arg("-v"));
    needs::found("NGINX", there)?;
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shipped = fs::read_to_string(tests.join("../deploy/proxy/nginx.conf")).unwrap();
    let site = shipped
        .replace("/run/chomp/http.sock;", &format!("{};", socket.display()))
        .replace("listen 80;", &format!("listen 127.0.0.1:{port};"))
        .replace("    listen [::]:80;\n", "")
        .replace("rate=100r/s", "rate=1r/m");
    assert!(
        site.contains(socket.to_str().unwrap()) && !site.contains("80;"),
        "{site}"
    );
    assert!(
        site.contains("rate=1r/m") && site.contains("burst=200"),
        "{site}"
    );
    fs::write(home.join("site.conf"), site).unwrap();
    let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let folders = folders.map(|name| format!("{name}_temp_path nginx-{name};"));
    let main = format!(
        "daemon off; master_process off; pid nginx.pid; error_log stderr; \
         events {{ worker_connections 4096; }} \
         http {{ access_log off; {} include site.conf; }}",
        folders.join(" ")
    );
    fs::write(home.join("nginx.conf"), main).unwrap();
    let mut command = Command::new("nginx");
    command.args(["-e", "stderr", "-c", "nginx.conf", "-p"]);
    Some(Process::start(command.arg(home), home))
}

async fn connect(from: u8, port: u16) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    let own = SocketAddr::from(([127, 0, 2, from], 0));
    socket.bind(own).unwrap();
    let connected = socket.connect(([127, 0, 0, 1], port).into());
    timeout(HANG, connected).await.unwrap().unwrap()
}

/// The status of an answer to a visitor at 127.0.2.`from`.
async fn ask(from: u8, port: u16, path: &str) -> u16 {
    let mut stream = connect(from, port).await;
    let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let read = timeout(HANG, stream.read_to_end(&mut answer)).await;
    read.expect("an answer").unwrap();
    let status = answer.get(9..12).and_then(|it| str::from_utf8(it).ok());
    status.and_then(|it| it.parse().ok()).expect("a status")
}

#[tokio::test]
async fn nginx_limits_each_visitor_and_keeps_the_silent_from_the_others() {
    let (home, port) = (home(14), free_port());
    let socket = home.path().join("http.sock");
    let Some(proxy) = nginx(home.path(), port, &socket) else {
        return;
    };
    let server = start_at(&socket, home.path());
    wait_to_answer(port);

    // One that asks too often has to wait, and no other.
    let mut answers = Vec::new();
    for _ in 0..QUESTIONS {
        answers.push(ask(2, port, "/api/position/3,1").await);
    }
    assert!(answers[..200].iter().all(|status| *status == 200));
    assert!(answers.contains(&429), "{answers:?}");
    assert_eq!(ask(3, port, "/api/position/3,1").await, 200);

    // An event comes when there is one, though the answer has no end.
    let mut listener = connect(3, port).await;
    let request = b"GET /api/status HTTP/1.1\r\nhost: a\r\naccept: text/event-stream\r\n\r\n";
    listener.write_all(request).await.unwrap();
    let mut said = String::new();
    while !said.contains("event: status") {
        let mut bytes = [0; 1024];
        let read = timeout(HANG, listener.read(&mut bytes)).await;
        let count = read.expect("an event").unwrap();
        assert_ne!(count, 0, "{said}");
        said += str::from_utf8(&bytes[..count]).unwrap();
    }

    // Many that say nothing keep nobody out.
    let mut silent = Vec::new();
    for number in 0..7 * SILENT {
        let from = u8::try_from(10 + number % 7).unwrap();
        silent.push(connect(from, port).await);
    }
    for visitor in 30..40 {
        assert_eq!(ask(visitor, port, "/api/position/3,1").await, 200);
    }
    drop(silent);
    proxy.stop().done();
    server.stop().done();
}
