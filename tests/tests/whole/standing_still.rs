//! Work that goes on whatever happens around it, and commands that say why they end: output that nobody reads, signals
//! that come twice, warnings of batch systems, limits of threads and memory.

use std::io::{ErrorKind, PipeReader, Read, Write, pipe};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use chomp_testing::needs;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::pty::openpty;
use nix::sys::signal::Signal;
use nix::sys::termios::{FlowArg, tcflow};

use crate::common::cluster::{Cluster, Server, free_port, serve_tables, wait_for};
use crate::common::faults::Faults;
use crate::common::process::Process;
use crate::common::{
    FINGERPRINT_24, FINGERPRINT_26, FINGERPRINT_28, chomp, end, exists, finished, folder,
    ranges_done, run, run_in, start, wrapped,
};

/// Longer than the time in which further signals are of the same event.
const ANOTHER_EVENT: Duration = Duration::from_millis(1500);

/// The write end of a pipe that takes no more bytes, and its reader.
fn full_pipe() -> (PipeReader, Stdio) {
    let (reader, writer) = pipe().unwrap();
    let set = |flags| fcntl(&writer, FcntlArg::F_SETFL(flags)).unwrap();
    set(OFlag::O_NONBLOCK);
    let filled = (&writer).write_all(&vec![b'x'; 1 << 21]);
    assert_eq!(filled.unwrap_err().kind(), ErrorKind::WouldBlock);
    set(OFlag::empty());
    (reader, writer.into())
}

/// A terminal that is stopped, as by Ctrl-S, and its other end.
fn stopped_terminal() -> (OwnedFd, Stdio) {
    let pty = openpty(None, None).unwrap();
    tcflow(&pty.slave, FlowArg::TCOOFF).unwrap();
    (pty.master, pty.slave.into())
}

/// A shell that sets a limit and then becomes the command.
fn limited(limit: &str, command: &Command) -> Command {
    wrapped(
        "sh",
        &["-c", &format!("ulimit {limit} && exec \"$0\" \"$@\"")],
        command,
    )
}

#[test]
fn nobody_needs_to_read_the_output() {
    let cluster = Cluster::new();
    let (mut reader, stderr) = full_pipe();
    let coordinator = {
        let mut command = cluster.coordinator(26, 16);
        let command = command.env("CHOMP_LOG", "trace");
        Process::start_unread(command, cluster.home(), stderr)
    };
    wait_for("the access file", || exists(&cluster.access()));
    // The worker's own output is not read either.
    let (_terminal, stderr) = stopped_terminal();
    let mut worker = cluster.worker("ann");
    let worker = Process::start_unread(worker.env("TERM", "xterm"), cluster.home(), stderr);
    worker.wait().done();
    assert!(exists(&cluster.table().join("table-26/manifest.json")));
    // Lines that found no room are counted.
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    });
    coordinator.stop().done();
    let read = reader.join().unwrap();
    assert!(read.contains("lines are lost"), "{read}");

    let home = folder();
    let (_terminal, stderr) = stopped_terminal();
    let mut command = run(&home.path().join("terminal"), 26);
    command = wrapped("env", &["TERM=xterm"], &command);
    let on_terminal = Process::start_unread(&mut command, home.path(), stderr);
    on_terminal.wait().made(FINGERPRINT_26);

    let (_reader, stderr) = full_pipe();
    let port = free_port();
    let mut command = serve_tables(&home.path().join("terminal"), port);
    let server = Process::start_unread(&mut command, home.path(), stderr);
    let ask = format!("query 8x10 --json --table http://127.0.0.1:{port}");
    let told = end(&mut chomp(&ask)).done();
    assert!(told.stdout.contains("winning_moves"), "{told:?}");
    server.stop().done();
}

/// Starts a process, and waits until it stands at its first sync of a file in this folder.
fn start_hanging(command: &mut Command, folder: &Path) -> (Process, Faults) {
    let faults = Faults::new();
    faults.set("sync", folder.to_str().unwrap(), None);
    let mut process = start(faults.reach(command));
    let is_there = process.wait_until(|| faults.is_hit());
    assert!(is_there, "{}", process.said());
    (process, faults)
}

#[test]
fn signals_of_one_event_are_one_wish() {
    let table = finished(24);
    let home = folder();
    let out = home.path();
    let server = Server::start(1, table.path(), out, "");
    let mut download = chomp(&format!("download --from {} --out", server.url()));
    download.arg(out.join("download"));
    let grundy = format!("grundy --tiles 70 --table {}", out.join("values").display());
    for (mut command, is_download) in [
        (run_in(&out.join("run"), 30, 16), false),
        (download, true),
        (chomp(&grundy), false),
    ] {
        let (process, faults) = start_hanging(&mut command, out);
        // As by `timeout`, which signals its child, and then the group with the child in it.
        process.pause();
        process.send(Signal::SIGTERM);
        process.send(Signal::SIGINT);
        process.send(Signal::SIGCONT);
        // A download does not wait for it.
        if !is_download {
            faults.end();
        }
        process.wait().refuses(75, &["again to go on"]);
    }
    let (mut process, _faults) = start_hanging(&mut run_in(&out.join("again"), 30, 16), out);
    let sent = Instant::now();
    process.send(Signal::SIGTERM);
    thread::sleep(Duration::from_millis(100));
    // A machine that takes too long for this sends the second signal of another event.
    if sent.elapsed() < Duration::from_millis(800) {
        process.send(Signal::SIGINT);
    }
    thread::sleep(ANOTHER_EVENT);
    assert!(process.ended().is_none());
    process.send(Signal::SIGTERM);
    process.wait().exits(75);
}

