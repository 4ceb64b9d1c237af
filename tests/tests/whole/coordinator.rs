//! `chomp coordinator`, `chomp worker` and `chomp status` as people meet them: exit codes, messages,
//! signals, secrets, and who owns a table.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::common::cluster::{Cluster, HASTE, Process, at_home, free_port, wait_for};
use crate::common::http::bearer;
use crate::common::{
    Ended, FINGERPRINT_28, FINGERPRINT_30, ask, chomp, copy, end, exists, folder, hasten_limits,
    number, read_json, run, wrapped,
};
use nix::sys::signal::Signal;
use serde_json::Value;

/// A job of so many ranges that there is time to do something to it.
const LONG: (u32, u32) = (28, 14);
/// A job that is not over before its status was asked for twice.
const LONGER: (u32, u32) = (30, 16);
/// A job that is done at once.
const SHORT: (u32, u32) = (24, 14);

fn begin(cluster: &Cluster, (bits, range_bits): (u32, u32)) -> Process {
    cluster.start_coordinator(&mut cluster.coordinator(bits, range_bits))
}

/// Waits until the coordinator tells something of its job, and gives all that it tells then.
fn wait_until_told(cluster: &Cluster, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
    let mut status = Value::Null;
    wait_for(what, || {
        let response = cluster.get("/status", &[&bearer(&cluster.token())]);
        assert_eq!(response.status, 200, "{response:?}");
        status = response.json();
        condition(&status)
    });
    status
}

fn is_finished(status: &Value) -> bool {
    status["phase"] == "finished"
}

