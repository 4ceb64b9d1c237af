//! Tables in archives: answers that lead to other servers, addresses with signatures, and answers that are legal and
//! rare.

use std::fs;
use std::io::{self, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use tempfile::TempDir;

use crate::common::http::{field, read_head, serve};
use crate::common::process::Ended;
use crate::common::{FINGERPRINT_20, chomp, end, folder, made_once};

/// The way of a server with requests for files.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Way {
    Plain,
    /// Every answer leads to this address, followed by the name of the file and a signature.
    LeadsTo(String),
    /// The part is told without the length of the file.
    LengthUnsaid,
    /// At most so many bytes come in answer to a request for a part.
    Capped(usize),
    /// The end of the connection is that of the file, and comes too early the first time that a part is asked for.
    Unframed,
    Chunked,
    WholeFiles,
    /// All is said to be compressed.
    Encoded,
}

/// A server that has a table in folders of any name, for requests with this signature.
struct Archive {
    port: u16,
    way: Arc<Mutex<Way>>,
    /// The heads of requests.
    heads: Arc<Mutex<Vec<String>>>,
}

const SIGNATURE: &str = "?sig=secret";

/// The end of an answer without a body. It ends the connection, so it says so: a client that takes it for one that
/// broke asks once more.
const EMPTY: &str = "connection: close\r\ncontent-length: 0\r\n\r\n";

fn table() -> PathBuf {
    static TABLE: OnceLock<TempDir> = OnceLock::new();
    made_once(&TABLE, 20).join("table-20")
}

impl Archive {
    fn start(way: Way, signature: &'static str) -> Archive {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (way, heads) = (
            Arc::new(Mutex::new(way)),
            Arc::<Mutex<Vec<String>>>::default(),
        );
        let (ways, seen, table) = (Arc::clone(&way), Arc::clone(&heads), table());
        thread::spawn(move || {
            let answer = move |client: TcpStream| {
                let head = read_head(&mut BufReader::new(&client))?;
                seen.lock().unwrap().push(head.clone());
                let is_same = |seen: &&String| **seen == head;
                let is_first = seen.lock().unwrap().iter().filter(is_same).count() == 1;
                let way = ways.lock().unwrap().clone();
                answer(client, &head, &table, signature, &way, is_first)
            };
            serve(&listener, || true, answer);
        });
        Archive { port, way, heads }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    fn set(&self, way: Way) {
        *self.way.lock().unwrap() = way;
    }
}

fn answer(
    mut client: TcpStream,
    head: &str,
    table: &Path,
    signature: &str,
    way: &Way,
    is_first: bool,
) -> io::Result<()> {
    let target = head.split(' ').nth(1).unwrap();
    let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
    let name = path.rsplit('/').next().unwrap();
    if let Way::LeadsTo(place) = way
        && !name.is_empty()
    {
        return write!(
            client,
            "HTTP/1.1 302 Found\r\nlocation: {place}{name}{SIGNATURE}\r\n{EMPTY}"
        );
    }
    let Ok(file) = fs::read(table.join(name)) else {
        return write!(client, "HTTP/1.1 404 Not Found\r\n{EMPTY}");
    };
    if query != signature {
        return write!(client, "HTTP/1.1 403 Forbidden\r\n{EMPTY}");
    }
    let mut lines = vec!["connection: close".to_owned()];
    let mut body = &file[..];
    let range = field(head, "range").filter(|_| *way != Way::WholeFiles);
    if let Some(range) = range {
        let (from, last) = range
            .strip_prefix("bytes=")
            .unwrap()
            .split_once('-')
            .unwrap();
        let (from, mut end) = (from.parse().unwrap(), last.parse::<usize>().unwrap() + 1);
        if let Way::Capped(most) = way {
            end = end.min(from + most);
        }
        body = &file[from..end];
        let range = match way {
            Way::LengthUnsaid => format!("Bytes {from}-{}/*", end - 1),
            _ => format!("bytes {from}-{}/{}", end - 1, file.len()),
        };
        lines.push(format!("content-range: {range}"));
    }
    if *way == Way::Encoded {
        lines.push("content-encoding: gzip".to_owned());
    }
    let status = if range.is_some() {
        "206 Partial Content"
    } else {
        "200 OK"
    };
    match way {
        Way::Unframed if name.starts_with("shard-") && is_first => {
            body = &body[..body.len().saturating_sub(100)];
        }
        Way::Unframed => {}
        Way::Chunked => lines.push("transfer-encoding: chunked".to_owned()),
        _ => lines.push(format!("content-length: {}", body.len())),
    }
    let lines = lines.join("\r\n");
    write!(client, "HTTP/1.1 {status}\r\n{lines}\r\n\r\n")?;
    if *way == Way::Chunked {
        for chunk in body.chunks(700) {
            write!(client, "{:x}\r\n", chunk.len())?;
            client.write_all(chunk)?;
            write!(client, "\r\n")?;
        }
        return write!(client, "0\r\n\r\n");
    }
    client.write_all(body)
}

