//! A Slurm of this machine: a controller and two nodes, with all their files in a folder of the test.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::common::cluster::{free_port, wait_for};
use crate::common::{PROGRAM, fingerprint, read_json};
use chomp_testing::needs;

pub(crate) const NODES: [&str; 2] = ["n1", "n2"];
/// The CPUs and the mebibytes that each node is said to have.
const CPUS: u32 = 2;
const MEBIBYTES: u32 = 4096;
/// The patience of workers that are to end soon when their coordinator is gone, in seconds.
pub(crate) const SOON: u32 = 2;
/// The submission file under test.
pub(crate) const SUBMISSION: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/slurm/chomp.sbatch");

/// Dropping it ends its daemons and whatever they have started.
#[derive(Debug)]
pub(crate) struct Slurm {
    home: TempDir,
    /// How long workers of jobs try to reach a coordinator, in seconds, before the script looks where it is.
    pub(crate) patience: u32,
}

impl Slurm {
    /// None where there is no Slurm, or nobody may start it.
    pub(crate) fn start() -> Option<Slurm> {
        needs::found("SLURM", is_there())?;
        let slurm = Slurm {
            home: tempfile::tempdir().unwrap(),
            patience: 60,
        };
        for folder in ["munge", "state", "run", "spool-n1", "spool-n2"] {
            fs::create_dir(slurm.home().join(folder)).unwrap();
        }
        fs::write(slurm.home().join("slurm.conf"), slurm.configuration()).unwrap();
        slurm.start_munge();
        slurm.run("slurmctld", &["-i"]);
        for node in NODES {
            slurm.start_node(node);
        }
        wait_for("idle nodes", || {
            let states = slurm.command("sinfo", &["-h", "-N", "-p", "low", "-o", "%t"]);
            text(&states.stdout).lines().collect::<Vec<_>>() == ["idle", "idle"]
        });
        Some(slurm)
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn table(&self) -> PathBuf {
        self.home().join("table")
    }

    /// Without control groups, which a container may not have. Jobs in `high` take the nodes from those in `low`. No
    /// node is lost because the machine is busy.
    fn configuration(&self) -> String {
        let home = self.home().display();
        let host = nix::unistd::gethostname().unwrap();
        let host = host.to_string_lossy();
        let mut text = format!(
            "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={}\n\
             SlurmctldPidFile={home}/run/slurmctld\nSlurmctldLogFile={home}/slurmctld.log\n\
             SlurmdPidFile={home}/run/%n\nSlurmdLogFile={home}/%n.log\nSlurmdSpoolDir={home}/spool-%n\n\
             StateSaveLocation={home}/state\nSlurmUser=root\nSlurmdUser=root\n\
             AuthType=auth/munge\nAuthInfo=socket={home}/munge/socket,cred_expire=120\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\n\
             AccountingStorageType=accounting_storage/none\nSelectType=select/cons_tres\n\
             SelectTypeParameters=CR_CPU_Memory\nSchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0\n\
             MpiDefault=none\nReturnToService=2\nSlurmdParameters=config_overrides\nJobRequeue=1\n\
             PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\nKillWait=60\nMinJobAge=3600\n\
             SlurmctldTimeout=10\nSlurmdTimeout=0\nMessageTimeout=100\n\
             CommunicationParameters=NoCtldInAddrAny,NoInAddrAny\n",
            free_port(),
        );
        for node in NODES {
            let port = free_port();
            writeln!(
                text,
                "NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={CPUS} \
                 RealMemory={MEBIBYTES} State=UNKNOWN"
            )
            .unwrap();
        }
        text + "PartitionName=low Nodes=n1,n2 Default=YES MaxTime=INFINITE PriorityTier=1\n\
                PartitionName=high Nodes=n1,n2 MaxTime=INFINITE PriorityTier=2\n"
    }

    /// A daemon of Slurm's own vouches for its programs.
    fn start_munge(&self) {
        let munge = self.home().join("munge");
        let (key, random) = (munge.join("key"), fs::File::open("/dev/urandom").unwrap());
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::Read::take(random, 128), &mut bytes).unwrap();
        fs::write(&key, bytes).unwrap();
        set_mode(&key, 0o600);
        // Everybody reaches the socket, and others pass through the folder of the test.
        set_mode(self.home(), 0o755);
        let option = |name: &str, file: &Path| format!("--{name}={}", file.display());
        self.run(
            "munged",
            &[
                "--force",
                &option("key-file", &key),
                &option("socket", &munge.join("socket")),
                &option("pid-file", &self.home().join("run/munged")),
                &option("log-file", &munge.join("log")),
                &option("seed-file", &munge.join("seed")),
            ],
        );
    }

