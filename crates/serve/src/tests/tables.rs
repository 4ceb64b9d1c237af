//! Finished tables, whole and in parts, and nothing beside them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use chomp_table::Table;
use chomp_table::digest::Digest;

use super::{publish, put, site, start, with_table};

#[tokio::test]
async fn finished_tables_are_listed_when_they_are_there() {
    let directory = tempfile::tempdir().unwrap();
    let tested = start(site(directory.path()).await.router()).await;
    assert_eq!(tested.get("/").await.body, b"[]\n");
    assert_eq!(tested.get("/table-08/manifest.json").await.status, 404);

    publish(directory.path(), 14);
    let small = publish(directory.path(), 8);
    let list = tested.get("/").await;
    let expected =
        b"[{\"bits\":8,\"path\":\"/table-08/\"},{\"bits\":14,\"path\":\"/table-14/\"}]\n";
    assert_eq!(list.body, expected);
    assert_eq!(list.header("content-type"), "application/json");
    assert_eq!(list.header("cache-control"), "no-cache");

    // A table is what its manifest says now.
    let first = tested.get("/table-08/manifest.json").await;
    let text = String::from_utf8(first.body).unwrap();
    let newer = text.replace("0.0.0", "0.0.11");
    put(&small.join("manifest.json"), newer.as_bytes());
    let second = tested.get("/table-08/manifest.json").await;
    assert_eq!(second.body.len(), text.len() + 1);
    assert_ne!(first.headers["etag"], second.headers["etag"]);
    // Without one, or with one that is damaged, there is no table, and others are not affected.
    put(&small.join("manifest.json"), b"{}");
    assert_eq!(tested.get("/table-08/manifest.json").await.status, 500);
    let list = tested.get("/").await.body;
    assert_eq!(list, b"[{\"bits\":14,\"path\":\"/table-14/\"}]\n");
    fs::remove_file(small.join("manifest.json")).unwrap();
    assert_eq!(tested.get("/table-08/shard-0000.zst").await.status, 404);
}

#[tokio::test]
async fn files_come_as_they_are_and_in_parts() {
    let (tested, _directory, folder) = with_table().await;
    let index = tested.get("/table-14/").await.body;
    let index = String::from_utf8(index).unwrap();
    let fingerprint = Table::open(&folder).unwrap().manifest().fingerprint;
    assert!(index.contains(&format!("Fingerprint {fingerprint}<")));
    let links = index.matches("<a href").count();
    assert_eq!(links, fs::read_dir(&folder).unwrap().count());
    for (name, kind) in [
        ("manifest.json", "application/json"),
        ("SHA256SUMS", "text/plain; charset=utf-8"),
        ("shard-0000.zst", "application/zstd"),
        ("shard-0001.zst", "application/zstd"),
    ] {
        let bytes = fs::read(folder.join(name)).unwrap();
        let (n, etag) = (bytes.len(), format!("\"{}\"", Digest::of(&bytes)));
        let url = format!("/table-14/{name}");
        let link = format!("<a href=\"{name}\">{name}</a> {n} bytes<");
        assert!(index.contains(&link), "{index}");
        let beyond = format!("bytes={n}-");
        for (header, status, part) in [
            (("accept-encoding", "gzip, zstd"), 200, 0..n),
            (("range", "bytes=0-0"), 206, 0..1),
            (("range", "bytes=5-"), 206, 5..n),
            (("range", "bytes=0-1,3-4"), 200, 0..n),
            (("range", &beyond), 416, 0..0),
            (("if-none-match", &etag), 304, 0..0),
        ] {
            for method in ["GET", "HEAD"] {
                let answer = tested.ask(method, &url, &[header]).await;
                assert_eq!(answer.status, status, "{header:?}");
                assert_eq!(answer.header("content-type"), kind);
                // No name has a digest in it, so nothing is the same for ever under its name.
                assert_eq!(answer.header("cache-control"), "no-cache");
                assert_eq!(answer.header("accept-ranges"), "bytes");
                assert_eq!(answer.header("content-encoding"), "");
                assert_eq!(answer.header("etag"), etag);
                let place = match status {
                    206 => format!("bytes {}-{}/{n}", part.start, part.end - 1),
                    416 => format!("bytes */{n}"),
                    _ => String::new(),
                };
                assert_eq!(answer.header("content-range"), place);
                if status < 300 {
                    assert_eq!(answer.header("content-length"), part.len().to_string());
                }
                let sent = if method == "GET" { part.clone() } else { 0..0 };
                assert!(answer.body == bytes[sent], "{method} {header:?}");
            }
        }
    }
}

