//! The threads of `chomp verify`. Several threads check shards, whose results are taken in the order of the shards.
//! Several threads check windows, and report each window that is done.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;

use chomp_table::Table;
use chomp_verify::marking::{Band, Plan, WindowReport};
use chomp_verify::{CheckError, Watch};
use parking_lot::{Mutex, MutexGuard};

/// Several threads call `make` with the numbers below `count`. `take` gets the results in the order of the
/// numbers. A thread has at most one result that is not taken yet.
pub(super) fn in_order<T: Send, R>(
    threads: usize,
    count: usize,
    make: impl Fn(usize) -> T + Sync,
    take: impl FnOnce(&mut dyn Iterator<Item = T>) -> R,
) -> R {
    let make = &make;
    thread::scope(|scope| {
        let lane = |lane: usize| {
            let (sender, receiver) = sync_channel(0);
            scope.spawn(move || {
                for number in (lane..count).step_by(threads) {
                    // Nobody takes what follows an error.
                    if sender.send(make(number)).is_err() {
                        return;
                    }
                }
            });
            receiver
        };
        let lanes: Vec<_> = (0..threads.min(count)).map(lane).collect();
        let mut items = (0..count).map(|number| {
            let lane = &lanes[number % threads];
            lane.recv()
                .expect("a lane ends when all it has to make is taken")
        });
        take(&mut items)
    })
}

/// Hears the window of each thread, with the part of it that is done, and says whether to go on.
pub(super) type WindowsDone<'a> = &'a (dyn Fn(&[(u64, f64)]) -> ControlFlow<()> + Sync);

/// The windows that are left, and how far those under way are.
struct Windows<'a> {
    band: Band<'a>,
    window_bits: u32,
    numbers: &'a [u64],
    next: AtomicUsize,
    /// The lowest window with an error: those above it need not be done.
    failed: AtomicU64,
    /// For each thread, the part of its window that is done.
    parts: Mutex<Vec<(u64, f64)>>,
}

/// Checks the windows with these numbers, which ascend, band by band. This thread calls `done` for each window that
/// agreed. `reading` hears how much of a band is read, and `watch` how far the windows are.
///
/// # Errors
///
/// The error of the lowest window that has one.
pub(super) fn check_windows(
    table: &Table,
    plan: Plan,
    numbers: &[u64],
    (reading, watch): (Watch<'_>, WindowsDone<'_>),
    mut done: impl FnMut(u64, WindowReport),
) -> Result<(), CheckError> {
    for numbers in numbers.chunk_by(|one, next| plan.band(*one) == plan.band(*next)) {
        let windows = Windows {
            band: Band::gather(table, plan.band_bits, plan.band(numbers[0]), reading)?,
            window_bits: plan.window_bits,
            numbers,
            next: AtomicUsize::new(0),
            failed: AtomicU64::new(u64::MAX),
            parts: Mutex::new(Vec::new()),
        };
        windows.check_all(plan.threads, watch, &mut done)?;
    }
    Ok(())
}

impl Windows<'_> {
    fn check_all(
        &self,
        threads: u64,
        watch: WindowsDone<'_>,
        mut done: impl FnMut(u64, WindowReport),
    ) -> Result<(), CheckError> {
        let threads = usize::try_from(threads)
            .unwrap_or(1)
            .min(self.numbers.len());
        let mut first: Option<(u64, CheckError)> = None;
        *self.parts() = vec![(0, 0.0); threads];
        thread::scope(|scope| {
            let (sender, receiver) = sync_channel(threads);
            for thread in 0..threads {
                let sender = sender.clone();
                scope.spawn(move || {
                    while let Some(number) = self.take() {
                        let report = self.check(thread, number, watch);
                        if sender.send((number, report)).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(sender);
            for (number, report) in receiver {
                match report {
                    Ok(report) => done(number, report),
                    Err(error) if first.as_ref().is_none_or(|(lowest, _)| number < *lowest) => {
                        first = Some((number, error));
                    }
                    Err(_) => {}
                }
            }
        });
        first.map_or(Ok(()), |(_, error)| Err(error))
    }

    fn parts(&self) -> MutexGuard<'_, Vec<(u64, f64)>> {
        self.parts.lock()
    }

    /// The next window, unless one before it failed.
    fn take(&self) -> Option<u64> {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        let number = *self.numbers.get(next)?;
        (number < self.failed.load(Ordering::Relaxed)).then_some(number)
    }

    fn check(
        &self,
        thread: usize,
        number: u64,
        watch: WindowsDone<'_>,
    ) -> Result<WindowReport, CheckError> {
        let watch: Watch<'_> = &|part| {
            if number > self.failed.load(Ordering::Relaxed) {
                return ControlFlow::Break(());
            }
            let mut parts = self.parts();
            parts[thread] = (number, part);
            watch(&parts)
        };
        let report = self.band.check_window(self.window_bits, number, watch);
        if report.is_err() {
            self.failed.fetch_min(number, Ordering::Relaxed);
        }
        // A finished window counts by its report.
        self.parts()[thread] = (number, 0.0);
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_make_comes_in_order() {
        for threads in [1, 2, 3, 7] {
            for count in [0, 1, 2, 20] {
                let calls = AtomicUsize::new(0);
                let make = |number| {
                    calls.fetch_add(1, Ordering::Relaxed);
                    // Some are slower than those after them.
                    (0..(number * 7919) % 11 * 10_000)
                        .map(std::hint::black_box)
                        .count();
                    number
                };
                let all: Vec<usize> = in_order(threads, count, make, |all| all.collect());
                assert!(all.into_iter().eq(0..count), "{threads} threads, {count}");
                assert_eq!(calls.into_inner(), count);
            }
        }
    }

    #[test]
    fn nobody_runs_far_ahead_of_who_takes() {
        let calls = AtomicUsize::new(0);
        let make = |number: usize| {
            calls.fetch_add(1, Ordering::Relaxed);
            number
        };
        let first = in_order(4, 1000, make, |all| all.next());
        assert_eq!(first, Some(0));
        // One that was taken, one that waits in each lane, and one more where it was taken.
        assert!(calls.into_inner() <= 6);
    }
}