/// A sandbox without a network has no loopback either.
#[test]
fn what_is_in_one_process_needs_no_network() {
    let alone = |command: &Command| wrapped("unshare", &["--map-root-user", "--net"], command);
    let can = needs::can(
        "a sandbox without a network",
        &mut alone(&Command::new("true")),
    );
    let Some(()) = needs::found("NETNS", can) else {
        return;
    };
    let home = folder();
    let table = home.path().join("table");
    end(&mut alone(&run(&table, 24))).made(FINGERPRINT_24);
    // It begins with a published table, whose ranges it restores.
    end(&mut alone(&run(&table, 26))).made(FINGERPRINT_26);
    let plan = end(&mut alone(&chomp("plan --bits 30"))).done();
    plan.says_nothing_of("of another machine");
}

#[test]
fn warnings_of_batch_systems_stop_a_run_in_good_order() {
    let home = folder();
    let table = home.path().join("table");
    let mut child = start(&mut run_in(&table, 30, 16));
    assert!(child.wait_until(|| ranges_done(&table) > 0));
    child.send(Signal::SIGUSR2);
    let again = ["stopped early", "run the same command again"];
    child.wait().refuses(75, &again);
    // The system sends one for each second of CPU time.
    let out_of_time = limited("-S -t 1", &run_in(&home.path().join("time"), 34, 18));
    start(&mut { out_of_time }).wait().refuses(75, &again);
    // In blocks of 512 bytes.
    let too_large = limited("-f 8", &run_in(&home.path().join("large"), 28, 24));
    start(&mut { too_large })
        .wait()
        .refuses(1, &["File too large"]);
}

/// Commands that only read end by any signal too, also as the first process of a container, which the system kills by
/// none that it does not catch.
#[test]
fn each_command_catches_signals() {
    let table = finished(24);
    let home = folder();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let at = table.path().display();
    let caught = [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
        Signal::SIGXCPU,
    ];
    for (line, signal) in [
        format!("query --table {at}"),
        format!("status --coordinator {url}"),
        format!("openings --table {url}"),
        format!("export --table {url} --format rows --out -"),
        format!("verify --table {url}"),
    ]
    .iter()
    .zip(caught)
    {
        let mut command = chomp(line);
        let process = Process::start(command.stdin(Stdio::piped()), home.path());
        let is_there = process.hold_when(|| caught.iter().all(|&it| process.catches(it)));
        assert!(is_there, "{line}: {}", process.said());
        process.send(signal);
        process.send(Signal::SIGCONT);
        process.wait().exits(75);
    }
}

#[test]
fn too_few_threads_end_a_command_before_it_begins() {
    let home = folder();
    let table = home.path().join("table");
    let faults = Faults::new();
    faults.set("thread", "/", Some(Errno::EAGAIN));
    for line in [
        "run --bits 24",
        "grundy --tiles 20",
        "coordinator --bits 24",
    ] {
        let mut command = chomp(line);
        command.arg("--table").arg(&table);
        let ended = end(faults.reach(&mut command));
        ended.refuses(1, &["threads", "ulimit -u", "pids.max"]);
        assert!(!exists(&table), "{line}");
    }
}

#[test]
fn the_default_memory_heeds_the_limit_of_addresses() {
    let home = folder();
    let table = home.path().join("table");
    // 3 GiB, in KiB. Each thread takes addresses, so their number is not left to the machine.
    let limited = |command: Command| end(&mut limited("-v 3145728", &command));
    limited(run(&table, 28)).made(FINGERPRINT_28);
    let verify = format!(
        "verify --level full --threads 2 --table {}",
        table.display()
    );
    limited(chomp(&verify)).done();
    limited(chomp("box --threads 2 8x12")).done();
    // The default may be too little: then the message says where it comes from.
    let ended = limited(chomp("box --threads 2 20x20"));
    ended.refuses(2, &["ulimit -v", "--memory"]);
}

#[test]
fn an_interrupted_command_says_what_is_kept() {
    let home = folder();
    let scratch = home.path().join("scratch");
    let (kept, lost) = ("run the same command again", "nothing is kept");
    for (line, said) in [
        ("box 9x60".to_owned(), lost),
        ("box --opening 3,3 --columns 1500".to_owned(), lost),
        ("box 5x200 --periods".to_owned(), lost),
        (format!("box 9x60 --scratch {}", scratch.display()), kept),
    ] {
        let process = start(&mut chomp(&line));
        let is_there = process.hold_when(|| process.catches(Signal::SIGTERM));
        assert!(is_there, "{line}: {}", process.said());
        process.send(Signal::SIGTERM);
        process.send(Signal::SIGCONT);
        process.wait().refuses(75, &[said]);
    }
}
