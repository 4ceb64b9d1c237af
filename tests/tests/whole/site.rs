//! `chomp site` as a process: what it writes, what it refuses, and that a folder is complete or not there. What the pages
//! say of it is in `pages::files`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;

use chomp_testing::values::{SMALL, areas, publish};

use crate::common::{change, chomp, copy, end, exists, files, finished, folder, read_json, start};

fn site(table: &Path, out: &Path, flags: &str) -> Command {
    let mut command = chomp("site --json --table");
    command.arg(table).arg("--out").arg(out);
    command.args(flags.split_whitespace());
    command
}

/// The paths and bytes of all files below a folder.
fn content(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = files(folder).into_iter();
    let content = files.map(|file| {
        let bytes = fs::read(&file).unwrap();
        (file.strip_prefix(folder).unwrap().to_owned(), bytes)
    });
    content.collect()
}

#[test]
fn the_same_table_gives_the_same_site() {
    let (table, home) = (finished(22), tempfile::tempdir().unwrap());
    let [one, other, linked] = ["one", "a/b/other", "linked"].map(|name| home.path().join(name));
    let told = end(&mut site(table.path(), &one, "")).summary();
    end(&mut site(table.path(), &other, "--memory 1MiB")).summary();
    let written = content(&one);
    assert!(written == content(&other));
    assert_eq!(told["files"], written.len());
    let bytes: usize = written.iter().map(|(_, bytes)| bytes.len()).sum();
    assert_eq!((&told["bits"], &told["bytes"]), (&22.into(), &bytes.into()));
    // The files of the table are those that are there, and a web server may read them.
    for file in files(&table.path().join("table-22")) {
        let name = Path::new("table-22").join(file.file_name().unwrap());
        assert!(fs::read(one.join(&name)).unwrap() == fs::read(&file).unwrap());
    }
    assert_eq!(
        fs::metadata(&one).unwrap().permissions().mode() & 0o055,
        0o055
    );
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 2);

    // Without shards the page about the files leads to them, and a smaller table inside has its own fingerprint.
    let flags = "--bits 20 --without-files https://example.org/t";
    let told = end(&mut site(table.path(), &linked, flags)).summary();
    let known = read_json(&table.path().join("table-22/manifest.json"));
    assert_eq!(told["fingerprint"], known["fingerprints_by_bits"][20]);
    let facts = read_json(&linked.join("data/table.json"));
    assert_eq!(
        (&facts["bits"], &facts["losing"]),
        (&20.into(), &known["losing_by_bits"][20])
    );
    let page = fs::read_to_string(linked.join("files.html")).unwrap();
    assert!(
        page.contains("\"https://example.org/t/shard-0000.zst\""),
        "{page}"
    );
    let card = fs::read_to_string(linked.join("README.md")).unwrap();
    for said in ["`https://example.org/t/`", "at most 20 bits", "10K<n<100K"] {
        assert!(card.contains(said), "{card}");
    }
    assert!(!exists(&linked.join("table-22")));
}

#[test]
fn wishes_that_cannot_be_met_leave_nothing() {
    let (table, home) = (finished(22), tempfile::tempdir().unwrap());
    let out = home.path().join("site");
    let refused = |table: &Path, flags: &str, code: i32, said: &[&str]| {
        end(&mut site(table, &out, flags)).refuses(code, said);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0, "{flags}");
    };
    refused(
        table.path(),
        "--bits 23",
        2,
        &["a table of 23 bits", "one of 22"],
    );
    refused(table.path(), "--bits 41", 2, &["at most 40 bits"]);
    refused(&home.path().join("nowhere"), "", 1, &["there is no"]);
    let values = folder();
    publish(values.path(), SMALL, &areas(8));
    refused(values.path(), "", 2, &["Grundy values"]);
    let damaged = tempfile::tempdir().unwrap();
    copy(table.path(), damaged.path());
    change(&damaged.path().join("table-22/shard-0000.zst"), |bytes| {
        bytes[40] ^= 1;
    });
    refused(damaged.path(), "", 3, &["shard-0000.zst"]);

    fs::create_dir(&out).unwrap();
    end(&mut site(table.path(), &out, "")).refuses(5, &["is there already"]);
}

#[test]
fn an_interrupted_site_is_not_there() {
    let (table, home) = (finished(24), tempfile::tempdir().unwrap());
    let out = home.path().join("site");
    // It takes a pass over the table for each few words.
    let mut process = start(&mut site(table.path(), &out, "--memory 1"));
    process.wait_to_say("\"words\"");
    process.send(Signal::SIGTERM);
    process.wait().refuses(75, &["nothing is kept"]);
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}
