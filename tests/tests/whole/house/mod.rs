//! The invariants of the crates and pages that the files themselves can be asked about.

mod circles;
mod limits;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Which crates of the project a crate may use. Dependencies point one way.
const MAY_USE: [(&str, &[&str]); 21] = [
    ("chomp-durable-files", &[]),
    ("chomp-table", &["chomp-durable-files"]),
    ("chomp-kernel", &["chomp-table"]),
    ("chomp-proto", &[]),
    ("chomp-access", &["chomp-durable-files"]),
    ("chomp-store", &["chomp-durable-files", "chomp-table"]),
    ("chomp-plan", &["chomp-table"]),
    (
        "chomp-serve",
        &[
            "chomp-durable-files",
            "chomp-games",
            "chomp-query",
            "chomp-table",
        ],
    ),
    (
        "chomp-coordinator",
        &[
            "chomp-access",
            "chomp-kernel",
            "chomp-plan",
            "chomp-proto",
            "chomp-serve",
            "chomp-store",
            "chomp-table",
        ],
    ),
    (
        "chomp-worker",
        &[
            "chomp-access",
            "chomp-kernel",
            "chomp-proto",
            "chomp-store",
            "chomp-table",
        ],
    ),
    (
        "chomp-download",
        &[
            "chomp-access",
            "chomp-durable-files",
            "chomp-store",
            "chomp-table",
        ],
    ),
    ("chomp-export", &["chomp-table"]),
    ("chomp-query", &["chomp-table"]),
    ("chomp-games", &[]),
    ("chomp-boxes", &["chomp-durable-files", "chomp-table"]),
    (
        "chomp-grundy",
        &["chomp-durable-files", "chomp-kernel", "chomp-table"],
    ),
    ("chomp-verify", &["chomp-durable-files", "chomp-table"]),
    (
        "chomp-cli",
        &[
            "chomp-access",
            "chomp-coordinator",
            "chomp-download",
            "chomp-export",
            "chomp-durable-files",
            "chomp-games",
            "chomp-grundy",
            "chomp-kernel",
            "chomp-plan",
            "chomp-query",
            "chomp-serve",
            "chomp-store",
            "chomp-table",
            "chomp-boxes",
            "chomp-verify",
            "chomp-worker",
        ],
    ),
    ("chomp-tests", &["chomp-cli"]),
    ("chomp-testing", &["chomp-kernel", "chomp-table"]),
    (
        "chomp-fuzz",
        &[
            "chomp-access",
            "chomp-coordinator",
            "chomp-proto",
            "chomp-query",
            "chomp-serve",
            "chomp-store",
            "chomp-table",
            "chomp-worker",
        ],
    ),
];

/// The crates without network, and how the crates begin that would bring it.
const PURE: [&str; 9] = [
    "chomp-durable-files",
    "chomp-table",
    "chomp-kernel",
    "chomp-plan",
    "chomp-export",
    "chomp-query",
    "chomp-games",
    "chomp-boxes",
    "chomp-verify",
];
const NETWORK: [&str; 8] = [
    "async",
    "futures",
    "hyper",
    "mio",
    "object_store",
    "prost",
    "tokio",
    "tonic",
];