    /// Starts the daemon of a node.
    pub(crate) fn start_node(&self, node: &str) {
        self.run("slurmd", &["-N", node]);
    }

    /// Kills the daemon of a node, and has Slurm notice it. What the daemon has started goes on.
    pub(crate) fn lose_node(&self, node: &str) {
        self.signal_daemon(node, Signal::SIGKILL);
        let name = format!("NodeName={node}");
        self.run("scontrol", &["update", &name, "State=DOWN", "Reason=lost"]);
    }

    fn signal_daemon(&self, name: &str, signal: Signal) {
        let file = self.home().join("run").join(name);
        // One that did not start has none.
        let pid = fs::read_to_string(file).unwrap_or_default();
        if let Ok(pid) = pid.trim().parse() {
            let _gone = kill(Pid::from_raw(pid), signal);
        }
    }

    /// Submits a job that builds the table of `bits` bits, with more options of sbatch, and returns its number.
    pub(crate) fn submit(&self, options: &[&str], bits: u32, range_bits: u32) -> String {
        let log = format!("--output={}", self.home().join("log-%a").display());
        let (bits, range_bits) = (bits.to_string(), range_bits.to_string());
        let mut args = vec!["--parsable", "--mem=512", &log];
        args.extend(options);
        args.push(SUBMISSION);
        args.extend(["--bits", &bits, "--range-bits", &range_bits]);
        text(&self.run("sbatch", &args).stdout).trim().to_owned()
    }

    /// The log of an element of an array; a job that is no array has element `u32::MAX - 1`.
    pub(crate) fn said(&self, element: Option<u32>) -> String {
        let element = element.unwrap_or(u32::MAX - 1);
        let log = self.home().join(format!("log-{element}"));
        fs::read_to_string(log).unwrap_or_default()
    }