fn has_begun(status: &Value) -> bool {
    number(status, "leases") > 0 && number(status, "ranges_done") > number(status, "ranges_resumed")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_table_has_one_owner() {
    let cluster = Cluster::new();
    // The door for pages is none for workers.
    let pages = free_port();
    let mut command = cluster.coordinator(SHORT.0, SHORT.1);
    command.args(["--http", &format!("127.0.0.1:{pages}")]);
    let coordinator = cluster.start_coordinator(&mut command);
    for port in [cluster.port, pages] {
        assert_eq!(cluster.get_on(port, "/readyz", &[]).status, 200);
    }
    let mut worker = cluster.worker("lost");
    worker.args(["--coordinator", &format!("https://127.0.0.1:{pages}")]);
    end(&mut worker).refuses(5, &["refuses"]);

    let port = free_port();
    let second = || cluster.coordinator_on(port, SHORT.0, SHORT.1);
    end(&mut second()).refuses(5, &["in use", "lock"]);
    end(&mut at_home(run(&cluster.table(), SHORT.0), cluster.home())).refuses(5, &["in use"]);

    // One that stands still owns it no less.
    coordinator.send(Signal::SIGSTOP);
    end(&mut second()).refuses(5, &["in use"]);
    coordinator.send(Signal::SIGCONT);
    assert_eq!(cluster.get("/healthz", &[]).status, 200);

    // Its address cannot be had either.
    let other = Cluster::on(cluster.port);
    let refused = end(&mut other.coordinator(SHORT.0, SHORT.1));
    refused.refuses(1, &["cannot listen on", "--listen"]);

    assert_eq!(coordinator.kill().code, None);
    cluster.start_coordinator(&mut second());
}

/// A lock file that somebody removes does not keep a second owner out. The first one then finds out
/// before it writes.
#[test]
fn an_owner_with_a_successor_ends() {
    let cluster = Cluster::new();
    let first = begin(&cluster, LONG);
    let worker = cluster.join("loser");
    wait_until_told(&cluster, "work", has_begun);
    first.send(Signal::SIGSTOP);
    worker.send(Signal::SIGSTOP);
    fs::remove_file(cluster.table().join("lock")).unwrap();
    let successor = Cluster::on(free_port());
    let mut second = cluster.coordinator_on(successor.port, LONG.0, LONG.1);
    let second = cluster.start_coordinator(second.arg("--exit-when-done"));
    first.send(Signal::SIGCONT);
    worker.send(Signal::SIGCONT);
    let ended = first.wait();
    ended.refuses(5, &["taken over by another coordinator", "work/journal/"]);
    drop(worker);

    let worker = cluster.join("winner");
    second.wait().made(FINGERPRINT_28);
    worker.wait().done();
}

/// A table that is put back as it was some time ago is built to its end, also by workers that knew
/// it when it was older.
#[test]
fn a_table_that_is_put_back_is_finished() {
    let cluster = Cluster::new();
    let coordinator = begin(&cluster, LONGER);
    let mut worker = cluster.join("witness");
    let before = wait_until_told(&cluster, "work", has_begun);
    coordinator.pause();
    let before_more = cluster.home().join("copy");
    copy(&cluster.table(), &before_more);
    coordinator.send(Signal::SIGCONT);
    wait_until_told(&cluster, "more work", |status| {
        number(status, "ranges_done") > number(&before, "ranges_done")
    });
    coordinator.kill();
    assert!(worker.ended().is_none(), "the job was over too soon");
    worker.pause();
    fs::remove_dir_all(cluster.table()).unwrap();
    fs::rename(&before_more, cluster.table()).unwrap();
    worker.send(Signal::SIGCONT);

    let coordinator = begin(&cluster, LONGER);
    let status = wait_until_told(&cluster, "the end", is_finished);
    assert!(number(&status, "ranges_resumed") > 0, "{status}");
    worker.wait().done();
    coordinator.stop().made(FINGERPRINT_30);
}

#[test]
fn who_may_not_join_is_told_why() {
    let cluster = Cluster::in_the_clear();
    let stranger = folder();
    let coordinator = begin(&cluster, SHORT);
    let url = cluster.url();
    let by_address = |command: &str| {
        let line = format!("{command} --coordinator {url}");
        at_home(chomp(&line), stranger.path())
    };
    for command in ["worker", "status"] {
        let refused = end(&mut by_address(command));
        refused.refuses(5, &[&url, "no token", "--access FILE"]);
        refused.says_nothing_of("{");
    }

    let with = |access: &Path| {
        let mut command = at_home(chomp("worker --access"), stranger.path());
        command.arg(access);
        command
    };
    let access = stranger.path().join("access.json");
    end(&mut with(&access)).refuses(1, &["there is no access file", access.to_str().unwrap()]);

    let good = fs::read_to_string(cluster.access()).unwrap();
    fs::write(&access, &good).unwrap();
    fs::set_permissions(&access, fs::Permissions::from_mode(0o644)).unwrap();
    end(&mut with(&access)).refuses(1, &["secret", "chmod 600"]);

    // Any other token is wrong: one that nobody gave out, and one of another table.
    fs::set_permissions(&access, fs::Permissions::from_mode(0o600)).unwrap();
    let token = cluster.token();
    let other = Cluster::new();
    drop(begin(&other, SHORT));
    let (start, last) = token.split_at(token.len() - 1);
    let forged = format!("{start}{}", if last == "0" { '1' } else { '0' });
    for wrong in [forged, other.token(), "chomp1-".to_owned()] {
        fs::write(&access, good.replace(&token, &wrong)).unwrap();
        let refused = end(&mut with(&access));
        refused.refuses(5, &[&url, "refuses", "token"]);
        refused.says_nothing_of(&wrong);
    }
    fs::write(&access, good).unwrap();
    let good = cluster.start(with(&access).args(["--threads", "1"]));
    good.wait().done();
    drop(coordinator);
}

#[test]
fn a_coordinator_that_is_not_there_is_not_waited_for_for_ever() {
    let cluster = Cluster::new();
    let url = cluster.url();
    let mut worker = cluster.chomp(&format!("worker --coordinator {url}"));
    end(&mut worker).refuses(1, &[&url, "certificate", "--access FILE"]);

    let cluster = Cluster::in_the_clear();
    let url = cluster.url();
    let mut worker = cluster.chomp(&format!("worker --patience 1 --coordinator {url}"));
    end(&mut worker).refuses(4, &[&url, "cannot be reached"]);
    let mut status = cluster.chomp(&format!("status --coordinator {url}"));
    end(hasten_limits(&mut status, HASTE)).refuses(4, &[&url, "cannot be reached"]);

    // Nor is one that was there and is gone.
    let coordinator = begin(&cluster, LONG);
    let worker = cluster.start(cluster.worker("left alone").args(["--patience", "1"]));
    let stopped = cluster.join("stopped");
    wait_until_told(&cluster, "work", has_begun);
    coordinator.kill();
    // Nobody takes its results and leases: it does not say that somebody did.
    let ended = stopped.stop().exits(75);
    ended.says("without contact");
    ended.says_nothing_of("are submitted");
    worker.wait().refuses(4, &[&url, "cannot be reached"]);
}

#[test]
fn a_worker_that_is_told_to_stop_hands_back_what_it_has() {
    let cluster = Cluster::new();
    let coordinator = begin(&cluster, LONGER);
    // The results that the coordinator has acknowledged.
    let stopped = "finished results are submitted, and other leases are returned";
    for (signal, code, said) in [
        (Signal::SIGTERM, 75, stopped),
        (Signal::SIGINT, 75, stopped),
        (Signal::SIGUSR2, 0, "drained"),
    ] {
        let worker = cluster.join("first");
        wait_until_told(&cluster, "work", |status| {
            status["workers"][0]["ranges"].as_u64() > Some(0)
        });
        worker.send(signal);
        let ended = worker.wait();
        ended.says(said);
        let ended = ended.exits(code);
        let done: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(done["finished"], false);
        assert!(number(&done, "ranges_evaluated") > 0);
        let status = wait_until_told(&cluster, "its leave", |status| {
            number(status, "leases") == 0 && status["workers"] == Value::Array(Vec::new())
        });
        assert!(!is_finished(&status), "{status}");
    }
    let second = cluster.join("second");
    wait_until_told(&cluster, "the end", is_finished);
    second.wait().done();
    coordinator.stop().made(FINGERPRINT_30);
}

#[test]
fn a_coordinator_that_is_told_to_stop_is_continued() {
    let cluster = Cluster::new();
    let mut coordinator = begin(&cluster, LONG);
    let worker = cluster.join("patient");
    let mut resumed = 0;
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        wait_until_told(&cluster, "work", has_begun);
        coordinator.send(signal);
        let ended = coordinator.wait();
        ended.refuses(75, &["stopped early", "run the same command again"]);
        coordinator = begin(&cluster, LONG);
        let status = wait_until_told(&cluster, "a start", |status| number(status, "ranges") > 0);
        assert!(number(&status, "ranges_resumed") > resumed, "{status}");
        resumed = number(&status, "ranges_resumed");
    }
    let status = wait_until_told(&cluster, "the end", is_finished);
    assert!(number(&status, "epoch") > 2, "{status}");
    let ended = worker.wait().done();
    let done: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(done["finished"], true);
    coordinator.stop().made(FINGERPRINT_28);
}

