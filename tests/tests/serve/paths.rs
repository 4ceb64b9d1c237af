//! Nothing is shown but the files of the manifest, the pages and the API, however it is asked for.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::Served;
use super::common::files;
use super::common::http::get;

/// What is in every file that must not be shown.
const SECRET: &str = "do not show this";

/// Ways to write a step up, or none, and what parts steps.
const STEPS: [&str; 14] = [
    "..",
    "%2e%2e",
    "%2E.",
    ".%2e",
    "%252e%252e",
    "..%00",
    "..;",
    "...",
    ".",
    "%c0%ae%c0%ae",
    "%uff0e%uff0e",
    "..%20",
    "",
    "table-16/..",
];
const SLASHES: [&str; 8] = ["/", "//", "%2f", "%2F", "\\", "%5c", "%252f", "/./"];
/// What to begin with.
const STARTS: [&str; 8] = [
    "",
    "table-16",
    "assets",
    "api",
    "api/position",
    "api/openings",
    "table-16/shard-0000.zst",
    "work",
];

/// Every way to ask for `name` in the directory of the tables.
fn ways(name: &str) -> Vec<String> {
    let mut ways = vec![name.to_owned(), name.replace('/', "%2f"), escaped(name)];
    for start in STARTS {
        for step in STEPS {
            for slash in SLASHES {
                let end = name.replace('/', slash);
                ways.push(format!("{start}{slash}{step}{slash}{end}"));
                ways.push(format!("{start}{slash}{step}{slash}{step}{slash}{end}"));
            }
        }
    }
    ways
}

/// Every byte as an escape.
fn escaped(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        write!(text, "%{byte:02x}").unwrap();
    }
    text
}

fn leave(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, SECRET).unwrap();
}

#[test]
fn nothing_but_the_files_of_tables_can_be_had() {
    let served = Served::start();
    let table = served.table();
    let folder = table.join("table-16");
    let home = served.home.path().canonicalize().unwrap();
    leave(&home.join("outside.txt"));
    for name in [
        "secrets.json",
        "access.json",
        "more/within.txt",
        "table-17/shard-0000.zst",
    ] {
        leave(&table.join(name));
    }
    for name in [
        "more.txt",
        "shard-0099.zst",
        "shard-0000.zst.old",
        ".hidden",
        "index.html",
    ] {
        leave(&folder.join(name));
    }
    let there = files(&table);
    // The manifest lists none of these, wherever they lead.
    symlink(home.join("outside.txt"), folder.join("link.txt")).unwrap();
    symlink(&home, folder.join("link")).unwrap();
    symlink(&home, table.join("table-18")).unwrap();
    symlink(&folder, table.join("table-link")).unwrap();
    symlink("/etc/passwd", folder.join("shard-0098.zst")).unwrap();

    let listed = ["manifest.json", "SHA256SUMS", "shard-0000.zst"];
    let open: Vec<Vec<u8>> = listed
        .map(|name| fs::read(folder.join(name)).unwrap())
        .to_vec();
    let mut paths = Vec::new();
    for name in there {
        let name = name.strip_prefix(&table).unwrap().to_str().unwrap();
        paths.push(name.to_owned());
        paths.push(escaped(name));
    }
    for name in [
        "secrets.json",
        "work/journal/0000000000",
        "table-16/more.txt",
        "table-16/manifest.json",
    ] {
        paths.extend(ways(name));
    }
    for name in ["../outside.txt", "etc/passwd", "proc/self/environ"] {
        paths.push(format!("table-16/link/{name}"));
        paths.extend(ways(name).into_iter().step_by(3));
    }
    for path in [
        "outside.txt",
        "table/secrets.json",
        "table/table-16/more.txt",
    ] {
        let absolute = home.join(path).display().to_string();
        for way in [
            absolute.clone(),
            format!("/{absolute}"),
            escaped(&absolute),
            format!("file://{absolute}"),
        ] {
            paths.extend(
                ["", "table-16/", "assets/", "api/position/"].map(|start| format!("{start}{way}")),
            );
        }
    }
    assert!(paths.len() > 5000, "{}", paths.len());

    let place = home.to_str().unwrap();
    let mut shown = BTreeSet::new();
    for path in &paths {
        let response = get(served.port, &format!("/{path}"), &[]);
        let known = path
            .strip_prefix("table-16/")
            .is_some_and(|name| listed.contains(&name));
        if response.status == 200 {
            // The list and pages at other paths are as open as the files.
            let is_open = open.contains(&response.body);
            assert!(known && is_open, "{path}: {response:?}");
            shown.insert(path);
        } else {
            assert!(
                [400, 404, 414].contains(&response.status),
                "{path}: {response:?}"
            );
        }
        let text = String::from_utf8_lossy(&response.body);
        assert!(
            !text.contains(SECRET) && !text.contains("root:"),
            "{path}: {text}"
        );
        // What is no position is repeated, and nothing else is known of the disk.
        let repeated = path.contains(place) || path.contains(&escaped(place));
        assert!(repeated || !text.contains(place), "{path}: {text}");
    }
    assert_eq!(shown.len(), listed.len());
    served.stop();
}