    /// The log of Slurm's controller.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.home().join("slurmctld.log")).unwrap_or_default()
    }

    /// The states of a job, or of those of an array.
    pub(crate) fn states(&self, job: &str) -> Vec<String> {
        // To ask all the time would keep Slurm from its work.
        thread::sleep(Duration::from_millis(50));
        let args = ["-h", "-t", "all", "-j", job, "-r", "-o", "%T"];
        let said = self.run("squeue", &args);
        text(&said.stdout).lines().map(str::to_owned).collect()
    }

    /// Lets those of a job start that were put back into the queue, where Slurm keeps them for longer. One that starts
    /// in the same second in which it was stopped has no credential, and fails.
    pub(crate) fn hurry(&self, job: &str) {
        let before = self.pending(job);
        if before.is_empty() {
            return;
        }
        thread::sleep(Duration::from_millis(1500));
        let after = self.pending(job);
        for (id, _) in after.iter().filter(|one| before.contains(one)) {
            let id = format!("JobId={id}");
            self.command("scontrol", &["update", &id, "StartTime=now"]);
        }
    }

    /// The elements of a job that wait in the queue, and how often they were put back.
    fn pending(&self, job: &str) -> Vec<(String, u32)> {
        let args = ["-h", "-t", "PENDING", "-j", job, "-r", "-o", "%i"];
        let said = self.run("squeue", &args);
        let ids = text(&said.stdout);
        let ids = ids.lines().map(str::to_owned);
        ids.map(|id| (id.clone(), self.restarts(&id))).collect()
    }

    /// How often a job was put back into the queue.
    pub(crate) fn restarts(&self, job: &str) -> u32 {
        let said = text(&self.run("scontrol", &["show", "job", job]).stdout);
        let count = said.split_once("Restarts=").expect("a count of restarts").1;
        count.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Waits until a job is over, and tells whether all of it ended well.
    pub(crate) fn ends_well(&self, job: &str) -> bool {
        let ends = "COMPLETED CANCELLED FAILED TIMEOUT NODE_FAIL PREEMPTED";
        let is_over = |state: &String| ends.split(' ').any(|end| end == state);
        wait_for("the end of a job", || {
            self.hurry(job);
            self.states(job).iter().all(is_over)
        });
        self.states(job).iter().all(|state| state == "COMPLETED")
    }

    /// The fingerprint of the published table of `bits` bits.
    pub(crate) fn fingerprint(&self, bits: u32) -> String {
        let manifest = self.table().join(format!("table-{bits}/manifest.json"));
        fingerprint(&read_json(&manifest)).to_owned()
    }

    /// The processes that work on the table: the workers, or the coordinator.
    pub(crate) fn processes(&self, command: &str) -> Vec<u32> {
        let table = self.table();
        let begin = format!("{PROGRAM}\0{command}\0");
        let table = table.to_str().unwrap();
        let is_it = |[line, environment]: [String; 2]| {
            line.starts_with(&begin) && environment.contains(table)
        };
        all_processes(is_it)
    }

    /// Runs a program of Slurm that has to end well.
    pub(crate) fn run(&self, program: &str, args: &[&str]) -> Output {
        let output = self.command(program, args);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success(), "{program} {args:?}: {said}");
        output
    }

    fn command(&self, program: &str, args: &[&str]) -> Output {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            let mut starts = ["CHOMP_", "SLURM_", "SBATCH_"].into_iter();
            if starts.any(|start| name.starts_with(start)) {
                command.env_remove(&*name);
            }
        }
        let home = self.home();
        let out = home.join("output");
        command
            .env("SLURM_CONF", home.join("slurm.conf"))
            .env("HOME", home)
            .env("CHOMP_PROGRAM", PROGRAM)
            .env("CHOMP_TABLE", self.table())
            .env("CHOMP_PATIENCE", self.patience.to_string())
            // A coordinator tries thirty times to get its table: not only for half a minute.
            .env("CHOMP_PAUSE", "3")
            .env("CHOMP_COORDINATOR_ADVERTISE", "127.0.0.1");
        // Daemons keep what they are given: a pipe would not end with the command.
        if program.starts_with("slurmd") || program.starts_with("slurmctld") || program == "munged"
        {
            let file = fs::File::create(&out).unwrap();
            command.stdout(file.try_clone().unwrap()).stderr(file);
        } else {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        command.args(args).current_dir(home).stdin(Stdio::null());
        command.spawn().unwrap().wait_with_output().unwrap()
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for node in NODES {
            self.signal_daemon(node, Signal::SIGKILL);
        }
        for name in ["slurmctld", "munged"] {
            self.signal_daemon(name, Signal::SIGKILL);
        }
        // Whatever has the folder of the test in its environment or its arguments: steps, scripts, the program.
        let home = self.home().to_str().unwrap().to_owned();
        for process in all_processes(|shown| shown.iter().any(|text| text.contains(&home))) {
            if process != std::process::id() {
                try_send(process, Signal::SIGKILL);
            }
        }
    }
}

/// Sends a signal to a process, which may be gone.
pub(crate) fn try_send(process: u32, signal: Signal) {
    let pid = Pid::from_raw(process.try_into().expect("a process id"));
    let _gone = kill(pid, signal);
}

/// The processes whose command line and environment are such.
fn all_processes(are_such: impl Fn([String; 2]) -> bool) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let read = |name| {
            let bytes = fs::read(entry.path().join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        if let Ok(pid) = entry.file_name().to_string_lossy().parse()
            && are_such(["cmdline", "environ"].map(read))
        {
            found.push(pid);
        }
    }
    found
}

/// Whether the programs are there, and this user may start jobs.
fn is_there() -> Result<(), String> {
    // Most of them want a configuration before they say anything.
    for program in ["munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue"] {
        let mut look = Command::new("sh");
        needs::can(program, look.args(["-c", &format!("command -v {program}")]))?;
    }
    if nix::unistd::geteuid().is_root() {
        Ok(())
    } else {
        Err("only root starts jobs for others".to_owned())
    }
}

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
