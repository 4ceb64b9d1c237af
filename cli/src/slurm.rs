//! The CPUs and the memory that Slurm grants this process, as Slurm's variables say.
//!
//! Slurm can also enforce its grant by CPU masks and control groups. `machine` takes these into account.

use std::num::NonZeroUsize;

/// The CPUs and the memory of one task. None where the variables say nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) cpus: Option<NonZeroUsize>,
    pub(crate) memory_bytes: Option<u64>,
}

impl Grant {
    pub(crate) fn here() -> Grant {
        Grant::of(|name| std::env::var(name).ok())
    }

    /// The tasks of a step share what the job has on their node. A batch script is no such task, and has all of it.
    fn of(variable: impl Fn(&str) -> Option<String>) -> Grant {
        let number = |name| variable(name)?.parse::<usize>().ok();
        let node = number("SLURM_NODEID").unwrap_or(0);
        let tasks = variable("SLURM_STEP_TASKS_PER_NODE").and_then(|list| nth(&list, node));
        let tasks = tasks.and_then(NonZeroUsize::new);
        let tasks = tasks.map_or(1, NonZeroUsize::get);
        let cpus = number("SLURM_CPUS_ON_NODE");
        let whole = || number("SLURM_MEM_PER_NODE");
        let by_cpu = || number("SLURM_MEM_PER_CPU")?.checked_mul(cpus?);
        // 0 means that there is no limit.
        let mebibytes = whole().or_else(by_cpu).filter(|&mebibytes| mebibytes > 0);
        Grant {
            cpus: cpus.and_then(|cpus| NonZeroUsize::new((cpus / tasks).max(1))),
            memory_bytes: mebibytes.map(|all| ((all as u64) << 20) / tasks as u64),
        }
    }
}

/// Entry `index` of a list such as `2(x3),1`, which stands for 2, 2, 2, 1.
fn nth(list: &str, index: usize) -> Option<usize> {
    let mut before = 0_usize;
    for entry in list.split(',') {
        let (value, times) = match entry.split_once("(x") {
            Some((value, times)) => (value, times.strip_suffix(')')?.parse().ok()?),
            None => (entry, 1),
        };
        before = before.checked_add(times)?;
        if index < before {
            return value.parse().ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The CPUs and MiB that variables grant, written as `env` prints them, without `SLURM_`.
    fn granted(environment: &str) -> String {
        let grant = Grant::of(|name| {
            let name = name.strip_prefix("SLURM_")?;
            let mut pairs = environment
                .split(' ')
                .filter_map(|pair| pair.split_once('='));
            let found = pairs.find(|(key, _)| *key == name);
            found.map(|(_, value)| value.to_owned())
        });
        let text = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |n| n.to_string());
        let cpus = grant.cpus.map(|cpus| cpus.get() as u64);
        let mebibytes = grant.memory_bytes.map(|bytes| {
            assert_eq!(bytes % (1 << 20), 0);
            bytes >> 20
        });
        format!("{} {}", text(cpus), text(mebibytes))
    }

    /// The environments are those of Slurm 22.05.
    #[test]
    fn tasks_of_a_node_share_what_the_job_has_there() {
        let cases = "\
            outside of Slurm: : - -
            sbatch -N2 --ntasks-per-node=2 -c2 --mem=100, the script: CPUS_ON_NODE=4 CPUS_PER_TASK=2 MEM_PER_NODE=100 NODEID=0 TASKS_PER_NODE=2(x2): 4 100
            a task of srun there: CPUS_ON_NODE=4 MEM_PER_NODE=100 NODEID=1 STEP_TASKS_PER_NODE=2(x2): 2 50
            three tasks on two nodes: CPUS_ON_NODE=4 MEM_PER_NODE=100 NODEID=0 STEP_TASKS_PER_NODE=2,1: 2 50
            the other node: CPUS_ON_NODE=4 MEM_PER_NODE=100 NODEID=1 STEP_TASKS_PER_NODE=2,1: 4 100
            sbatch -n3 --mem-per-cpu=20: CPUS_ON_NODE=3 MEM_PER_CPU=20 NODEID=0 STEP_TASKS_PER_NODE=3: 1 20
            sbatch -N2 --mem=0: CPUS_ON_NODE=1 NODEID=1 STEP_TASKS_PER_NODE=1(x2): 1 -
            no limit: MEM_PER_NODE=0: - -
            more tasks than CPUs: CPUS_ON_NODE=1 STEP_TASKS_PER_NODE=2: 1 -
            unusable values are ignored: CPUS_ON_NODE=many MEM_PER_CPU=20: - -
            no tasks: CPUS_ON_NODE=4 STEP_TASKS_PER_NODE=0: 4 -
            no such node: CPUS_ON_NODE=4 NODEID=9 STEP_TASKS_PER_NODE=2: 4 -";
        for case in cases.lines() {
            let parts: Vec<_> = case.split(": ").collect();
            let [_, environment, expected] = parts[..] else {
                panic!("{case}");
            };
            assert_eq!(granted(environment), expected, "{case}");
        }
    }

    #[test]
    fn lists_are_counted_through() {
        let found = [0, 2, 3, 4, 5].map(|index| nth("2(x3),1,7", index));
        assert_eq!(found, [Some(2), Some(2), Some(1), Some(7), None]);
        for list in ["", "x", "2(x", "2(x)", "2(xy),1"] {
            assert_eq!(nth(list, 0), None, "{list}");
        }
    }
}
