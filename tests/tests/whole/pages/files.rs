//! The site of plain files in a browser: what its pages say beside `chomp query` on the same table, from hosts that
//! answer nothing but files, and from some that fail.

use std::fs;
use std::io::{self, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use chomp_table::Word;
use chomp_testing::needs;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::browser::{Browser, calm};
use super::site::{cell, rows, text};
use crate::common::cluster::{Process, free_port, wait_to_answer};
use crate::common::http::{read_head, serve};
use crate::common::random::Random;
use crate::common::{chomp, end, read_json, run};

/// The host of a site, and the address of its first page.
struct Host {
    home: TempDir,
    url: String,
    server: Process,
}

/// A table of so many bits, and its site below a path.
fn laid_out(bits: u32) -> (TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    end(&mut run(&home.path().join("table"), bits)).summary();
    let site = home.path().join("www/~carl/chomp");
    let mut command = chomp("site --json --table");
    command
        .arg(home.path().join("table"))
        .arg("--out")
        .arg(&site);
    let told = end(&mut command).summary();
    assert_eq!(told["bits"], bits);
    (home, site)
}

fn host((home, _): (TempDir, PathBuf), port: u16, mut server: Command) -> Host {
    let server = Process::start(&mut server, home.path());
    wait_to_answer(port);
    let url = format!("http://127.0.0.1:{port}/~carl/chomp/");
    Host { home, url, server }
}

fn python(bits: u32) -> Host {
    let (laid_out, port) = (laid_out(bits), free_port());
    let mut server = Command::new("python3");
    server.args(["-m", "http.server", "--bind", "127.0.0.1", "--directory"]);
    server
        .arg(laid_out.0.path().join("www"))
        .arg(port.to_string());
    host(laid_out, port, server)
}

fn nginx(bits: u32) -> Option<Host> {
    let there = needs::can("nginx", Command::new("nginx").arg("-v"));
    needs::found("NGINX", there)?;
    let (laid_out, port) = (laid_out(bits), free_port());
    let home = laid_out.0.path();
    let main = format!(
        "daemon off; master_process off; pid nginx.pid; error_log stderr; events {{ }}
         http {{ access_log off; client_body_temp_path a; proxy_temp_path b; fastcgi_temp_path c; uwsgi_temp_path d;
             scgi_temp_path e; types {{ text/html html; text/javascript js; text/css css; image/svg+xml svg; }}
             server {{ listen 127.0.0.1:{port}; root www; }} }}"
    );
    fs::write(home.join("nginx.conf"), main).unwrap();
    let mut server = Command::new("nginx");
    server
        .args(["-e", "stderr", "-c", "nginx.conf", "-p"])
        .arg(home);
    Some(host(laid_out, port, server))
}

/// The answers of the page about positions.
fn answers(browser: &Browser, positions: &[Vec<u32>]) -> Vec<Value> {
    let found = browser.run(&format!(
        "return (async () => {{
             const {{ askPosition }} = await import(new URL('assets/api.js', location.href));
             return Promise.all({}.map(askPosition));
         }})();",
        json!(positions)
    ));
    found.as_array().unwrap().clone()
}

/// Compares what the pages say with what `chomp query` says.
fn agrees(browser: &Browser, host: &Host, bits: u32, count: usize) {
    let random = &mut Random::new();
    let mut positions: Vec<Vec<u32>> = (0..count)
        .map(|_| rows(Word::new(random.below(1 << (bits - 1)) as u64 * 2)))
        .collect();
    positions.push(vec![10; 8]);
    // One that is losing, and the bar whose far corner is the winning bite.
    positions.extend([
        vec![],
        vec![1],
        vec![bits - 3, 1],
        vec![2; bits as usize - 2],
    ]);
    let found = answers(browser, &positions);
    let mut query = chomp("query --json --table");
    query.arg(host.home.path().join("table"));
    let names = positions.iter().map(|rows| {
        format!(
            "[{}]",
            if rows.is_empty() {
                "0".to_owned()
            } else {
                text(rows)
            }
        )
    });
    query.args(names);
    let expected = end(&mut query).done().stdout;
    assert_eq!(expected.lines().count(), positions.len());
    for (line, found) in expected.lines().zip(found) {
        let expected: Value = serde_json::from_str(line).unwrap();
        for field in ["rows", "losing", "winning_moves", "reply"] {
            assert_eq!(found[field], expected[field], "{field} of {line}");
        }
    }
    let mut openings = chomp("openings --json --table");
    openings.arg(host.home.path().join("table"));
    let boards = end(&mut openings).done().stdout;
    let boards: Vec<Value> = boards
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let site = host.home.path().join("www/~carl/chomp/data/openings.json");
    assert_eq!(read_json(&site), json!(boards));
}