/// The words that must not be found in the sources of a crate, and why.
const ABSENT: [(&str, &[&str], &str); 7] = [
    (
        "crates/kernel/src",
        &[
            "std::fs",
            "std::io",
            "std::net",
            "std::thread",
            "std::time",
            "async fn",
        ],
        "the kernel computes, and nothing else",
    ),
    (
        "extras/games/src",
        &[
            "std::fs",
            "std::io",
            "std::net",
            "std::thread",
            "std::time",
            "async fn",
        ],
        "a game is mathematics",
    ),
    (
        "extras/boxes/src",
        &["std::net", "std::fs", "std::time", "async fn"],
        "boxes of few rows are mathematics and threads",
    ),
    (
        "crates/table/src",
        &["std::net", "std::thread", "std::time", "async fn"],
        "a table is bytes and files",
    ),
    (
        "crates/export/src",
        &[
            "std::net",
            "std::thread",
            "std::time",
            "async fn",
            "RangeBits",
            "::head",
            "::sources",
            "::range",
        ],
        "an export is a function of the words of a table",
    ),
    (
        "crates/verify/src",
        &[
            "std::net",
            "std::thread",
            "std::time",
            "async fn",
            "RangeBits",
            "::head",
            "::sources",
            "::range",
        ],
        "a check is a function of the words of a table, and shares nothing with what computes them",
    ),
    (
        "crates/plan/src",
        &[
            "std::fs",
            "std::io",
            "std::net",
            "std::sync",
            "std::thread",
            "std::time",
            "async fn",
            "tokio",
            "HashMap",
            "HashSet",
        ],
        "the plan has no clock, no I/O and no chance",
    ),
];

/// Tests beside the code: they may do what the code may not.
const TESTS: [&str; 2] = ["/tests", "crates/plan/src/invariants"];

/// What is generated.
const GENERATED: &str = "proto/src/v1.rs";

fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests
        .parent()
        .expect("a member of the workspace")
        .to_owned()
}

/// The packages of the workspace as cargo sees them.
fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--format-version=1",
            "--offline",
            "--manifest-path",
        ])
        .arg(root().join("Cargo.toml"))
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    metadata["packages"].as_array().expect("packages").clone()
}

/// The dependencies of a package, without those of its tests.
fn dependencies(package: &Value) -> impl Iterator<Item = &str> {
    let all = package["dependencies"].as_array().expect("dependencies");
    all.iter()
        .filter(|dependency| dependency["kind"] != "dev")
        .map(|dependency| dependency["name"].as_str().expect("a name"))
}

/// All sources of the project that people wrote, with their paths from its root, and their texts.
fn sources() -> Vec<(String, String)> {
    let mut sources = Vec::new();
    for package in packages() {
        let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
        let folder = manifest.parent().expect("a folder");
        for name in ["src", "tests", "benches", "examples", "build.rs"] {
            read(&folder.join(name), &mut sources);
        }
    }
    assert!(sources.len() > 50, "{} sources found", sources.len());
    sources
}

fn read(path: &Path, sources: &mut Vec<(String, String)>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            read(&entry.unwrap().path(), sources);
        }
    } else if path.extension().is_some_and(|extension| extension == "rs") && path.is_file() {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        if name == GENERATED {
            return;
        }
        sources.push((name, fs::read_to_string(path).unwrap()));
    }
}

/// Whether a word occurs in a line, as a whole.
fn has_word(line: &str, word: &str) -> bool {
    line.split(|c: char| !c.is_alphanumeric() && c != '_')
        .any(|found| found == word)
}

#[test]
fn dependencies_point_one_way() {
    let packages = packages();
    assert_eq!(packages.len(), MAY_USE.len());
    for package in &packages {
        let name = package["name"].as_str().unwrap();
        let (_, allowed) = MAY_USE
            .iter()
            .find(|(crate_name, _)| *crate_name == name)
            .unwrap();
        for dependency in dependencies(package).filter(|name| name.starts_with("chomp-")) {
            assert!(
                allowed.contains(&dependency),
                "{name} must not use {dependency}"
            );
        }
    }
}

#[test]
fn table_and_kernel_have_no_network() {
    let packages = packages();
    for name in PURE {
        let package = packages
            .iter()
            .find(|package| package["name"] == name)
            .unwrap();
        for dependency in dependencies(package) {
            assert!(
                !NETWORK.iter().any(|prefix| dependency.starts_with(prefix)),
                "{name} must not use {dependency}"
            );
        }
    }
}

