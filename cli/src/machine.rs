//! The CPUs, the memory and the names of this machine, and the range bits that suit it.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use chomp_kernel::Evaluator;
use chomp_plan::HEAD_BITS_MAX;
use chomp_serve::net::Limits;
use chomp_table::{RangeBits, head};
use indicatif::HumanBytes;
use nix::sys::resource::{RLIM_INFINITY, Resource, UsageWho, getrlimit, getrusage, setrlimit};
use parking_lot::Mutex;
use sysinfo::{
    CGroupLimits, MemoryRefreshKind, Pid, Process, ProcessRefreshKind, ProcessesToUpdate, System,
};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::exit::usage;
use crate::slurm::Grant;

/// The bitmap of a range of 2^24 words fits a core's cache. Smaller ranges cost more for each position.
const RANGE_BITS_USUAL: u32 = 24;
/// Still larger ranges have fewer sources, but their slow bitmaps cost more than that saves.
const RANGE_BITS_LARGE: u32 = 26;
/// The ranges that an average layer needs for three threads. With smaller ranges, threads would wait for each other
/// less, but there would be more layers, and a layer begins only when the one before it is durable.
const RANGES_FOR_THREE: u64 = 4;

/// The longest machine name in a worker's name: the coordinator takes names of up to 64 bytes.
const HOST_BYTES_MAX: usize = 48;

/// One thread for each CPU that the process may use: its mask, the quota of its control groups, and Slurm say how many.
pub(crate) fn threads() -> NonZeroUsize {
    let may_use = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    Grant::here()
        .cpus
        .map_or(may_use, |granted| granted.min(may_use))
}

/// Fails if this process cannot start `wanted` threads. A thread that cannot be started later would end in a panic.
pub(crate) fn check_threads(wanted: usize) -> anyhow::Result<()> {
    let gate = Mutex::new(());
    let closed = gate.lock();
    thread::scope(|scope| {
        let _closed = closed;
        for number in 0..wanted {
            let thread = thread::Builder::new().spawn_scoped(scope, || drop(gate.lock()));
            thread.with_context(|| too_few_threads(wanted, number))?;
        }
        Ok(())
    })
}

fn too_few_threads(wanted: usize, started: usize) -> String {
    let limit = match getrlimit(Resource::RLIMIT_NPROC) {
        Ok((limit, _)) if limit != RLIM_INFINITY => limit.to_string(),
        _ => "not set".to_owned(),
    };
    format!(
        "this command needs {wanted} threads, and only {started} could be started: the user's limit of processes and \
         threads (ulimit -u) is {limit}, and a container or a batch system may have a limit of its own (pids.max)"
    )
}

/// Three quarters of the free memory, within the limits that the process has.
pub(crate) fn memory_bytes() -> anyhow::Result<u64> {
    memory_limit().map(|(bytes, _)| bytes)
}

/// The memory that this process may take, and the limit that decides.
pub(crate) fn memory_limit() -> anyhow::Result<(u64, &'static str)> {
    let mut system = System::new().context("cannot tell the free memory: say --memory SIZE")?;
    system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
    let limits = control_group(&mut system);
    let in_group = limits.map_or(u64::MAX, |limits| limits.free_memory);
    let granted = Grant::here().memory_bytes.unwrap_or(u64::MAX);
    let limits = [
        (system.available_memory() / 4 * 3, "the free memory"),
        (in_group / 4 * 3, "the memory left in the control group"),
        (granted / 4 * 3, "the memory that Slurm grants"),
        (addresses_left(&mut system) / 2, "ulimit -v"),
    ];
    let smallest = limits.into_iter().min_by_key(|&(bytes, _)| bytes);
    Ok(smallest.expect("there are four"))
}

/// The error that `given` bytes of memory are fewer than the `needed` ones. Its message ends with `more`: a reason, or
/// another remedy.
pub(crate) fn too_little_memory(given: u64, needed: u64, more: &str) -> anyhow::Error {
    let (given, needed) = (HumanBytes(given), needed.div_ceil(1 << 20));
    usage(format!(
        "{given} of memory are too few: give at least --memory {needed}MiB{more}"
    ))
}

/// The bytes of addresses that this process may still have (`ulimit -v`). Threads and the allocator take some of them
/// without using the memory.
fn addresses_left(system: &mut System) -> u64 {
    let limit = getrlimit(Resource::RLIMIT_AS).map_or(u64::MAX, |limit| limit.0);
    let here = Pid::from_u32(std::process::id());
    let only = ProcessesToUpdate::Some(&[here]);
    system.refresh_processes_specifics(only, false, ProcessRefreshKind::nothing().with_memory());
    let taken = system.process(here).map_or(0, Process::virtual_memory);
    limit.saturating_sub(taken)
}

