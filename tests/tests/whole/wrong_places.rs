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
use chomp_testing::tables::{SMALL, publish};
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
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
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

/// Runs each command that reads a table on one at `table`.
fn readers(table: &Path) -> Vec<Command> {
    let line = |line: &&str| {
        let mut command = chomp(line);
        command.arg("--table").arg(table);
        command
    };
    let lines = [
        "query 20x20",
        "openings",
        "export --format rows --out /dev/null",
        "verify --report /dev/null",
        "status",
    ];
    lines.iter().map(line).collect()
}

#[test]
fn a_path_without_a_table_is_called_what_it_is() {
    let home = folder();
    let at = |name: &str| home.path().join(name);
    fs::create_dir(at("empty")).unwrap();
    fs::create_dir_all(at("other/notes")).unwrap();
    fs::create_dir_all(at("begun/work")).unwrap();
    fs::create_dir_all(at("begun-values/values-work")).unwrap();
    fs::write(at("notes.txt"), "A table of losing positions is a folder.").unwrap();
    fs::write(at("nothing.zst"), "").unwrap();
    let shard = made_once(&TABLE, 20).join("table-20/shard-0000.zst");
    let advice = ["chomp run --table", "chomp download --from"];
    for (name, what) in [
        ("none", "there is no such folder"),
        ("empty", "the folder is empty"),
        ("other", "the folder has other files"),
    ] {
        for mut command in readers(&at(name)) {
            says(&mut command, 1, &[&[name, what], &advice[..]].concat());
        }
    }
    for begun in ["begun", "begun-values"] {
        let [query, openings, others @ ..] = &mut readers(&at(begun))[..] else {
            panic!("five commands");
        };
        for command in [query, openings] {
            says(command, 1, &["chomp status --table", "`chomp box`"]);
        }
        for command in &mut others[..2] {
            says(command, 1, &["chomp status --table"]);
        }
    }
    for file in [at("notes.txt"), at("nothing.zst"), "/dev/null".into()] {
        let name = file.to_str().unwrap();
        for (number, mut command) in readers(&file).into_iter().enumerate() {
            let is_read = number < 2 && name != "/dev/null";
            let what = if is_read {
                "no table and no shard of one"
            } else {
                "has no published table: it is"
            };
            says(&mut command, 1, &[name, what]);
        }
    }
    for mut command in readers(&shard).split_off(2) {
        says(&mut command, 1, &["table-20, its folder", "chomp openings"]);
    }
    // A shard of which bytes are missing is one still.
    let bytes = fs::read(&shard).unwrap();
    fs::write(at("cut.zst"), &bytes[..bytes.len() / 2]).unwrap();
    for mut command in readers(&at("cut.zst")).into_iter().take(2) {
        end(&mut command).refuses(3, &["cut.zst is damaged"]);
    }
}

/// Its openings would be none at all.
#[test]
fn openings_come_from_a_first_shard() {
    let home = folder();
    let table = publish(home.path(), 12, SMALL);
    let openings = |shard: &str| {
        let mut command = chomp("openings --table");
        end(command.arg(table.join(shard)))
    };
    assert!(
        openings("shard-0000.zst")
            .done()
            .stdout
            .starts_with("1x1\n")
    );
    let refused = openings("shard-0001.zst");
    refused.refuses(2, &["shard-0001.zst has no openings", "first shard"]);
}

/// A mistake in the question is told also where there is no table.
#[test]
fn a_wrong_question_is_told_before_a_missing_table() {
    let home = folder();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let serve = format!("serve --http {}", taken.local_addr().unwrap());
    for (line, code, texts) in [
        ("query 8xx8", 2, &["8xx8", "rows x columns"][..]),
        ("query 8x8 4,5", 2, &["4,5", "longest first"]),
        ("query 60x60", 5, &["60x60"]),
        ("openings 8y9", 2, &["8y9"]),
        ("export --out x.doc", 2, &["x.doc", "--format"]),
        ("export --format chomp-fast --out x", 2, &["--box 16x16"]),
        ("export --out none/x.csv", 1, &["none", "cannot create"]),
        ("verify --seed 3", 2, &["--level sample"]),
        ("verify --report none/x", 1, &["--report FILE"]),
        (&serve, 1, &["cannot listen on", "--http"]),
    ] {
        let ended = end(chomp(line).current_dir(home.path()));
        ended.refuses(code, texts);
        ended.says_nothing_of("published table");
    }
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}