#[test]
fn status_tells_how_the_job_gets_on() {
    let cluster = Cluster::new();
    let status_of_table = || end(cluster.chomp("status --json --table").arg(cluster.table()));
    status_of_table().refuses(1, &[cluster.table().to_str().unwrap()]);
    let coordinator = begin(&cluster, LONG);
    wait_until_told(&cluster, "a start", |status| number(status, "ranges") > 0);
    let alone = cluster.status();
    assert_eq!(alone["phase"], "running");
    assert_eq!(alone["waiting_for"], "no worker is there");
    assert_eq!(alone["workers"], Value::Array(Vec::new()));
    for (name, value) in [
        ("bits", 28),
        ("layers", 106),
        ("ranges", 1 << 14),
        ("leases", 0),
    ] {
        assert_eq!(number(&alone, name), value, "{name}");
    }

    let worker = cluster.join("Olga");
    let status = wait_until_told(&cluster, "work", |status| {
        let rate = status["positions_per_second"].as_f64();
        has_begun(status) && number(status, "layer") > 0 && rate > Some(0.0)
    });
    let olga = &status["workers"][0];
    assert_eq!(olga["name"], "Olga");
    assert_eq!(number(olga, "threads"), 1);
    assert!(number(olga, "ranges") > 0, "{status}");
    let text = end(cluster.chomp("status --access").arg(cluster.access()));
    let olga = "Olga, of owner: 1 thread,";
    for expected in ["28 bits, running", olga, "of 16,384 done", "left"] {
        assert!(text.stdout.contains(expected), "{expected}: {text:?}");
    }
    // The table's owner is asked, where there is one.
    assert_eq!(status_of_table().summary()["phase"], "running");
    coordinator.kill();
    let found = status_of_table().summary();
    assert_eq!(found["published_bits"], Value::Null);
    assert_eq!(number(&found, "range_bits"), 14);
    assert!(number(&found, "ranges_done") > 0, "{found}");

    let coordinator = begin(&cluster, LONG);
    worker.wait().done();
    let status = wait_until_told(&cluster, "the end", is_finished);
    assert_eq!(number(&status, "ranges_done"), 1 << 14);
    assert_eq!(number(&status, "losing"), 1_154_468);
    assert_eq!(number(&status, "leases"), 0);
    assert_eq!(number(&status, "shards_done"), 1);
    // One that comes late, by its address alone: the access file is found in the home of its user.
    let mut late = cluster.chomp(&format!("worker --json --coordinator {}", cluster.url()));
    let done = end(&mut late).summary();
    assert_eq!(done["finished"], true);
    assert_eq!(number(&done, "ranges_evaluated"), 0);
    coordinator.stop().made(FINGERPRINT_28);
    // A coordinator that starts with a finished table says so at once, and ends if it is told to.
    let mut again = cluster.coordinator(LONG.0, LONG.1);
    end(again.arg("--exit-when-done")).made(FINGERPRINT_28);
    let found = status_of_table().summary();
    assert_eq!(number(&found, "published_bits"), 28);
}