/// Ways to ask for what is beside the files of a table.
fn hostile_paths(absolute: &str) -> Vec<String> {
    let mut paths = vec![
        format!("/{absolute}"),
        format!("/table-14/{absolute}"),
        format!("http://a/{absolute}"),
        format!("/assets/file://{absolute}"),
    ];
    let ups = ".. %2e%2e %2E. ..%2f.. ..%5c %252e%252e . %c0%ae%c0%ae ..; ..%00 ..%20 table-14/..";
    let starts = "/ /table-14 /assets /api/position /table-14/shard-0000.zst /work";
    let names = "secrets.json lock work/job table-14/more.txt manifest.json";
    for slash in "/ // %2f \\ %252f /./".split(' ') {
        for name in names.split(' ') {
            paths.extend([format!("/{name}"), format!("/{slash}{name}")]);
            for up in ups.split(' ') {
                let start = |start| format!("{start}{slash}{up}{slash}{name}");
                paths.extend(starts.split(' ').map(start));
            }
        }
    }
    // Neither a table nor a manifest lists what these links lead to.
    for link in "table-14/link table-14/outside table-15 table-link".split(' ') {
        paths.extend(["", "/outside.txt", "/manifest.json"].map(|name| format!("/{link}{name}")));
    }
    let names = "more.txt shard-0009.zst manifest.json%00 shard-0000.zst/ /shard-0000.zst \
                 %73hard-0000.zst manifest.json. MANIFEST.JSON ./manifest.json shard-0000.zst%20";
    paths.extend(names.split(' ').map(|name| format!("/table-14/{name}")));
    let folders = "work table-014 table-14%00 table- table-99 table--1 table-+14 TABLE-14 .";
    let manifest = |folder| format!("/{folder}/manifest.json");
    paths.extend(folders.split(' ').map(manifest));
    paths
}

#[tokio::test]
async fn nothing_else_on_the_disk_can_be_reached() {
    let (tested, directory, folder) = with_table().await;
    let secret = "do not show this";
    fs::create_dir(directory.path().join("work")).unwrap();
    let paths =
        "secrets.json lock table-14/more.txt table-14/shard-0009.zst work/job work/manifest.json";
    for path in paths.split(' ') {
        put(&directory.path().join(path), secret.as_bytes());
    }
    let outside = tempfile::tempdir().unwrap();
    put(&outside.path().join("outside.txt"), secret.as_bytes());
    symlink(outside.path().join("outside.txt"), folder.join("link")).unwrap();
    symlink(outside.path(), folder.join("outside")).unwrap();
    symlink(outside.path(), directory.path().join("table-15")).unwrap();
    symlink(&folder, directory.path().join("table-link")).unwrap();
    let paths = hostile_paths(&folder.join("more.txt").display().to_string());
    assert!(paths.len() > 500);
    for path in &paths {
        let answer = tested.get(path).await;
        let status = answer.status;
        assert!([400, 404].contains(&status), "{path}: {status}");
        let text = String::from_utf8_lossy(&answer.body);
        assert!(!text.contains(secret), "{path}");
        // A path that is no position is repeated, and nothing else is known of the disk.
        let place = directory.path().to_str().unwrap();
        let is_shown = text.contains(place) && !path.contains(place);
        assert!(!is_shown, "{path}: {text}");
    }
    // A query is no part of the path.
    let query = tested.get("/table-14/manifest.json?a=/../b").await;
    assert_eq!(query.status, 200);
}

/// Puts something under the name `path`, through which `secret` could be read.
fn plant(what: &str, path: &Path, secret: &Path) {
    match what {
        "link" => symlink(secret, path).unwrap(),
        "other name" => fs::hard_link(secret, path).unwrap(),
        "folder" => fs::create_dir(path).unwrap(),
        _ => assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
    }
}

/// A user who may write to the folder of a table cannot have the server show files that only the server may read.
#[tokio::test]
#[expect(
    clippy::disallowed_methods,
    reason = "puts files there behind the server's back"
)]
async fn what_is_planted_under_the_name_of_a_file_is_not_handed_out() {
    let (tested, directory, folder) = with_table().await;
    let name = |file: &str| format!("/table-14/{file}");
    let shard = folder.join("shard-0000.zst");
    let bytes = fs::read(&shard).unwrap();
    // As long as the shard, so that its length does not tell.
    let secret = directory.path().join("secrets.json");
    put(&secret, &vec![b's'; bytes.len()]);
    for file in ["shard-0000.zst", "manifest.json"] {
        let (path, aside) = (folder.join(file), folder.join("aside"));
        for what in ["link", "other name", "pipe", "folder"] {
            // One that was handed out before, too.
            let good = tested.get(&name(file)).await;
            assert_eq!(good.status, 200, "{file}");
            fs::rename(&path, &aside).unwrap();
            plant(what, &path, &secret);
            for range in ["bytes=0-", "bytes=5-7"] {
                let answer = tested.ask("GET", &name(file), &[("range", range)]).await;
                assert_eq!(answer.status, 500, "{what} for {file}");
                let text = String::from_utf8(answer.body).unwrap();
                assert!(!text.contains("sss") && !text.contains("secrets"), "{text}");
            }
            let removed = fs::remove_file(&path).or_else(|_| fs::remove_dir(&path));
            removed.unwrap();
            fs::rename(&aside, &path).unwrap();
            assert!(tested.get(&name(file)).await.body == good.body);
        }
    }
    // One byte is enough, or one more or less, or nothing at all.
    let mut damaged = bytes.clone();
    damaged[9] ^= 1;
    let longer = [&bytes[..], b"x"].concat();
    for wrong in [&damaged, &longer, &bytes[1..], b""] {
        put(&shard, wrong);
        let answer = tested.get(&name("shard-0000.zst")).await;
        assert_eq!(answer.status, 500);
        let text = String::from_utf8(answer.body).unwrap();
        assert!(!text.contains(folder.to_str().unwrap()), "{text}");
    }
    fs::remove_file(&shard).unwrap();
    assert_eq!(tested.get(&name("shard-0000.zst")).await.status, 500);
    put(&shard, &bytes);
    assert!(tested.get(&name("shard-0000.zst")).await.body == bytes);
}
