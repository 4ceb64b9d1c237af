//! Addresses at which there is something else: each command says what is there, and calls nothing damaged that is not.

use std::fs;
use std::io::{self, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::thread;

use crate::common::cluster::HASTE;
use crate::common::http::{read_head, serve};
use crate::common::{Ended, chomp, end, folder, hasten_limits, made_once};
use chomp_access::{Access, Certificate};
use tempfile::TempDir;

static TABLE: OnceLock<TempDir> = OnceLock::new();

/// The answers of a server.
#[derive(Clone)]
enum Gives {
    /// The files in this folder, each as a whole.
    Files(PathBuf),
    /// One page for all addresses.
    Page,
}

/// Starts a server on this machine, and returns its address.
fn start(gives: Gives) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let connection = move |client: TcpStream| {
        let mut requests = BufReader::new(&client);
        loop {
            let head = read_head(&mut requests)?;
            answer(&client, head.split(' ').nth(1).unwrap(), &gives)?;
        }
    };
    thread::spawn(move || serve(&listener, || true, connection));
    url
}

fn answer(mut client: &TcpStream, path: &str, gives: &Gives) -> io::Result<()> {
    let page = "text/html; charset=utf-8";
    let (status, kind, body) = match gives {
        Gives::Page => ("200 OK", page, b"<form>Sign in".to_vec()),
        Gives::Files(folder) => match fs::read(folder.join(path.trim_start_matches('/'))) {
            Ok(bytes) => ("200 OK", "application/octet-stream", bytes),
            Err(_) => ("404 Not Found", "text/plain", b"none".to_vec()),
        },
    };
    let length = body.len();
    write!(
        client,
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n"
    )?;
    client.write_all(&body)
}

fn query(url: &str) -> Command {
    chomp(&format!("query 2x2 --table {url}"))
}

fn download(url: &str, out: &Path) -> Command {
    let mut command = chomp(&format!("download --from {url} --out"));
    command.arg(out);
    command
}

fn status(url: &str) -> Command {
    chomp(&format!("status --coordinator {url}"))
}

fn says(command: &mut Command, code: i32, texts: &[&str]) -> Ended {
    let ended = end(command);
    ended.refuses(code, texts);
    ended.says_nothing_of("damaged");
    ended
}

#[test]
fn a_folder_that_is_not_there_is_no_damage() {
    let url = start(Gives::Files(made_once(&TABLE, 20).to_owned()));
    let out = folder();
    for name in ["table-21/", "tabel-20/", ""] {
        let url = format!("{url}{name}");
        for mut command in [query(&url), download(&url, out.path())] {
            says(&mut command, 1, &["there is no table", &url, "table-32/"]);
        }
    }
    let place = url.trim_end_matches('/');
    says(
        &mut status(&url),
        4,
        &[place, "not as a coordinator does", "/status"],
    );
}

#[test]
fn a_server_without_byte_ranges_gives_whole_tables_only() {
    let url = start(Gives::Files(made_once(&TABLE, 20).to_owned()));
    let url = format!("{url}table-20/");
    says(
        &mut query(&url),
        1,
        &["byte ranges", "shard-0000.zst", "chomp download"],
    );
    let out = folder();
    end(&mut download(&url, out.path())).done();
    end(&mut query(out.path().to_str().unwrap())).done();
}

#[test]
fn a_page_to_sign_in_is_called_a_page() {
    let url = start(Gives::Page);
    let out = folder();
    for url in [url.clone(), format!("{url}table-20/")] {
        for mut command in [query(&url), download(&url, out.path()), status(&url)] {
            says(&mut command, 4, &[&url, "web page (text/html", "address"]);
        }
    }
}

/// A proxy that is not there harms nobody who needs none, and else is named, without its password.
#[test]
fn a_proxy_is_for_what_is_elsewhere_and_is_named() {
    const PROXY: &str = "http://me:secret@127.0.0.1:1";
    let out = folder();
    let proxied = |mut command: Command| {
        for name in ["http_proxy", "https_proxy"] {
            command.env(name, PROXY).env_remove(name.to_uppercase());
        }
        command.env_remove("no_proxy").env_remove("NO_PROXY");
        command
    };
    let in_vain = |command: Command| {
        let mut command = proxied(command);
        hasten_limits(&mut command, HASTE);
        command
    };
    let url = start(Gives::Files(made_once(&TABLE, 20).to_owned()));
    let url = format!("{url}table-20/");
    end(&mut proxied(download(&url, out.path()))).done();
    let page = start(Gives::Page);
    says(&mut proxied(status(&page)), 4, &["web page"]);

    for (url, variable) in [
        ("http://chomp.invalid/", "http_proxy"),
        ("https://chomp.invalid/", "https_proxy"),
    ] {
        for command in [query(url), download(url, out.path()), status(url)] {
            let through = "through the proxy http://127.0.0.1:1 of";
            let ended = says(&mut in_vain(command), 4, &[url, through, variable]);
            ended.says_nothing_of("secret");
        }
    }
    // A coordinator with a certificate of its own is asked without a proxy, wherever it is.
    let file = out.path().join("access.json");
    let certificate = Certificate::new("test", &["chomp.invalid".to_owned()]).unwrap();
    let access = Access {
        coordinator: "https://chomp.invalid:7171".to_owned(),
        ca: Some(certificate.pem().to_owned()),
        token: None,
    };
    access.write(&file).unwrap();
    let mut ask = chomp("status --access");
    ask.arg(&file);
    let ended = says(
        &mut in_vain(ask),
        4,
        &["chomp.invalid", "cannot be reached"],
    );
    ended.says_nothing_of("proxy");
}