/// The command line and the environment of a process.
fn all_of(process: &Process) -> String {
    let proc = format!("/proc/{}", process.pid());
    let shown = ["cmdline", "environ"].map(|name| fs::read(format!("{proc}/{name}")).unwrap());
    String::from_utf8_lossy(&shown.concat()).into_owned()
}

#[test]
fn secrets_stay_secret() {
    let cluster = Cluster::new();
    let mut command = cluster.coordinator(LONG.0, LONG.1);
    let coordinator = cluster.start_coordinator(command.env("CHOMP_LOG", "trace"));
    let secrets = cluster.table().join("secrets.json");
    let state = cluster.home().join("state/chomp");
    let local = state.join(format!("loopback-{}.json", cluster.port));
    for file in [&secrets, &cluster.access(), &local] {
        assert_eq!(mode(file), 0o600, "{}", file.display());
    }
    assert_eq!(mode(&state), 0o700);

    let mut worker = cluster.worker("worker");
    let worker = cluster.start(worker.env("CHOMP_LOG", "trace"));
    wait_until_told(&cluster, "work", has_begun);
    let mut said = all_of(&coordinator) + &all_of(&worker);
    let mut add = |ended: Ended| {
        ended.says("TRACE");
        said += &ended.stdout;
        said += &ended.stderr;
    };
    let mut status = cluster.chomp("status --access");
    add(end(status.arg(cluster.access()).env("CHOMP_LOG", "trace")));
    add(worker.stop());
    add(coordinator.stop());
    assert!(!exists(&local), "it is for as long as the coordinator runs");

    let secrets: Value = read_json(&secrets);
    let key = secrets["key"].as_str().unwrap().lines();
    let mut hidden: Vec<&str> = key.filter(|line| !line.starts_with("--")).collect();
    assert!(!hidden.is_empty());
    let token = cluster.token();
    let random = token.strip_prefix("chomp1-").unwrap();
    hidden.extend([secrets["secret"].as_str().unwrap(), random]);
    for secret in hidden {
        assert!(secret.len() >= 16, "{secret}");
        if let Some(at) = said.find(secret) {
            let from = said[..at].rfind('\n').map_or(0, |at| at + 1);
            panic!("shown: {}", &said[from..at + secret.len()]);
        }
    }
}