fn download(from: &str) -> Ended {
    let out = folder();
    let mut command = chomp(&format!("download --json --from {from} --out"));
    end(command.arg(out.path()))
}

fn query(table: &str) -> Ended {
    end(&mut chomp(&format!("query --json 5,4 --table {table}")))
}

#[test]
fn answers_lead_to_the_server_that_has_the_files() {
    let files = Archive::start(Way::Plain, SIGNATURE);
    let origin = Archive::start(Way::LeadsTo(files.url("blob/")), "");
    for folder in ["releases/download/v1", "releases/download/v1/", "table-20"] {
        download(&origin.url(folder)).made(FINGERPRINT_20);
        query(&origin.url(folder)).done();
    }
    for head in files.heads.lock().unwrap().iter() {
        for secret in ["referer", "authorization", "cookie"] {
            assert_eq!(field(head, secret), None, "{head}");
        }
    }
    // Without end, in the clear on another machine, and to a server that is of no use.
    let around = origin.url("around/");
    for (place, said) in [
        (around.as_str(), "not followed"),
        (
            "http://192.0.2.1/",
            "leads to http://192.0.2.1/manifest.json?…",
        ),
        ("ftp://127.0.0.1/", "not followed"),
        (&files.url("nothing/x-"), "there is no table of 20 bits"),
    ] {
        origin.set(Way::LeadsTo(place.to_owned()));
        origin.heads.lock().unwrap().clear();
        let ended = download(&origin.url("table-20"));
        assert!(
            ended.code != Some(0) && !ended.stderr.contains("secret"),
            "{ended:?}"
        );
        ended.says(said);
        // The limit is 5; a connection that breaks has the file asked for once more, from the first address.
        assert!(origin.heads.lock().unwrap().len() < 100, "{ended:?}");
    }
}

#[test]
fn a_signature_in_an_address_is_for_each_file_and_in_no_message() {
    let files = Archive::start(Way::Plain, SIGNATURE);
    for folder in ["blob", "table-20", "table-20/"] {
        let from = files.url(&format!("{folder}{SIGNATURE}"));
        download(&from).made(FINGERPRINT_20);
        query(&from).done();
    }
    let refused = download(&files.url("table-20?sig=secret-of-another"));
    refused.refuses(5, &["table-20/manifest.json?…", "status 403"]);
    refused.says_nothing_of("secret");
    for (wrong, said) in [
        ("table-20#part", "no server sees"),
        ("table-20?sig=secret#part", "no server sees"),
    ] {
        download(&files.url(wrong)).refuses(2, &[said]);
    }
    let named = format!("http://ann:secret@127.0.0.1:{}/table-20", files.port);
    for ended in [download(&named), query(&named)] {
        ended.says_nothing_of("secret");
        ended.refuses(2, &["a user's name or password"]);
    }
    let status = chomp(&format!("status --coordinator {}", files.url(SIGNATURE))).output();
    assert_eq!(status.unwrap().status.code(), Some(2));
}

#[test]
fn legal_answers_are_no_damage() {
    let files = Archive::start(Way::Plain, "");
    let from = files.url("table-20");
    for way in [
        Way::LengthUnsaid,
        Way::Capped(1000),
        Way::Unframed,
        Way::Chunked,
        Way::WholeFiles,
    ] {
        files.set(way.clone());
        files.heads.lock().unwrap().clear();
        download(&from).made(FINGERPRINT_20);
        let ended = query(&from);
        if way == Way::WholeFiles {
            ended.refuses(1, &["byte ranges", "chomp download"]);
        } else {
            ended.done();
        }
    }
    files.set(Way::Encoded);
    download(&from).refuses(4, &["encoded with gzip"]);
    for head in files.heads.lock().unwrap().iter() {
        assert_eq!(field(head, "accept-encoding"), Some("identity"), "{head}");
    }
}
