//! Messages of commands while a server gives nothing: a line soon, few lines, and the end of an outage.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::cluster::{Cluster, Process, free_port, wait_for};
use crate::common::proxy::Proxy;
use crate::common::{FINGERPRINT_28, chomp, end, exists, folder, hasten, run, start};
use nix::sys::signal::Signal;

/// How long a server is tried that has never answered.
const TRIED: Duration = Duration::from_secs(10);

/// The commands that ask a server, with its address.
fn askers(url: &str, out: &Path) -> [Command; 3] {
    let mut download = chomp(&format!("download --from {url} --out"));
    download.arg(out);
    let status = chomp(&format!("status --coordinator {url}"));
    [status, chomp(&format!("query 2x2 --table {url}")), download]
}

fn told(process: &Process) -> usize {
    process.said().matches("waiting for ").count()
}

#[test]
fn a_server_that_never_answers_is_said_soon_and_left_after_ten_seconds() {
    let home = folder();
    // It takes connections, and that is all.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_port = silent.local_addr().unwrap().port();
    let began = Instant::now();
    let mut all = Vec::new();
    for (port, cause) in [
        (free_port(), "Connection refused"),
        (silent_port, "no answer"),
    ] {
        let url = format!("http://127.0.0.1:{port}");
        for mut asker in askers(&url, &home.path().join("out")) {
            all.push((Process::start(&mut asker, home.path()), url.clone(), cause));
        }
    }
    wait_for("a line of each", || {
        all.iter().all(|(asker, ..)| told(asker) > 0)
    });
    for (asker, url, cause) in all {
        let ended = asker.wait();
        ended.refuses(4, &[&url, "trying for", "cannot be reached", cause]);
        let took = began.elapsed();
        assert!(took > TRIED, "{took:?}: {ended:?}");
        let lines = ended.stderr.matches("waiting for ").count();
        assert_eq!(lines, 1, "{ended:?}");
    }
}

#[test]
fn an_outage_of_a_download_is_said_once_and_so_is_its_end() {
    let cluster = Cluster::in_the_clear();
    end(&mut run(&cluster.table(), 28)).summary();
    let _coordinator = cluster.start_coordinator(&mut cluster.coordinator(28, 16));
    let proxy = Proxy::start(cluster.port);
    proxy.hold_after(100_000);
    let mut download = cluster.chomp(&format!("download --json --from {} --out", proxy.url));
    let download = cluster.start(download.arg(cluster.home().join("out")));
    wait_for("bytes", || proxy.passed() == 100_000);
    wait_for("a line", || told(&download) > 0);
    thread::sleep(Duration::from_secs(3));
    proxy.let_go();
    wait_for("another line", || download.said().contains("is over"));
    let ended = download.wait();
    ended.made(FINGERPRINT_28);
    for line in ["waiting for ", "is over"] {
        assert_eq!(ended.stderr.matches(line).count(), 1, "{ended:?}");
    }
}

/// A process that sleeps has nothing to do, but time goes on for it: a slow run for little work.
#[test]
fn progress_is_plain_lines_where_no_bar_can_be_drawn() {
    let directory = folder();
    let table = directory.path();
    let mut command = chomp("run --bits 24 --range-bits 12 --table");
    let mut child = start(hasten(command.arg(table), 10));
    assert!(child.wait_until(|| exists(&table.join("work/parts"))));
    child.pause();
    thread::sleep(Duration::from_millis(1200));
    child.send(Signal::SIGCONT);
    let ended = child.wait().done();
    assert!(!ended.stderr.is_empty());
    for line in ended.stderr.lines() {
        let is_plain = !line.contains(char::is_control);
        assert!(
            is_plain && line.starts_with("24 bits, ") && line.contains(" % "),
            "{line:?}"
        );
    }
}