/// Plays, explores, and looks at every page.
fn is_usable(browser: &Browser, host: &Host, bits: u32) {
    browser.open(&format!(
        "{}play.html#start={}&first=you",
        host.url,
        text(&[10; 8])
    ));
    browser.wait_for_turn(0);
    browser.wait_to_say("#table", &format!("Table of {bits} bits"));
    browser.wait_to_say("#table", "Every file is checked on your machine");
    browser.click(&cell((4, 9)));
    let shown = browser.wait_for_turn(2);
    assert_eq!((shown.moves.len(), &*shown.turn), (2, "you"));
    for page in ["", "play.html", "explore.html", "files.html"] {
        browser.open("about:blank");
        browser.open(&format!("{}{page}", host.url));
        browser.wait("document.querySelector('#table, code') !== null");
        let bad = "[...document.querySelectorAll('a')].filter(({href}) => /(games|job|openapi)/.test(href)).length";
        assert_eq!(browser.value(bad), 0, "{page}");
        // A phone shows it without scrolling sideways.
        browser.resize(390, 844, true);
        let width = "document.documentElement.scrollWidth";
        assert_eq!(browser.value(width), 390, "{page}");
        browser.resize(1280, 900, false);
    }
    browser.open(&format!("{}explore.html#position=8x{}", host.url, bits - 8));
    browser.wait_to_say("#outcome", "Winning");
    browser.wait("document.querySelector('#by-area svg') !== null");
    browser.wait("document.querySelectorAll('#map button').length > 100");
    browser.click("#play-it");
    browser.wait("document.body.dataset.turn === 'you'");
    browser.is_content();
}

#[test]
fn a_site_below_a_path_answers_as_the_table_does() {
    let Some(browser) = calm() else { return };
    let host = python(28);
    is_usable(&browser, &host, 28);
    agrees(&browser, &host, 28, 150);
    drop(host.server);
}

#[test]
fn a_larger_site_on_nginx_answers_as_the_table_does() {
    let Some(browser) = calm() else { return };
    let Some(host) = nginx(32) else { return };
    is_usable(&browser, &host, 32);
    // A question about a large position takes few files: at most 19 of 60,000 random ones.
    let random = &mut Random::new();
    for _ in 0..15 {
        let word = Word::new((1 << 31) + random.below(1 << 30) as u64 * 2);
        browser.open("about:blank");
        browser.open(&format!("{}explore.html#position=1", host.url));
        browser.wait_to_say("#outcome", "Losing");
        answers(&browser, &[rows(word)]);
        let lookups = "performance.getEntriesByType('resource').filter(({name}) => /lookup.[0-9].[0-9]+.bin/.test(name)).length";
        let asked = browser.value(lookups).as_u64().unwrap();
        assert!((1..=20).contains(&asked), "{asked} for {:?}", rows(word));
    }
    agrees(&browser, &host, 32, 60);
    drop(host.server);
}

/// A host of files that fails at those of a folder in some way.
fn faulty(site: &Path, fault: &Arc<Mutex<&'static str>>) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (site, fault) = (site.to_owned(), Arc::clone(fault));
    let answer = move |mut stream: TcpStream| -> io::Result<()> {
        let head = read_head(&mut BufReader::new(&stream))?;
        let path = head.split(' ').nth(1).unwrap_or_default();
        let fault = if path.contains("lookup/1/0") {
            *fault.lock().unwrap()
        } else {
            ""
        };
        let kind = match path.rsplit('.').next() {
            Some("js") => "text/javascript",
            Some("css") => "text/css",
            Some("html") => "text/html",
            _ => "application/octet-stream",
        };
        let (mut status, mut body) = match fs::read(site.join(&path[1..])) {
            Ok(body) => ("200 OK", body),
            Err(_) => ("404 Not Found", Vec::new()),
        };
        match fault {
            "missing" => (status, body) = ("404 Not Found", b"<html>Not here".to_vec()),
            "page" => body = b"<html>Welcome to our host".to_vec(),
            "damaged" => body[4_000] ^= 1,
            "slow" => thread::park_timeout(Duration::from_millis(300)),
            "silent" => return read_head(&mut BufReader::new(&stream)).map(|_| ()),
            _ => {}
        }
        let length = body.len();
        body.truncate(if fault == "half" { length / 2 } else { length });
        write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
        )?;
        stream.write_all(&body)
    };
    thread::spawn(move || serve(&listener, || true, answer));
    port
}

#[test]
fn a_host_that_fails_is_told_as_what_it_is() {
    let Some(browser) = calm() else { return };
    let (_home, site) = laid_out(24);
    let fault = Arc::new(Mutex::new(""));
    let port = faulty(&site, &fault);
    for (how, told) in [
        ("missing", "A file is missing here"),
        ("page", "is damaged, or is not the one of this table"),
        ("damaged", "is damaged, or is not the one of this table"),
        ("half", "The server cannot be reached"),
        ("silent", "The server does not answer"),
        ("slow", ""),
    ] {
        *fault.lock().unwrap() = how;
        browser.open("about:blank");
        browser.open(&format!(
            "http://127.0.0.1:{port}/explore.html#position=4,2"
        ));
        browser.wait_to_say("#outcome", "Winning");
        browser.run("const real = AbortSignal.timeout.bind(AbortSignal); AbortSignal.timeout = (ms) => real(ms / 40);");
        browser.write("#text", "10x13");
        browser.click("#ask button");
        if how != "slow" {
            browser.wait_to_say("#notice", told);
            *fault.lock().unwrap() = "";
            browser.click_at_once("#notice button");
        }
        browser.wait_to_say("#outcome", "Winning, with");
        browser.complaints();
    }
}
