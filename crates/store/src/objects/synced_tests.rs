//! Shows from outside, by the system calls of a process, that a creation is on the disk when it
//! returns, and that a sync that fails is not swallowed.

use std::fs;
use std::path::Path;
use std::process::Command;

use chomp_testing::needs;

/// The test that is watched: it creates objects in new folders, and fails if a creation does.
const WATCHED: &str = "objects::contract::a_directory_keeps_its_objects";

/// Whether the watched test passes under strace.
fn watch(options: &[&str], trace: &Path) -> bool {
    let mut strace = Command::new("strace");
    strace.args([
        "-f",
        "-y",
        "-e",
        "trace=fsync,linkat,mkdir,mkdirat,unlinkat",
        "-o",
    ]);
    strace.arg(trace).args(options);
    strace.arg(std::env::current_exe().unwrap());
    let output = strace.args(["--exact", WATCHED]).output().unwrap();
    assert!(fs::metadata(trace).unwrap().len() > 0, "{output:?}");
    output.status.success()
}

/// The calls in a trace, as "fsync <path>", "linkat <new path>", "mkdir <path>" and "unlinkat <path>".
fn calls(trace: &str) -> Vec<String> {
    let done = trace
        .lines()
        .filter(|line| line.contains(") = 0") || line.ends_with("= 0"));
    let call = |line: &str| {
        let (_, call) = line.split_once(' ')?;
        let (name, arguments) = call.trim().split_once('(')?;
        // A descriptor is shown with its path: 5</table/work>.
        let open = arguments.split(['<', '>']).nth(1);
        let named = |number: usize| arguments.split('"').nth(number);
        Some(match name {
            "fsync" => format!("fsync {}", open?),
            "linkat" => format!("linkat {}/{}", open?, named(3)?),
            "mkdir" => format!("mkdir {}", named(1)?),
            "mkdirat" => format!("mkdir {}/{}", open?, named(1)?),
            _ => format!("{name} {}/{}", open?, named(1)?),
        })
    };
    done.filter_map(call).collect()
}

#[test]
fn creations_are_on_the_disk() {
    if !needs::strace() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace");
    assert!(watch(&[], &trace));
    let calls = calls(&fs::read_to_string(&trace).unwrap());
    let position = |call: &str| calls.iter().position(|found| found == call);

    let link = calls.iter().position(|call| call.starts_with("linkat"));
    let link = link.expect("an object is created");
    let name = calls[link].strip_prefix("linkat ").unwrap();
    let (table, name) = name.split_once("/work/").unwrap();
    assert_eq!(name, "job");
    let file = position(&format!("fsync {table}/work/job#1")).expect("the file is synced");
    assert!(file < link, "before it has its name: {calls:#?}");
    let folder = format!("fsync {table}/work");
    assert_eq!(calls[link + 1], folder, "then the folder: {calls:#?}");

    let removed = position(&format!("unlinkat {table}/work/x")).expect("an object is removed");
    assert_eq!(
        calls[removed + 1],
        folder,
        "a removal is synced: {calls:#?}"
    );

    // A new start makes sure of what it finds.
    for folder in ["", "/work"] {
        let found = format!("fsync {table}{folder}");
        assert!(
            calls[removed + 2..].contains(&found),
            "{folder}: {calls:#?}"
        );
    }

    // Each new folder's entry is synced before anything is made in the folder.
    let root = table.strip_suffix("/a/b/table").unwrap();
    for (parent, name) in [
        ("", "a"),
        ("/a", "b"),
        ("/a/b", "table"),
        ("/a/b/table", "work"),
    ] {
        let made = position(&format!("mkdir {root}{parent}/{name}")).unwrap();
        assert_eq!(
            calls[made + 1],
            format!("fsync {root}{parent}"),
            "{calls:#?}"
        );
    }

    let syncs = calls
        .iter()
        .filter(|call| call.starts_with("fsync"))
        .count();
    assert!(syncs >= 9, "{calls:#?}");
    std::thread::scope(|scope| {
        for sync in 1..=syncs {
            let trace = directory.path().join(sync.to_string());
            scope.spawn(move || {
                let fault = format!("inject=fsync:error=EIO:when={sync}");
                // strace counts the calls of each thread: here they are all of one.
                let success = watch(&["-e", &fault], &trace);
                assert!(!success, "sync {sync} of {syncs} failed and nobody noticed");
            });
        }
    });
}