/// The limits of this process's control group and of the groups above it or, if these cannot be read, of the container.
fn control_group(system: &mut System) -> Option<CGroupLimits> {
    let here = Pid::from_u32(std::process::id());
    let only = ProcessesToUpdate::Some(&[here]);
    system.refresh_processes_specifics(only, false, ProcessRefreshKind::nothing());
    let own = system.process(here).and_then(Process::cgroup_limits);
    own.or_else(|| system.cgroup_limits())
}

pub(crate) fn host_name() -> String {
    let name = nix::unistd::gethostname();
    name.map_or_else(
        |_| "localhost".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// A name for this process: the machine and the number of the process.
pub(crate) fn process_name() -> String {
    let mut host = host_name();
    host.truncate(host.floor_char_boundary(HOST_BYTES_MAX));
    format!("{host}:{}", std::process::id())
}

pub(crate) fn addresses() -> Vec<IpAddr> {
    let interfaces = nix::ifaddrs::getifaddrs().into_iter().flatten();
    let addresses = interfaces.filter_map(|interface| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
    });
    addresses.collect()
}

/// The present date and time, in UTC, as in RFC 3339.
pub(crate) fn date() -> String {
    let now = OffsetDateTime::now_utc();
    let now = now.replace_nanosecond(0).unwrap_or(now);
    now.format(&Rfc3339)
        .expect("a date with a year of four digits has this form")
}

/// Lets this process have as many files open as the system allows. Returns the limits of its connections.
pub(crate) fn raise_file_limit() -> Limits {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((u64::MAX, u64::MAX));
    let raised = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    let files = raised.map_or(soft, |()| hard);
    let limits = Limits::default().within(files);
    if limits != Limits::default() {
        let connections = limits.connections;
        tracing::info!(
            "{connections} connections at a time: this process may have {files} files open (ulimit -n)"
        );
    }
    limits
}

pub(crate) fn cpu_time() -> Duration {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else {
        return Duration::ZERO;
    };
    let micros = |time: nix::sys::time::TimeVal| {
        u64::try_from(time.tv_sec() * 1_000_000 + time.tv_usec()).unwrap_or(0)
    };
    Duration::from_micros(micros(usage.user_time()) + micros(usage.system_time()))
}

/// The largest range bits, from [`RANGE_BITS_USUAL`] to [`RANGE_BITS_LARGE`], with which a layer has enough ranges for
/// all threads. They are smaller if the evaluators would take more than a quarter of the memory, but never so small
/// that a plan cannot hold the ranges.
pub(crate) fn range_bits(bits: u32, threads: NonZeroUsize, memory_bytes: u64) -> RangeBits {
    let threads = threads.get() as u64;
    let enough = |b: &u32| {
        let range_bits = range_bits_of(*b);
        let layers = head::layer_count(bits, range_bits) as u64;
        3 * range_bits.head_count(bits) / layers >= RANGES_FOR_THREE * threads
    };
    let fits = |b: &u32| {
        let evaluators = Evaluator::memory(range_bits_of(*b)).saturating_mul(threads);
        evaluators <= memory_bytes / 4
    };
    let mut large = RANGE_BITS_USUAL..=RANGE_BITS_LARGE;
    let wanted = large.rfind(enough).unwrap_or(RANGE_BITS_USUAL);
    let least = bits.saturating_sub(HEAD_BITS_MAX).max(RangeBits::MIN);
    range_bits_of((least..=wanted).rfind(fits).unwrap_or(least))
}

pub(crate) fn range_bits_of(bits: u32) -> RangeBits {
    RangeBits::new(bits).expect("within the limits of range bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_bits_follow_from_bits_threads_and_memory() {
        const GIB: u64 = 1 << 30;
        for (bits, threads, memory, expected) in [
            (20, 2, GIB, 24),
            (30, 2, GIB, 24),
            (31, 2, GIB, 25),
            (32, 2, GIB, 26),
            (32, 3, GIB, 25),
            (32, 64, 64 * GIB, 24),
            (36, 2, 16 * GIB, 26),
            (40, 2, 16 * GIB, 26),
            (40, 256, 512 * GIB, 24),
            (40, 2, GIB / 8, 25),
            (40, 64, GIB / 4, 21),
            (46, 64, GIB / 4, 26),
            (52, 2, 16 * GIB, 32),
        ] {
            let threads = NonZeroUsize::new(threads).unwrap();
            let got = range_bits(bits, threads, memory).get();
            assert_eq!(
                got, expected,
                "{bits} bits, {threads} threads, {memory} bytes"
            );
        }
    }

    #[test]
    fn two_gibibytes_are_enough_for_forty_bits() {
        const MEMORY: u64 = 2 << 30;
        for threads in (1..=256).filter_map(NonZeroUsize::new) {
            let range_bits = range_bits(40, threads, MEMORY);
            crate::local::worker_memory(MEMORY, 40, range_bits, threads).unwrap();
        }
    }
}