/// The address is tried as soon as somebody listens, and one that does not work from here is said and no more.
#[test]
fn an_address_that_workers_cannot_reach_is_said_at_once() {
    let begin = |cluster: &Cluster, advertised: &str| {
        let mut command = cluster.coordinator(SHORT.0, SHORT.1);
        cluster.start_coordinator(command.args(["--advertise", advertised]))
    };
    for wrong in [
        "https://host",
        "host:0",
        "host:port",
        "a b",
        "0.0.0.0",
        "[::]:1",
        "a@b",
        "::1:x",
        "",
    ] {
        let cluster = Cluster::new();
        let mut command = cluster.coordinator(SHORT.0, SHORT.1);
        let ended = end(command.args(["--advertise", wrong]));
        ended.refuses(2, &["workers take a name"]);
    }
    let told = |cluster: &Cluster| read_json(&cluster.access())["coordinator"].clone();
    for (advertised, host) in [
        ("no-such-host.invalid", "no-such-host.invalid"),
        ("node_1.invalid", "node_1.invalid"),
        ("127.0.0.1:1", "127.0.0.1"),
        ("[::1]:1", "[::1]"),
    ] {
        let cluster = Cluster::new();
        let mut coordinator = begin(&cluster, advertised);
        let port = if advertised.ends_with(":1") {
            1
        } else {
            cluster.port
        };
        let url = format!("https://{host}:{port}");
        coordinator.wait_to_say(&format!("workers are told {url}, which does not work"));
        assert_eq!(told(&cluster), url.as_str());
        // It works all the same for a worker that knows a better one.
        assert_eq!(cluster.get("/healthz", &[]).status, 200);
    }
    // The port of the address may be that of --listen, and a job at an address that works says nothing.
    let cluster = Cluster::new();
    let coordinator = begin(&cluster, &format!("localhost:{}", cluster.port));
    assert_eq!(
        told(&cluster),
        format!("https://localhost:{}", cluster.port).as_str()
    );
    cluster.join("joins").wait().done();
    coordinator.stop().says_nothing_of("workers are told");
}

/// Access files that are none: from a pipe, from another program, and with a mark that editors leave.
#[test]
fn access_comes_from_a_pipe_and_with_a_mark() {
    let cluster = Cluster::new();
    let _coordinator = cluster.start_coordinator(&mut cluster.coordinator(SHORT.0, SHORT.1));
    let access = fs::read_to_string(cluster.access()).unwrap();
    let worker = "worker --threads 1 --memory 256MiB --access";
    ask(&mut cluster.chomp(&format!("{worker} -")), access.clone()).done();
    let piped = "\"$0\" status --access <(sleep 0.1; cat \"$1\"; sleep 0.1)";
    let program = cluster.chomp("");
    let mut shell = wrapped("bash", &["-c", piped], &program);
    end(shell.arg(cluster.access())).done();
    let marked = cluster.home().join("marked.json");
    fs::write(&marked, format!("\u{feff}{access}")).unwrap();
    fs::set_permissions(&marked, fs::Permissions::from_mode(0o600)).unwrap();
    for file in ["marked.json", "-"] {
        let url = cluster.url();
        let mut command = cluster.chomp(&format!("query 2x2 --table {url} --access {file}"));
        command.current_dir(cluster.home());
        ask(&mut command, format!("\u{feff}{access}")).done();
    }
    // Bad access files end at once, and nothing is waited for.
    let mut status = cluster.chomp("status --access -");
    ask(&mut status, "{}".to_owned()).refuses(1, &["not an intact access file"]);
    end(&mut cluster.chomp("status --access /dev/null")).refuses(1, &["a device"]);
}
