//! Helpers of benchmarks: the CPUs that a process may use, and figures of what was measured.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// The CPUs that this process may use.
pub(crate) fn cpus() -> Vec<usize> {
    let set = sched_getaffinity(Pid::from_raw(0)).expect("the CPUs of this process");
    let is_set = |&cpu: &usize| set.is_set(cpu).expect("a CPU");
    (0..CpuSet::count()).filter(is_set).collect()
}

/// Runs this thread on these CPUs, and all that it starts from now on.
pub(crate) fn pin(cpus: &[usize]) {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        set.set(cpu).expect("a CPU");
    }
    sched_setaffinity(Pid::from_raw(0), &set).expect("CPUs of this process");
}

pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[expect(clippy::cast_precision_loss, reason = "figures need not be exact")]
pub(crate) fn as_f64(count: u64) -> f64 {
    count as f64
}