#[test]
fn unsafe_code_is_in_the_kernel_alone() {
    let mut in_kernel = 0;
    for (name, text) in sources() {
        let code = text.lines().map(|line| line.split("//").next().unwrap());
        let count = code
            .filter(|line| {
                has_word(line, concat!("un", "safe")) || has_word(line, concat!("un", "safe_code"))
            })
            .count();
        if name.starts_with("crates/kernel/src") {
            in_kernel += count;
        } else {
            assert_eq!(count, 0, "{name}");
        }
    }
    assert!(in_kernel > 0, "the search finds what there is");
}

#[test]
fn what_must_be_absent_is_absent() {
    let sources = sources();
    for (folder, words, reason) in ABSENT {
        let mut files = 0;
        let is_test = |name: &str| TESTS.iter().any(|test| name.contains(test));
        let inside = |name: &str| name.starts_with(folder) && !is_test(name);
        for (name, text) in sources.iter().filter(|(name, _)| inside(name)) {
            files += 1;
            for (number, line) in (1..).zip(text.lines()) {
                let found = words.iter().find(|word| line.contains(**word));
                assert_eq!(found, None, "{name}:{number}: {reason}");
            }
        }
        assert!(files > 3, "{files} files in {folder:?}");
    }
}

#[test]
fn no_two_files_import_each_other() {
    let mut count = 0;
    for package in packages() {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        let folder = manifest.parent().unwrap().join("src");
        let mut files = Vec::new();
        read(&folder, &mut files);
        let folder = folder.strip_prefix(root()).unwrap();
        let modules = files.into_iter().map(|(name, text)| {
            let path = Path::new(&name).strip_prefix(folder).unwrap();
            let names = path.with_extension("");
            let names = names.iter().map(|name| name.to_str().unwrap().to_owned());
            let is_face = |name: &String| ["lib", "main", "mod"].contains(&name.as_str());
            (names.filter(|name| !is_face(name)).collect(), text)
        });
        let modules: BTreeMap<circles::Module, String> = modules.collect();
        let imports = circles::imports(&modules);
        count += imports.values().map(BTreeMap::len).sum::<usize>();
        let circles = circles::circles(imports);
        assert!(circles.is_empty(), "{}: {circles:#?}", folder.display());
    }
    assert!(count > 500, "{count} imports found");
}

/// The headings of a page, as links name them.
fn anchors(text: &str) -> BTreeSet<String> {
    let titles = text.lines().filter(|line| line.starts_with('#'));
    let titles = titles.map(|line| line.trim_start_matches('#').trim().to_lowercase());
    let slug = |title: String| {
        let kept = title
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    titles.map(slug).collect()
}

/// All pages for people.
fn pages() -> Vec<PathBuf> {
    let folders = ["", "docs", "extras/python", "tests"].map(|folder| root().join(folder));
    let files = folders
        .iter()
        .flat_map(|folder| fs::read_dir(folder).unwrap());
    let files = files.map(|entry| entry.unwrap().path());
    let pages: Vec<PathBuf> = files
        .filter(|path| path.extension() == Some("md".as_ref()))
        .collect();
    assert!(pages.len() > 15, "{pages:?}");
    pages
}

#[test]
fn links_lead_somewhere() {
    let (mut links, mut places) = (0, 0);
    for path in pages() {
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

/// What `docs/SECURITY.md` promises is attacked by tests that are there.
#[test]
fn tests_that_attack_are_there() {
    let text = fs::read_to_string(root().join("docs/SECURITY.md")).unwrap();
    let sources = sources();
    let names = text.split('`').skip(1).step_by(2);
    let names = names.filter(|name| name.matches('_').count() > 1);
    let mut count = 0;
    for name in names {
        let start = format!("fn {}", name.trim_end_matches('…'));
        let is_there = sources.iter().any(|(_, text)| text.contains(&start));
        assert!(is_there, "there is no test {name}");
        count += 1;
    }
    assert!(count > 20, "{count} tests");
}
