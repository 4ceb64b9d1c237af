//! The rules of the house that files can be asked about: which crate uses which, what must be absent, where links lead.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The crates of the project, and which of them each may use. Dependencies point one way. A crate that is pure has no
/// network.
const MAY_USE: &str = "
durable-files: pure
table: pure durable-files
kernel: pure table
proto:
access: durable-files table
store: durable-files plan table
plan: pure table
serve: durable-files games query table
coordinator: access kernel plan proto serve store table worker
worker: access kernel proto store table
download: access durable-files store table
export: pure table
query: pure boxes table
games: pure
boxes: pure durable-files table
grundy: durable-files kernel table
verify: pure durable-files table
cli: access coordinator download export durable-files games grundy kernel plan query serve store table boxes verify worker
tests: cli
testing: kernel table
fuzz: access coordinator plan proto query serve store table testing worker
";

/// How the crates begin that would bring a network.
const NETWORK: &str = "async futures hyper mio object_store prost tokio tonic";

/// The words that must not be found in the sources of a crate, and why.
const ABSENT: [(&str, &str, &str); 3] = [
    (
        "crates/kernel/src",
        "std::fs std::io std::net std::thread std::time",
        "the kernel computes, and nothing else",
    ),
    (
        "crates/verify/src",
        "std::net std::thread std::time RangeBits ::head ::sources ::range",
        "a check shares nothing with what computes the table",
    ),
    (
        "crates/plan/src",
        "std::fs std::io std::net Mutex atomic mpsc std::thread std::time tokio HashMap HashSet",
        "the plan has no clock, no I/O and no chance",
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The packages of the workspace as cargo sees them.
fn packages() -> Vec<Value> {
    let options = "metadata --no-deps --format-version=1 --offline --manifest-path";
    let mut cargo = Command::new(env!("CARGO"));
    let manifest = root().join("Cargo.toml");
    let output = cargo.args(options.split(' ')).arg(manifest).output();
    let output = output.expect("cargo runs");
    assert!(output.status.success(), "{output:?}");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    metadata["packages"].as_array().expect("packages").clone()
}

/// The sources in a folder of the project, with their paths from its root.
fn sources(folder: &str) -> Vec<(String, String)> {
    let files = crate::common::files(&root().join(folder)).into_iter();
    let is_source = |path: &PathBuf| path.extension() == Some("rs".as_ref());
    let named = files.filter(is_source).map(|path| {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        (name, fs::read_to_string(path).unwrap())
    });
    named.collect()
}

#[test]
fn dependencies_point_one_way() {
    let rules = MAY_USE.trim().lines().map(|line| {
        let (name, allowed) = line.split_once(':').unwrap();
        (format!("chomp-{name}"), allowed.split_whitespace())
    });
    let rules: BTreeMap<_, BTreeSet<&str>> = rules
        .map(|(name, allowed)| (name, allowed.collect()))
        .collect();
    let packages = packages();
    assert_eq!(packages.len(), rules.len());
    for package in &packages {
        let name = package["name"].as_str().unwrap();
        let allowed = &rules[name];
        let all = package["dependencies"].as_array().unwrap().iter();
        // Tests may use more.
        for dependency in all.filter(|dependency| dependency["kind"] != "dev") {
            let dependency = dependency["name"].as_str().unwrap();
            let may = if let Some(own) = dependency.strip_prefix("chomp-") {
                allowed.contains(own)
            } else {
                let has_network = |prefix| dependency.starts_with(prefix);
                !(allowed.contains("pure") && NETWORK.split(' ').any(has_network))
            };
            assert!(may, "{name} must not use {dependency}");
        }
    }
}

#[test]
fn what_must_be_absent_is_absent() {
    for (folder, words, reason) in ABSENT {
        let mut sources = sources(folder);
        // Tests beside the code may do what the code may not.
        let is_test = |name: &str| name.contains("/tests") || name.contains("/invariants");
        sources.retain(|(name, _)| !is_test(name));
        assert!(sources.len() > 3, "{} files in {folder}", sources.len());
        for (name, text) in sources {
            for (number, line) in (1..).zip(text.lines()) {
                let mut words = words.split(' ').chain(["async fn"]);
                let found = words.find(|word| line.contains(word));
                assert_eq!(found, None, "{name}:{number}: {reason}");
            }
        }
    }
}

/// The headings of a page, as links name them.
fn anchors(text: &str) -> BTreeSet<String> {
    let titles = text.lines().filter(|line| line.starts_with('#'));
    let slug = |title: &str| {
        let title = title.trim_start_matches('#').trim().to_lowercase();
        let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
        title.chars().filter(kept).collect::<String>()
    };
    titles.map(|title| slug(title).replace(' ', "-")).collect()
}

#[test]
fn links_lead_somewhere() {
    let folders = ["", "docs", "extras/python", "tests"].map(|folder| root().join(folder));
    let files = folders
        .iter()
        .flat_map(|folder| fs::read_dir(folder).unwrap());
    let files = files.map(|entry| entry.unwrap().path());
    let (mut links, mut places) = (0, 0);
    for path in files.filter(|path| path.extension() == Some("md".as_ref())) {
        let page = path.display();
        let text = fs::read_to_string(&path).unwrap();
        for link in text.split("](").skip(1) {
            let link = link.split(')').next().unwrap();
            if link.contains("://") {
                continue;
            }
            links += 1;
            let (target, place) = link.split_once('#').unwrap_or((link, ""));
            let file = if target.is_empty() {
                path.clone()
            } else {
                path.parent().unwrap().join(target)
            };
            assert!(file.try_exists().unwrap(), "{page} leads to {target}");
            if !place.is_empty() {
                places += 1;
                let there = anchors(&fs::read_to_string(&file).unwrap());
                assert!(there.contains(place), "{page} leads to {link}");
            }
        }
    }
    assert!(links > 50 && places > 10, "{links} links, {places} places");
}

/// Each promise of `docs/SECURITY.md` is attacked by tests that are there.
#[test]
fn tests_that_attack_are_there() {
    let text = fs::read_to_string(root().join("docs/SECURITY.md")).unwrap();
    let folders = ["cli", "coordinator", "crates", "extras", "tests", "worker"];
    let sources: Vec<_> = folders.into_iter().flat_map(sources).collect();
    let names = text.split('`').skip(1).step_by(2);
    let names = names.filter(|name| name.matches('_').count() > 1);
    let mut count = 0;
    for name in names {
        let is_there = sources
            .iter()
            .any(|(_, text)| text.contains(&format!("fn {name}")));
        assert!(is_there, "there is no test {name}");
        count += 1;
    }
    assert!(count > 20, "{count} tests");
}
